"""The switch "colour match" as several generator nodes offer it, with one wording."""

from __future__ import annotations

COLOR_MATCH_TIP = (
    "Undo the small shift of all colours that every edit adds, by what source and result have in common. "
    "To the first image: "
    "the request's, or the first one drawn. A change of colour that a step asks for stays."
)
