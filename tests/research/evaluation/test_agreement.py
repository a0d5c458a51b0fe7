"""`evaluate scorer`: agreement with people's verdicts, its intervals and its table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from support.cli_calls import call
from support.made_runs import grey_page, made_run

from interleave_thinker.backend.core.errors import ChatError, JournalError, ScorerError
from interleave_thinker.backend.core.pictures import Picture
from interleave_thinker.backend.core.types import Score
from interleave_thinker.backend.output.feedback_log import Feedback, record_feedback
from interleave_thinker.research.evaluation.agreement import (
    AnnotatedImage,
    Scored,
    annotated_images,
    as_lines,
    measure,
    scored,
)
from interleave_thinker.training.content_cache import ContentCache


class ByShade:
    """Scores images by their gray value, counts its calls, and fails at dark images."""

    identity = "by shade"

    def __init__(self, fails_below: int = 0, error: Exception | None = None) -> None:
        self.fails_below, self.error, self.calls = fails_below, error, 0

    def score(self, before: Picture | None, after: Picture, instruction: str) -> Score:
        self.calls += 1
        shade = after.image.getpixel((0, 0))[0]  # type: ignore[index]
        if shade < self.fails_below:
            raise self.error or ScorerError("too dark")
        return Score(semantics=shade / 25.5, quality=shade / 25.5)


def annotated_run(folder: Path, shades: Sequence[int], verdicts: Sequence[bool | None]) -> Path:
    run = made_run(folder, [(shade, shade > 100, None) for shade in shades])
    for attempt, accepted in enumerate(verdicts):
        if accepted is not None:
            record_feedback(run, Feedback(step=1, attempt=attempt, accepted=accepted))
    return run


def images_of(verdicts: Sequence[bool], runs: int) -> list[AnnotatedImage]:
    return [
        AnnotatedImage(f"run {n % runs}", 1, None, grey_page(n % 256), "a page", accepted, None)
        for n, accepted in enumerate(verdicts)
    ]


def with_scores(*values: float | None) -> Scored:
    return Scored([None if one is None else Score(semantics=one, quality=one) for one in values])


def test_verdicts_are_read_once_for_each_image(tmp_path: Path) -> None:
    annotated_run(tmp_path / "a", (200, 50, 120), (True, False, None))
    annotated_run(tmp_path / "b", (50,), (True,))
    images = annotated_images([tmp_path])
    assert [(one.run, one.accepted, one.critic) for one in images] == [
        (f"{tmp_path.name}/a", True, 10.0),
        (f"{tmp_path.name}/b", True, 0.0),
    ], "the second image is the same, and its last verdict counts"
    assert images[0].before == grey_page(128) and images[0].prompt == "a light page"


def test_damaged_runs_stop_the_measurement_or_are_left_out(tmp_path: Path) -> None:
    annotated_run(tmp_path / "a", (200,), (True,))
    damaged = annotated_run(tmp_path / "b", (50,), (False,))
    (damaged / "trajectory.json").write_text("{")
    with pytest.raises(JournalError, match="skip-bad"):
        annotated_images([tmp_path])
    lines: list[str] = []
    assert len(annotated_images([tmp_path], skip_bad=True, log=lines.append)) == 1
    assert "left out" in lines[0]


def test_scores_are_cached_and_failures_are_reported(tmp_path: Path) -> None:
    images = images_of([True, False] * 20, 4)
    cache = ContentCache(tmp_path / "scores.sqlite")
    dark = ByShade(fails_below=5)
    found = scored(dark, images, cache, parallel=3)
    assert found.scores[:6] == [None] * 5 + [Score(semantics=5 / 25.5, quality=5 / 25.5)]
    assert found.failure.startswith("too dark")
    again = ByShade()
    assert None not in scored(again, images, cache).scores and again.calls == 5
    with pytest.raises(ChatError, match="down"):
        scored(ByShade(300, ChatError("The server is down.")), images)


def test_the_figure_is_the_share_of_won_pairs() -> None:
    verdicts = [True, True, False, False, True, False]
    (row,) = measure(images_of(verdicts, 1), [("one", with_scores(9, 8, 8, 2, 1, None))]).scorers
    # 3 accepted and 2 rejected: pairs 9>8, 9>2, 8=8, 8>2, 1<8, 1<2.
    assert row.auc == pytest.approx(3.5 / 6)
    assert (row.images, row.unscored, row.units) == (5, 1, "1 steps")
    assert row.low is None, "one step has no interval"


def test_perfect_and_useless_scorers() -> None:
    verdicts = [number % 3 == 0 for number in range(60)]
    perfect = with_scores(*(9.0 if one else 1.0 for one in verdicts))
    useless = with_scores(*(float(number % 7) for number in range(60)))
    rows = [("useless", useless), ("perfect", perfect)]
    first, second = measure(images_of(verdicts, 10), rows).scorers
    assert second.auc == second.high == 1 and second.units == "10 runs"
    assert 0.8 < (second.low or 0) < 1, "20 accepted images do not prove that it is always right"
    assert (first.low or 1) < 0.5 < (first.high or 0)


def test_runs_without_rejected_images_are_not_measured(tmp_path: Path) -> None:
    annotated_run(tmp_path / "a", (200, 210, 220), (True, True, True))
    done = call("evaluate", "scorer", tmp_path, "--scorer", "tinyworld")
    assert done.exit_code == 2 and "3 and 0" in done.output
    one_sided = measure(images_of([True, True], 2), [("one", with_scores(1, 2))])
    assert as_lines(one_sided)[4:] == ["| one | 2 | 0 | – | – |"]


def test_command_measures_scorers_and_the_critic_of_the_runs(tmp_path: Path) -> None:
    for number in range(12):
        annotated_run(tmp_path / "runs" / f"{number:02}", (200 + number, 20 + number), (True, False))
    script = tmp_path / "script.json"
    replies = json.dumps(["[9, 9]", "[9, 9]", "[2, 9]", "[9, 9]"] * 12)
    script.write_text(replies)
    plain = f"judge:scripted:{script}"
    args = ("evaluate", "scorer", tmp_path / "runs", "--scorer", plain)
    done = call(*args, "--json", tmp_path / "found.json", "--cache", tmp_path / "cache.sqlite")
    assert done.exit_code == 0, done.output
    found = json.loads((tmp_path / "found.json").read_text())
    assert [(row["scorer"], row["auc"]) for row in found["scorers"]] == [
        ("critic of the runs", 1),
        (plain, 1),
    ]
    assert found["images"] == 24 and f"| {plain} | 24 | 0 | 1.000 (" in done.output
    again = call(*args, "--cache", tmp_path / "cache.sqlite")
    assert again.exit_code == 0, "the scores are cached, or the script would be used up"
