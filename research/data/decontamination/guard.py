"""Keeps content of benchmarks out of training data: adds benchmarks to an index and compares rows with it.

A trajectory is compared with everything it would teach (request, plan, prompts, the critic's texts, every
image), so that `data guard check` finds nothing in the rows made from it. The counts are in the report of
each stage and on the dataset's card.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from ....backend.core.errors import PictureError, SettingsError
from ....backend.core.files.bounded_reader import opened
from ....backend.core.files.image_places import ImagePlaces
from ....backend.core.pictures import Picture
from ....backend.core.types import Trajectory
from .benchmark_index import BenchmarkIndex, BenchmarkMatch, IndexedFile, IndexedItem
from .data_files import RowParts, parts_of, rows_of

COMM = "comm"
MAX_LISTED = 1000
_TEST_FILE = re.compile(r"(^|[^a-z])test([^a-z]|$)", re.IGNORECASE)


class Screened(BaseModel):
    """Rows or runs that were left out because they are in a benchmark.

    Attributes:
        benchmarks: Number of indexed items by benchmark.
        left_out: Number of matches by benchmark.
        found: Match by place, at most MAX_LISTED.
    """

    model_config = ConfigDict(extra="ignore")

    benchmarks: dict[str, int] = {}
    left_out: dict[str, int] = {}
    found: dict[str, str] = {}

    def as_line(self) -> str:
        """Return the counts as text."""
        counts = ", ".join(f"{name} {count}" for name, count in sorted(self.left_out.items())) or "nothing"
        known = ", ".join(f"{name} ({items} items)" for name, items in self.benchmarks.items())
        return f"compared with {known or 'an empty index'}; left out: {counts}"


class Guard:
    """Compares rows with an index, if there is one, and counts the matches; for several threads."""

    def __init__(self, index: BenchmarkIndex | None = None) -> None:
        self.index, self._screened, self._lock = index, Screened(), threading.Lock()
        for source in index.sources if index else ():
            known = self._screened.benchmarks
            known[source.benchmark] = known.get(source.benchmark, 0) + source.items

    def finds(
        self, where: str, texts: Sequence[str], images: Iterable[Picture] = (), ids: Sequence[str] = ()
    ) -> str:
        """Return the benchmark that `where` (a row's place or a run's name) comes from, or an empty text.

        Raises:
            SettingsError: The index is damaged.
        """
        match = finding_in(self.index, texts, images, ids) if self.index else None
        if match is None:
            return ""
        counts, found = self._screened.left_out, self._screened.found
        with self._lock:
            counts[match.benchmark] = counts.get(match.benchmark, 0) + 1
            if len(found) < MAX_LISTED:
                found[where] = str(match)
        return match.benchmark

    def finds_trajectory(self, name: str, trajectory: Trajectory) -> str:
        """Return the benchmark that something a trajectory would teach comes from, or an empty text."""
        return self.finds(name, _texts_of(trajectory), _pictures_of(trajectory))

    def screened(self) -> Screened | None:
        """Return the counts, or None without an index."""
        found = dict(sorted(self._screened.found.items()))
        return self._screened.model_copy(update={"found": found}) if self.index else None


@contextmanager
def open_guard(path: Path | None) -> Iterator[Guard]:
    """Yield a guard with the index of `--guard`, or without one.

    Raises:
        SettingsError: The index cannot be opened.
    """
    if path is None:
        yield Guard()
        return
    with BenchmarkIndex.open(path) as index:
        yield Guard(index)


def finding_in(
    index: BenchmarkIndex, texts: Sequence[str], images: Iterable[Picture] = (), ids: Sequence[str] = ()
) -> BenchmarkMatch | None:
    """Return the match of one row with a benchmark.

    Texts are compared together and, since whole prompts are compared too, one by one.

    Raises:
        SettingsError: The index is damaged.
    """
    finding = index.finding("\n".join(texts), images, ids)
    for text in texts if finding is None and len(texts) > 1 else ():
        finding = finding or index.finding(text)
    return finding


def _texts_of(trajectory: Trajectory) -> list[str]:
    texts = [trajectory.request.text, trajectory.plan.reasoning]
    for step in trajectory.plan.steps:
        texts += [step.instruction or "", step.prompt or "", step.auxiliary_text or ""]
    for attempt in (attempt for result in trajectory.results for attempt in result.attempts):
        texts.append(attempt.prompt)
        if attempt.verdict is not None:
            texts += [attempt.verdict.reasoning, attempt.verdict.refined_prompt]
    return list(dict.fromkeys(filter(None, texts)))


def _pictures_of(trajectory: Trajectory) -> list[Picture]:
    attempts = [attempt for result in trajectory.results for attempt in result.attempts]
    pictures = [*trajectory.request.images, *(one for each in attempts for one in (each.source, each.image))]
    return list({picture.digest: picture for picture in pictures if picture is not None}.values())


@dataclass
class AddedFile:
    """Result of adding a file; `file` is None if it was in the index."""

    file: IndexedFile | None = None
    without_texts: int = 0
    missing_images: int = 0


def add_benchmark(index: BenchmarkIndex, benchmark: str, path: Path, images: Path | None = None) -> AddedFile:
    """Add a benchmark's file; images are looked for next to it and below `images`.

    Raises:
        SettingsError: The file cannot be read, or none of its rows has a text. An index without the benchmark
            would let everything pass.
    """
    digest, added = hashlib.blake2b(digest_size=16), AddedFile()
    with opened(path, SettingsError, "Benchmark") as file:
        while part := file.read(1024 * 1024):
            digest.update(part)

    def items() -> Iterator[IndexedItem]:
        places, found = _places(path, images), False
        for parts in map(parts_of, rows_of(path)):
            if not parts.texts and not parts.titles:
                added.without_texts += 1
                continue
            found = True
            pictures = [one for name in parts.images if (one := _picture(name, places)) is not None]
            added.missing_images += len(parts.images) - len(pictures)
            yield IndexedItem(parts.texts, parts.titles, parts.ids, pictures)
        if not found:
            raise SettingsError(f"None of the rows in {str(path)!r} has a text.", "Give the right file.")

    added.file = index.add(benchmark, items(), digest.hexdigest())
    return added


def check_file(index: BenchmarkIndex, path: Path, images: Path | None = None) -> dict[str, Any]:
    """Compare every row of a file with the index; images are looked for next to it and below `images`.

    Returns:
        The report: numbers of `rows`, `images` and `missing_images`, matches `by_benchmark`, and the `found`
        rows with their number, counted from 1.

    Raises:
        SettingsError: The file cannot be read.
    """
    counts, by_benchmark, found = Counter[str](), Counter[str](), []
    places = _places(path, images)

    def pictures(parts: RowParts) -> Iterator[Picture]:
        for name in parts.images:
            picture = _picture(name, places)
            counts["missing_images" if picture is None else "images"] += 1
            if picture is not None:
                yield picture

    for number, row in enumerate(rows_of(path), start=1):
        counts["rows"] += 1
        parts = parts_of(row)
        match = finding_in(index, [*parts.texts, *parts.titles], pictures(parts), parts.ids)
        if match is None:
            continue
        by_benchmark[match.benchmark] += 1
        name = row.get("id", row.get("data_id", "")) if isinstance(row, dict) else ""
        found.append({"row": number, "id": str(name)[:80], **vars(match)})
    numbers = {name: counts[name] for name in ("rows", "images", "missing_images")}
    return {**numbers, "by_benchmark": dict(sorted(by_benchmark.items())), "found": found[: 10 * MAX_LISTED]}


def check_training_source(path: Path, ids: Sequence[str], index: BenchmarkIndex | None = None) -> None:
    """Check that a file of CoMM is not its test file, by its name or by ids that the index knows.

    Raises:
        SettingsError: It is the test file.
    """
    known = index.known_ids(ids, COMM) if index is not None else 0
    if known or _TEST_FILE.search(path.stem):
        reason = f"contains {known} known items of" if known else "has the name of"
        hint = "Models are compared on it. Use CoMM's training file."
        raise SettingsError(f"{str(path)!r} {reason} CoMM's test file.", hint)


def _places(path: Path, images: Path | None) -> ImagePlaces:
    return ImagePlaces(path.parent, SettingsError, images, beside=("", "images"))


def _picture(given: str | bytes, places: ImagePlaces) -> Picture | None:
    """Return an image of a row, or None if it is missing or damaged."""
    try:
        if isinstance(given, bytes):
            return Picture.from_bytes(given)
        file = places.find(given)
        return None if file is None else Picture.open(file)
    except (PictureError, SettingsError):
        return None
