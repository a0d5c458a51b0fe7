"""A font without shapes, for text that can be selected but is invisible.

It has an empty glyph for each letter of a document. Text in every script can therefore be selected without an
installed font, and no third-party font is embedded.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

UNITS, ADVANCE, ASCENT, DESCENT = 1000, 500, 1000, -250
"""Units per em, width of each letter, and the selected height above and below the baseline."""
MAX_LETTERS = 65_000
"""Maximum number of letters. A TrueType font can have 65,535 glyphs."""
DATE = 3_786_912_000
"""Seconds from 1904 to 2024. Fixed, so that the same letters give the same file."""


def write_hidden_font(letters: Iterable[str], path: Path) -> None:
    """Write a TrueType font with an empty glyph for each of the letters."""
    from fontTools.fontBuilder import FontBuilder
    from fontTools.ttLib.tables._g_l_y_f import Glyph

    # fpdf2 rejects an empty font, which pages without text would have.
    codes = sorted(map(ord, {" ", *letters}))[:MAX_LETTERS]
    names = {code: f"u{code:X}" for code in codes}
    order = [".notdef", *names.values()]
    font = FontBuilder(UNITS, isTTF=True)
    font.setupHead(unitsPerEm=UNITS, created=DATE, modified=DATE)
    font.font.recalcTimestamp = False
    font.setupGlyphOrder(order)
    font.setupCharacterMap(names)
    font.setupGlyf({name: Glyph() for name in order})
    font.setupHorizontalMetrics({name: (ADVANCE, 0) for name in order})
    font.setupHorizontalHeader(ascent=ASCENT, descent=DESCENT)
    font.setupNameTable({"familyName": "Hidden", "styleName": "Regular", "psName": "Hidden"})
    font.setupOS2()
    font.setupPost()
    font.save(path)
