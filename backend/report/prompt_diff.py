"""What changed between two prompts, word by word, for a reader's eye."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from typing import Literal, NamedTuple

WORD = re.compile(r"\s+|\w+|[^\w\s]")
MAX_PAIRS = 40_000


class Piece(NamedTuple):
    """A run of text that was kept, put in or taken out."""

    kind: Literal["same", "ins", "del"]
    text: str


def changes(before: str, after: str) -> list[Piece]:
    """Pieces that give `after` without the "del" ones and `before` without the "ins" ones.

    What stands between the words that both begin and end with is compared as a whole where it is long or
    repeats itself (over MAX_PAIRS equal pairs of words): the comparison word by word takes more than the
    square of the length for that.
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
    """How many words both begin with."""
    return next(
        (index for index, (one, other) in enumerate(zip(old, new, strict=False)) if one != other),
        min(len(old), len(new)),
    )


def _pairs(old: list[str], new: list[str]) -> int:
    """How many pairs of equal words there are."""
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
    """Close single blanks between changes, so that a replaced phrase reads as one change and not as
    confetti."""
    joined: list[Piece] = []
    for index, piece in enumerate(pieces):
        alone = piece.kind == "same" and piece.text.isspace() and 0 < index < len(pieces) - 1
        for kind in ("del", "ins") if alone else (piece.kind,):
            _append(joined, Piece(kind, piece.text))  # type: ignore[arg-type]
    return joined


def _append(pieces: list[Piece], piece: Piece) -> None:
    # Within one change all that was taken out stands before all that was put in.
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
