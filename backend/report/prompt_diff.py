"""Word-by-word differences between two prompts, for display."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from typing import Literal, NamedTuple

WORD = re.compile(r"\s+|\w+|[^\w\s]")
MAX_PAIRS = 40_000


class Piece(NamedTuple):
    """A run of text that is unchanged, inserted or deleted."""

    kind: Literal["same", "ins", "del"]
    text: str


def changes(before: str, after: str) -> list[Piece]:
    """Return the pieces of a comparison.

    Without the "del" pieces they give `after`, without the "ins" pieces `before`. Long or repetitive text
    between the common start and the common end is replaced as a whole (more than `MAX_PAIRS` pairs of equal
    words), since comparing it word by word takes more than quadratic time.
    """
    old, new = WORD.findall(before), WORD.findall(after)
    if before == after:
        return [Piece("same", after)] if after else []
    first = _alike(old, new)
    last = _alike(old[first:][::-1], new[first:][::-1])
    head, tail = "".join(old[:first]), "".join(old[len(old) - last :])
    old, new = old[first : len(old) - last], new[first : len(new) - last]
    middle = _compared(old, new) if _pairs(old, new) <= MAX_PAIRS else _exchanged(old, new)
    whole = [Piece("same", head), *middle, Piece("same", tail)]
    return _join([piece for piece in whole if piece.text])


def _alike(old: list[str], new: list[str]) -> int:
    """Return the number of words that both start with."""
    return next(
        (index for index, (one, other) in enumerate(zip(old, new, strict=False)) if one != other),
        min(len(old), len(new)),
    )


def _pairs(old: list[str], new: list[str]) -> int:
    """Return the number of pairs of equal words."""
    counts = Counter(new)
    return sum(counts[word] for word in old)


def _exchanged(old: list[str], new: list[str]) -> list[Piece]:
    return [Piece("del", "".join(old)), Piece("ins", "".join(new))]


def _compared(old: list[str], new: list[str]) -> list[Piece]:
    pieces: list[Piece] = []
    for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            pieces.append(Piece("same", "".join(new[j1:j2])))
            continue
        pieces += [Piece("del", "".join(old[i1:i2]))] if i1 < i2 else []
        pieces += [Piece("ins", "".join(new[j1:j2]))] if j1 < j2 else []
    return pieces


def _join(pieces: list[Piece]) -> list[Piece]:
    """Replace single spaces between changes, so that a replaced phrase is shown as one change."""
    joined: list[Piece] = []
    for index, piece in enumerate(pieces):
        alone = piece.kind == "same" and piece.text.isspace() and 0 < index < len(pieces) - 1
        for kind in ("del", "ins") if alone else (piece.kind,):
            _append(joined, Piece(kind, piece.text))  # type: ignore[arg-type]
    return joined


def _append(pieces: list[Piece], piece: Piece) -> None:
    # Within one change, all deleted text comes before all inserted text.
    last = len(pieces) - 1
    if piece.kind == "del" and last >= 0 and pieces[last].kind == "ins":
        at = last - 1 if last >= 1 and pieces[last - 1].kind == "del" else None
        if at is None:
            pieces.insert(last, piece)
        else:
            pieces[at] = Piece("del", pieces[at].text + piece.text)
    elif last >= 0 and pieces[last].kind == piece.kind:
        pieces[last] = Piece(piece.kind, pieces[last].text + piece.text)
    else:
        pieces.append(piece)
