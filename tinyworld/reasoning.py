"""Converts the tiny critic's reasoning to sentences, for page, live view, nodes and command line.

The critic, with two million weights, writes comparisons like "was left red boat want left nothing see left
red boat no" for each cell. They are parsed and written as sentences, errors first. A text that does not fully
match this format, or contradicts itself, is shown unchanged, because an invented reading would be worse.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .scene import BACKDROPS, CELLS, COLORS, THINGS

_PLACE = "|".join(sorted(CELLS, key=len, reverse=True))
_THING = rf"nothing|(?:{'|'.join(COLORS)}) (?:{'|'.join(THINGS)})"
_PAGE = "|".join(BACKDROPS)
_BACKDROP_PART = re.compile(
    rf"was page (?:blank|{_PAGE}) want page (?P<want>{_PAGE}) see page (?P<see>{_PAGE}) (?P<word>yes|no)"
)
_CELL_PART = re.compile(
    rf"was (?P<place>{_PLACE}) (?P<was>{_THING}) want (?P=place) (?P<want>{_THING}) "
    rf"see (?P=place) (?P<see>{_THING}|smudge)(?P<words>:? [a-z ,]+)"
)
_END = re.compile(r"so (?P<word>yes|no)")
NOTHING = "nothing"
SMUDGE = "smudge"


@dataclass(frozen=True)
class _Cell:
    """Earlier, expected and actual content of a cell."""

    place: str
    was: str
    want: str
    see: str

    @property
    def is_right(self) -> bool:
        return self.want == self.see

    @property
    def where(self) -> str:
        return f"{'in' if self.place == 'middle' else 'at'} the {self.place}"

    def fault(self) -> str:
        """Return what is wrong, as a sentence."""
        start = self.where.capitalize()
        if self.see == SMUDGE:
            return f"{start} there should be {_a(self.want)}, but what is there cannot be made out."
        if self.see == NOTHING:
            lost = "it is gone" if self.was == self.want else "there is nothing"
            return f"{start} there should be a {self.want}, but {lost}."
        if self.want == NOTHING:
            if self.was == self.see:
                return f"{start} the {self.see} should be gone, but it is still there."
            return f"{start} there should be nothing, but there is {_a(self.see)}."
        stays = "still be" if self.was == self.want else "be"
        return f"{start} there should {stays} a {self.want}, but there is a {self.see}."


def as_english(text: str) -> str:
    """Return the tiny critic's reasoning in sentences; other texts are returned unchanged."""
    first, *middle, last = [part.strip() for part in text.strip().split(";")] if ";" in text else ["", ""]
    page, end = _BACKDROP_PART.fullmatch(first), _END.fullmatch(last)
    cells = [_cell(part) for part in middle]
    if not page or not end or None in cells:
        return text
    read = [cell for cell in cells if cell]
    page_right = page["want"] == page["see"]
    wrong = [cell for cell in read if not cell.is_right]
    if (page["word"] == "yes") != page_right or (end["word"] == "yes") != (page_right and not wrong):
        return text
    lines = [] if page_right else [f"The page should be {page['want']}, but it is {page['see']}."]
    lines += [cell.fault() for cell in wrong]
    right = [f"the {page['see']} page"] if page_right else []
    right += [f"{_a(cell.see)} {cell.where}" for cell in read if cell.is_right and cell.see != NOTHING]
    gone = [f"the {cell.was} {cell.where} is gone" for cell in read if cell.is_right and cell.see == NOTHING]
    if right:
        lines.append(f"{'As it should be' if lines else 'All is as it should be'}: {_list(right)}.")
    if gone:
        sentence = _list(gone)
        lines.append(f"{sentence[0].upper()}{sentence[1:]}, as it should be.")
    return " ".join(lines)


def _cell(part: str) -> _Cell | None:
    """Parse a cell of the reasoning; `None` if it is invalid or its yes or no contradicts its content."""
    found = _CELL_PART.fullmatch(part)
    if not found:
        return None
    cell = _Cell(found["place"], found["was"], found["want"], found["see"])
    said = set(re.findall(r"\b(?:yes|no)\b", found["words"]))
    return cell if said and ("no" not in said) == cell.is_right else None


def _a(thing: str) -> str:
    return thing if thing == NOTHING else f"a {thing}"


def _list(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
