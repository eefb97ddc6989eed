"""Build a job without writing YAML: from a person's choices, and what AI Toolkit's own form starts with.

``None`` in a choice (for texts: empty) leaves what the form starts with for the architecture. Each part answers with
the job, what the part now says, and what is worth knowing about it.
"""

from .dataset import Dataset, add_dataset, resolutions_of
from .model import NONE, Model, start_job
from .parts import Built
from .sampling import Sampling, prompts_of, set_sampling
from .training import Training, set_training

__all__ = [
    "NONE",
    "Built",
    "Dataset",
    "Model",
    "Sampling",
    "Training",
    "add_dataset",
    "prompts_of",
    "resolutions_of",
    "set_sampling",
    "set_training",
    "start_job",
]
