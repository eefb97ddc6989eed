"""`python demo`: a real ComfyUI with this pack reads a failed run and hands back the corrected job.

With an AI Toolkit it also trains a tiny model.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
import webbrowser
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "demo" / "out"
WORKFLOW = "Paste a failure, get the corrected job"
OLDEST = (3, 10)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python demo", description=__doc__)
    parser.add_argument("--open", action="store_true", help="leave ComfyUI running and open its page")
    parser.add_argument("--ai-toolkit", metavar="PATH", help="train a tiny model for real with the AI Toolkit there")
    return parser.parse_args()


def _panel(history: dict[str, Any], node_id: str, lang: str) -> dict[str, Any]:
    panels = history["outputs"][node_id]["headroom"]
    return next((panel for panel in panels if panel.get("lang") == lang), panels[0])


def _show(history: dict[str, Any], prompt: dict[str, Any], base: Path) -> None:
    of_class = {node["class_type"]: node_id for node_id, node in prompt.items()}
    diagnosis = _panel(history, of_class["HeadroomOOMClassifier"], "en")
    print("\nWhat failed:", diagnosis["summary"])
    print("What to do: ", diagnosis["what_to_do"])
    print("Safe to retry:", "yes" if diagnosis["safe_to_retry"] else "no")
    for change in diagnosis["changes"]:
        print(f"\n  {change['line']}\n      why:   {change['reason']}\n      price: {change['price']}")
        print(f"      where: {change['where']}")
    saved = _panel(history, of_class["HeadroomSaveJob"], "en")
    corrected = base / "output" / saved["subfolder"] / saved["file"]
    print("\nThe corrected job, line by line against the failed one:\n")
    print("\n".join(saved["diff"]))
    print("\nThe corrected job:\n")
    print(corrected.read_text(encoding="utf-8"))
    (OUT / "diagnosis.json").write_text(json.dumps(diagnosis, ensure_ascii=False, indent=2), encoding="utf-8")
    shutil.copy(corrected, OUT / corrected.name)
    print(f"Diagnosis:     {OUT / 'diagnosis.json'}")
    print(f"Corrected job: {OUT / corrected.name}")


def main() -> int:
    """Run the example workflow and show what came out; the exit code is 0 when it did."""
    if sys.version_info < OLDEST:
        print("python demo needs Python 3.10 or newer; this is {}.{}.".format(*sys.version_info), file=sys.stderr)
        return 2
    sys.path.insert(0, str(ROOT))
    from demo.comfyui import ComfyUI, ComfyUIFailure
    from demo.environment import COMFYUI, EnvironmentFailure, prepare
    from demo.training import NoToolkit, find, train

    sys.stdout.reconfigure(encoding="utf-8", errors="replace")  # type: ignore[union-attr]
    options = _arguments()
    base = OUT / "comfyui"
    prompt = json.loads((ROOT / "demo" / "paste_a_failure.api.json").read_text(encoding="utf-8"))
    try:
        python = prepare(COMFYUI)
        trainer = find(options.ai_toolkit, python)
        OUT.mkdir(parents=True, exist_ok=True)
        begun = time.monotonic()
        print("Starting ComfyUI …", flush=True)
        with ComfyUI(base, python, environment=trainer.environment if trainer else None) as comfyui:
            print(f"ComfyUI runs at {comfyui.url} after {time.monotonic() - begun:.0f} s; running “{WORKFLOW}”.")
            history = comfyui.run(prompt)
            if history["status"]["status_str"] != "success":
                raise ComfyUIFailure(f"The workflow failed: {json.dumps(history['status']['messages'][-1], indent=2)}")
            _show(history, prompt, base)
            if trainer:
                train(comfyui, trainer, OUT)
            else:
                print(
                    "\nNo AI Toolkit here, so nothing was trained; `python demo --ai-toolkit PATH` trains a tiny model."
                )
            print(f"ComfyUI's log: {comfyui.log_file}")
            if options.open:
                print(f"\nOpen {comfyui.url} → Workflow → Browse Templates → comfyui-headroom. Ctrl+C ends ComfyUI.")
                webbrowser.open(comfyui.url)
                while True:
                    time.sleep(1)
    except (EnvironmentFailure, ComfyUIFailure, NoToolkit) as failure:
        print(f"\n{failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
