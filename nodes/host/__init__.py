"""The host as this pack sees it: folders, interrupt, memory, progress, results, sampling.

Decision: only the files of this package touch `comfy`. Nodes and the sampling adapter speak to these few functions, so that
a change in the host is mended in one place.
"""

from __future__ import annotations

from .folders import AGENT_FOLDER, agent_roots, output_folder, register_folders
from .interrupt import drawing, host_interrupts, stop_if_interrupted
from .memory import AgentModel, ManagedModel
from .progress import NodeProgress, Preview, as_preview, listening_to_steps, report_step
from .results import nothing, shown_images
from .sampling import (
    add_reference,
    empty_latent,
    encode_text,
    flux2_sigmas,
    model_sigmas,
    sample,
    samplers,
    scale,
    schedulers,
    zero_out,
)

__all__ = [
    "AGENT_FOLDER",
    "AgentModel",
    "ManagedModel",
    "NodeProgress",
    "Preview",
    "add_reference",
    "agent_roots",
    "as_preview",
    "drawing",
    "empty_latent",
    "encode_text",
    "flux2_sigmas",
    "host_interrupts",
    "listening_to_steps",
    "model_sigmas",
    "nothing",
    "output_folder",
    "register_folders",
    "report_step",
    "sample",
    "samplers",
    "scale",
    "schedulers",
    "shown_images",
    "stop_if_interrupted",
    "zero_out",
]
