"""ComfyUI entry point: the host imports this folder under a name of its own and calls `comfy_entrypoint`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from comfy_api.latest import ComfyExtension

WEB_DIRECTORY = "./web"
"""Front-end modules and help pages, served by the host."""

if "folder_paths" in sys.modules:  # in ComfyUI; elsewhere importing the package loads nothing
    from .nodes.legacy_stubs import NODE_IDS, stand_ins

    NODE_CLASS_MAPPINGS = stand_ins()
    """Only where ComfyUI is too old for the nodes themselves."""
    NODE_DISPLAY_NAME_MAPPINGS = NODE_IDS if NODE_CLASS_MAPPINGS else None


def __getattr__(name: str) -> str:
    """`__version__`, which stands in pyproject.toml alone: beside this file in ComfyUI, in the package's
    metadata once installed."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import re
    from importlib.metadata import version
    from pathlib import Path

    project = Path(__file__).with_name("pyproject.toml")
    if not project.is_file():
        return version("interleave-thinker")
    return re.findall(r'^version = "(.+)"$', project.read_text(encoding="utf-8"), re.MULTILINE)[0]


async def comfy_entrypoint() -> ComfyExtension:
    """Return the node pack; called by ComfyUI only."""
    from .nodes import InterleaveThinkerExtension

    return InterleaveThinkerExtension()
