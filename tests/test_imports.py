"""Everything of ours is imported relatively, and thinking needs neither ComfyUI, torch nor numpy."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
OURS = sorted([ROOT / "__init__.py", *(ROOT / "headroom").rglob("*.py"), *(ROOT / "nodes").rglob("*.py")])
OUR_NAMES = {"headroom", "nodes", "demo", "tests"}
CORE = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in (ROOT / "headroom").rglob("*.py")
    if path.name != "__main__.py"
)


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_what_is_ours_is_imported_relatively(path: Path) -> None:
    absolute = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            absolute += [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            absolute.append(node.module or "")
    assert not [name for name in absolute if name.split(".")[0] in OUR_NAMES]


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_python_files_hold_no_chinese(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not [character for character in text if "\u3400" <= character <= "\u9fff"]


def test_the_core_imports_no_torch_numpy_or_comfyui() -> None:
    script = (
        "import importlib, sys\n"
        f"for name in {CORE!r}: importlib.import_module(name)\n"
        "heavy = {'torch', 'numpy', 'comfy', 'comfy_api', 'folder_paths', 'server', 'aiohttp', 'psutil', 'pynvml'}\n"
        "print(sorted(heavy & {name.partition('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_comfyui_without_v3_nodes_gets_a_clear_import_error(tmp_path: Path) -> None:
    script = (
        "import importlib.util, sys\n"
        f"spec = importlib.util.spec_from_file_location('pack', {str(ROOT / '__init__.py')!r},"
        f" submodule_search_locations=[{str(ROOT)!r}])\n"
        "module = importlib.util.module_from_spec(spec)\n"
        "sys.modules['pack'] = module\n"
        "spec.loader.exec_module(module)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "ImportError: Headroom needs ComfyUI 0.3.48 or newer" in done.stderr
