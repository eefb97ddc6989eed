"""Write the server's own settings file, which ``places.setting`` reads: whole or not at all, for its owner's eyes only.

A file that holds something else than settings is never written over; ``set_aside`` moves it away, when somebody asks.
"""

from __future__ import annotations

import json
import os
import re
import threading
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

from .contracts import Sentence, say
from .places import setting
from .report.wording import words

HF_TOKEN = "HF_TOKEN"

_TOKEN = re.compile(r"(?:hf|api_org)_[A-Za-z0-9]{16,200}")  # the shape that configs/secrets.yaml masks
_WRITING = threading.Lock()


class SettingsError(Exception):
    """A setting cannot be read, or may not be written; ``sentence`` says why, and the way out."""

    def __init__(self, sentence: Sentence) -> None:
        super().__init__(words(sentence))
        self.sentence = sentence


class DamagedSettings(SettingsError):
    """The settings file holds no settings, so it cannot be added to."""


def read(file: Path) -> dict[str, Any]:
    """All settings of the file; none where there is no file. Raises SettingsError, DamagedSettings."""
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise SettingsError(say("settings.unreadable", file=str(file), why=_why(error))) from None
    except UnicodeDecodeError:
        raise DamagedSettings(say("settings.damaged", file=str(file))) from None
    try:
        kept = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError):
        kept = None
    if not isinstance(kept, dict):
        raise DamagedSettings(say("settings.damaged", file=str(file)))
    return kept


def write(file: Path, name: str, value: str | None) -> None:
    """Set one setting, or with ``None`` remove it; every other stays. Raises SettingsError, DamagedSettings."""
    file = file.resolve()  # a link to a disk that outlives the machine stays one
    with _WRITING:
        kept = read(file)
        if kept.get(name) == value:
            return
        if value is None:
            del kept[name]
        else:
            kept[name] = value
        try:
            _replace(file, json.dumps(kept, indent=2, ensure_ascii=False) + "\n")
        except OSError as error:
            raise SettingsError(say("settings.unwritable", file=str(file), why=_why(error))) from None


def set_by(name: str, file: Path) -> Literal["environment", "file"] | None:
    """What sets a setting, and goes before the rest; ``None`` where nothing does."""
    if os.environ.get(name):
        return "environment"
    return "file" if setting(name, file) else None


def change(file: Path, name: str, value: str | None) -> None:
    """``write`` what will hold: refused (SettingsError) where the environment sets the same and would go first."""
    if set_by(name, file) == "environment":
        raise SettingsError(say("settings.by_environment", name=name))
    write(file, name, value)


def set_aside(file: Path) -> Path | None:
    """Move a damaged settings file away under a name of its own, which is returned; a sound one stays (``None``).

    Raises SettingsError.
    """
    file = file.resolve()
    with _WRITING:
        try:
            read(file)
            return None
        except DamagedSettings:
            aside = file.with_name(f"{file.name}.{uuid4().hex[:8]}.damaged")
        try:
            file.replace(aside)
        except OSError as error:
            raise SettingsError(say("settings.unwritable", file=str(file), why=_why(error))) from None
        return aside


def hugging_face_token(text: str) -> str:
    """The token in what somebody pasted. Raises SettingsError, which never holds the text, for anything else."""
    token = text.strip()
    if not _TOKEN.fullmatch(token):
        raise SettingsError(say("settings.no_token"))
    return token


def _replace(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f".{file.name}.{uuid4().hex}")
    try:
        # Closed to others before the first byte is in it.
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as new:
            new.write(text)
            new.flush()
            os.fsync(new.fileno())
        temporary.replace(file)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _why(error: OSError) -> str:
    return error.strerror or str(error)
