"""The guard: an index of benchmarks that shows whether a row of training data was taken from one.

The index is one SQLite file, so that it is easy to share, and contains only numbers from which a benchmark's
texts and images cannot be restored. A run of words in many items of one benchmark belongs to the template of
its questions ("answer the following question with an image of") and is ignored. An index may come from
others: only numbers of known size are read from it.
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
"""A run of words in more items of one benchmark than this belongs to the template of its questions."""
LIKENESS = 0.5
BITS_APART = 6
MAX_ROW_WORDS = 20_000
"""Maximum number of words of a row that are compared; rows of training data have a few hundred."""

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
    """Index in one file: `finding` checks a row, `add` adds a benchmark."""

    def __init__(self, database: sqlite3.Connection, path: Path) -> None:
        self._database, self.path = database, path
        self._load()

    @classmethod
    def open(cls, path: str | Path, writable: bool = False) -> BenchmarkIndex:
        """Open an index; raises SettingsError if the file is not an index of this version."""
        path = Path(path)
        with opened(path, SettingsError, "Guard index") as file:
            if os.fstat(file.fileno()).st_size > MAX_INDEX_BYTES:
                raise SettingsError(
                    f"Guard index {str(path)!r} is larger than {MAX_INDEX_BYTES} bytes.", "Create it again."
                )
            head = file.read(16)
        if head != b"SQLite format 3\0":
            raise SettingsError(f"{str(path)!r} is not a guard index.", "Create one with `data guard add`.")
        with _faults(path):
            mode = "rw" if writable else "ro"
            uri = f"{path.resolve().as_uri()}?mode={mode}"
            # Queries come from several threads; SQLite runs them one by one.
            database = sqlite3.connect(uri, uri=True, timeout=30, check_same_thread=writable)
            # Views and triggers contain code, which could run forever in a file from others.
            programs = "SELECT count(*) FROM sqlite_master WHERE type NOT IN ('table', 'index')"
            if database.execute(programs).fetchone() != (0,):
                raise SettingsError(
                    f"{str(path)!r} is not a guard index: it contains views or triggers.",
                    "Create one with `data guard add`.",
                )
            return cls(database, path)

    @classmethod
    def create(cls, path: str | Path) -> BenchmarkIndex:
        """Open an index, or create it; raises SettingsError if the file cannot be used."""
        path = Path(path)
        if path.exists() and path.stat().st_size:
            return cls.open(path, writable=True)
        with _faults(path):
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise SettingsError(
                    f"Cannot create guard index {str(path)!r}: {error.strerror}.", "Give another path."
                ) from error
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
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    @property
    def sources(self) -> list[IndexedFile]:
        """The indexed files, in the order in which they were added."""
        return list(self._sources.values())

    def add(self, benchmark: str, items: Iterable[IndexedItem], digest: str) -> IndexedFile | None:
        """Add the items of a file with this digest.

        Returns:
            The added file, or None if it is already indexed.

        Raises:
            SettingsError: A file cannot be read or written; the index is unchanged.
        """
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
            return (
                self._of_ids(ids)
                or self._of_text(words)
                or self._of_likeness(words)
                or self._of_images(images)
            )

    def known_ids(self, ids: Iterable[str], benchmark: str) -> int:
        """Return how many of the ids are items of this benchmark."""
        with _faults(self.path):
            found = self._matches("ids", {number_of([one]) for one in ids})
        return sum(1 for _, source in found if self._sources[source].benchmark == benchmark)

    def _load(self) -> None:
        version = self._database.execute("SELECT value FROM about WHERE name = 'format'").fetchone()
        if version != (FORMAT,):
            raise SettingsError(
                f"Guard index {str(self.path)!r} has another version.",
                "Create it again with `data guard add`.",
            )
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
        """Return (hash, source) of the numbers that are in a table, in the table's order."""
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
    """Turn errors of SQLite into a SettingsError that names the file."""
    try:
        yield
    except InterleaveError:
        raise
    except (sqlite3.Error, OverflowError, ValueError, TypeError) as error:
        raise SettingsError(
            f"Guard index {str(path)!r} cannot be read or written: {error}.",
            "Create it again with `data guard add`.",
        ) from error


def optional_guard(path: str | Path | None) -> AbstractContextManager[BenchmarkIndex | None]:
    """Return the guard of `--guard INDEX` as a context manager; it yields None without the option."""
    return BenchmarkIndex.open(path) if path is not None else nullcontext(None)
