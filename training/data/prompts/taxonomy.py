"""Reads what requests are made of: word banks, templates with slots, and the taxonomy that arranges them.

A bank is a file of `text: tags` lines. Countable entries in the singular have no article; the tags `plural`,
`mass` and `proper` mark entries that never get one. A template is a sentence with typed slots:

    Fold {a paper_figure} from [one sheet|a single sheet] of paper.
    Pour {a drink +cold} into {a vessel +glass} and set {drink?plural:them/it} on the table.

`{bank}` is an entry, `{a bank}` an entry with its article; `+tag`, `+one|other` and `-tag` filter entries;
`{bank#2}` is another entry of the same bank; `{bank?tag:yes/no}` depends on a tag of the chosen entry; `{n}`
is the number of images in words; `[one|other]` are equivalent phrasings. Slots are the content of a request,
so two rows with the same slots have the same content.

One file names the categories. Templates are in it or in `templates/CATEGORY.yaml` next to it, sentences that
any request may end with in `templates/sentences.yaml`, and additional banks in `banks/`. Sentences and banks
that are missing there are the built-in ones.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ....backend.errors import SettingsError
from ....backend.files.bounded_reader import read_text
from ....backend.files.bounded_yaml import bounded_loader, load_yaml
from ....backend.journal.records.run_files import first_fault
from ....backend.machine.libraries import require

FOLDER = Path(__file__).parent
BUILT_IN = FOLDER / "taxonomy.yaml"
MAX_BYTES = 1024 * 1024
MAX_ENTRIES = 5000
NUMBERS = (
    *("zero", "one", "two", "three", "four", "five", "six"),
    *("seven", "eight", "nine", "ten", "eleven", "twelve"),
)
COUNT = "n"
ANY = "any"
WITHOUT_ARTICLE = frozenset(("plural", "mass", "proper"))
SENTENCES = {"short", "paragraph", "none", "counted_short", "step_count", "drawn_words", "text_ending"}
SENTENCES |= {"look", "audience", "image"}
"""Kinds of sentences; `counted_short` asks for a number of images and captions at once."""
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


def read_template(text: str, banks: Banks, where: str, captions: str = "", image: bool = False) -> Template:
    """Parse a template.

    Raises:
        SettingsError: It is invalid; it names the place.
    """
    pieces: list[str | Slot | tuple[str, ...]] = []
    slots: dict[str, tuple[BankEntry, ...]] = {}
    at = 0
    for found in _PIECE.finditer(text):
        inner, wordings = found.groups()
        pieces += [text[at : found.start()]]
        pieces += [_slot(inner, banks, slots, where) if inner is not None else tuple(wordings.split("|"))]
        at = found.end()
    pieces.append(text[at:])
    if not text.strip() or any(isinstance(piece, str) and set(piece) & set("{}[]|") for piece in pieces):
        raise SettingsError(f"{where}: it is empty, or a bracket is nested or not closed.", "Fix it.")
    for piece in pieces:
        if isinstance(piece, Slot) and piece.name not in (*slots, COUNT):
            raise SettingsError(
                f"{where}: {{{piece.name}?...}} is used without {{{piece.name}}}.", "Add the slot."
            )
    kept = tuple(piece for piece in pieces if piece != "")
    return Template(text, captions, image, tuple(slots.items()), kept)


def _slot(inner: str, banks: Banks, slots: dict[str, tuple[BankEntry, ...]], where: str) -> Slot:
    if inner == COUNT:
        return Slot(COUNT)
    if form := _FORM.match(inner):
        return Slot(form["name"], tag=form["tag"], yes=form["yes"], no=form["no"])
    found = _SLOT.match(inner)
    bank = found["name"].partition("#")[0] if found else ""
    if found is None or bank not in banks or (found["name"] in slots and found["tags"]):
        raise SettingsError(
            f"{where}: {{{inner[:60]}}} is not a slot of a known bank.",
            "Write {bank}, {a bank} or, at its first use, {bank +tag}.",
        )
    if found["name"] not in slots:
        wanted = [set(one[1:].split("|")) for one in found["tags"].split() if one[0] == "+"]
        unwanted = {one[1:] for one in found["tags"].split() if one[0] == "-"}
        entries = [
            entry
            for entry in banks[bank]
            if all(entry.tags & group for group in wanted) and not entry.tags & unwanted
        ]
        if not entries:
            raise SettingsError(f"{where}: no entry has the tags of {{{inner[:60]}}}.", "Check the tags.")
        slots[found["name"]] = tuple(entries)
    return Slot(found["name"], article=bool(found["article"]))


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")


Share = Annotated[float, Field(ge=0.0, le=1.0)]


class Shares(_File):
    """Shares of the rows that get each kind of sentence, in addition to templates that already include it."""

    step_count: Share = 0.3
    captions: Share = 0.4
    drawn_words: Share = 0.08
    text_ending: Share = 0.05
    look: Share = 0.25
    audience: Share = 0.2
    image: Share = 0.15


class TemplateFile(_File):
    """A template with properties of its images."""

    text: str = Field(max_length=600)
    captions: Literal["", "none", "short", "paragraph"] = ""
    image: bool = False


Templates = Annotated[list[str | TemplateFile], Field(min_length=1, max_length=1000)]
Steps = Annotated[int, Field(ge=1, le=len(NUMBERS) - 1)]
Key = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,39}$")]


class SubcategoryFile(_File):
    """A sub-category: its range of steps, and its templates if they are not in a file."""

    name: str = Field(max_length=120)
    steps: tuple[Steps, Steps] = (3, 6)
    templates: Templates | None = None


class CategoryFile(_File):
    """A main category."""

    name: str = Field(max_length=120)
    subcategories: dict[Key, SubcategoryFile] = Field(min_length=1, max_length=200)


class TaxonomyFile(_File):
    """The whole file."""

    language: str = Field(default="en", pattern=r"^[a-z]{2,3}(-[A-Za-z]{2,4})?$")
    shares: Shares = Shares()
    unless: dict[str, list[str]] = Field(default_factory=dict, max_length=20)
    categories: dict[Key, CategoryFile] = Field(min_length=1, max_length=100)


class _TemplateLists(_File):
    lists: dict[str, Templates]


class _SentenceLists(_File):
    kinds: dict[str, dict[str, Templates]]


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
    """All sub-categories in order."""

    language: str
    shares: Shares
    unless: Mapping[str, frozenset[str]]
    subcategories: tuple[Subcategory, ...]


def read_taxonomy(path: Path = BUILT_IN) -> Taxonomy:
    """Return the taxonomy in a file with its templates, sentences and banks.

    Raises:
        SettingsError: It is invalid; it names the file and the place.
    """
    banks = {file.stem: read_bank(file) for file in sorted((FOLDER / "banks").glob("*.yaml"))}
    banks |= {file.stem: read_bank(file) for file in sorted((path.parent / "banks").glob("*.yaml"))}
    own = path.parent / "templates" / "sentences.yaml"
    sentences = _read_sentences(own if own.is_file() else FOLDER / "templates" / "sentences.yaml", banks)
    file = _validated(TaxonomyFile, read_yaml(path), path)
    found: dict[str, Subcategory] = {}
    for key, category in file.categories.items():
        file_of = path.parent / "templates" / f"{key}.yaml"
        content = {"lists": read_yaml(file_of) if file_of.is_file() else {}}
        lists = _validated(_TemplateLists, content, file_of).lists
        here = {kind: by.get(key, by.get(ANY, ())) for kind, by in sentences.items()}
        for name, sub in category.subcategories.items():
            where = f"{str(file_of if sub.templates is None else path)!r}, {name}"
            templates = sub.templates or lists.get(name)
            if name in found or templates is None or sub.steps[0] > sub.steps[1]:
                raise SettingsError(
                    f"{where}: it is defined twice, has no templates, or its steps are not ascending.",
                    "Fix the sub-category.",
                )
            read = _templates(templates, banks, where)
            found[name] = Subcategory(name, key, sub.steps, read, here)
    unless = {kind: frozenset(names) for kind, names in file.unless.items()}
    return Taxonomy(file.language, file.shares, unless, tuple(found.values()))


def _templates(given: Templates, banks: Banks, where: str) -> tuple[Template, ...]:
    files = [TemplateFile(text=one) if isinstance(one, str) else one for one in given]
    read = tuple(
        read_template(one.text, banks, f"{where}, template {number}", one.captions, one.image)
        for number, one in enumerate(files, 1)
    )
    if all(template.image for template in read):
        raise SettingsError(f"{where}: all templates need an image.", "Add a template without an image.")
    return read


def _read_sentences(path: Path, banks: Banks) -> dict[str, dict[str, tuple[Template, ...]]]:
    kinds = _validated(_SentenceLists, {"kinds": read_yaml(path)}, path).kinds
    if set(kinds) - SENTENCES:
        raise SettingsError(
            f"{str(path)!r} has unknown kinds of sentences.", f"Use {', '.join(sorted(SENTENCES))}."
        )
    return {
        kind: {key: _templates(listed, banks, f"{str(path)!r}, {kind}") for key, listed in by.items()}
        for kind, by in kinds.items()
    }


def read_bank(path: Path) -> tuple[BankEntry, ...]:
    """Return the entries of a file with one `text: tags` per line.

    Raises:
        SettingsError: The file is invalid; it names the file and the entry.
    """
    content = read_yaml(path)
    if not isinstance(content, dict) or not 0 < len(content) <= MAX_ENTRIES:
        raise SettingsError(
            f"Bank {str(path)!r} is not a list of 1 to {MAX_ENTRIES} entries.",
            "Write lines of `text: tags`.",
        )
    for text, tags in content.items():
        if not text.strip() or set(text) & set("{}[]|") or not isinstance(tags, str):
            raise SettingsError(
                f"Bank {str(path)!r}, entry {text[:60]!r} is invalid.",
                "Write `text: tag tag`, without brackets in the text.",
            )
    return tuple(BankEntry(text, frozenset(tags.replace(",", " ").split())) for text, tags in content.items())


def read_yaml(path: Path) -> Any:
    """Return the content of a YAML file as lists, dictionaries and texts (`no`, `1e3` and `12:30` too).

    Raises:
        SettingsError: The file is invalid.
    """
    require("yaml")
    import yaml

    class Loader(bounded_loader(yaml.BaseLoader)):
        """Loader that refuses duplicate keys."""

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
            if len(set(keys)) < len(node.value):
                line = node.start_mark.line + 1
                raise yaml.YAMLError(f"line {line}: a key occurs twice or is not a text")
            return super().construct_mapping(node, deep)

    return load_yaml(read_text(path, MAX_BYTES, SettingsError, "File"), Loader, "File", path)


def _validated(kind: type[Any], content: Any, path: Path) -> Any:
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        raise SettingsError(f"{str(path)!r}{first_fault(error)}") from error
