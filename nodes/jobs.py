"""Load a job into the graph, and save one from it."""

from __future__ import annotations

from pathlib import Path

import folder_paths
from comfy_api.latest import io

from .errors import InputError, told_in
from .language import languages
from .places import places
from .sockets import CATEGORY, CarriedJob, JobSocket
from .sources import NO_JOB, fingerprint, names
from .wording import described


class HeadroomLoadJob(io.ComfyNode):
    """An AI Toolkit job from a file or from pasted text."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return described(
            io.Schema(
                node_id="HeadroomLoadJob",
                category=CATEGORY,
                inputs=[io.Combo.Input("job_file", options=[NO_JOB, *names("job", places())], default=NO_JOB)],
                outputs=[JobSocket.Output("job")],
                is_output_node=True,
            )
        )

    @classmethod
    def validate_inputs(cls, job_file: str) -> bool:
        return True  # read_named_job checks it, and says what to do; ComfyUI would only say "not in list"

    @classmethod
    def fingerprint_inputs(cls, job_file: str) -> str:
        return fingerprint(job_file, "job", places())

    @classmethod
    def execute(cls, job_file: str) -> io.NodeOutput:
        from .panels import job_panel
        from .reading import read_named_job

        with told_in(languages("auto")[0]):
            carried = read_named_job(job_file)
        return io.NodeOutput(carried, ui=job_panel(carried))


class HeadroomSaveJob(io.ComfyNode):
    """A job as a file in the output folder."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return described(
            io.Schema(
                node_id="HeadroomSaveJob",
                category=CATEGORY,
                inputs=[JobSocket.Input("job"), io.String.Input("name", default="", optional=True)],
                outputs=[io.String.Output("path"), io.String.Output("text")],
                is_output_node=True,
            )
        )

    @classmethod
    def execute(cls, job: CarriedJob | None, name: str = "") -> io.NodeOutput:
        from .panels import saved_panel
        from .saving import write_job

        output = Path(folder_paths.get_output_directory())
        with told_in(languages("auto")[0]):
            if job is None:
                raise InputError("no_corrected_job")
            path = write_job(job, name, output / "headroom")
        return io.NodeOutput(str(path), job.job.text, ui=saved_panel(job, path, output))
