"""Banks: lists of things that a request can be about, each with tags that say what can be done with it.

Decision: a bank is one file, `text: tags`, so that somebody who knows herbs and no programming can add
thirty. Countable things in the singular carry no article; `plural`, `mass` and `proper` say that none belongs
there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ....backend.errors import SettingsError
from .yaml_files import read_yaml

FOLDER = Path(__file__).parent / "banks"
MAX_BANKS = 500
MAX_ENTRIES = 5000
MAX_ENTRY = 160
WITHOUT_ARTICLE = frozenset(("plural", "mass", "proper"))
NAME = re.compile(r"^[a-z][a-z0-9_]{0,39}$")
_TAG = re.compile(r"^[a-z][a-z0-9_-]{0,39}$")
_VOWEL = re.compile(r"^(?:hour|honest|heir|[aeiou\u00e0-\u00e6\u00e8-\u00ef\u00f2-\u00f6])", re.IGNORECASE)
_LIKE_YOU = re.compile(r"^(?:uni(?!n|m)|us[aeu]|eu|ukulele|ute|uto|u-|ubi|one\b|once\b|ewe\b)", re.IGNORECASE)


@dataclass(frozen=True)
class BankEntry:
    """One thing: its words and its tags."""

    text: str
    tags: frozenset[str] = frozenset()

    def with_article(self) -> str:
        """With a or an before it, where one belongs."""
        if self.tags & WITHOUT_ARTICLE:
            return self.text
        vowel = _VOWEL.match(self.text) and not _LIKE_YOU.match(self.text)
        return f"{'an' if vowel else 'a'} {self.text}"


@dataclass(frozen=True)
class Condition:
    """Tags that an entry must have: one of each group of `wanted`, none of `unwanted`."""

    wanted: tuple[frozenset[str], ...] = ()
    unwanted: frozenset[str] = frozenset()

    def holds(self, entry: BankEntry) -> bool:
        """Whether an entry is asked for."""
        return all(entry.tags & group for group in self.wanted) and not entry.tags & self.unwanted


@dataclass(frozen=True)
class Bank:
    """The entries of one file, in its order."""

    name: str
    entries: tuple[BankEntry, ...]

    def those(self, condition: Condition) -> tuple[BankEntry, ...]:
        """The entries that a condition asks for."""
        return tuple(entry for entry in self.entries if condition.holds(entry))


def read_banks(folders: Iterable[Path]) -> dict[str, Bank]:
    """The banks of several folders by name; a bank of a later folder takes the place of an earlier one of the
    same name. Raises SettingsError."""
    banks: dict[str, Bank] = {}
    for folder in folders:
        if not folder.is_dir():
            raise SettingsError(f"There is no folder of banks at {str(folder)!r}.")
        files = sorted(folder.glob("*.yaml"))
        if not files:
            raise SettingsError(f"Folder {str(folder)!r} holds no bank (NAME.yaml).")
        if len(files) > MAX_BANKS:
            raise SettingsError(f"Folder {str(folder)!r} holds more than {MAX_BANKS} banks.")
        for file in files:
            banks[file.stem] = read_bank(file)
    return banks


def read_bank(path: Path) -> Bank:
    """The bank in a file, `text: tags` a line; raises SettingsError with file and entry."""
    content = read_yaml(path, "Bank")
    if not NAME.match(path.stem):
        raise SettingsError(f"Bank {str(path)!r}: its name must be small letters, digits and _.")
    if not isinstance(content, dict) or not content:
        raise SettingsError(f"Bank {str(path)!r} is no list of entries.", "Write `text: tags`, one a line.")
    if len(content) > MAX_ENTRIES:
        raise SettingsError(f"Bank {str(path)!r} has more than {MAX_ENTRIES} entries.")
    return Bank(path.stem, tuple(_entry(path, text, tags) for text, tags in content.items()))


def _entry(path: Path, text: str, tags: object) -> BankEntry:
    where = f"Bank {str(path)!r}, entry {text[:60]!r}"
    if not text.strip() or len(text) > MAX_ENTRY or text != " ".join(text.split()):
        raise SettingsError(f"{where}: it must be 1 to {MAX_ENTRY} characters in single blanks.")
    if set(text) & set("{}[]|"):
        raise SettingsError(f"{where}: it holds a bracket, which only templates have.")
    if not isinstance(tags, str):
        raise SettingsError(f"{where}: its tags are no text.", "Write `text: tag tag`.")
    listed = tags.replace(",", " ").split()
    for tag in listed:
        if not _TAG.match(tag):
            raise SettingsError(f"{where}: {tag[:40]!r} is no tag.", "Tags are small letters.")
    return BankEntry(text, frozenset(listed))
