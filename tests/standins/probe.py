"""Stands in for the probe and AI Toolkit behind it: the same options, log lines, events, requests and exit codes.

The job says under ``standin`` how the run goes. A real process writes real files; it trains nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

import yaml

options = argparse.ArgumentParser()
for name in ("--toolkit", "--job", "--events", "--until", "--vram-gib", "--host-ram-gib", "--largest-bucket"):
    options.add_argument(name)
options.add_argument("--control", type=int)
given = options.parse_args()
job = yaml.safe_load(Path(given.job).read_text(encoding="utf-8"))
name, process = job["config"]["name"], job["config"]["process"][0]
how, total = process.get("standin", "finish"), process["train"]["steps"]
root = Path(process["training_folder"], process.get("name", name))
root.mkdir(parents=True, exist_ok=True)
events = open(given.events, "a", encoding="utf-8")
begun = time.monotonic()
asked: list[str] = []
count = 0


def tell(event: str, **keys: object) -> None:
    global count
    count += 1
    line = {"v": 1, "seq": count, "t": round(time.monotonic() - begun, 3), "event": event, **keys}
    events.write(json.dumps(line) + "\n")
    events.flush()


def listen() -> None:
    text = b""
    while more := os.read(given.control, 1):
        text += more
        if more == b"\n":
            asked.append(text.decode().strip())
            text = b""
    os.killpg(0, signal.SIGKILL) if hasattr(os, "killpg") else os._exit(1)


def bar(step: int) -> None:
    percent = round(100 * step / total)
    print(f"\r{name}: {percent:3d}%|{'█' * (percent // 10):10}| {step}/{total} [00:00<00:00,  7.12it/s, lr: 1.0e-04 loss: 1.109e+00]", end="", flush=True)


def save(step: int | None) -> None:
    path = root / (f"{name}.safetensors" if step is None else f"{name}_{step:09d}.safetensors")
    header = json.dumps({"lora.weight": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}}).encode()
    whole = len(header).to_bytes(8, "little") + header + bytes([step or 0]) * 16
    path.write_bytes(whole[:-5] if how == "torn_checkpoint" and step is None else whole)
    print(f"\nSaved checkpoint to {path}", flush=True)
    tell("checkpoint", step=step or total, path=str(path), bytes=len(whole))


def phase(which: str, state: str, **peak: float) -> None:
    tell("phase", phase=which, state=state, **({"peak": peak} if peak else {}))


def end(how_it_ended: str, code: int) -> None:
    if how != "no_event":
        tell("finished", how=how_it_ended, steps={"done": total, "total": total, "skipped_batches": 0})
    sys.exit(code)


threading.Thread(target=listen, daemon=True).start()
if how == "stubborn":
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
print(f"Running 1 job\n{json.dumps(process, indent=4)}\n\n#############################################\n# Running job: {name}\n#############################################\n", flush=True)
tell("note", text=json.dumps({"argv": sys.argv[1:], "env": dict(os.environ), "cwd": os.getcwd()}))
phase("load", "begin")
if how == "load_out_of_memory":
    print("Loading UNet", flush=True)
    print("Error running job: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.52 GiB of which 1.01 GiB is free. Including non-PyTorch memory, this process has 22.48 GiB memory in use. Of the allocated memory 22.00 GiB is allocated by PyTorch, and 18.00 MiB is reserved by PyTorch but unallocated.", flush=True)
    print('Traceback (most recent call last):\n  File "/a/run.py", line 120, in main\n    job.run()\n  File "/a/toolkit/stable_diffusion_model.py", line 300, in load_model\n    unet.to(device)\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.52 GiB of which 1.01 GiB is free.', file=sys.stderr, flush=True)
    end("failed", 1)
phase("load", "end", allocated_gib=1.0, reserved_gib=1.25, host_gib=2.0)
if given.until == "load":
    end("finished", 0)
phase("train", "begin")
try:
    for step in range(1, total + 1):
        if how in ("wait", "stubborn", "deaf") and step == 3:
            print("waiting", flush=True)
            while not asked or how == "deaf":
                time.sleep(0.02)
        for word in asked:
            print(f"\nasked to {word}", flush=True)
            if word in ("save", "stop"):
                save(step)
            if word == "sample":
                (root / "samples").mkdir(exist_ok=True)
                (root / "samples" / "1.jpg").write_bytes(b"picture")
                tell("preview", step=step, index=0, path=str(root / "samples" / "1.jpg"), width=64, height=64, frames=1, outcome="made", reason=None)
            if word == "stop":
                end("stopped", 0)
        if asked:
            asked.clear()
            how = "finish"
        if how == "kill_itself" and step == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        if how == "fewer_steps" and step == total:
            break
        tell("step", step=step, total=total, loss=1.0, lr=1e-4, seconds=0.0, bucket=[64, 64, 1], batch=1)
        bar(step)
        if step == 2:
            print(f"\nSaving at step {step}")
            save(step)
except KeyboardInterrupt:
    print("\n========================================\nJob stopped\n", flush=True)
    end("stopped", 0)
phase("train", "end", allocated_gib=2.0, reserved_gib=2.5, device_gib=3.0, host_gib=2.5)
if how != "no_final_save":
    save(None)
end("finished", 3 if how == "exit_code" else 0)
