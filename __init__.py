"""Headroom: LoRA training with AI Toolkit that never loses a run to CUDA out of memory. Nodes for ComfyUI."""

from __future__ import annotations

try:
    from comfy_api.latest import ComfyExtension, io
except ImportError as missing:
    raise ImportError(
        "Headroom needs ComfyUI 0.3.48 or newer (its V3 node interface). Update ComfyUI, then start it again."
    ) from missing

from .nodes import dropping, routes, run_routes  # noqa: F401  (registers them)

WEB_DIRECTORY = "./js"


class HeadroomExtension(ComfyExtension):
    """Tells ComfyUI which nodes exist."""

    async def get_node_list(self) -> list[type[io.ComfyNode]]:
        """The nodes, in the order of the menu."""
        from .nodes.budget import HeadroomMemoryBudget
        from .nodes.building import HeadroomDataset, HeadroomModel, HeadroomSampling, HeadroomTraining
        from .nodes.diagnosis import HeadroomOOMClassifier, HeadroomShowDiagnosis
        from .nodes.jobs import HeadroomLoadJob, HeadroomSaveJob
        from .nodes.loras import HeadroomApplyLoRA
        from .nodes.run_check import HeadroomLoadCheck
        from .nodes.run_preview import HeadroomPreviewSample
        from .nodes.run_train import HeadroomTrain

        return [
            HeadroomLoadJob,
            HeadroomModel,
            HeadroomDataset,
            HeadroomTraining,
            HeadroomSampling,
            HeadroomMemoryBudget,
            HeadroomLoadCheck,
            HeadroomTrain,
            HeadroomPreviewSample,
            HeadroomApplyLoRA,
            HeadroomOOMClassifier,
            HeadroomShowDiagnosis,
            HeadroomSaveJob,
        ]


async def comfy_entrypoint() -> HeadroomExtension:
    """Called by ComfyUI when it loads the pack."""
    return HeadroomExtension()
