"""Datasets and models that a node can name, and files that are dropped: nothing leads out of its folder."""

from __future__ import annotations

import io
import os
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from headroom_pack.headroom.report.wording import words
from headroom_pack.nodes import datasets, models
from headroom_pack.nodes.dropped import Incoming, Kept, Limits
from headroom_pack.nodes.errors import InputError
from tiny_pictures import png

PNG = png()
SMALL = Limits(file=1 << 20, total=2 << 20, files=10, free=0)


def drop(root: Path, files: Mapping[str, bytes], limits: Limits = SMALL) -> Kept:
    """What a page does with dropped files."""
    folder = root / datasets.DATASETS / ".coming"
    folder.mkdir(parents=True, exist_ok=True)
    for left in folder.iterdir():
        left.unlink()
    incoming = Incoming(folder, limits)
    for name, content in files.items():
        if incoming.wants(name):
            with incoming.open(name) as received:
                for at in range(0, len(content), 1000):
                    received.write(content[at : at + 1000])
            incoming.take(received)
    return incoming.finish(root)


def zipped(files: Mapping[str, bytes], kind: int = zipfile.ZIP_DEFLATED) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", kind) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return made.getvalue()


def content(root: Path, kept: Kept) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (root / kept.name).iterdir()}


def told(kept: Kept) -> str:
    return " ".join(words(sentence, "en") for sentence in kept.left_out)


# Dropped files


def test_pictures_and_captions_are_kept_under_a_name_made_of_their_content(tmp_path: Path) -> None:
    files = {"cat.PNG": PNG, "cat.txt": b"a cat", "dog.jpg": PNG}
    kept = drop(tmp_path, files)
    assert kept.name.startswith("headroom/datasets/") and len(kept.name.rpartition("/")[2]) == 16
    assert (kept.media, kept.captions, kept.left_out) == (2, 1, ())
    assert content(tmp_path, kept) == {"cat.png": PNG, "cat.txt": b"a cat", "dog.jpg": PNG}
    assert drop(tmp_path, dict(reversed(files.items()))).name == kept.name
    assert drop(tmp_path, files | {"cat.txt": b"a dog"}).name != kept.name


def test_a_zip_gives_the_same_dataset_as_its_files(tmp_path: Path) -> None:
    files = {"cat.png": PNG, "cat.txt": b"a cat"}
    inside = {f"my cats/{name}": data for name, data in files.items()}
    assert drop(tmp_path, {"cats.zip": zipped(inside)}).name == drop(tmp_path, files).name
    assert drop(tmp_path, inside).name == drop(tmp_path, files).name


@pytest.mark.parametrize(
    "name", ["../../evil.png", "/etc/evil.png", "..\\..\\evil.png", "C:\\x\\evil.png", "a/../../evil.png"]
)
def test_no_name_leads_out_of_the_dataset(tmp_path: Path, name: str) -> None:
    for files in ({name: PNG}, {"x.zip": zipped({name: PNG})}):
        kept = drop(tmp_path / "input", files)
        assert content(tmp_path / "input", kept) == {"evil.png": PNG}
    outside = [path for path in tmp_path.rglob("evil*") if not path.is_relative_to(tmp_path / "input")]
    assert outside == []


@pytest.mark.parametrize(
    ("sent", "safe"),
    [
        ("con.png", "file con.png"),
        ("a:b*c?.png", "a_b_c_.png"),
        ("-rf.png", "file -rf.png"),
        (" .. .png", "file.png"),
        ("x" * 300 + ".png", "x" * 80 + ".png"),
        ("\u732b \u202e\u0007.png", "\u732b _.png"),
        ("e\u0301.png", "\u00e9.png"),
        ("${HOME}.png", "_HOME_.png"),
    ],
)
def test_names_are_made_safe(tmp_path: Path, sent: str, safe: str) -> None:
    if sent.startswith(" "):
        sent = "a/" + sent
    assert list(content(tmp_path, drop(tmp_path, {sent: PNG}))) == [safe]


def test_the_same_name_in_two_folders_or_two_cases_stays_two_pictures_each_with_its_caption(tmp_path: Path) -> None:
    files = {"a/1.png": PNG, "a/1.txt": b"first", "b/1.png": png(8, 8), "b/1.txt": b"second", "C/1.PNG": png(9, 9)}
    found = content(tmp_path, drop(tmp_path, files))
    pairs = {found[name]: found.get(name.replace(".png", ".txt")) for name in found if name.endswith(".png")}
    assert pairs == {PNG: b"first", png(8, 8): b"second", png(9, 9): None}
    assert len({name.casefold() for name in found}) == len(found) == 5
    both = content(tmp_path, drop(tmp_path, {"a.PNG": PNG, "a.png": png(8, 8), "A.png": png(9, 9)}))
    assert sorted(both.values()) == sorted([PNG, png(8, 8), png(9, 9)])


def test_what_is_left_out_is_told(tmp_path: Path) -> None:
    files = {"a.png": PNG, "notes.docx": b"x", "b.psd": b"x", "c.gif": b"x", "d.exe": b"x", "alone.txt": b"x"}
    kept = drop(tmp_path, files | {".DS_Store": b"x", "__MACOSX/._a.png": b"x", "Thumbs.db": b"x"})
    assert sorted(content(tmp_path, kept)) == ["a.png"]
    assert "notes.docx, b.psd, c.gif and 1 more" in told(kept)
    assert "a caption without a picture of its name: alone.txt" in told(kept)
    assert "DS_Store" not in told(kept) and "Thumbs" not in told(kept)


def test_a_zip_in_a_zip_and_a_locked_file_are_left_out(tmp_path: Path) -> None:
    inner = zipped({"a.png": PNG, "more.zip": zipped({"b.png": PNG})})
    kept = drop(tmp_path, {"x.zip": inner})
    assert sorted(content(tmp_path, kept)) == ["a.png"] and "a zip inside a zip: more.zip" in told(kept)
    locked = bytearray(zipped({"a.png": PNG, "b.png": PNG}, zipfile.ZIP_STORED))
    for signature, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        locked[locked.index(signature) + at] |= 1  # the flag that says it needs a password
    kept = drop(tmp_path, {"x.zip": bytes(locked)})
    assert sorted(content(tmp_path, kept)) == ["b.png"] and "locked with a password: a.png" in told(kept)


@pytest.mark.parametrize("files", [{}, {"a.txt": b"x"}, {"a.gif": b"x"}, {"x.zip": zipped({})}])
def test_nothing_to_train_on_is_refused_and_leaves_nothing(tmp_path: Path, files: dict[str, bytes]) -> None:
    with pytest.raises(InputError, match="nothing to train on"):
        drop(tmp_path, files)
    assert [path.name for path in (tmp_path / datasets.DATASETS).iterdir()] == [".coming"]


@pytest.mark.parametrize(
    ("files", "limits", "sentence"),
    [
        ({"a.png": b"x" * (2 << 20)}, SMALL, "more than 1 GiB"),
        ({f"{n}.png": bytes([n]) * (1 << 20) for n in range(3)}, SMALL, "more than 2 GiB"),
        ({f"{n}.png": b"x" for n in range(11)}, SMALL, "more than 10 files"),
        ({"x.zip": zipped({f"{n}.png": b"x" for n in range(11)})}, SMALL, "more than 10 files"),
        ({"x.zip": zipped({"a.png": b"\0" * (1 << 20)})}, Limits(ratio_from=1 << 10, free=0), "more than 100 times"),
        ({"x.zip": b"PK not a zip"}, SMALL, "no zip that can be unpacked"),
        ({"x.zip": zipped({"a.png": os.urandom(5000)})[:-40]}, SMALL, "no zip that can be unpacked"),
        ({"a.png": PNG}, Limits(free=1 << 60), "disk has less than"),
    ],
    ids=["file", "all", "files", "zip's files", "bomb", "no zip", "torn zip", "disk"],
)
def test_too_much_and_what_is_broken_is_refused(
    tmp_path: Path, files: dict[str, bytes], limits: Limits, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headroom_pack.nodes import dropped

    monkeypatch.setattr(dropped, "GIB", 1 << 20)  # the limits of this test are mebibytes
    with pytest.raises(InputError, match=sentence):
        drop(tmp_path, files, limits)
    assert [path.name for path in (tmp_path / datasets.DATASETS).iterdir()] == [".coming"]


def test_a_zip_that_lies_about_its_sizes_is_stopped_while_it_is_unpacked(tmp_path: Path) -> None:
    whole = zipped({"a.png": b"\0" * (8 << 20)})
    lying = whole.replace((8 << 20).to_bytes(4, "little"), (100).to_bytes(4, "little"))
    assert lying != whole
    with pytest.raises(InputError):
        drop(tmp_path, {"x.zip": lying})
    sizes = [path.stat().st_size for path in (tmp_path / datasets.DATASETS).rglob("*") if path.is_file()]
    assert max(sizes) <= SMALL.file + (1 << 20)


# Folders


def test_folders_with_something_to_train_on_are_offered(tmp_path: Path) -> None:
    for name in ("cats", "deep/er/dogs", "texts", ".hidden/x", "headroom/datasets/0123456789abcdef"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / ("a.txt" if name == "texts" else "a.png")).write_bytes(PNG)
    (tmp_path / "loose.png").write_bytes(PNG)
    os.utime(tmp_path / "cats", (2e9, 2e9))
    names = datasets.folder_names(tmp_path)
    assert names[0] == "cats"
    assert sorted(names) == ["cats", "deep/er/dogs", "headroom/datasets/0123456789abcdef"]
    assert datasets.image_names(tmp_path) == ["loose.png"]
    assert all(datasets.find_folder(name, tmp_path) == (tmp_path / name).resolve() for name in names)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../other", "/etc", "gone", "cats/../..", "cats/a.png", "x\0y", "C:\\", "a" * 5000]
)
def test_a_name_that_is_no_folder_of_the_input_is_refused(tmp_path: Path, name: str) -> None:
    root = tmp_path / "input"
    for folder in (root / "cats", tmp_path / "other"):
        folder.mkdir(parents=True)
        (folder / "a.png").write_bytes(PNG)
    with pytest.raises(InputError, match="not in this server's input folder"):
        datasets.find_folder(name, root)


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights on Windows")
def test_a_link_out_of_the_input_is_refused(tmp_path: Path) -> None:
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "a.png").write_bytes(PNG)
    (tmp_path / "input").mkdir()
    (tmp_path / "input" / "cats").symlink_to(tmp_path / "private")
    with pytest.raises(InputError):
        datasets.find_folder("cats", tmp_path / "input")


def test_a_dataset_counts_as_changed_with_its_files_but_not_with_ai_toolkits_caches(tmp_path: Path) -> None:
    folder = tmp_path / "cats"
    folder.mkdir()
    (folder / "a.png").write_bytes(PNG)
    first = datasets.fingerprint("cats", tmp_path)
    (folder / "_latent_cache").mkdir()
    (folder / "_latent_cache" / "a.safetensors").write_bytes(b"x")
    (folder / ".aitk_size.json").write_text("{}", encoding="utf-8")
    assert datasets.fingerprint("cats", tmp_path) == first
    (folder / "a.txt").write_text("a cat", encoding="utf-8")
    assert datasets.fingerprint("cats", tmp_path) != first
    assert datasets.fingerprint("gone", tmp_path) == datasets.fingerprint("gone", tmp_path)


# Pictures of the graph


@pytest.mark.parametrize(
    ("texts", "pictures", "captions"),
    [
        ([], 2, ["", ""]),
        (["one", "two"], 2, ["one", "two"]),
        (["one\ntwo"], 2, ["one", "two"]),
        (["one\n\ntwo\n"], 2, ["one", "two"]),
        (["one\n\nthree"], 3, ["one", "", "three"]),
        (["all"], 3, ["all"] * 3),
        (["of\nseveral lines"], 1, ["of\nseveral lines"]),
    ],
)
def test_captions_fit_pictures(texts: list[str], pictures: int, captions: list[str]) -> None:
    assert datasets.captions_of(texts, pictures) == captions


@pytest.mark.parametrize(("texts", "pictures"), [(["a", "b"], 3), (["a\nb\nc"], 2), (["a", "b", "c"], 1)])
def test_captions_that_do_not_fit_are_refused(texts: list[str], pictures: int) -> None:
    with pytest.raises(InputError, match=f"for {pictures} pictures"):
        datasets.captions_of(texts, pictures)


def test_pictures_of_the_graph_are_written_once_with_their_captions(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch, which ComfyUI brings")
    image = pytest.importorskip("PIL.Image", reason="Pillow, which ComfyUI brings")
    batch = torch.linspace(-0.5, 1.5, 2 * 4 * 6 * 3).reshape(2, 4, 6, 3)
    other = torch.zeros(1, 8, 8, 4)
    name = datasets.keep_pictures([batch, other], ["a\nb\nc"], tmp_path)
    folder = tmp_path / name
    assert sorted(path.name for path in folder.iterdir()) == [
        f"000{n}.{end}" for n in (1, 2, 3) for end in ("png", "txt")
    ]
    assert (folder / "0002.txt").read_text(encoding="utf-8") == "b\n"
    with image.open(folder / "0001.png") as first, image.open(folder / "0003.png") as last:
        assert (first.size, first.mode, last.size) == ((6, 4), "RGB", (8, 8))
        assert first.getpixel((0, 0)) == (0, 0, 0)
    written = (folder / "0001.png").stat().st_mtime_ns
    assert datasets.keep_pictures([batch, other], ["a\nb\nc"], tmp_path) == name
    assert (folder / "0001.png").stat().st_mtime_ns == written
    assert datasets.keep_pictures([batch, other], ["a\nb\nd"], tmp_path) != name
    assert not list((tmp_path / datasets.DATASETS).glob(".*"))


# Models


@pytest.fixture
def roots(tmp_path: Path) -> dict[str, list[Path]]:
    checkpoints, diffusers = tmp_path / "checkpoints", tmp_path / "diffusers"
    for path in (checkpoints / "sd" / "a.safetensors", checkpoints / "b.ckpt", diffusers / "tiny" / "model_index.json"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    (diffusers / "tiny" / "unet.safetensors").write_bytes(b"x")
    (tmp_path / "outside.safetensors").write_bytes(b"x")
    return {"checkpoints": [checkpoints], "diffusers": [diffusers, tmp_path / "gone"]}


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    for name in ("models--owner--whole", "models--owner--part"):
        (tmp_path / "hub" / name / "snapshots" / "abc").mkdir(parents=True)
    (tmp_path / "hub" / "models--owner--whole" / "snapshots" / "abc" / "model_index.json").write_bytes(b"{}")
    return tmp_path / "hub"


def test_models_that_lie_here_are_offered_by_kind(roots: dict[str, list[Path]], cache: Path) -> None:
    names = models.model_names(roots, cache)
    assert names == [models.OWN, "checkpoints: sd/a.safetensors", "diffusers: tiny", "downloaded: owner/whole"]
    assert models.find_model(models.OWN, roots, cache) is None
    assert models.find_model(names[1], roots, cache) == str(roots["checkpoints"][0] / "sd" / "a.safetensors")
    assert models.find_model(names[2], roots, cache) == str(roots["diffusers"][0] / "tiny")
    assert models.find_model(names[3], roots, cache) == "owner/whole"


@pytest.mark.parametrize(
    "name",
    [
        "",
        "gone",
        "checkpoints: ",
        "checkpoints: gone.safetensors",
        "checkpoints: ../outside.safetensors",
        "checkpoints: b.ckpt",
        "downloaded: owner/other",
        "downloaded: ../x",
        "loras: a.safetensors",
        "/etc/passwd",
        "checkpoints: /etc/passwd",
        "checkpoints: x\0y",
    ],
)
def test_any_other_model_is_refused(roots: dict[str, list[Path]], cache: Path, name: str) -> None:
    with pytest.raises(InputError, match="not on this server"):
        models.find_model(name, roots, cache)
