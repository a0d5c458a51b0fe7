"""Entry point for ComfyUI, and the public API of the package.

ComfyUI imports this folder under its own name and calls `comfy_entrypoint`. Python programs use `from
interleave_thinker import Pipeline`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from comfy_api.latest import ComfyExtension

    from .backend import *  # noqa: F403

WEB_DIRECTORY = "./web"
"""Front-end modules and help pages, served by ComfyUI."""

if "folder_paths" in sys.modules:  # In ComfyUI. Elsewhere, importing the package loads nothing.
    from .nodes.node_texts import check_host

    check_host()


def __getattr__(name: str) -> Any:
    """Return `__version__`, or import a name of the public API (`backend/__init__.py`) on first use."""
    if name == "__version__":
        return _version()
    # pytest imports this file alone, without a package, if the folder's name is not an identifier.
    if "__path__" in globals() and (name == "__all__" or not name.startswith("_")):
        # Not `from . import backend`, because that calls this function for `backend`.
        backend = import_module(".backend", __name__)
        if name in ("__all__", *backend.__all__):
            return getattr(backend, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__getattr__("__all__")})


def _version() -> str:
    """Return the version from pyproject.toml or, once installed, from the package metadata.

    The version is defined only in pyproject.toml, which is next to this file in ComfyUI.
    """
    import re
    from importlib.metadata import version
    from pathlib import Path

    project = Path(__file__).with_name("pyproject.toml")
    if not project.is_file():
        return version("interleave-thinker")
    return re.findall(r'^version = "(.+)"$', project.read_text(encoding="utf-8"), re.MULTILINE)[0]


async def comfy_entrypoint() -> ComfyExtension:
    """Return the node pack. Called only by ComfyUI."""
    from .nodes import InterleaveThinkerExtension

    return InterleaveThinkerExtension()
