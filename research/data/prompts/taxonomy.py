"""What requests are made of: word banks, templates with slots, and the taxonomy that arranges them.

A bank is a file of `text: tags` lines. Countable entries in the singular have no article; the tags `plural`,
`mass` and `proper` mark entries that never get one. A template is a sentence with typed slots:

    Fold {a paper_figure} from [one sheet|a single sheet] of paper.
    Pour {a drink +cold} into {a vessel +glass} and set {drink?plural:them/it} on the table.

`{bank}` is an entry, `{a bank}` an entry with its article; `+tag`, `+one|other` and `-tag` filter entries;
`{bank#2}` is another entry of the same bank; `{bank?tag:yes/no}` depends on a tag of the chosen entry; `{n}`
is the number of images in words; `[one|other]` are equivalent phrasings. Slots are the content of a request,
so two rows with the same slots have the same content. `taxonomy.yaml` names the categories;
`templates/CATEGORY.yaml` has the templates of its sub-categories, and `templates/sentences.yaml` the
sentences that any request may end with.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

from ....backend.core.machine.libraries import require

FOLDER = Path(__file__).parent
NUMBERS = (
    *("zero", "one", "two", "three", "four", "five", "six"),
    *("seven", "eight", "nine", "ten", "eleven", "twelve"),
)
COUNT = "n"
ANY = "any"
WITHOUT_ARTICLE = frozenset(("plural", "mass", "proper"))
_VOWEL = re.compile(r"^(?:hour|honest|heir|[aeiou\u00e0-\u00e6\u00e8-\u00ef\u00f2-\u00f6])", re.IGNORECASE)
_LIKE_YOU = re.compile(r"^(?:uni(?!n|m)|us[aeu]|eu|ukulele|ute|uto|u-|ubi|one\b|once\b|ewe\b)", re.IGNORECASE)
_PIECE = re.compile(r"\{([^{}]*)\}|\[([^\[\]]*)\]")
_SLOT = re.compile(r"^(?P<article>an? )?(?P<name>[a-z][a-z0-9_]*(?:#\d)?)(?P<tags>(?: [+-][a-z0-9_|-]+)*)$")
_FORM = re.compile(r"^(?P<name>[a-z][a-z0-9_]*(?:#\d)?)\?(?P<tag>[a-z0-9_-]+):(?P<yes>[^/]*)/(?P<no>[^/]*)$")
_START = re.compile(r"(?:^|(?<=[.!?] )|(?<=[.!?]\" ))([a-z\u00e0-\u00ff])")


class Draws:
    """Random numbers for the choices of one row, by name: an additional choice does not change others."""

    def __init__(self, key: str) -> None:
        self._key = key

    def number(self, name: str) -> int:
        """Return 64 bits for the choice of this name."""
        digest = hashlib.blake2b(f"{self._key}|{name}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big")

    def share(self, name: str) -> float:
        """Return a number from 0 to below 1."""
        return (self.number(name) >> 11) / (1 << 53)

    def pick(self, name: str, count: int) -> int:
        """Return a number from 0 to count-1."""
        return self.number(name) % count


@dataclass(frozen=True)
class BankEntry:
    """An entry of a word bank: its text and its tags."""

    text: str
    tags: frozenset[str] = frozenset()

    def with_article(self) -> str:
        """Return the text with "a" or "an" if it takes an article."""
        if self.tags & WITHOUT_ARTICLE:
            return self.text
        vowel = _VOWEL.match(self.text) and not _LIKE_YOU.match(self.text)
        return f"{'an' if vowel else 'a'} {self.text}"


Banks = Mapping[str, Sequence[BankEntry]]


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
        text = re.sub(r" +([,.;:?!])", r"\1", " ".join("".join(words).split()))
        return _START.sub(lambda found: found.group(1).upper(), text)


def read_template(given: str | Mapping[str, str], banks: Banks) -> Template:
    """Parse a template: its text, or an object with `text`, `captions` and `image`."""
    told: Mapping[str, str] = {"text": given} if isinstance(given, str) else given
    text = told["text"]
    pieces: list[str | Slot | tuple[str, ...]] = []
    slots: dict[str, tuple[BankEntry, ...]] = {}
    at = 0
    for found in _PIECE.finditer(text):
        inner, wordings = found.groups()
        pieces += [text[at : found.start()]]
        pieces += [_slot(inner, banks, slots) if inner is not None else tuple(wordings.split("|"))]
        at = found.end()
    kept = tuple(piece for piece in (*pieces, text[at:]) if piece != "")
    return Template(text, told.get("captions", ""), told.get("image") == "true", tuple(slots.items()), kept)


def _slot(inner: str, banks: Banks, slots: dict[str, tuple[BankEntry, ...]]) -> Slot:
    if inner == COUNT:
        return Slot(COUNT)
    if form := _FORM.match(inner):
        return Slot(form["name"], tag=form["tag"], yes=form["yes"], no=form["no"])
    found = _SLOT.match(inner)
    if found is None:
        raise ValueError(f"{{{inner}}} is not a slot")
    if found["name"] not in slots:
        wanted = [set(one[1:].split("|")) for one in found["tags"].split() if one[0] == "+"]
        unwanted = {one[1:] for one in found["tags"].split() if one[0] == "-"}
        slots[found["name"]] = tuple(
            entry
            for entry in banks[found["name"].partition("#")[0]]
            if all(entry.tags & group for group in wanted) and not entry.tags & unwanted
        )
    return Slot(found["name"], article=bool(found["article"]))


@dataclass(frozen=True)
class Subcategory:
    """A sub-category with its templates and the sentences of its category; `key` is the code in ids."""

    key: str
    category: str
    steps: tuple[int, int]
    templates: tuple[Template, ...]
    sentences: Mapping[str, tuple[Template, ...]]


@dataclass(frozen=True)
class Taxonomy:
    """All sub-categories in order.

    `shares` are those of the rows that get each kind of sentence, in addition to templates that already
    include it; `unless` has the banks by kind of sentence that contradict it.
    """

    language: str
    shares: Mapping[str, float]
    unless: Mapping[str, Sequence[str]]
    subcategories: tuple[Subcategory, ...]


def read_taxonomy() -> Taxonomy:
    """Return the taxonomy with its templates and sentences."""
    banks = {
        path.stem: [BankEntry(text, frozenset(tags.split())) for text, tags in _yaml(path).items()]
        for path in sorted((FOLDER / "banks").glob("*.yaml"))
    }

    def templates(listed: Sequence[Any]) -> tuple[Template, ...]:
        return tuple(read_template(one, banks) for one in listed)

    file = _yaml(FOLDER / "taxonomy.yaml")
    sentences = {
        kind: {key: templates(listed) for key, listed in by.items()}
        for kind, by in _yaml(FOLDER / "templates" / "sentences.yaml").items()
    }
    found: list[Subcategory] = []
    for key, category in file["categories"].items():
        lists = _yaml(FOLDER / "templates" / f"{key}.yaml")
        here = {kind: by.get(key, by.get(ANY, ())) for kind, by in sentences.items()}
        for name, sub in category["subcategories"].items():
            least, most = map(int, sub["steps"])
            found.append(Subcategory(name, key, (least, most), templates(lists[name]), here))
    shares = {name: float(share) for name, share in file["shares"].items()}
    return Taxonomy(file["language"], shares, file["unless"], tuple(found))


def _yaml(path: Path) -> Any:
    """Return the content of a YAML file with text values (`no` and `12:30`, too)."""
    require("yaml")
    import yaml

    return yaml.load(path.read_text(encoding="utf-8"), yaml.BaseLoader)
