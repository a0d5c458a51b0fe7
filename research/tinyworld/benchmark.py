"""The tiny world as a benchmark: requests that were not used in training, judged exactly from the pixels.

It needs neither data nor a judge, so the whole chain from planning to figures runs anywhere with exact
results. Its requests have no input image. Images are judged from the submission, like in other evaluators,
and not from the run.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from random import Random

from ...backend.core.errors import SettingsError
from ...backend.core.pictures import Picture
from ...tinyworld.scorer import faults, read_image
from ..benchmarks.benchmark import BenchmarkData, BenchmarkItem, BenchmarkTerms, Values
from ..benchmarks.benchmark_files import ContentBenchmark, checked, read_content
from .world.requests import TinyStory, random_story

STORIES = 400
SEED = "benchmark/0"


@lru_cache(maxsize=1)
def stories() -> dict[str, TinyStory]:
    """Return the stories by id; they never change."""
    rng = Random(SEED)
    found: dict[str, TinyStory] = {}
    texts: set[str] = set()
    while len(found) < STORIES:
        story = random_story(rng, "evaluate")
        if story.before is None and story.pages and story.text not in texts:
            texts.add(story.text)
            found[f"story-{len(found) + 1:03}"] = story
    return found


class TinyWorldBenchmark(ContentBenchmark):
    """Tiny world: 400 stories with one to six images."""

    metrics = ("story", "pages")
    yes_no = frozenset({"story"})
    terms = BenchmarkTerms(
        title="Tiny world",
        evaluator="built in, exact",
        data="It is built in.",
        licences="Apache-2.0, as this package.",
    )

    def items(self, data: BenchmarkData) -> list[BenchmarkItem]:
        """Return the built-in requests."""
        if data.path is not None:
            raise SettingsError("The tiny world's requests are built in.", "Omit --data.")
        items = [
            BenchmarkItem(
                name, story.text, category=f"{len(story.pages)} page{'s' if len(story.pages) > 1 else ''}"
            )
            for name, story in stories().items()
        ]
        return checked(items, data.split)

    def values(
        self, submission: Path, results: Path | None, items: Iterable[BenchmarkItem]
    ) -> dict[str, Values]:
        """Judge the images of the submission.

        `story` is 1 if all images are correct and their number is right; `pages` is the share of images that
        are correct and in their place.
        """
        if results is not None:
            raise SettingsError("The tiny world has a built-in check.", "Omit --results.")
        found: dict[str, Values] = {}
        for item in items:
            content, fault = read_content(submission, item)
            if fault is None:
                names = [part["image"] for part in content if part["type"] == "image"]
                found[item.id] = _values([submission / item.id / name for name in names], stories()[item.id])
        return found


def _values(paths: list[Path], story: TinyStory) -> Values:
    right = [
        not faults(scene, read_image(Picture.open(path)))
        for path, scene in zip(paths, story.pages, strict=False)
    ]
    whole = len(paths) == len(story.pages) and all(right)
    return {"story": float(whole), "pages": sum(right) / len(story.pages)}


BENCHMARK = TinyWorldBenchmark()
