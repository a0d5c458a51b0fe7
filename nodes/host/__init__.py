"""Interface to the host: folders, interrupt, internals, memory, progress, sampling.

Only this package imports `comfy`. Nodes and the sampling adapter use these few functions, so a change in the
host affects one place.
"""

# ruff: noqa: F401 - the names that nodes use as host.NAME

from __future__ import annotations

from .files import (
    NewName,
    agent_roots,
    graph_metadata,
    input_folder,
    input_images,
    lora_file,
    lora_name,
    lora_names,
    new_name,
    output_folder,
    pipeline_roots,
    prefix_fault,
    register_folders,
    saved_file,
    shown_files,
    shown_images,
    view_link,
)
from .internals import name_errors_plainly, report_missing
from .memory import ManagedModel, agent_device, explaining_out_of_memory, make_room
from .progress import (
    NodeProgress,
    Preview,
    as_preview,
    drawing,
    host_interrupts,
    interrupted,
    is_running,
    listening_to_steps,
    publish,
    running_node,
    running_prompt,
    small_preview,
    stop_if_interrupted,
)
from .routes import Content, Route, register_routes
from .running_graph import call_node, check_node, graph_of, nothing
from .sampling import (
    Guidance,
    Sampling,
    add_guidance,
    add_reference,
    applied_to,
    check_guider,
    check_text,
    check_vae,
    empty_latent,
    encode_text,
    flux2_sigmas,
    last_sigmas,
    lay_out_references,
    model_sigmas,
    model_traits,
    pipeline_dtype,
    samplers,
    scale,
    schedulers,
    with_applied,
    with_conditionings,
    with_lora,
    zero_out,
)
from .text import chat_marks, check_writes, write_text
