"""A member of the cast as the list editor shows it."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from ...backend.cast import CastMember, members_with_images
from ..live.thumbnails import small_webp

PIXELS = 96
"""Longer side of a thumbnail: twice the size at which it is shown."""


def shown_member(member: CastMember) -> dict[str, Any]:
    """Return a member as JSON values, with its newest image as a data address of a few kilobytes."""
    shown: dict[str, Any] = {"name": member.name, "kind": member.kind, "traits": list(member.traits)}
    ((_, newest),) = members_with_images([member])
    if newest:
        small = small_webp(newest, PIXELS)
        shown["thumbnail"] = f"data:image/webp;base64,{b64encode(small).decode()}"
    return shown
