"""The input "color match" of several generator nodes."""

from __future__ import annotations

from comfy_api.latest import io

from ...backend.generators.color_match import MATCHES, OFF


def color_match_input() -> io.Combo.Input:
    """Which image's colors an edit is matched to."""
    return io.Combo.Input(
        "color_match",
        options=list(MATCHES),
        default=OFF,
        optional=True,
        advanced=True,
        tooltip="Undo the small shift of all colours that every edit adds, by what source and result have in "
        "common. To the first image: the request's, or the first one drawn. A change of colour that a step "
        "asks for stays.",
    )
