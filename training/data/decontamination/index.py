"""The guard: an index of benchmarks that says whether a row of training data was taken from one.

Decisions. One SQLite file, so that it is copied and shared like any other, and it holds numbers alone:
nothing of a benchmark's text or images can be read back. A run of words that stands in many items of one
benchmark is the frame of its questions ("answer the following question with an image of") and proves nothing,
so it is counted and not believed. An index is a file from elsewhere like any other: what is in it is numbers
of known size, and whatever else it holds is never asked for.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import numpy as np

from ....backend.errors import InterleaveError, SettingsError
from ....backend.files.bounded_reader import opened
from ....backend.pictures import Picture
from .fingerprint import (
    GRAM,
    MIN_GRAM,
    PERMUTATIONS,
    bits_apart,
    grams_of,
    image_number,
    likeness,
    number_of,
    signature_of,
    words_of,
)
from .items import BenchmarkMatch, IndexContents, IndexedFile, IndexedItem

FORMAT = "1"
MAX_INDEX_BYTES = 2 * 1024**3
FRAME_ITEMS = 8
"""A run of words in more items of one benchmark than these is the frame of its questions."""
LIKENESS = 0.5
BITS_APART = 6
MAX_ROW_WORDS = 20_000
"""Words of one row that are looked at; a row of training data has at most some hundreds."""

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


class BenchmarkIndex:
    """An index in one file; `finding` is what every command asks, `add` is how it is filled."""

    def __init__(self, database: sqlite3.Connection, path: Path) -> None:
        self._database, self.path = database, path
        self._load()

    @classmethod
    def open(cls, path: str | Path, writable: bool = False) -> BenchmarkIndex:
        """The index in a file; raises SettingsError if there is none or it is none of this version."""
        path = Path(path)
        with opened(path, SettingsError, "Guard index") as file:
            if os.fstat(file.fileno()).st_size > MAX_INDEX_BYTES:
                raise SettingsError(f"Guard index {str(path)!r} is larger than {MAX_INDEX_BYTES} bytes.")
            head = file.read(16)
        if head != b"SQLite format 3\0":
            raise SettingsError(f"{str(path)!r} is no guard index.", "Make one with: data guard add.")
        with _faults(path):
            mode = "rw" if writable else "ro"
            uri = f"{path.resolve().as_uri()}?mode={mode}"
            # Questions come from several threads; SQLite takes them one by one.
            database = sqlite3.connect(uri, uri=True, timeout=30, check_same_thread=writable)
            # A view or a trigger is a program: in a foreign file it could run for ever.
            programs = "SELECT count(*) FROM sqlite_master WHERE type NOT IN ('table', 'index')"
            if database.execute(programs).fetchone() != (0,):
                raise SettingsError(f"{str(path)!r} is no guard index: it holds views or triggers.")
            return cls(database, path)

    @classmethod
    def create(cls, path: str | Path) -> BenchmarkIndex:
        """The index in a file, made if there is none; raises SettingsError."""
        path = Path(path)
        if path.exists() and path.stat().st_size:
            return cls.open(path, writable=True)
        with _faults(path):
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise SettingsError(
                    f"Guard index {str(path)!r} cannot be made ({error.strerror})."
                ) from error
            database = sqlite3.connect(path, timeout=30)
            about = f"INSERT INTO about VALUES ('format', '{FORMAT}');"
            try:
                # All or nothing: half an index would be taken for one of another version.
                database.executescript(f"BEGIN;{_TABLES}{about}COMMIT;")
            except sqlite3.Error:
                database.close()
                path.unlink(missing_ok=True)
                raise
            return cls(database, path)

    def __enter__(self) -> BenchmarkIndex:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    @property
    def sources(self) -> list[IndexedFile]:
        """The files that it knows, in the order in which they were added."""
        return list(self._sources.values())

    def add(self, benchmark: str, items: Iterable[IndexedItem], digest: str) -> IndexedFile | None:
        """Remember the items of a file with this digest; None if that file is known already. Raises
        SettingsError, with the index unchanged."""
        with _faults(self.path):
            if self._database.execute("SELECT 1 FROM sources WHERE digest = ?", (digest,)).fetchone():
                return None
        gathered = IndexContents()
        for item in items:
            gathered.take(item)
        source = IndexedFile(benchmark, gathered.items, len(gathered.images))
        with _faults(self.path), self._database as database:
            row = (benchmark, digest, source.items, source.images)
            number = database.execute(
                "INSERT INTO sources (benchmark, digest, items, images) VALUES (?, ?, ?, ?)", row
            ).lastrowid
            grams = ((hash_, number, words, count) for (hash_, words), count in gathered.grams.items())
            database.executemany("INSERT INTO grams VALUES (?, ?, ?, ?)", grams)
            database.executemany(
                "INSERT INTO wholes VALUES (?, ?)", ((one, number) for one in gathered.wholes)
            )
            database.executemany("INSERT INTO ids VALUES (?, ?)", ((one, number) for one in gathered.ids))
            database.executemany(
                "INSERT INTO signatures VALUES (?, ?)", ((number, one) for one in gathered.signatures)
            )
            database.executemany(
                "INSERT INTO images VALUES (?, ?)", ((one, number) for one in gathered.images)
            )
        with _faults(self.path):
            self._load()
        return source

    def finding(
        self, text: str = "", images: Iterable[Picture] = (), ids: Iterable[str] = ()
    ) -> BenchmarkMatch | None:
        """What a row has in common with a benchmark, the surest first; None if nothing. `text` is the whole
        of the row's text, `ids` are names that it brings from its source. Raises SettingsError for a damaged
        index."""
        with _faults(self.path):
            words = words_of(text)[:MAX_ROW_WORDS]
            return (
                self._of_ids(ids)
                or self._of_text(words)
                or self._of_likeness(words)
                or self._of_images(images)
            )

    def known_ids(self, ids: Iterable[str], benchmark: str) -> int:
        """How many of the ids are items of that benchmark."""
        with _faults(self.path):
            found = self._matches("ids", {number_of([one]) for one in ids})
        return sum(1 for _, source in found if self._sources[source].benchmark == benchmark)

    def _load(self) -> None:
        version = self._database.execute("SELECT value FROM about WHERE name = 'format'").fetchone()
        if version != (FORMAT,):
            raise SettingsError(f"Guard index {str(self.path)!r} is of another version.", "Make it again.")
        rows = self._database.execute("SELECT number, benchmark, items, images FROM sources")
        self._sources = {
            int(number): IndexedFile(str(name)[:80], int(items), int(images))
            for number, name, items, images in rows
        }
        lengths = self._database.execute("SELECT DISTINCT words FROM grams WHERE words != ?", (GRAM,))
        self._short = sorted(int(length) for (length,) in lengths if MIN_GRAM <= int(length) < GRAM)
        size = PERMUTATIONS * 4
        kept = [
            (int(source), bytes(blob))
            for source, blob in self._database.execute("SELECT source, signature FROM signatures")
            if len(blob) == size
        ]
        self._signature_sources = [source for source, _ in kept]
        joined = np.frombuffer(b"".join(blob for _, blob in kept), dtype=np.uint32)
        self._signatures = joined.reshape(len(kept), PERMUTATIONS)
        pictures = list(self._database.execute("SELECT hash, source FROM images"))
        self._image_sources = [int(source) for _, source in pictures]
        self._images = np.array([int(number) for number, _ in pictures], dtype=np.int64)

    def _of_ids(self, ids: Iterable[str]) -> BenchmarkMatch | None:
        found = self._matches("ids", {number_of([one]) for one in ids})
        return BenchmarkMatch(self._name(found[0][1]), "same id") if found else None

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
        alike = likeness(signature, self._signatures)
        nearest = int(alike.argmax())
        if alike[nearest] < LIKENESS:
            return None
        return BenchmarkMatch(
            self._name(self._signature_sources[nearest]), "similar text", f"{alike[nearest]:.2f} alike"
        )

    def _of_images(self, images: Iterable[Picture]) -> BenchmarkMatch | None:
        if not len(self._images):
            return None
        for image in images:
            number = image_number(image.image)
            if number is None:
                continue
            apart = bits_apart(number, self._images)
            nearest = int(apart.argmin())
            if apart[nearest] <= BITS_APART:
                name = self._name(self._image_sources[nearest])
                return BenchmarkMatch(name, "similar image", f"{int(apart[nearest])} bits apart")
        return None

    def _matches(self, table: str, numbers: set[int], condition: str = "") -> list[tuple[int, int]]:
        """(hash, source) of those numbers that stand in a table, in the table's order."""
        found: list[tuple[int, int]] = []
        listed = sorted(numbers)
        for at in range(0, len(listed), 500):
            part = listed[at : at + 500]
            marks = ",".join("?" * len(part))
            rows = self._database.execute(
                f"SELECT hash, source FROM {table} WHERE hash IN ({marks}) {condition}", part
            )
            found += [(int(one), int(source)) for one, source in rows if int(source) in self._sources]
        return found

    def _name(self, source: int) -> str:
        known = self._sources.get(source)
        return known.benchmark if known else "unknown"


@contextmanager
def _faults(path: Path) -> Iterator[None]:
    """Turn what SQLite finds wrong with a file into a SettingsError that names it."""
    try:
        yield
    except InterleaveError:
        raise
    except (sqlite3.Error, OverflowError, ValueError, TypeError) as error:
        raise SettingsError(
            f"Guard index {str(path)!r} cannot be read or written ({error}).",
            "Make it again: data guard add.",
        ) from error


def optional_guard(path: str | Path | None) -> AbstractContextManager[BenchmarkIndex | None]:
    """The guard that `--guard INDEX` names, as a context; None where the option was not given."""
    return BenchmarkIndex.open(path) if path is not None else nullcontext(None)
