"""Templates: sentences with typed slots, and their conversion to text.

    Fold {a paper_figure} from [one sheet|a single sheet] of paper.
    Pour {a drink +cold} into {a vessel +glass} and set {drink?plural:them/it} on the table.

`{bank}` is an entry, `{a bank}` an entry with its article; `+tag`, `+one|other` and `-tag` filter entries;
`{bank#2}` is another entry of the same bank; `{bank?tag:yes/no}` depends on a tag of the chosen entry; `{n}`
is the number of images in words; `[one|other]` are equivalent phrasings.

Slots are the content of a request and are filled in a fixed order; phrasings are drawn for each row. So
phrasings contain no slots, and two rows with the same slots have the same content.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

from ....backend.errors import SettingsError
from .banks import NAME, Bank, BankEntry, Condition
from .permutation import Draws

NUMBERS = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
]
MAX_TEMPLATE = 600
MAX_SLOTS = 6
COUNT = "n"
_PIECE = re.compile(r"\{([^{}]*)\}|\[([^\[\]]*)\]")
_SLOT = re.compile(r"^(?P<article>an? )?(?P<name>[a-z][a-z0-9_]*(?:#\d)?)(?P<tags>(?: [+-][a-z0-9_|-]+)*)$")
_FORM = re.compile(r"^(?P<name>[a-z][a-z0-9_]*(?:#\d)?)\?(?P<tag>[a-z0-9_-]+):(?P<yes>[^/]*)/(?P<no>[^/]*)$")
_START = re.compile(r"(?:^|(?<=[.!?] )|(?<=[.!?]\" ))([a-z\u00e0-\u00ff])")


@dataclass(frozen=True)
class Slot:
    """A slot in braces: the name under which it is filled, and how it is written."""

    name: str
    article: bool = False
    tag: str = ""
    yes: str = ""
    no: str = ""

    def written(self, filled: Mapping[str, BankEntry]) -> str:
        """Return the text for the chosen entry."""
        entry = filled[self.name]
        if self.tag:
            return self.yes if self.tag in entry.tags else self.no
        return entry.with_article() if self.article else entry.text


@dataclass(frozen=True)
class Template:
    """A template: its text, the slots with their possible entries, and properties of its images."""

    text: str
    captions: str = ""
    image: bool = False
    slots: tuple[tuple[str, tuple[BankEntry, ...]], ...] = ()
    pieces: tuple[str | Slot | tuple[str, ...], ...] = field(default=(), repr=False)

    @cached_property
    def size(self) -> int:
        """Number of ways to fill the slots."""
        return prod(len(entries) for _, entries in self.slots)

    @property
    def counted(self) -> bool:
        """Whether it states the number of images."""
        return any(isinstance(piece, Slot) and piece.name == COUNT for piece in self.pieces)

    @property
    def lettered(self) -> bool:
        """Whether it asks for words in the image, which are in double quotes."""
        return '"' in self.text

    def filling(self, number: int) -> dict[str, BankEntry] | None:
        """Return filling `number` (0 to size-1), or None if two slots of a bank have the same entry."""
        filled: dict[str, BankEntry] = {}
        for name, entries in self.slots:
            number, at = divmod(number, len(entries))
            filled[name] = entries[at]
        return filled if len({id(entry) for entry in filled.values()}) == len(filled) else None

    def written(self, filled: Mapping[str, BankEntry], draws: Draws, count: int = 0) -> str:
        """Return the text with these entries, drawn phrasings, and the number of images in words."""
        words = []
        for place, piece in enumerate(self.pieces):
            if isinstance(piece, str):
                words.append(piece)
            elif isinstance(piece, Slot):
                words.append(NUMBERS[count] if piece.name == COUNT else piece.written(filled))
            else:
                words.append(piece[draws.pick(f"wording {place}", len(piece))])
        return sentences("".join(words))


def sentences(text: str) -> str:
    """Return the text with single spaces, and capital letters at the beginning of sentences."""
    text = re.sub(r" +([,.;:?!])", r"\1", " ".join(text.split()))
    return _START.sub(lambda found: found.group(1).upper(), text)


def read_template(
    text: str, banks: Mapping[str, Bank], where: str, captions: str = "", image: bool = False
) -> Template:
    """Parse a template.

    Raises:
        SettingsError: It is invalid; it names the place.
    """
    if not text.strip() or len(text) > MAX_TEMPLATE:
        raise SettingsError(f"{where}: invalid length.", f"A template has 1 to {MAX_TEMPLATE} characters.")
    pieces: list[str | Slot | tuple[str, ...]] = []
    slots: dict[str, tuple[BankEntry, ...]] = {}
    at = 0
    for found in _PIECE.finditer(text):
        pieces.append(text[at : found.start()])
        at = found.end()
        inner, wordings = found.groups()
        pieces.append(_slot(inner, banks, slots, where) if inner is not None else tuple(wordings.split("|")))
    pieces.append(text[at:])
    if any(isinstance(piece, str) and set(piece) & set("{}[]|") for piece in pieces):
        raise SettingsError(f"{where}: a bracket is nested or not closed.", "Check {...} and [...|...].")
    if len(slots) > MAX_SLOTS:
        raise SettingsError(f"{where}: too many slots.", f"A template has at most {MAX_SLOTS} slots.")
    for piece in pieces:
        if isinstance(piece, Slot) and piece.name not in slots and piece.name != COUNT:
            raise SettingsError(
                f"{where}: {{{piece.name}?...}} is used without {{{piece.name}}}.",
                "Add the slot, or remove it.",
            )
    kept = tuple(piece for piece in pieces if piece != "")
    return Template(text, captions, image, tuple(slots.items()), kept)


def _slot(inner: str, banks: Mapping[str, Bank], slots: dict[str, tuple[BankEntry, ...]], where: str) -> Slot:
    if inner == COUNT:
        return Slot(COUNT)
    form = _FORM.match(inner)
    if form:
        return Slot(form["name"], tag=form["tag"], yes=form["yes"], no=form["no"])
    found = _SLOT.match(inner)
    if not found:
        raise SettingsError(
            f"{where}: {{{inner[:60]}}} is not a slot.", "Write {bank}, {a bank} or {bank +tag}."
        )
    name, bank_name = found["name"], found["name"].partition("#")[0]
    if not NAME.match(bank_name) or bank_name not in banks:
        raise SettingsError(f"{where}: the bank {bank_name!r} does not exist.", "Add it with --words FOLDER.")
    if name in slots and found["tags"]:
        raise SettingsError(
            f"{where}: tags of {{{name}}} are only allowed at its first use.", "Remove the others."
        )
    if name not in slots:
        condition = _condition(found["tags"])
        entries = banks[bank_name].those(condition)
        if not entries:
            raise SettingsError(
                f"{where}: no entry of {bank_name!r} has the tags of {{{inner[:60]}}}.", "Check the tags."
            )
        slots[name] = entries
    return Slot(name, article=bool(found["article"]))


def _condition(tags: str) -> Condition:
    wanted = tuple(frozenset(one[1:].split("|")) for one in tags.split() if one[0] == "+")
    return Condition(wanted, frozenset(one[1:] for one in tags.split() if one[0] == "-"))
