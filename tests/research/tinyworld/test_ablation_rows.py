"""Training rows of the ablation's agents."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from interleave_thinker.backend.core.answers.reading import read_verdict
from interleave_thinker.research.tinyworld.data.trajectories import (
    OVERLOOKED,
    TaughtAttempt,
    filtered,
    make_unfiltered,
    trajectories,
)
from interleave_thinker.tinyworld import checkpoint
from interleave_thinker.tinyworld.drawing import draw
from interleave_thinker.tinyworld.generator import load_pipeline
from interleave_thinker.tinyworld.oracle import DrawnImage
from interleave_thinker.tinyworld.scorer import ImageReading, faults, read_image
from interleave_thinker.tinyworld.wording import read_prompt


def page_with(faults_in: int) -> DrawnImage:
    """Return an image in which this many of its four things are missing."""
    edit = read_prompt(
        "a day page with a red sun at the top left and a blue moon at the top and a red boat at the left "
        "and a white cloud at the right"
    )
    assert edit is not None
    scene = edit[0].apply(None)  # type: ignore[arg-type]
    for cell in scene.occupied[:faults_in]:
        scene = scene.put(cell, 0)
    page = draw(scene)
    seen = read_image(page)
    assert isinstance(seen, ImageReading) and len(faults(edit[0].apply(None), seen)) == faults_in  # type: ignore[arg-type]
    return DrawnImage(None, None, edit[0], (), page, seen)


def taught(*faulty: int) -> list[TaughtAttempt]:
    return [TaughtAttempt(page_with(count), f"try {number}", "next") for number, count in enumerate(faulty)]


@pytest.mark.parametrize(
    ("faulty", "kept"),
    [
        ((0,), ["try 0"]),
        ((1,), []),
        ((1, 0), ["try 0", "try 1"]),
        ((1, 2), []),
        ((1, 2, 1), []),
        ((2, 1, 2), ["try 0"]),
        ((2, 1, 0), ["try 0", "try 1", "try 2"]),
    ],
)
def test_trajectories_are_filtered_as_published(faulty: tuple[int, ...], kept: list[str]) -> None:
    assert [one.prompt for one in filtered(taught(*faulty))] == kept


@pytest.mark.stress
def test_only_unfiltered_rows_contain_wrong_verdicts(tmp_path: Path) -> None:
    pipeline = load_pipeline(checkpoint("generator"))
    taken = list(islice(trajectories(pipeline, 3), 240))
    drawn = [one for attempts in taken for one in attempts][:256]
    rows = make_unfiltered(tmp_path, pipeline, len(drawn), 3)
    said = [read_verdict(row.messages[1].content).success for row in rows]
    failed = [verdict for verdict, one in zip(said, drawn, strict=True) if not one.drawn.success]
    assert len(failed) > 50 and abs(sum(map(bool, failed)) / len(failed) - OVERLOOKED) < 0.15
    assert all(verdict for verdict, one in zip(said, drawn, strict=True) if one.drawn.success)
    kept = [one for attempts in taken for one in filtered(attempts)]
    assert kept and not any(one.overlooked for one in kept)


def test_a_wrongly_accepted_image_ends_its_trajectory_and_is_filtered_out() -> None:
    first, last = taught(2, 1)
    assert filtered([first, replace(last, overlooked=True)]) == [first]
    assert filtered([replace(first, overlooked=True)]) == []
