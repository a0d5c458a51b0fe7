"""Converts runs to files of sequences with their images, and a report of what was left out.

Each run is read, checked and converted on its own, in parallel with others. The files are in the order of the
runs' names, so they do not depend on which worker finished first.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ....backend.errors import PictureError, SettingsError
from ....backend.files.atomic import writing_folder
from ..decontamination.items import BenchmarkMatch
from ..decontamination.screening import Screening
from ..executors import CancelToken, Executor
from ..executors.ordered import in_order
from ..executors.threads import ThreadExecutor
from ..from_runs.reading import UNREADABLE, ReadRun, RunPlace, RunReading, places_of
from ..rows.row_folder import IMAGES, check_place, check_shared, keep_image, only_these
from .build import InterleavedSequence, easy, hard, unfit

EASY, HARD = "sequences_easy.json", "sequences_hard.json"
EASY_HELD_OUT, HARD_HELD_OUT = "sequences_easy_held_out.json", "sequences_hard_held_out.json"
REPORT = "report.json"
OURS = {EASY, HARD, EASY_HELD_OUT, HARD_HELD_OUT, REPORT}
ONE_BY_ONE = ThreadExecutor(1)


class _Written(NamedTuple):
    """Result of a run: its rows, or why there are none."""

    rows: tuple[dict[str, Any], dict[str, Any]] | None
    reason: str = ""
    finding: BenchmarkMatch | None = None
    held_out: bool = False


@dataclass(frozen=True)
class _WriteSequences:
    """Job that reads a run, writes its images to `folder` and returns its easy and hard rows."""

    folder: Path
    quirks: bool
    guard: Path | None

    def open(self, stop: CancelToken) -> Callable[[RunPlace], _Written]:
        check_shared(self.folder)
        read = RunReading(partial(unfit, quirks=self.quirks), self.guard)
        return lambda place: self._written(read(place))

    def _written(self, run: ReadRun) -> _Written:
        if run.trajectory is None:
            return _Written(None, run.reason, run.finding)
        try:
            rows = [self._row(build(run.trajectory, self.quirks)) for build in (easy, hard)]
        except PictureError:
            return _Written(None, UNREADABLE)
        return _Written((rows[0], rows[1]), held_out=run.held_out)

    def _row(self, made: InterleavedSequence) -> dict[str, Any]:
        turns = [{"role": "user", "content": made.user}, {"role": "assistant", "content": made.text}]
        return {"messages": turns, "images": [keep_image(one, self.folder) for one in made.images]}


def make_sequences(
    runs: Sequence[Path],
    out: Path,
    quirks: bool = False,
    guard: Path | None = None,
    log: Callable[[str], None] = print,
    executor: Executor = ONE_BY_ONE,
) -> dict[str, int]:
    """Write the easy and hard sequences of `runs` to the folder `out`; `executor` reads runs in parallel.

    Returns:
        Number of rows by file.

    Raises:
        SettingsError: `out` contains other files, or no sequences could be created.
    """
    check_place(out, OURS)
    files: dict[str, list[dict[str, Any]]] = {name: [] for name in (EASY, HARD, EASY_HELD_OUT, HARD_HELD_OUT)}
    left_out = Counter[str]()
    with (
        Screening.opened(guard) as screening,
        writing_folder(out, SettingsError, "Data folder") as temporary,
    ):
        (temporary / IMAGES).mkdir()
        job = _WriteSequences(temporary.absolute(), quirks, guard and guard.absolute())
        places = places_of(runs)
        for place, made in zip(
            places, in_order(executor, job, places, lambda one: one.name, log), strict=True
        ):
            screening.counted(place.name, made.finding)
            if made.rows is None:
                left_out[made.reason] += 1
                continue
            names = (EASY_HELD_OUT, HARD_HELD_OUT) if made.held_out else (EASY, HARD)
            for name, row in zip(names, made.rows, strict=True):
                files[name].append(row)
        only_these(temporary, (row["images"] for rows in files.values() for row in rows))
        counts = {name: len(rows) for name, rows in files.items() if rows}
        for line in _lines(counts, left_out):
            log(line)
        if not counts:
            raise SettingsError(
                "No sequences could be created from these runs.", "The table above gives the reasons."
            )
        for name in counts:
            text = json.dumps(files[name], ensure_ascii=False, indent=1)
            (temporary / name).write_text(text + "\n", encoding="utf-8")
        screened = screening.report()
        report = {
            "rows": counts,
            "left_out": dict(left_out.most_common()),
            "published_quirks": quirks,
            "guard": screened.model_dump() if screened else None,
        }
        (temporary / REPORT).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return counts


def _lines(counts: dict[str, int], left_out: Counter[str]) -> list[str]:
    lines = [
        "| file | sequences |",
        "|---|---|",
        *(f"| {name} | {count} |" for name, count in counts.items()),
    ]
    if left_out:
        lines += ["", "| left out because | trajectories |", "|---|---|"]
        lines += [f"| {reason} | {count} |" for reason, count in left_out.most_common()]
    return lines
