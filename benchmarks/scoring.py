"""Scoring images of trajectories side by side: one after the other, in threads, by Ray actors, by Ray Data.

    OMP_NUM_THREADS=1 python benchmarks/scoring.py --runs runs/chain/runs --images 400
    OMP_NUM_THREADS=1 python benchmarks/scoring.py --runs runs/chain/runs --images 400 --wait 0.05

Decision: what is compared is the handing out, so all four give the same scores, checked. `--wait` adds
seconds to every score that are slept, as a judge behind a server takes them. Starting Ray is reported apart.
Processor seconds are this process's and its threads'; Ray's workers count their own. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import conftest  # noqa: F401 - makes the package importable
from support.ray_here import ray_here

from interleave_thinker.backend.loop.replay import load_trajectory
from interleave_thinker.backend.pictures import Picture
from interleave_thinker.backend.scorers import open_scorer
from interleave_thinker.training.data.work import LocalStopSign, StopSign, Work
from interleave_thinker.training.data.work.ray_actors import RayActors
from interleave_thinker.training.data.work.threads import Threads


@dataclass(frozen=True)
class Page:
    """One image with the page before it and what was asked for, as paths: it travels."""

    name: str
    before: str
    after: str
    asked: str


Scored = dict[str, tuple[float, float]]


@dataclass(frozen=True)
class Scoring:
    """The job: open the scorer once, then score pages."""

    wait: float

    def open(self, stop: StopSign) -> Callable[[Page], tuple[float, float]]:
        scorer = open_scorer("tinyworld")

        def score(page: Page) -> tuple[float, float]:
            time.sleep(self.wait)
            found = scorer.score(
                Picture.open(page.before) if page.before else None, Picture.open(page.after), page.asked
            )
            return found.semantics, found.quality

        return score


class Batches:
    """The same for Ray Data: an actor that is called with a batch of rows."""

    def __init__(self, wait: float) -> None:
        self._score = Scoring(wait).open(LocalStopSign())

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        pages = [Page(*map(str, row)) for row in zip(*(batch[key] for key in KEYS), strict=True)]
        scores = [self._score(page) for page in pages]
        return {
            "name": [page.name for page in pages],
            "semantics": [one for one, _ in scores],
            "quality": [other for _, other in scores],
        }


KEYS = ("name", "before", "after", "asked")


def pages_of(runs: Path, count: int) -> list[Page]:
    """The first images of the runs, in the order of their folders."""
    pages: list[Page] = []
    for folder in sorted(path.parent for path in runs.glob("*/execution_record.json")):
        pictures = folder / "pictures"
        for result in load_trajectory(folder).results:
            for number, attempt in enumerate(result.attempts):
                if attempt.image is None or not result.step.prompt:
                    continue
                before = str(path_of(pictures, attempt.source)) if attempt.source else ""
                after = str(path_of(pictures, attempt.image))
                name = f"{folder.name}/{result.step.number}/{number}"
                pages.append(Page(name, before, after, result.step.prompt))
        if len(pages) >= count:
            return pages[:count]
    return pages


def path_of(pictures: Path, picture: Picture) -> Path:
    (found,) = pictures.glob(f"{picture.digest}*")
    return found


def by(work: Work, pages: list[Page], wait: float) -> Scored:
    done = work.map(Scoring(wait), pages, lambda page: page.name, LocalStopSign())
    return {one.key: one.result for one in done if one.result is not None}


def by_ray_data(pages: list[Page], wait: float, batch: int, actors: int, cpus: float) -> Scored:
    import ray.data as data  # pyright: ignore[reportMissingImports]

    data.DataContext.get_current().enable_progress_bars = False
    rows = data.from_items([{key: getattr(page, key) for key in KEYS} for page in pages])
    rows = rows.repartition(max(actors, len(pages) // batch))
    scored = rows.map_batches(
        Batches, fn_constructor_args=(wait,), batch_size=batch, concurrency=actors, num_cpus=cpus
    )
    return {row["name"]: (row["semantics"], row["quality"]) for row in scored.take_all()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--images", type=int, default=400)
    parser.add_argument("--wait", type=float, default=0.0)
    parser.add_argument("--batch", type=int, default=25)
    options = parser.parse_args()
    pages = pages_of(options.runs, options.images)
    side = 8 if options.wait else 2
    """At a time: as many as there are processors where they are what is waited for, else more."""
    figures: dict[str, Any] = {"images": len(pages), "wait": options.wait, "at_a_time": side}
    found: dict[str, Scored] = {}

    def timed(name: str, act: Callable[[], Scored]) -> None:
        began, used = time.monotonic(), time.process_time()
        found[name] = act()
        figures[name] = {
            "seconds": round(time.monotonic() - began, 2),
            "processor_seconds_here": round(time.process_time() - used, 2),
        }
        print(f"{name}: {figures[name]}", flush=True)

    timed("one after the other", lambda: by(Threads(1), pages, options.wait))
    timed("threads", lambda: by(Threads(side), pages, options.wait))
    with tempfile.TemporaryDirectory() as package:
        began = time.monotonic()
        with ray_here(Path(package)):
            figures["ray_start_seconds"] = round(time.monotonic() - began, 2)
            actors = RayActors(actors=2, parallel=side // 2)
            timed("ray actors", lambda: by(actors, pages, options.wait))
            for name in ("ray data", "ray data, again"):
                timed(name, lambda: by_ray_data(pages, options.wait, options.batch, side, 2 / side))
    first = found["one after the other"]
    assert len(first) == len(pages) and all(one == first for one in found.values()), "scores differ"
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
