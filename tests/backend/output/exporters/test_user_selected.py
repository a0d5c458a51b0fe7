"""A step whose attempt the user picked: every export states it, and none shows the step as open."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.stories import make_trajectory

from interleave_thinker.backend.core.types import StopReason, Trajectory
from interleave_thinker.backend.output.exporters import animation, markdown, page, sheet
from interleave_thinker.backend.output.exporters import sheet as cards
from interleave_thinker.backend.output.report.export_options import words_in
from interleave_thinker.backend.story import outcomes

WORD = "picked by hand"


@pytest.fixture
def picked() -> Trajectory:
    """Return a story whose third step was never accepted, and whose second attempt the user picked."""
    trajectory = make_trajectory()
    results = list(trajectory.results)
    results[2] = results[2].model_copy(update={"chosen": 1, "stop_reason": StopReason.picked})
    return trajectory.model_copy(update={"results": tuple(results)})


def test_the_summary_counts_picks_separately(picked: Trajectory) -> None:
    assert "2 of 4 images accepted · 1 picked by hand" in outcomes.summarize(picked).sentence
    assert WORD not in outcomes.summarize(make_trajectory()).sentence


def test_the_page_shows_the_step_as_good_and_marks_the_attempt(picked: Trajectory) -> None:
    html = page.render(picked)
    assert f'<span class="state good">Attempt 2 {WORD}</span>' in html
    assert html.count(f'<span class="state kept">{WORD}</span>') == 1


def test_markdown_shows_the_picked_attempt(picked: Trajectory, tmp_path: Path) -> None:
    text = markdown.export(picked, tmp_path).read_text(encoding="utf-8")
    assert f"- Attempt 2: not understood, {WORD}" in text and f"*Attempt 2 {WORD}.*" in text


def test_the_sheet_shows_the_step_as_good(picked: Trajectory) -> None:
    def has_green(trajectory: Trajectory) -> int:
        colors = sheet.contact_sheet(trajectory, columns=1).getcolors(1 << 24)
        return dict((color, count) for count, color in colors or []).get(cards.GOOD, 0)

    assert has_green(picked) > has_green(make_trajectory())
    step = outcomes.story_steps(picked)[2]
    marks = [one.mark for one in cards.attempt_cards(step, picked.settings, words_in("en"))]
    assert [WORD in mark for mark in marks] == [False, True, False]


def test_animation_of_all_attempts_shows_the_pick(picked: Trajectory) -> None:
    marks = [frame.mark for frame in animation._frames(picked, attempts=True, words=words_in("en"))]
    assert f"attempt 2: not understood, {WORD}" in marks
