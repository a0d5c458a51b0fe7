"""ComfyUI entry point, and the public API by name.

ComfyUI imports this folder under a name of its own and calls `comfy_entrypoint`. Programs write
`from interleave_thinker import Pipeline`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from comfy_api.latest import ComfyExtension

    from .backend import *  # noqa: F403

WEB_DIRECTORY = "./web"
"""Front-end modules and help pages, served by the host."""

if "folder_paths" in sys.modules:  # in ComfyUI; elsewhere importing the package loads nothing
    from .nodes.legacy_stubs import NODE_IDS, stand_ins

    NODE_CLASS_MAPPINGS = stand_ins()
    """Only where ComfyUI is too old for the nodes themselves."""
    NODE_DISPLAY_NAME_MAPPINGS = NODE_IDS if NODE_CLASS_MAPPINGS else None


def __getattr__(name: str) -> Any:
    """Return `__version__`, or a name of the public API (`backend/__init__.py`), imported when it is used."""
    if name == "__version__":
        return _version()
    if name == "__all__" or not name.startswith("_"):
        # Not `from . import backend`, which asks this function for `backend`.
        backend = import_module(".backend", __name__)
        if name in ("__all__", *backend.__all__):
            return getattr(backend, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__getattr__("__all__")})


def _version() -> str:
    """The version stands in pyproject.toml alone: beside this file in ComfyUI, in the package's metadata once
    installed."""
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
