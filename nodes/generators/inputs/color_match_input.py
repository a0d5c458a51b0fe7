"""Input `color_match` of several generator nodes."""

from __future__ import annotations

from comfy_api.latest import io

from ....backend.generators.color_match import MATCHES, OFF


def color_match_input() -> io.Combo.Input:
    """Return the input that chooses the image whose colors an edit keeps."""
    return io.Combo.Input(
        "color_match",
        options=list(MATCHES),
        default=OFF,
        optional=True,
        tooltip="Stops color drift, the small color shift that every edit adds. 'to the source' matches the "
        "image that the step edits; 'to the first image' the request's first image, else the first generated "
        "one. Large changes, such as from day to night, stay. 'put back' returns all pixels of the source "
        "image that the edit did not need to change.",
    )
