"""ComfyUI entry point: the host imports this folder under a name of its own and calls `comfy_entrypoint`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from comfy_api.latest import ComfyExtension

__version__ = "0.1.0"
WEB_DIRECTORY = "./web"
"""Front-end modules and help pages, served by the host."""

if "folder_paths" in sys.modules:  # in ComfyUI; elsewhere importing the package loads nothing
    from .nodes.old_host import NODE_IDS, stand_ins

    NODE_CLASS_MAPPINGS = stand_ins()
    """Only where ComfyUI is too old for the nodes themselves."""
    NODE_DISPLAY_NAME_MAPPINGS = NODE_IDS if NODE_CLASS_MAPPINGS else None


async def comfy_entrypoint() -> ComfyExtension:
    """Return the node pack; called by ComfyUI only."""
    from .nodes import InterleaveThinkerExtension

    return InterleaveThinkerExtension()
