"""AI Toolkit is set up from a repository, an archive or a folder; interrupted anywhere, the next setup goes on.

The packages are tiny ones made here, in an index of files: a real pip installs them into a real environment.
"""

from __future__ import annotations

import http.server
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headroom import places, setup
from headroom.configs import load
from headroom.contracts import say
from headroom.memory.nvml import GpuReading
from headroom.run import processes
from headroom.run.locate import LocateError, check_python, find_python, find_toolkit
from headroom.setup import Progress, SetupError, SetupStopped, packages, python, set_up, sources
from headroom.setup.progress import counted

ROOT = Path(__file__).resolve().parent.parent
FILES = {
    "run.py": "raise SystemExit('never run by a setup')\n",
    "version.py": 'VERSION = "0.12.26"\n',
    "toolkit/__init__.py": "",
    "jobs/__init__.py": "",
    "jobs/process/__init__.py": "",
    "requirements.txt": "-r requirements_base.txt\nsmall==1.0  # with a comment\n",
    "requirements_base.txt": "#nothing\nsafe-tensors==2.0\n",
    "README.md": "pip install torch==2.13.0 torchvision==0.28.0 torchaudio==2.11.0 --index-url https://x/whl/cu130\n",
}
TORCH = "import types\n__version__ = '2.13.0+tiny'\nversion = types.SimpleNamespace(cuda=None)\n"
WHEELS = {
    "torch": ("2.13.0", TORCH),
    "torchvision": ("0.28.0", ""),
    "torchaudio": ("2.11.0", ""),
    "torchcodec": ("0.15.0", ""),
    "small": ("1.0", ""),
    "safe_tensors": ("2.0", ""),
}


def wheel(folder: Path, name: str, version: str, code: str) -> None:
    """A package of one module, as an index of files has it."""
    about = f"{name}-{version}.dist-info"
    files = {
        f"{name}/__init__.py": code,
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{about}/RECORD"] = "".join(f"{path},,\n" for path in [*files, f"{about}/RECORD"])
    place = folder / name.replace("_", "-")
    place.mkdir(parents=True)
    file = place / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    (place / "index.html").write_text(f'<a href="{file.name}">{file.name}</a>', encoding="utf-8")


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("index")
    for name, (version, code) in WHEELS.items():
        wheel(folder, name, version, code)
    return folder.as_uri()


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment as `venv` makes it, to be copied where how it is made is not what is tested."""
    folder = tmp_path_factory.mktemp("environment") / "venv"
    subprocess.run([sys.executable, "-I", "-m", "venv", str(folder)], check=True)
    return folder


@pytest.fixture
def made(environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Environments come quickly."""
    monkeypatch.setattr(
        python, "_with_python", lambda base, folder, place: shutil.copytree(environment, folder, symlinks=True)
    )


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, index: str) -> None:
    """No GPU, no network, no settings; everything of ours below the test's own folder."""
    for name in [name for name in os.environ if name.startswith(("PIP_", "HEADROOM_", "GIT_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", index)
    monkeypatch.setenv("HEADROOM_TORCH_INDEX", "default")
    monkeypatch.setattr(packages, "read_gpus", lambda: GpuReading(notes=(say("doctor.nvml.no_driver"),)))
    monkeypatch.setattr(places, "user_data", lambda: tmp_path / "data")
    monkeypatch.setattr(packages, "needs_gib", lambda torch: 0.0)


def write(folder: Path, files: dict[str, str] = FILES) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def git(folder: Path, *arguments: str) -> str:
    own = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *own, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> tuple[Path, str, str]:
    """A repository with two commits: its folder, the first and the second."""
    if not shutil.which("git"):
        pytest.skip("git; install it")
    folder = write(tmp_path / "repository")
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "one")
    first = git(folder, "rev-parse", "HEAD")
    write(folder, {"version.py": 'VERSION = "0.13.0"\n'})
    git(folder, "commit", "-qam", "two")
    return folder, first, git(folder, "rev-parse", "HEAD")


def never() -> bool:
    return False


def nothing(progress: Progress) -> None:
    return


def tools() -> Path:
    return places.tools()


def set_up_from(
    source: object, commit: str | None = None, tell: Any = nothing, stop: Callable[[], bool] = never
) -> Any:
    return set_up(tools(), str(source), commit, tell, stop)


def not_there() -> bool:
    """Whether ``doctor`` finds no AI Toolkit."""
    try:
        find_toolkit()
    except LocateError:
        return True
    return False


def refused(source: object, commit: str | None = None) -> str:
    """The key of the error; nothing is found afterwards."""
    with pytest.raises(SetupError) as error:
        set_up_from(source, commit)
    assert not_there()
    return error.value.sentence.key.removeprefix("setup.")


def everything(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


# ---- the whole of it


def test_what_is_set_up_is_found_and_works_without_any_setting(repository: tuple[Path, str, str]) -> None:
    folder, first, _ = repository
    told: list[Progress] = []
    toolkit = set_up_from(folder, first, told.append)
    assert toolkit == find_toolkit()
    assert (toolkit.version, toolkit.commit, toolkit.found_by) == ("0.12.26", first, "tools")
    found = check_python(find_python(toolkit), toolkit)
    assert (found.torch, found.path.parent.parent) == ("2.13.0+tiny", toolkit.folder / "venv")
    assert list(dict.fromkeys(progress.step for progress in told)) == ["source", "python", "torch", "packages", "check"]
    libraries = {path.name for path in toolkit.folder.glob("venv/**/site-packages/*")}
    assert {"small", "safe_tensors", "torchvision", "torchcodec"} <= libraries
    assert {path.name for path in tools().iterdir()} == {"ai-toolkit", "setup.lock"}


@pytest.mark.usefixtures("made")
def test_a_finished_one_is_recognised_and_left_as_it_is(repository: tuple[Path, str, str]) -> None:
    folder, first, second = repository
    toolkit = set_up_from(folder, first)
    before = everything(tools())
    steps: list[str] = []
    for again in ((None, None), (str(folder), first)):
        assert set_up(tools(), *again, lambda progress: steps.append(progress.step), never) == toolkit
    assert set(steps) == {"check"} and everything(tools()) == before
    with pytest.raises(SetupError, match="another source or commit"):
        set_up_from(folder, second)
    assert find_toolkit() == toolkit
    # one whose environment broke meanwhile is mended, and what lies beside it stays
    write(toolkit.folder, {"output/mine.safetensors": "mine"})
    find_python(toolkit).unlink()
    assert set_up(tools(), None, None, nothing, never) == toolkit
    assert check_python(find_python(toolkit), toolkit).torch == "2.13.0+tiny"
    assert (toolkit.folder / "output/mine.safetensors").read_text(encoding="utf-8") == "mine"


def test_a_branch_or_a_short_commit_will_do(repository: tuple[Path, str, str], tmp_path: Path) -> None:
    folder, first, second = repository
    git(folder, "branch", "old", first)
    for number, (asked, found) in enumerate(((None, second), ("old", first), (first[:9], first))):
        assert sources.commit_of(fetched(tmp_path / f"work{number}", folder, asked)) == found, asked


def test_what_was_fetched_is_taken_again_for_the_same_wish_only(
    repository: tuple[Path, str, str], tmp_path: Path
) -> None:
    folder, first, second = repository
    place = setup.Workplace(tmp_path / "work", nothing, never)
    place.folder.mkdir()
    files = sources.fetch(sources.Origin.asked(str(folder), first), place)
    write(files, {"mark": "not fetched again"})
    assert (sources.fetch(sources.Origin.asked(str(folder), first), place) / "mark").exists()
    assert sources.commit_of(sources.fetch(sources.Origin.asked(str(folder), None), place)) == second
    assert not (files / "mark").exists()


def test_without_a_source_the_pinned_commit_is_asked_for() -> None:
    pinned = load("ai_toolkit")
    assert sources.Origin.asked(None, None) == sources.Origin(pinned["repository"], pinned["commit"])
    assert sources.Origin.asked(None, "main").source == pinned["repository"]


# ---- archives, folders, servers


def archived(folder: Path, file: Path, commit: str = "", top: str = "ai-toolkit-27a03a9/") -> Path:
    """What GitHub serves for a commit."""
    if file.suffix == ".zip":
        with zipfile.ZipFile(file, "w") as archive:
            archive.comment = commit.encode()
            for path in sorted(folder.rglob("*")):
                archive.write(path, top + path.relative_to(folder).as_posix())
    else:
        with tarfile.open(file, "w:gz", format=tarfile.PAX_FORMAT, pax_headers={"comment": commit}) as archive:
            archive.add(folder, top.rstrip("/") or ".")
    return file


COMMIT = "27a03a91f23eb1b757d5ec2e80ee3e129cfcc350"


@pytest.mark.parametrize("name", ["a.zip", "a.tar.gz"])
@pytest.mark.parametrize("top", ["ai-toolkit-27a03a9/", ""])
def test_an_archive_is_unpacked_whatever_folder_is_around(tmp_path: Path, name: str, top: str) -> None:
    archive = archived(write(tmp_path / "files"), tmp_path / name, COMMIT, top)
    files = fetched(tmp_path / "work", archive.as_uri())
    assert sources.commit_of(files) == COMMIT
    assert everything(files) == everything(tmp_path / "files") | {".headroom.json"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, dict[str, bytes]]]:
    """An HTTP server: its address, and what it has; a path that ends in ``cut`` breaks off."""
    served: dict[str, bytes] = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = served.get(self.path)
            self.send_response(404 if body is None else 200)
            self.send_header("Content-Length", str(len(body or b"") + (100 if "cut" in self.path else 0)))
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *arguments: object) -> None:
            return

    running = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=running.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{running.server_port}", served
    running.shutdown()
    running.server_close()


def test_an_archive_comes_over_http_and_is_told_in_bytes(tmp_path: Path, server: tuple[str, dict[str, bytes]]) -> None:
    address, served = server
    served["/a.zip"] = archived(write(tmp_path / "files"), tmp_path / "a.zip", COMMIT).read_bytes()
    told: list[Progress] = []
    files = fetched(tmp_path / "work", f"{address}/a.zip", COMMIT, told.append)
    size = len(served["/a.zip"])
    assert sources.commit_of(files) == COMMIT and Progress("source", size, size, f"{address}/a.zip") in told


def test_without_git_a_commit_comes_as_githubs_archive(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, *_: None)
    asked: list[str] = []
    monkeypatch.setattr(
        sources, "_download", lambda address, place: asked.append(address) or archived(write(tmp_path / "f"), tmp_path / "a.zip", COMMIT)
    )  # fmt: skip
    place = setup.Workplace(tmp_path / "work", nothing, never)
    place.folder.mkdir()
    files = sources.fetch(sources.Origin.asked(None, None), place)
    assert asked == [f"https://github.com/ostris/ai-toolkit/archive/{COMMIT}.zip"]
    assert sources.commit_of(files) == COMMIT
    line = "git+https://github.com/huggingface/diffusers.git@c943837"
    write(files, {"requirements_base.txt": f"#before\n{line}\n#pip install git+https://x\n"})
    listed = list(packages._requirements(files))
    assert listed == ["https://github.com/huggingface/diffusers/archive/c943837.zip", "small==1.0"]


def fetched(folder: Path, source: object, commit: str | None = None, tell: Any = nothing) -> Path:
    """The files of a source, in a workplace of their own."""
    place = setup.Workplace(folder, tell, never)
    place.folder.mkdir()
    return sources.fetch(sources.Origin.asked(str(source), commit), place)


def test_a_plain_folder_is_copied_without_what_is_not_its_own(tmp_path: Path) -> None:
    folder = write(tmp_path / "files", FILES | {"venv/bin/python": "", "output/lora.safetensors": "", "ui/a.ts": ""})
    files = fetched(tmp_path / "work", folder)
    assert everything(files) == everything(write(tmp_path / "own")) | {".headroom.json", "ui", "ui/a.ts"}
    assert sources.commit_of(files) is None and (folder / "output/lora.safetensors").exists()


def test_a_folder_around_the_tools_place_does_not_copy_itself(tmp_path: Path) -> None:
    files = fetched(write(tmp_path) / "work", tmp_path)
    assert not (files / "work").exists() and (files / "run.py").exists()


@pytest.mark.parametrize(
    ("member", "told"), [("../outside.py", "unsafe_archive"), ("/etc/outside", "unsafe_archive"), ("C:/x", "unsafe_archive")]
)  # fmt: skip
@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_an_archive_that_reaches_outside_is_refused(tmp_path: Path, member: str, told: str, kind: str) -> None:
    file = tmp_path / f"a.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr(member, "outside")
    else:
        with tarfile.open(file, "w") as opened:
            entry = tarfile.TarInfo(member)
            entry.size = 7
            opened.addfile(entry, io.BytesIO(b"outside"))
    assert refused(file) == told
    assert not any("outside" in name or name == "x" for name in everything(tmp_path))


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda folder, address: folder / "nowhere", "no_such_source"),
        (lambda folder, address: folder / "nowhere.zip", "no_such_source"),
        (lambda folder, address: write(folder / "other", {"README.md": "x"}), "not_ai_toolkit"),
        (lambda folder, address: f"{address}/missing.zip", "no_answer"),
        (lambda folder, address: f"{address}/cut.zip", "cut_short"),
        (lambda folder, address: f"{address}/broken.zip", "broken_archive"),
        (lambda folder, address: "http://127.0.0.1:9/a.zip", "no_answer"),
        (lambda folder, address: "--upload-pack=touch /tmp/x", "no_name"),
        (lambda folder, address: " ", "no_name"),
    ],
)
def test_a_source_that_is_none_is_named(
    tmp_path: Path, server: tuple[str, dict[str, bytes]], make: Callable[[Path, str], object], told: str
) -> None:
    address, served = server
    served |= {"/cut.zip": b"PK", "/broken.zip": b"no archive at all"}
    assert refused(make(tmp_path, address)) == told


def test_a_commit_that_does_not_exist_is_refused(repository: tuple[Path, str, str]) -> None:
    folder, _, _ = repository
    for commit in ("f" * 40, "no-such-branch"):
        assert refused(folder, commit) == "failed"
    assert refused(folder, "--force") == "no_name"


def test_an_archive_of_another_commit_is_refused(tmp_path: Path) -> None:
    archive = archived(write(tmp_path / "files"), tmp_path / "a.zip", COMMIT)
    assert refused(archive, "a" * 40) == "other_commit"


# ---- interrupted, and gone on with


class Stopping:
    """Stops at the first progress of a step, as a person would."""

    def __init__(self, step: str) -> None:
        self.step, self.seen = step, False

    def __call__(self, progress: Progress) -> None:
        self.seen = self.seen or progress.step == self.step

    def asked(self) -> bool:
        return self.seen


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize("step", ["source", "python", "packages"])
def test_stopped_at_any_step_it_is_not_found_and_goes_on(repository: tuple[Path, str, str], step: str) -> None:
    folder, first, _ = repository
    stopping = Stopping(step)
    with pytest.raises(SetupStopped):
        set_up_from(folder, first, stopping, stopping.asked)
    assert not_there()
    told: list[Progress] = []
    assert set_up_from(folder, first, told.append) == find_toolkit()
    begun = [progress.step for progress in told if progress.detail == str(folder) or progress.step == "python"]
    assert ("source" in begun) is (step == "source") and ("python" in begun) is (step in ("source", "python"))


@pytest.mark.usefixtures("made")
def test_killed_while_it_is_put_in_place_it_goes_on(
    repository: tuple[Path, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, first, _ = repository
    rename, moved = Path.rename, []

    def failing(self: Path, target: Path) -> Path:
        if self.parent.name == "sources":
            if len(moved) == 3:
                raise KeyboardInterrupt
            moved.append(self.name)
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(KeyboardInterrupt):
        set_up_from(folder, first)
    assert not_there() and "run.py" not in moved
    monkeypatch.setattr(Path, "rename", rename)
    steps: list[str] = []
    toolkit = set_up_from(folder, first, lambda progress: steps.append(progress.step))
    assert steps == [] and toolkit == find_toolkit() and toolkit.commit == first


def test_what_somebody_else_put_there_is_not_touched(repository: tuple[Path, str, str]) -> None:
    folder, first, _ = repository
    there = write(tools() / "ai-toolkit")
    before = everything(there)
    for asked in ((None, None), (str(folder), first)):
        with pytest.raises(SetupError):
            set_up(tools(), *asked, nothing, never)
    assert everything(there) == before


@pytest.mark.usefixtures("made")
def test_a_file_in_the_way_is_named_before_anything_is_installed(repository: tuple[Path, str, str]) -> None:
    folder, first, _ = repository
    write(tools() / "ai-toolkit", {"README.md": "mine"})
    steps: list[str] = []
    with pytest.raises(SetupError, match="in the way"):
        set_up_from(folder, first, lambda progress: steps.append(progress.step))
    assert "torch" not in steps
    assert (tools() / "ai-toolkit/README.md").read_text(encoding="utf-8") == "mine"


def test_two_setups_do_not_work_at_once(tmp_path: Path) -> None:
    tools().mkdir(parents=True)
    handle = os.open(tools() / "setup.lock", os.O_RDWR | os.O_CREAT)
    assert processes.lock(handle)
    assert refused(write(tmp_path / "files")) == "goes_on"
    os.close(handle)


# ---- packages and Pythons


@pytest.mark.usefixtures("made")
def test_a_package_that_cannot_be_had_is_named(tmp_path: Path) -> None:
    folder = write(tmp_path / "files", FILES | {"requirements.txt": "small==7.0\n"})
    with pytest.raises(SetupError, match=r"pip failed: ERROR: No matching distribution found for small==7\.0"):
        set_up_from(folder)
    assert not_there()
    log = (tools() / "ai-toolkit.setup/log.txt").read_text(encoding="utf-8")
    assert "small==7.0" in log


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize("broken", ["torch", "torchvision"])
def test_packages_that_do_not_work_are_told_and_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    for name, (version, code) in WHEELS.items():
        wheel(tmp_path / "broken", name, version, "raise ImportError('no such operator')" if name == broken else code)
    good = os.environ["PIP_INDEX_URL"]
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "broken").as_uri())
    source = write(tmp_path / "files")
    with pytest.raises(SetupError, match="no such operator"):
        set_up_from(source)
    assert not_there()
    if broken == "torchvision":  # with other packages it goes on, and takes none of the broken ones
        monkeypatch.setenv("PIP_INDEX_URL", good)
        assert set_up_from(source) == find_toolkit()


def test_tokens_and_settings_that_lead_elsewhere_do_not_reach_pip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HF_TOKEN", "RUNCOMFY_API_TOKEN", "PIP_TARGET", "PIP_USER", "PYTHONPATH", "PYTHONHOME"):
        monkeypatch.setenv(name, str(tmp_path / "elsewhere"))
    place = setup.Workplace(tmp_path / "work", nothing, never)
    place.folder.mkdir()
    show = "import os, json; print(json.dumps(dict(os.environ)))"
    place.run("check", [sys.executable, "-I", "-c", show])
    told = json.loads(place.log.read_text(encoding="utf-8").splitlines()[-1])
    assert str(tmp_path / "elsewhere") not in told.values()
    assert told["PIP_CACHE_DIR"].startswith(str(tmp_path / "work")) and told["TMPDIR"].startswith(
        str(tmp_path / "work")
    )


def test_a_program_is_ended_when_the_setup_is_stopped(tmp_path: Path) -> None:
    told: list[str] = []
    place = setup.Workplace(tmp_path, lambda progress: told.append(progress.detail), lambda: bool(told))
    code = "import os, time; print(os.getpid(), flush=True); time.sleep(120)"
    with pytest.raises(SetupStopped):
        place.run("torch", [sys.executable, "-c", code])
    assert not processes.alive(int(told[0]))


def reading(driver: str | None, *notes: str) -> GpuReading:
    return GpuReading(driver=driver, notes=tuple(say(f"doctor.nvml.{note}") for note in notes))


@pytest.mark.parametrize(
    ("driver", "notes", "system", "url"),
    [
        ("580.65.06", (), "linux", "https://download.pytorch.org/whl/cu130"),
        ("575.12", (), "windows", "https://download.pytorch.org/whl/cu126"),
        (None, ("no_driver",), "linux", "https://download.pytorch.org/whl/cpu"),
        (None, ("no_driver",), "windows", None),
        (None, (), "macos", None),
        (None, ("no_permission",), "linux", "https://download.pytorch.org/whl/cu130"),
    ],
)
def test_the_build_of_torch_is_what_the_driver_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, driver: str | None, notes: tuple[str, ...], system: str, url: str | None
) -> None:  # fmt: skip
    monkeypatch.delenv("HEADROOM_TORCH_INDEX")
    torch = packages.choose_torch(write(tmp_path), reading(driver, *notes), system)
    assert (torch.index, torch.packages) == (url, ("torch==2.13.0", "torchvision==0.28.0", "torchaudio==2.11.0"))
    assert ("triton-windows>=3.7,<3.8" in torch.after) is (system == "windows")


def test_an_old_driver_is_refused_and_another_readme_is_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HEADROOM_TORCH_INDEX")
    with pytest.raises(SetupError, match=r"470\.1 is too old .* needs 560"):
        packages.choose_torch(write(tmp_path), reading("470.1"), "linux")
    line = (
        "pip3 install --no-cache-dir torch==2.7.0 torchvision==0.22.0 torchaudio==2.7.0 --index-url https://x/cu126\n"
    )
    older = packages.choose_torch(write(tmp_path, {"README.md": line}), reading("580.1"), "linux")
    assert older == packages.Torch(("torch==2.7.0", "torchvision==0.22.0", "torchaudio==2.7.0"), "https://x/cu126")
    monkeypatch.setenv("HEADROOM_TORCH_INDEX", "https://mirror/whl")
    assert packages.choose_torch(tmp_path, reading("580.1"), "linux").index == "https://mirror/whl"


@pytest.mark.usefixtures("made")
def test_too_little_disk_is_told_before_anything_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "needs_gib", lambda torch: 1e9)
    assert refused(write(tmp_path / "files")) == "disk"


def base(version: tuple[int, int], *has: str) -> python.Base:
    return python.Base(sys.executable, version, frozenset(has))


def test_a_python_that_suits_is_chosen_this_one_first(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {
        sys.executable: base((3, 13), "venv", "ensurepip", "pip"),
        "python3.12": base((3, 12), "venv", "ensurepip", "pip"),
        "python3": base((3, 9), "venv", "ensurepip", "pip"),
    }
    monkeypatch.setattr(python, "_asked", lambda command, modules=(): answers.get(command[0]))
    assert [found.version for found in python._pythons()] == [(3, 12)]
    answers[sys.executable] = base((3, 10), "pip")
    assert [found.version for found in python._pythons()] == [(3, 10), (3, 12)]


def test_without_a_suitable_python_the_way_out_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python, "_pythons", lambda: iter(()))
    monkeypatch.setattr(shutil, "which", lambda name, *_: None)
    assert refused(write(tmp_path / "files")) == "no_suitable_python"


def test_uv_brings_a_python_of_its_own_into_the_tools_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python, "_pythons", lambda: iter(()))
    monkeypatch.setattr(shutil, "which", lambda name, *_: f"/opt/{name}" if name == "uv" else None)
    ran: list[tuple[list[str], dict[str, str]]] = []
    monkeypatch.setattr(
        setup.Workplace, "run", lambda self, step, command, cwd=None, env={}: ran.append((command, env))
    )
    place = setup.Workplace(tmp_path / "tools" / "work", nothing, never)
    python.make(tmp_path / "venv", place)
    [(command, env)] = ran
    assert [str(word) for word in command] == ["/opt/uv", "venv", "--seed", "--python", "3.12", str(tmp_path / "venv")]
    assert env["UV_PYTHON_INSTALL_DIR"] == str(tmp_path / "tools" / "python")


def test_lines_that_count_are_told_in_numbers() -> None:
    assert counted("torch", "Progress 12 of 80") == Progress("torch", 12, 80)
    assert counted("source", "Receiving objects:  45% (9/20), 1 MiB") == Progress("source", 9, 20)
    assert counted("torch", "Collecting torch") == Progress("torch", detail="Collecting torch")


# ---- the verb


def headroom(folder: Path, *arguments: object) -> tuple[int, str, str]:
    env = {**os.environ, "XDG_DATA_HOME": str(folder), "LOCALAPPDATA": str(folder)}
    command = [sys.executable, "-m", "headroom", "setup", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, check=False, timeout=300)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_the_verb_sets_up_and_says_where(tmp_path: Path) -> None:
    source = write(tmp_path / "files")
    code, out, errors = headroom(tmp_path / "data", "--source", source, "--json")
    assert code == 0, errors
    told = json.loads(out)
    assert told["version"] == "0.12.26" and Path(told["python"]).is_file()
    assert "Installing torch" in errors
    code, out, _ = headroom(tmp_path / "data", "--lang", "en")
    assert code == 0 and told["folder"] in out


def test_the_verb_names_what_is_wrong_in_one_line(tmp_path: Path) -> None:
    for lang in ("en", "zh"):
        code, out, errors = headroom(tmp_path / "data", "--source", tmp_path / "nowhere", "--lang", lang)
        assert (code, out) == (1, "") and "--source" in errors.splitlines()[-1]


# ---- AI Toolkit's own README


@pytest.mark.ai_toolkit
def test_what_is_pinned_is_what_the_readme_of_that_commit_says(monkeypatch: pytest.MonkeyPatch) -> None:
    named = REAL
    if not named:
        pytest.skip("AI Toolkit; set HEADROOM_AI_TOOLKIT and HEADROOM_AI_TOOLKIT_PYTHON")
    monkeypatch.delenv("HEADROOM_TORCH_INDEX")
    torch = packages.choose_torch(Path(named), reading("999.0"), "linux")
    pinned = load("ai_toolkit")
    assert (list(torch.packages), torch.index) == (pinned["torch"], pinned["indexes"]["cuda"][0]["url"])
    listed = list(packages._requirements(Path(named)))
    assert any(line.startswith("transformers==") for line in listed) and "scipy==1.12.0" in listed


REAL = os.environ.get("HEADROOM_AI_TOOLKIT")
