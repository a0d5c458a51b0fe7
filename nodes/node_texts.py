"""Texts of the nodes, and the check that ComfyUI is new enough for them."""

from __future__ import annotations

import inspect
import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

OLDEST = "0.14.0"


@cache
def node_texts() -> dict[str, Any]:
    """Return the English texts of all nodes by id: name, description, and those of inputs and outputs."""
    file = Path(__file__).resolve().parents[1] / "locales" / "en" / "nodeDefs.json"
    return json.loads(file.read_text(encoding="utf-8"))


def node_names() -> dict[str, str]:
    """Return the display names of all nodes by id."""
    return {node: texts["display_name"] for node, texts in node_texts().items()}


def check_host() -> None:
    """Check that this ComfyUI is new enough for the pack. ComfyUI prints the error.

    Raises:
        ImportError: It is not.
    """
    if not is_new_enough():
        version = getattr(sys.modules.get("comfyui_version"), "__version__", "an older one")
        raise ImportError(
            f"InterleaveThinker needs ComfyUI {OLDEST} or newer; this is {version}. "
            "Update ComfyUI (Manager: Update ComfyUI), then restart it."
        )


def is_new_enough() -> bool:
    """Return whether the host has the node API that the pack needs."""
    try:
        from comfy_api.latest import io
    except ImportError:
        return False
    needed = {"search_aliases", "enable_expand", "not_idempotent"}
    return needed <= {*inspect.signature(io.Schema).parameters} and hasattr(io, "DynamicCombo")
