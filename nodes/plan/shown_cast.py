"""A connected cast in the list editor: its members with thumbnails, and the check of their names."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from ...backend.cast import CastMember
from ...backend.feedback.live.thumbnails import small_webp
from ...backend.plan_editor.edited_plan import EditedPlan

PIXELS = 96
"""Longer side of a thumbnail: twice the size at which it is shown."""


def shown_member(member: CastMember) -> dict[str, Any]:
    """Return a member as JSON values, with its newest image as a data address of a few kilobytes."""
    shown: dict[str, Any] = {"name": member.name, "kind": member.kind, "traits": list(member.traits)}
    if member.newest:
        small = small_webp(member.newest, PIXELS)
        shown["thumbnail"] = f"data:image/webp;base64,{b64encode(small).decode()}"
    return shown


def with_unknown(edits: EditedPlan, connected: tuple[CastMember, ...] | None) -> tuple[CastMember, ...]:
    """Return the connected members and those that steps name.

    The browser may not know a connected cast, so a name is checked only if nothing is connected.
    """
    if connected is None:
        return ()
    known = {member.name.casefold() for member in (*connected, *edits.cast)}
    named = {name.casefold(): name for one in edits.steps for name in one.step.cast or ()}
    unknown = [CastMember(name=name) for key, name in named.items() if key not in known]
    return (*connected, *unknown)
