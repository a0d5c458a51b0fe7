"""What the pack reads of the host that the host promises to nobody.

Decision: every such thing is named here, looked for once when the pack is loaded, and read through one
function that does without it. Where a newer host has it no more, one line of the log says what is different
now, and everything else works.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ...backend.errors import InterleaveError

ALWAYS_CHANGED = float("nan")


@dataclass(frozen=True)
class Internal:
    """Something in one of the host's modules, and what is different where it is not there."""

    module: str
    name: str
    without: str

    def found(self) -> Any | None:
        """The thing itself, None if this host has none."""
        try:
            return getattr(importlib.import_module(self.module), self.name, None)
        except ImportError:
            return None


CHANGES = Internal(
    "execution",
    "IsChangedCache",
    "with --cache-none, Try Close draws anew what is made with nodes that watch for changes",
)
LOADED = Internal(
    "comfy.model_management",
    "current_loaded_models",
    "an agent stays on the card until ComfyUI wants the room",
)


def report_missing() -> None:
    """Write one line to the log for each that this host does not have."""
    for one in (CHANGES, LOADED):
        if one.found() is None:
            logging.warning(
                "InterleaveThinker: this ComfyUI has no %s.%s: %s.", one.module, one.name, one.without
            )


async def settle_changes(dynprompt: Any, names: Iterable[str]) -> None:
    """Have the host ask these nodes whether they changed (IS_CHANGED); it leaves the answer at each of them,
    as `is_changed`.

    It does so by itself for every node unless it keeps no cache. Where it cannot be asked, a node that
    watches for changes and has no answer yet counts as one that always changes.
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
    """Whether nodes of this class say themselves when they have changed."""
    from comfy_api.latest import io

    from nodes import NODE_CLASS_MAPPINGS

    kind = NODE_CLASS_MAPPINGS.get(class_type)
    # Newer nodes have it under another name, and all of them inherit one that says nothing.
    own = getattr(kind, "fingerprint_inputs", None)
    inherited = getattr(io.ComfyNode, "fingerprint_inputs", None)
    if own is not None:
        return getattr(own, "__func__", own) is not getattr(inherited, "__func__", inherited)
    return hasattr(kind, "IS_CHANGED")


def unload(patcher: object) -> bool:
    """Take a model off the card and out of the host's list; False where it is not there, or there is no such
    list."""
    everything: list[Any] = LOADED.found() or []
    for loaded in [one for one in everything if one.model is patcher]:
        loaded.model_unload()
        everything.remove(loaded)
        return True
    return False


def name_errors_plainly() -> None:
    """Have errors shown as `interleave_thinker.SettingsError`. The host calls a pack's modules by the path of
    its folder, and front ends show that before the message."""
    kinds: list[type[InterleaveError]] = [InterleaveError]
    for kind in kinds:
        kind.__module__ = "interleave_thinker"
        kinds += kind.__subclasses__()
