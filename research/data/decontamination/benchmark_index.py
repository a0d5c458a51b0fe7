"""Index of benchmarks that shows whether a row of training data was taken from one.

The index is one SQLite file, so that it is easy to share, and contains only numbers from which a benchmark's
texts and images cannot be restored. Texts are compared only by their words, since copies differ first in
case, punctuation and line breaks. A run of words in many items of one benchmark belongs to the template of
its questions ("answer the following question with an image of") and is ignored. Whole texts are compared by
their words and pairs of words: triples miss a short prompt with one changed word, and single words confuse
all recipes. An index may come from others: only numbers of known size are read from it.
"""

from __future__ import annotations

import hashlib
import os
import re
import sqlite3
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ....backend.core.errors import InterleaveError, SettingsError
from ....backend.core.files.bounded_reader import opened
from ....backend.core.machine.libraries import require
from ....backend.core.pictures import Picture

FORMAT = "1"
MAX_INDEX_BYTES = 2 * 1024**3
GRAM = 8
"""Length of a run of words that two texts share only if one is a copy."""
MIN_GRAM = 5
"""A prompt with fewer words than GRAM, but at least this many, is searched for as a whole in other texts."""
FRAME_ITEMS = 8
"""A run of words in more items of one benchmark than this belongs to the template of its questions."""
PERMUTATIONS = 128
LIKENESS = 0.5
BITS_APART = 6
FLAT = 4.0
"""Standard deviation of gray values below which an image has nothing recognizable."""
MAX_ROW_WORDS = 20_000
"""Maximum number of words of a row that are compared; rows of training data have a few hundred."""
HINT = "Create it again with `data guard add`."
# Chinese and Japanese characters count as words, as they are not separated by spaces.
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W_\u3040-\u30ff\u3400-\u9fff]+")
# fmt: off
_COMMON = frozenset((
    "a", "an", "the", "of", "in", "on", "at", "to", "for", "and", "or", "with", "by", "from", "as",
    "is", "are", "be", "it", "its", "this", "that", "these", "those", "i", "me", "my", "you", "your",
    "we", "our", "please", "show", "draw", "make", "create", "generate", "write", "give", "image",
    "images", "picture", "pictures", "step", "steps", "how", "what", "each", "one", "then", "into",
))
# fmt: on
_TABLES = """
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT);
CREATE TABLE sources (number INTEGER PRIMARY KEY, benchmark TEXT, digest TEXT, items INTEGER, images INTEGER);
CREATE TABLE grams (hash INTEGER, source INTEGER, words INTEGER, items INTEGER,
                    PRIMARY KEY (hash, source)) WITHOUT ROWID;
CREATE TABLE wholes (hash INTEGER, source INTEGER, PRIMARY KEY (hash, source)) WITHOUT ROWID;
CREATE TABLE ids (hash INTEGER, source INTEGER, PRIMARY KEY (hash, source)) WITHOUT ROWID;
CREATE TABLE signatures (source INTEGER, signature BLOB);
CREATE TABLE images (hash INTEGER, source INTEGER);
"""
How = Literal["same words", "similar text", "same title", "same id", "similar image"]


@dataclass(frozen=True)
class BenchmarkMatch:
    """Match of a row with a benchmark; `detail` is a figure for reports."""

    benchmark: str
    how: How
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.benchmark}: {self.how}{f' ({self.detail})' if self.detail else ''}"


@dataclass(frozen=True)
class IndexedItem:
    """An item of a benchmark; `texts` are whole prompts, `ids` are given only if they are unique names."""

    texts: Sequence[str] = ()
    titles: Sequence[str] = ()
    ids: Sequence[str] = ()
    images: Sequence[Picture] = ()


@dataclass(frozen=True)
class IndexedFile:
    """An added file: its benchmark, and the numbers of indexed items and images."""

    benchmark: str
    items: int
    images: int


def words_of(text: str) -> list[str]:
    """Return the words of a text in normalized form."""
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


def number_of(words: Sequence[str]) -> int:
    """Return 64 bits that identify a run of words, as a signed integer for SQLite."""
    digest = hashlib.blake2b("\0".join(words).encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def grams_of(words: Sequence[str], length: int = GRAM) -> set[int]:
    """Return the numbers of all runs of `length` words; empty if there are fewer words."""
    return {number_of(words[at : at + length]) for at in range(len(words) - length + 1)}


def signature_of(words: Sequence[str]) -> np.ndarray | None:
    """Return the MinHash of a text's words and pairs of words, `(PERMUTATIONS,)` uint32; None without words.

    Raises:
        SettingsError: datasketch is not installed.
    """
    features = {word for word in words if word not in _COMMON}
    features |= {f"{one} {two}" for one, two in pairwise(words)}
    if not features:
        return None
    signature = _empty_signature().copy()
    signature.update_batch([one.encode("utf-8", "replace") for one in sorted(features)])
    return np.asarray(signature.hashvalues, dtype=np.uint32)


@lru_cache(maxsize=1)
def _empty_signature() -> Any:
    require("datasketch")
    from datasketch import MinHash

    return MinHash(num_perm=PERMUTATIONS, seed=1, hashfunc=_hash32, scheme="affine32")


def _hash32(data: bytes) -> int:
    """Return 32 bits that are the same on every machine and in every version."""
    return int.from_bytes(hashlib.blake2b(data, digest_size=4).digest(), "big")


def image_number(picture: Picture) -> int | None:
    """Return the 64-bit perceptual hash of an image, signed, or None if nothing is recognizable.

    Raises:
        SettingsError: imagehash is not installed.
    """
    require("imagehash")
    import imagehash

    gray = picture.image.convert("L")
    if np.asarray(gray.resize((32, 32)), dtype=np.float64).std() < FLAT:
        return None
    bits = np.asarray(imagehash.phash(gray).hash, dtype=np.uint8)
    return int.from_bytes(np.packbits(bits.ravel()).tobytes(), "big", signed=True)


class BenchmarkIndex:
    """Index in one file: `finding` checks a row, `add` adds a benchmark."""

    def __init__(self, database: sqlite3.Connection, path: Path) -> None:
        self._database, self.path = database, path
        self._load()

    @classmethod
    def open(cls, path: str | Path, writable: bool = False) -> BenchmarkIndex:
        """Open an index; raises SettingsError if the file is not an index of this version."""
        path = Path(path)
        with opened(path, SettingsError, "Guard index") as file:
            too_large = os.fstat(file.fileno()).st_size > MAX_INDEX_BYTES
            if too_large or file.read(16) != b"SQLite format 3\0":
                raise SettingsError(f"{str(path)!r} is not a guard index of up to 2 GiB.", HINT)
        with _faults(path):
            uri = f"{path.resolve().as_uri()}?mode={'rw' if writable else 'ro'}"
            # Queries come from several threads; SQLite runs them one by one.
            database = sqlite3.connect(uri, uri=True, timeout=30, check_same_thread=writable)
            # Views and triggers contain code, which could run forever in a file from others.
            programs = "SELECT count(*) FROM sqlite_master WHERE type NOT IN ('table', 'index')"
            if database.execute(programs).fetchone() != (0,):
                raise SettingsError(f"{str(path)!r} is not a guard index: it has views or triggers.", HINT)
            return cls(database, path)

    @classmethod
    def create(cls, path: str | Path) -> BenchmarkIndex:
        """Open an index, or create it; raises SettingsError if the file cannot be used."""
        path = Path(path)
        if path.exists() and path.stat().st_size:
            return cls.open(path, writable=True)
        with _faults(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            database = sqlite3.connect(path, timeout=30)
            about = f"INSERT INTO about VALUES ('format', '{FORMAT}');"
            try:
                # All or nothing: half an index would be mistaken for one of another version.
                database.executescript(f"BEGIN;{_TABLES}{about}COMMIT;")
            except sqlite3.Error:
                database.close()
                path.unlink(missing_ok=True)
                raise
            return cls(database, path)

    def __enter__(self) -> BenchmarkIndex:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    @property
    def sources(self) -> list[IndexedFile]:
        """The indexed files, in the order in which they were added."""
        return list(self._sources.values())

    def add(self, benchmark: str, items: Iterable[IndexedItem], digest: str) -> IndexedFile | None:
        """Add the items of a file with this digest.

        Items are reduced to numbers one at a time, so that a benchmark of any size fits in memory.

        Returns:
            The added file, or None if it is already indexed.

        Raises:
            SettingsError: A file cannot be read or written; the index is unchanged.
        """
        with _faults(self.path):
            if self._database.execute("SELECT 1 FROM sources WHERE digest = ?", (digest,)).fetchone():
                return None
        grams, count = Counter[tuple[int, int]](), 0
        wholes, ids, signatures, images = set[int](), set[int](), list[bytes](), list[int]()
        for item in items:
            count += 1
            texts = [words for words in map(words_of, item.texts) if words]
            short = {(number_of(words), len(words)) for words in texts if MIN_GRAM <= len(words) < GRAM}
            grams.update(short.union(*({(gram, GRAM) for gram in grams_of(words)} for words in texts)))
            signatures += [found.tobytes() for words in texts if (found := signature_of(words)) is not None]
            wholes |= {number_of(words) for words in (*texts, *map(words_of, item.titles)) if words}
            ids |= {number_of([one]) for one in item.ids}
            images += [found for image in item.images if (found := image_number(image)) is not None]
        with _faults(self.path), self._database as database:
            row = (benchmark, digest, count, len(images))
            number = database.execute(
                "INSERT INTO sources (benchmark, digest, items, images) VALUES (?, ?, ?, ?)", row
            ).lastrowid
            rows = ((hash_, number, words, times) for (hash_, words), times in grams.items())
            database.executemany("INSERT INTO grams VALUES (?, ?, ?, ?)", rows)
            for table, numbers in (("wholes", wholes), ("ids", ids), ("images", images)):
                values = ((one, number) for one in numbers)
                database.executemany(f"INSERT INTO {table} VALUES (?, ?)", values)
            values = ((number, one) for one in signatures)
            database.executemany("INSERT INTO signatures VALUES (?, ?)", values)
        with _faults(self.path):
            self._load()
        return IndexedFile(benchmark, count, len(images))

    def finding(
        self, text: str = "", images: Iterable[Picture] = (), ids: Iterable[str] = ()
    ) -> BenchmarkMatch | None:
        """Return the strongest match between a row and a benchmark, or None.

        Args:
            text: All text of the row.
            images: Its images.
            ids: Its ids in the set it comes from.

        Raises:
            SettingsError: The index is damaged.
        """
        with _faults(self.path):
            words = words_of(text)[:MAX_ROW_WORDS]
            found = self._matches("ids", {number_of([one]) for one in ids})
            if found:
                return BenchmarkMatch(self._name(found[0][1]), "same id")
            return self._of_text(words) or self._of_likeness(words) or self._of_images(images)

    def known_ids(self, ids: Iterable[str], benchmark: str) -> int:
        """Return how many of the ids are items of this benchmark."""
        with _faults(self.path):
            found = self._matches("ids", {number_of([one]) for one in ids})
        return sum(1 for _, source in found if self._name(source) == benchmark)

    def _load(self) -> None:
        execute = self._database.execute
        if execute("SELECT value FROM about WHERE name = 'format'").fetchone() != (FORMAT,):
            raise SettingsError(f"Guard index {str(self.path)!r} has another version.", HINT)
        self._sources = {
            int(number): IndexedFile(str(name)[:80], int(items), int(images))
            for number, name, items, images in execute("SELECT number, benchmark, items, images FROM sources")
        }
        lengths = execute("SELECT DISTINCT words FROM grams WHERE words != ?", (GRAM,))
        self._short = sorted(int(length) for (length,) in lengths if MIN_GRAM <= int(length) < GRAM)
        kept = [
            (int(source), bytes(blob))
            for source, blob in execute("SELECT source, signature FROM signatures")
            if len(blob) == PERMUTATIONS * 4
        ]
        self._signature_sources = [source for source, _ in kept]
        joined = np.frombuffer(b"".join(blob for _, blob in kept), dtype=np.uint32)
        self._signatures = joined.reshape(len(kept), PERMUTATIONS)
        pictures = list(execute("SELECT hash, source FROM images"))
        self._image_sources = [int(source) for _, source in pictures]
        self._images = np.array([int(number) for number, _ in pictures], dtype=np.int64)

    def _of_text(self, words: Sequence[str]) -> BenchmarkMatch | None:
        if not words:
            return None
        found = self._matches("wholes", {number_of(words)})
        if found:
            return BenchmarkMatch(
                self._name(found[0][1]), "same title" if len(words) < GRAM else "same words"
            )
        for length in (GRAM, *self._short):
            common = self._matches("grams", grams_of(words, length), f"AND items <= {FRAME_ITEMS}")
            if common:
                return BenchmarkMatch(self._name(common[0][1]), "same words", f"{length} in a row")
        return None

    def _of_likeness(self, words: Sequence[str]) -> BenchmarkMatch | None:
        signature = signature_of(words) if len(self._signatures) else None
        if signature is None:
            return None
        alike = (self._signatures == signature).mean(axis=1)
        nearest = int(alike.argmax())
        if alike[nearest] < LIKENESS:
            return None
        name = self._name(self._signature_sources[nearest])
        return BenchmarkMatch(name, "similar text", f"{alike[nearest]:.2f} alike")

    def _of_images(self, images: Iterable[Picture]) -> BenchmarkMatch | None:
        for image in images if len(self._images) else ():
            number = image_number(image)
            if number is None:
                continue
            different = (self._images ^ np.int64(number)).view(np.uint8).reshape(len(self._images), 8)
            apart = np.unpackbits(different, axis=1).sum(axis=1)
            nearest = int(apart.argmin())
            if apart[nearest] <= BITS_APART:
                name = self._name(self._image_sources[nearest])
                return BenchmarkMatch(name, "similar image", f"{int(apart[nearest])} bits apart")
        return None

    def _matches(self, table: str, numbers: set[int], condition: str = "") -> list[tuple[int, int]]:
        """Return (hash, source) of the numbers that are in a table, in the table's order."""
        found: list[tuple[int, int]] = []
        listed = sorted(numbers)
        for at in range(0, len(listed), 500):
            part = listed[at : at + 500]
            marks = ",".join("?" * len(part))
            query = f"SELECT hash, source FROM {table} WHERE hash IN ({marks}) {condition}"
            rows = self._database.execute(query, part)
            found += [(int(one), int(source)) for one, source in rows if int(source) in self._sources]
        return found

    def _name(self, source: int) -> str:
        known = self._sources.get(source)
        return known.benchmark if known else "unknown"


@contextmanager
def _faults(path: Path) -> Iterator[None]:
    """Turn errors of SQLite and of the file into a SettingsError that names the file."""
    try:
        yield
    except InterleaveError:
        raise
    except (sqlite3.Error, OSError, OverflowError, ValueError, TypeError) as error:
        raise SettingsError(f"Guard index {str(path)!r} cannot be read or written: {error}.", HINT) from error
