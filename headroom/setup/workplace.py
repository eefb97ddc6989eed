"""Where a setup works until it is done, and the programs it runs there: told, stoppable, given none of our secrets."""

from __future__ import annotations

import io
import os
import queue
import re
import subprocess
import threading
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..contracts import say
from ..run import processes
from .progress import SetupError, SetupStopped, Step, Stop, Tell, counted

_POLL_SECONDS = 0.1
_BLAMES = ("error", "fatal")  # how pip, git and Python begin a line that says why
# What pip says when it gives a server up; then it goes on to complain of what that server would have had.
_UNREACHABLE = re.compile(r"\(total=0\b.*connection broken by '(\w+)\((?:.*: )?(.*?)['\"]?\)': (\S+)")
# Of the Python that we run in, and settings that would send packages elsewhere.
_FOREIGN = (
    "PYTHONHOME",
    "PYTHONPATH",
    "VIRTUAL_ENV",
    "__PYVENV_LAUNCHER__",
    "PIP_TARGET",
    "PIP_PREFIX",
    "PIP_ROOT",
    "PIP_USER",
)
_SECRETS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "RUNCOMFY_API_TOKEN", "AI_TOOLKIT_AUTH")


@dataclass(frozen=True)
class Workplace:
    """A folder in the tools place that is gone once all is set up, whom to tell, and whether to stop."""

    folder: Path
    tell: Tell
    stop: Stop

    @property
    def log(self) -> Path:
        """What every program printed."""
        return self.folder / "log.txt"

    def go_on(self) -> None:
        """Raises SetupStopped once the setup is to stop."""
        if self.stop():
            raise SetupStopped

    def run(
        self,
        step: Step,
        command: Sequence[str | Path],
        cwd: Path | None = None,
        env: Mapping[str, str] = {},
    ) -> None:
        """Run a program to its end; what it prints is told and logged.

        Raises SetupStopped, and SetupError with its own reason where it fails. Either way nothing of it is left.
        """
        words, mark = [str(word) for word in command], uuid.uuid4().hex
        self.go_on()
        try:
            program = processes.start(
                words,
                cwd=cwd,
                env={**self._environment(), **env, processes.MARK: mark},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                own_console=True,
            )
        except OSError as error:
            raise SetupError(say("setup.not_started", program=words[0], why=error.strerror or error)) from None
        try:
            reason = self._follow(step, program, words)
        except BaseException:
            processes.kill(program.pid, mark)
            program.wait()
            raise
        if code := program.wait():
            why = reason or f"exit code {code}"
            name = words[words.index("-m") + 1] if "-m" in words else Path(words[0]).name
            raise SetupError(say("setup.failed", program=name, why=why, log=str(self.log)))

    def _follow(self, step: Step, program: subprocess.Popen[bytes], words: Sequence[str]) -> str:
        """Tell what it prints until it has closed its output; the line of it that says why, else its last."""
        lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=_read, args=(program, lines), daemon=True).start()
        last = blame = unreachable = ""
        with open(self.log, "a", encoding="utf-8") as log:
            log.write(f"\n$ {' '.join(words)}\n")
            while True:
                self.go_on()
                try:
                    line = lines.get(timeout=_POLL_SECONDS)
                except queue.Empty:
                    continue
                if line is None:
                    return unreachable or blame or last
                if not (line := line.strip()):
                    continue
                last = line
                if line.lower().startswith(_BLAMES):
                    blame = line
                if gave_up := _UNREACHABLE.search(line):
                    unreachable = "{}: {} ({})".format(*gave_up.groups())
                progress = counted(step, line)
                if progress.total is None:
                    log.write(line + "\n")
                self.tell(progress)

    def _environment(self) -> dict[str, str]:
        temporary = self.folder / "tmp"
        temporary.mkdir(parents=True, exist_ok=True)
        own = {name: value for name, value in os.environ.items() if name not in (*_FOREIGN, *_SECRETS)}
        own |= {name: str(temporary) for name in ("TMPDIR", "TEMP", "TMP")}
        own |= {"PIP_CACHE_DIR": str(self.folder / "pip"), "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}
        own |= {"GIT_TERMINAL_PROMPT": "0"}
        return own | {"PYTHONIOENCODING": "utf-8", "PYTHONUNBUFFERED": "1"}


def _read(program: subprocess.Popen[bytes], lines: queue.Queue[str | None]) -> None:
    assert program.stdout is not None
    with io.TextIOWrapper(program.stdout, encoding="utf-8", errors="replace", newline=None) as text:
        for line in text:  # a carriage return ends one too
            lines.put(line)
    lines.put(None)
