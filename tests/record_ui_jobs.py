"""Records what AI Toolkit's own form starts a job with, by running the form's code: python tests/record_ui_jobs.py.

Needs node, npx (esbuild) and HEADROOM_AI_TOOLKIT, and writes tests/recorded_ui_jobs.json: for each architecture the
digest of the first process, its keys in their order. ``--show ARCH`` prints a process instead.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).with_name("recorded_ui_jobs.json")
_FORM = """
import { modelArchs } from '@/app/jobs/new/options';
import { defaultJobConfig } from '@/app/jobs/new/jobConfig';
import { handleModelArchChange } from '@/app/jobs/new/utils';
import { setNestedValue } from '@/utils/hooks';
const found: any = {};
for (const arch of modelArchs) {
  let job: any = JSON.parse(JSON.stringify(defaultJobConfig));
  const set = (value: any, key: string) => { job = setNestedValue(job, value, key); };
  handleModelArchChange(job.config.process[0].model.arch, arch.name, job, set);
  found[arch.name] = job.config.process[0];
}
console.log(JSON.stringify(found));
"""
_NOTHING = """
const nothing = () => null;
module.exports = new Proxy(function () {}, { get: (_, name) => (name === "__esModule" ? false : nothing) });
"""


def digest(process: dict[str, Any]) -> str:
    """A digest of a process without what a person fills in: the dataset's folder, the preview's prompts and switch."""
    plain = json.loads(json.dumps(process))
    plain["sample"]["samples"] = []
    plain["train"]["disable_sampling"] = False
    for dataset in plain["datasets"]:
        dataset["folder_path"] = None
    return hashlib.sha256(json.dumps(plain).encode()).hexdigest()[:16]


def _started() -> dict[str, Any]:
    source = Path(os.environ["HEADROOM_AI_TOOLKIT"], "ui", "src").resolve()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "form.ts").write_text(_FORM, encoding="utf-8")
        Path(folder, "nothing.js").write_text(_NOTHING, encoding="utf-8")
        without = [f"--alias:{name}=./nothing.js" for name in ("react", "react/jsx-runtime", "next/link")]
        bundle = ["npx", "--yes", "esbuild", "form.ts", "--bundle", "--platform=node", "--jsx=transform"]
        bundle += [f"--alias:@={source}", *without, "--log-level=error", "--outfile=form.js"]
        subprocess.run(bundle, cwd=folder, check=True)
        done = subprocess.run(["node", "form.js"], cwd=folder, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


if __name__ == "__main__":
    started = _started()
    if sys.argv[1:2] == ["--show"]:
        json.dump(started[sys.argv[2]], sys.stdout, indent=2)
    else:
        digests = {arch: digest(process) for arch, process in sorted(started.items())}
        RECORDED.write_text(json.dumps(digests, indent=2) + "\n", encoding="utf-8")
