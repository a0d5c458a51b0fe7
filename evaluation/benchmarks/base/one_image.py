"""Submissions of single images, for benchmarks that judge one image per item.

The last generated image counts. A gap is filled with a plain gray image, because these evaluators abort or
report no figure if a file is missing.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ....backend.pictures import Picture
from .benchmark import Answers, BenchmarkItem, BenchmarkTraits, ItemAnswer, ItemFault, SubmissionPlace
from .rows import image_fault, write_image

GRAY = (128, 128, 128)
GAP_SIZE = (512, 512)


class OneImageBenchmark(BenchmarkTraits):
    """A benchmark whose submission has one image per item."""

    needs_image = True

    def files(self, folder: Path, item: BenchmarkItem) -> list[Path]:
        """Return where the evaluator looks for an item's image, by priority. Images go to the first."""
        return [folder / f"{item.id}.png"]

    def write(self, place: SubmissionPlace, answers: Answers) -> list[str]:
        """Write one image per item.

        Raises:
            OSError: If a file cannot be written.
        """
        for item, answer in answers:
            write_image(self.files(place.folder, item)[0], _last_picture(answer))
        return []

    def read(self, folder: Path, items: Iterable[BenchmarkItem]) -> list[ItemFault]:
        """Return the items whose image is missing, damaged or not RGB."""
        faults: list[ItemFault] = []
        for item in items:
            files = self.files(folder, item)
            fault = image_fault(item, next((one for one in files if one.exists()), files[0]))
            if fault is not None:
                faults.append(fault)
        return faults


def _last_picture(answer: ItemAnswer | None) -> Picture:
    if answer is None or not answer.pictures:
        from PIL import Image

        return Picture(Image.new("RGB", GAP_SIZE, GRAY))
    return answer.pictures[-1]
