"""Word banks: lists of things that a request can be about, with tags that describe their use.

A bank is one file of `text: tags` lines, so that entries can be added without programming. Countable things
in the singular have no article; the tags `plural`, `mass` and `proper` mark entries that never get one.
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
    """An entry: its text and its tags."""

    text: str
    tags: frozenset[str] = frozenset()

    def with_article(self) -> str:
        """Return the text with "a" or "an" if it takes an article."""
        if self.tags & WITHOUT_ARTICLE:
            return self.text
        vowel = _VOWEL.match(self.text) and not _LIKE_YOU.match(self.text)
        return f"{'an' if vowel else 'a'} {self.text}"


@dataclass(frozen=True)
class Condition:
    """Tags that an entry must have: one of each group in `wanted`, none of `unwanted`."""

    wanted: tuple[frozenset[str], ...] = ()
    unwanted: frozenset[str] = frozenset()

    def holds(self, entry: BankEntry) -> bool:
        """Return whether an entry meets the condition."""
        return all(entry.tags & group for group in self.wanted) and not entry.tags & self.unwanted


@dataclass(frozen=True)
class Bank:
    """Entries of one file, in order."""

    name: str
    entries: tuple[BankEntry, ...]

    def those(self, condition: Condition) -> tuple[BankEntry, ...]:
        """Return the entries that meet a condition."""
        return tuple(entry for entry in self.entries if condition.holds(entry))


def read_banks(folders: Iterable[Path]) -> dict[str, Bank]:
    """Return the banks of several folders by name; a later bank replaces an earlier one of the same name.

    Raises:
        SettingsError: A folder or file cannot be used.
    """
    banks: dict[str, Bank] = {}
    for folder in folders:
        if not folder.is_dir():
            raise SettingsError(f"The folder {str(folder)!r} does not exist.", "Give a folder of word banks.")
        files = sorted(folder.glob("*.yaml"))
        if not files:
            raise SettingsError(
                f"Folder {str(folder)!r} does not contain word banks.",
                "Add files NAME.yaml of `text: tags` lines.",
            )
        if len(files) > MAX_BANKS:
            raise SettingsError(
                f"Folder {str(folder)!r} contains more than {MAX_BANKS} banks.",
                "Split it into several folders.",
            )
        for file in files:
            banks[file.stem] = read_bank(file)
    return banks


def read_bank(path: Path) -> Bank:
    """Return the bank in a file with one `text: tags` per line.

    Raises:
        SettingsError: The file is invalid; it names the file and the entry.
    """
    content = read_yaml(path, "Bank")
    if not NAME.match(path.stem):
        raise SettingsError(
            f"Bank {str(path)!r}: invalid name.", "Use lower-case letters, digits and _, with a letter first."
        )
    if not isinstance(content, dict) or not content:
        raise SettingsError(
            f"Bank {str(path)!r} is not a list of entries.", "Write `text: tags`, one a line."
        )
    if len(content) > MAX_ENTRIES:
        raise SettingsError(
            f"Bank {str(path)!r} has more than {MAX_ENTRIES} entries.", "Split it into several banks."
        )
    return Bank(path.stem, tuple(_entry(path, text, tags) for text, tags in content.items()))


def _entry(path: Path, text: str, tags: object) -> BankEntry:
    where = f"Bank {str(path)!r}, entry {text[:60]!r}"
    if not text.strip() or len(text) > MAX_ENTRY or text != " ".join(text.split()):
        raise SettingsError(
            f"{where}: invalid length or spaces.", f"Use 1 to {MAX_ENTRY} characters with single spaces."
        )
    if set(text) & set("{}[]|"):
        raise SettingsError(f"{where}: brackets are only allowed in templates.", "Remove {, }, [, ] and |.")
    if not isinstance(tags, str):
        raise SettingsError(f"{where}: its tags are not text.", "Write `text: tag tag`.")
    listed = tags.replace(",", " ").split()
    for tag in listed:
        if not _TAG.match(tag):
            raise SettingsError(
                f"{where}: {tag[:40]!r} is not a valid tag.", "Tags are lower-case letters, digits, _ and -."
            )
    return BankEntry(text, frozenset(listed))
