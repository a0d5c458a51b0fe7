"""The host as this pack sees it: folders, interrupt, internals, memory, progress, sampling.

Decision: only the files of this package touch `comfy`. Nodes and the sampling adapter speak to these few
functions, so that a change in the host is mended in one place.
"""

from __future__ import annotations

from .expansion import nothing
from .folders import (
    AGENT_FOLDER,
    agent_roots,
    input_images,
    lora_file,
    lora_names,
    output_folder,
    pipeline_roots,
    register_folders,
)
from .internals import name_errors_plainly, report_missing
from .interrupt import drawing, host_interrupts, interrupted, stop_if_interrupted
from .memory import AgentModel, ManagedModel, agent_device, explaining_out_of_memory, make_room
from .model_traits import check_text, check_vae, model_traits, pipeline_dtype
from .node_registry import call_node, check_node, has_node
from .progress import (
    NodeProgress,
    Preview,
    as_preview,
    is_running,
    listening_to_steps,
    publish,
    report_step,
    running_prompt,
    small_preview,
)
from .routes import Content, Route, register_routes
from .sampling import (
    Guidance,
    Sampling,
    add_guidance,
    add_reference,
    applied_to,
    check_guider,
    empty_latent,
    encode_text,
    flux2_sigmas,
    last_sigmas,
    lay_out_references,
    model_sigmas,
    samplers,
    scale,
    schedulers,
    with_applied,
    with_conditionings,
    zero_out,
)
from .saving import (
    NewName,
    graph_metadata,
    input_folder,
    new_name,
    saved_file,
    shown_files,
    shown_images,
    view_link,
)
from .text import chat_marks, check_writes, write_text

__all__ = [
    "AGENT_FOLDER",
    "AgentModel",
    "Content",
    "Guidance",
    "ManagedModel",
    "NewName",
    "NodeProgress",
    "Preview",
    "Route",
    "Sampling",
    "add_guidance",
    "add_reference",
    "agent_device",
    "agent_roots",
    "applied_to",
    "as_preview",
    "call_node",
    "chat_marks",
    "check_guider",
    "check_node",
    "check_text",
    "check_vae",
    "check_writes",
    "drawing",
    "empty_latent",
    "encode_text",
    "explaining_out_of_memory",
    "flux2_sigmas",
    "graph_metadata",
    "has_node",
    "host_interrupts",
    "input_folder",
    "input_images",
    "interrupted",
    "is_running",
    "last_sigmas",
    "lay_out_references",
    "listening_to_steps",
    "lora_file",
    "lora_names",
    "make_room",
    "model_sigmas",
    "model_traits",
    "name_errors_plainly",
    "new_name",
    "nothing",
    "output_folder",
    "pipeline_dtype",
    "pipeline_roots",
    "publish",
    "register_folders",
    "register_routes",
    "report_missing",
    "report_step",
    "running_prompt",
    "samplers",
    "saved_file",
    "scale",
    "schedulers",
    "shown_files",
    "shown_images",
    "small_preview",
    "stop_if_interrupted",
    "view_link",
    "with_applied",
    "with_conditionings",
    "write_text",
    "zero_out",
]
