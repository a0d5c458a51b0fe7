"""Stand-ins for the modules of ComfyUI that the nodes import, so that their schemas can be read without it.

The classes of `comfy_api.latest.io` record what a node declares. All other modules of the host only have to
be importable: a schema asks them for lists of folders, samplers and schedules alone.
"""

from __future__ import annotations

import sys
from enum import Enum
from types import ModuleType
from typing import Any

HOST_MODULES = (
    "aiohttp", "aiohttp.web", "comfy", "comfy.cli_args", "comfy.model_management", "comfy.model_patcher",
    "comfy.sample", "comfy.samplers", "comfy.sd", "comfy.sd1_clip", "comfy.utils", "comfy_api",
    "comfy_api.latest", "comfy_execution", "comfy_execution.graph_utils", "comfy_execution.progress",
    "comfy_execution.utils", "folder_paths", "latent_preview", "node_helpers", "nodes", "server",
)  # fmt: skip
FROM_COMFYUI = "(ComfyUI's list)"


class Recorded:
    """An input or output as a node declares it: its type, id and options."""

    kind = "*"

    def __init__(self, id: str | None = None, **options: Any) -> None:
        self.id, self.options = id or "", options
        self.advanced = False
        self.force_input = options.get("force_input")


class Kind:
    """A type of sockets or widgets."""

    def __init__(self, name: str) -> None:
        self.Input = self.Output = type(name, (Recorded,), {"kind": name})


class Template:
    """How many inputs grow out of one, and of which kind."""

    def __init__(self, input: Recorded, names: list[str] | None = None, **bounds: Any) -> None:
        self.input = input
        self.most = len(names) if names else bounds["max"]


class Schema:
    """What a node declares of itself."""

    def __init__(self, **declared: Any) -> None:
        self.declared = declared
        self.inputs: list[Recorded] = declared.get("inputs") or []
        self.outputs: list[Recorded] = declared.get("outputs") or []


class Anything(ModuleType):
    """A module of the host in which every name exists."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


class Io(ModuleType):
    """`comfy_api.latest.io`: every other name in it is a type."""

    AnyType, Autogrow = Kind("*"), Kind("AUTOGROW")
    Autogrow.TemplatePrefix = Autogrow.TemplateNames = Template  # type: ignore[attr-defined]
    ComfyNode = HiddenHolder = NodeOutput = type("ComfyNode", (), {})
    ControlAfterGenerate = Enum("ControlAfterGenerate", "fixed increment decrement randomize")
    Hidden = Enum("Hidden", "unique_id prompt extra_pnginfo dynprompt")
    Custom, Schema = Kind, Schema
    Input = Output = Recorded

    def __getattr__(self, name: str) -> Kind:
        kind = Kind(name.upper())
        setattr(self, name, kind)
        return kind


def install() -> None:
    """Put the stand-ins into `sys.modules`. The process cannot use a real ComfyUI afterwards."""
    modules = {name: Anything(name) for name in HOST_MODULES}
    for name, module in modules.items():
        module.__path__ = []
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(modules[parent], child, module)
    sys.modules.update(modules)
    modules["comfy_api.latest"].__dict__.update(io=Io("io"), ui=Anything("ui"))
    modules["comfy.samplers"].__dict__.update(SAMPLER_NAMES=[FROM_COMFYUI], SCHEDULER_NAMES=[FROM_COMFYUI])
    modules["folder_paths"].__dict__.update(
        models_dir="ComfyUI/models",
        folder_names_and_paths={"interleave_agents": None},
        get_folder_paths=lambda name: [f"ComfyUI/models/{name}"],
        get_filename_list=lambda name: [],
        get_output_directory=lambda: "ComfyUI/output",
        get_input_directory=lambda: "ComfyUI/input",
    )
