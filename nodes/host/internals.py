"""Internals of the host that are not part of its API.

Each one is listed here, searched once when the pack loads, and used through one function that works without
it. If a newer host lacks it, one line of the log explains the difference, and everything else works.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ...backend.core.errors import InterleaveError

ALWAYS_CHANGED = float("nan")


@dataclass(frozen=True)
class Internal:
    """A name in one of the host's modules, and what is different without it."""

    module: str
    name: str
    without: str

    def found(self) -> Any | None:
        """Return the object, `None` if this host does not have it."""
        try:
            return getattr(importlib.import_module(self.module), self.name, None)
        except ImportError:
            return None


CHANGES = Internal(
    "execution",
    "IsChangedCache",
    "with --cache-none, Attempt End generates images again if a node before it detects changes",
)
LOADED = Internal(
    "comfy.model_management",
    "current_loaded_models",
    "an agent stays on the GPU until ComfyUI needs the memory",
)


def report_missing() -> None:
    """Log one line for each internal that this host does not have."""
    for one in (CHANGES, LOADED):
        if one.found() is None:
            logging.warning(
                "InterleaveThinker: this ComfyUI does not have %s.%s: %s.", one.module, one.name, one.without
            )


async def settle_changes(dynprompt: Any, names: Iterable[str]) -> None:
    """Have the host compute `is_changed` of these nodes (IS_CHANGED).

    The host does so on its own unless it keeps no cache. If it cannot be asked, a node that detects changes
    and has no result yet counts as always changed.
    """
    present = [name for name in names if dynprompt.has_node(name)]
    made = CHANGES.found()
    if made is not None:
        changes = made("", dynprompt, None)
        for name in present:
            await changes.get(name)
        return
    for node in map(dynprompt.get_node, present):
        if watches_for_changes(node["class_type"]):
            node.setdefault("is_changed", ALWAYS_CHANGED)


def watches_for_changes(class_type: str) -> bool:
    """Return whether nodes of this class detect changes themselves."""
    from comfy_api.latest import io

    from nodes import NODE_CLASS_MAPPINGS

    kind = NODE_CLASS_MAPPINGS.get(class_type)
    # Newer nodes use another name, and all of them inherit a default.
    own = getattr(kind, "fingerprint_inputs", None)
    inherited = getattr(io.ComfyNode, "fingerprint_inputs", None)
    if own is not None:
        return getattr(own, "__func__", own) is not getattr(inherited, "__func__", inherited)
    return hasattr(kind, "IS_CHANGED")


def unload(patcher: object) -> bool:
    """Unload a model from the GPU and the host's list; return False if it is not in the list."""
    everything: list[Any] = LOADED.found() or []
    for loaded in [one for one in everything if one.model is patcher]:
        loaded.model_unload()
        everything.remove(loaded)
        return True
    return False


def name_errors_plainly() -> None:
    """Show errors as `interleave_thinker.SettingsError`.

    The host names a pack's modules by the path of its folder, and front ends show that before the message.
    """
    kinds: list[type[InterleaveError]] = [InterleaveError]
    for kind in kinds:
        kind.__module__ = "interleave_thinker"
        kinds += kind.__subclasses__()
