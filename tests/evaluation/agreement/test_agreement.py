"""`evaluate scorer`: agreement with people's verdicts, its intervals and its table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from support.cli_calls import call
from support.made_runs import grey_page, made_run

from interleave_thinker.backend.errors import ChatError, JournalError, ScorerError, SettingsError
from interleave_thinker.backend.feedback.log import Feedback, record_feedback
from interleave_thinker.backend.pictures import Picture
from interleave_thinker.backend.types import Score
from interleave_thinker.evaluation.agreement.annotated import (
    AnnotatedImage,
    Scored,
    annotated_images,
    scored,
)
from interleave_thinker.evaluation.agreement.report import as_lines, critic_scores, measure
from interleave_thinker.evaluation.agreement.statistics import Observed, RankFigures, best_threshold
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


def test_agreement_matches_the_definitions() -> None:
    verdicts = [True, True, False, False, True, False]
    report = measure(images_of(verdicts, 1), [("one", with_scores(9, 8, 8, 2, 1, None))])
    (row,) = report.scorers
    # 3 accepted and 2 rejected: pairs 9>8, 9>2, 8=8, 8>2, 1<8, 1<2.
    assert row.auc.value == row.pair_accuracy.value == pytest.approx(3.5 / 6)
    assert (row.images, row.unscored, row.accepted, row.pairs) == (5, 1, 3, 6)
    assert row.always == 0.6 and row.units == "1 steps"
    assert row.kendall.value == pytest.approx(0.1360827, abs=1e-6)
    assert row.auc.low is None, "one step has no interval"


def test_figures_are_those_of_scipy_also_in_resamples() -> None:
    from scipy.stats import kendalltau, mannwhitneyu, spearmanr

    random = np.random.default_rng(3)
    verdicts, scores = random.random(40) < 0.4, random.integers(0, 6, 40).astype(float)
    observed = Observed(list(verdicts), [n % 12 for n in range(40)], list(range(40)))
    found = RankFigures(observed, scores)
    for row in (0, 1, 2, 999):
        chosen = np.repeat(np.arange(40), observed.weights[row].astype(int))
        truth, values = verdicts[chosen], scores[chosen]
        test = mannwhitneyu(values[truth], values[~truth])
        assert found.auc[row] == pytest.approx(test.statistic / (truth.sum() * (~truth).sum()))
        assert found.spearman[row] == pytest.approx(spearmanr(values, truth).statistic)
        assert found.kendall[row] == pytest.approx(kendalltau(values, truth).statistic)


def test_perfect_and_useless_scorers() -> None:
    verdicts = [number % 3 == 0 for number in range(60)]
    images = images_of(verdicts, 10)
    perfect = with_scores(*(9.0 if one else 1.0 for one in verdicts))
    useless = with_scores(*(float(number % 7) for number in range(60)))
    first, second = measure(images, [("useless", useless), ("perfect", perfect)]).scorers
    assert second.auc.value == second.accuracy.value == second.pair_accuracy.value == 1
    assert 0.8 < (second.auc.low or 0) < 1, "20 accepted images do not prove that it is always right"
    assert 1 < second.threshold < 9 and second.units == "10 runs"
    low, high = first.auc.low or 0, first.auc.high or 0
    assert low < 0.5 < high and abs(first.spearman.value or 0) < 0.2
    assert second.difference is not None and (second.difference.low or 0) > 0.1
    assert first.accuracy.value is not None and first.accuracy.value < 0.75


def test_threshold_is_chosen_on_other_images() -> None:
    random = np.random.default_rng(0)
    verdicts = [bool(one) for one in random.integers(0, 2, 200)]
    noise = with_scores(*random.uniform(0, 10, 200))
    (row,) = measure(images_of(verdicts, 20), [("noise", noise)]).scorers
    assert row.accuracy.value is not None and abs(row.accuracy.value - 0.5) < 0.08
    assert best_threshold(np.array([False, True, True]), np.array([1.0, 4.0, 9.0])) == 2.5


def test_intervals_follow_runs_and_not_images() -> None:
    """Images that are copies of each other within a run must not make the interval narrower."""
    random = np.random.default_rng(1)
    scores = [float(one) for one in random.uniform(0, 10, 24)]
    verdicts = [score + random.normal(0, 4) > 5 for score in scores]
    single = measure(images_of(verdicts, 24), [("one", with_scores(*scores))]).scorers[0].auc
    copied = measure(images_of(verdicts * 10, 24), [("one", with_scores(*scores * 10))]).scorers[0].auc
    assert None not in (single.low, single.high, copied.low, copied.high)
    assert (copied.high or 0) - (copied.low or 0) == pytest.approx(
        (single.high or 0) - (single.low or 0), 0.1
    )


def test_runs_without_rejected_images_are_not_measured(tmp_path: Path) -> None:
    annotated_run(tmp_path / "a", (200, 210, 220), (True, True, True))
    done = call("evaluate", "scorer", tmp_path, "--scorer", "tinyworld")
    assert done.exit_code == 2 and "3 and 0" in done.output
    one_sided = measure(images_of([True, True], 2), [("one", with_scores(1, 2))])
    assert one_sided.scorers[0].auc.value is None
    assert as_lines(one_sided)[4:] == ["| one | 2 | – | – | – | – | – | – | – |"]
    images = images_of([True, False, True], 3)
    rows = [("one", with_scores(1, None, None)), ("two", with_scores(2, 1, 3))]
    assert "over 3 steps" in as_lines(measure(images, rows))[-1], "the first row has no figures"


def test_command_compares_scorers_with_the_critic_of_the_runs(tmp_path: Path) -> None:
    for number in range(12):
        annotated_run(tmp_path / "runs" / f"{number:02}", (200 + number, 20 + number), (True, False))
    pairs = ["[9, 9]", "[9, 9]", "[2, 9]", "[9, 9]"] * 12
    (tmp_path / "script.json").write_text(json.dumps(pairs))
    judge = f"judge:scripted:{tmp_path / 'script.json'}"
    args = ("evaluate", "scorer", tmp_path / "runs", "--scorer", judge, "--scorer", f"min:{judge} + {judge}")
    done = call(*args, "--json", tmp_path / "found.json", "--cache", tmp_path / "cache.sqlite")
    assert done.exit_code == 0, done.output
    found = json.loads((tmp_path / "found.json").read_text())
    assert [row["scorer"] for row in found["scorers"]] == [
        "critic of the runs",
        judge,
        f"min:{judge} + {judge}",
    ]
    assert [row["auc"]["value"] for row in found["scorers"][:2]] == [1, 1]
    assert found["scorers"][1]["pairs"] == 12 and found["images"] == 24
    assert "| judge:CHAT | both parts | your model's |" in done.output
    assert "95 % intervals by bootstrap over 12 runs" in done.output
    (tmp_path / "script.json").write_text(json.dumps(pairs))
    again = call(*args[:5], "--cache", tmp_path / "cache.sqlite")
    assert again.exit_code == 0, "the scores are cached, or the script would be used up"


def test_a_pairwise_judge_is_measured_by_the_pairs_of_a_step(tmp_path: Path) -> None:
    for number in range(3):
        annotated_run(tmp_path / "runs" / str(number), (200 + number, 20 + number), (True, False))
    words = ["first", "second"] * 2 + ["second", "first"]
    (tmp_path / "script.json").write_text(json.dumps([f"<answer>{word}</answer>" for word in words]))
    spec = f"pairwise:scripted:{tmp_path / 'script.json'}"
    done = call("evaluate", "scorer", tmp_path / "runs", "--scorer", spec, "--json", tmp_path / "found.json")
    assert done.exit_code == 0, done.output
    row = json.loads((tmp_path / "found.json").read_text())["scorers"][1]
    assert row["pair_accuracy"]["value"] == pytest.approx(2 / 3) and row["pairs"] == 3


def test_comparisons_are_cached_and_continue_after_a_failure(tmp_path: Path) -> None:
    class Comparing(ByShade):
        def score_together(
            self, before: Picture | None, afters: Sequence[Picture], instruction: str
        ) -> list[Score]:
            return [self.score(before, after, instruction) for after in afters]

    images = images_of([True, False] * 6, 6)
    cache = ContentCache(tmp_path / "scores.sqlite")
    found = scored(Comparing(3, ChatError("The server is busy.")), images, cache)
    assert [number for number, one in enumerate(found.scores) if one is None] == [0, 1, 2, 6, 7, 8]
    assert found.failure.startswith("The server is busy")
    again = Comparing()
    assert None not in scored(again, images, cache).scores and again.calls == 6
    larger = [*images, AnnotatedImage("run 0", 1, None, grey_page(200), "a page", True, None)]
    assert None not in scored(again, larger, cache).scores and again.calls == 9, "compared with another image"
    with pytest.raises(ChatError, match="down"):
        scored(Comparing(300, ChatError("The server is down.")), images)


def test_an_unknown_scorer_is_an_error_before_the_first_image_is_scored(tmp_path: Path) -> None:
    annotated_run(tmp_path / "runs", (200, 210, 20, 30), (True, True, False, False))
    (tmp_path / "script.json").write_text(json.dumps(["[9, 9]"] * 8))
    judge = f"judge:scripted:{tmp_path / 'script.json'}"
    done = call("evaluate", "scorer", tmp_path / "runs", "--scorer", judge, "--scorer", "none-such:M")
    assert done.exit_code == 2 and "none-such" in done.output
    assert "scoring" not in done.output


def test_all_scorers_are_listed_with_license_memory_and_range() -> None:
    done = call("evaluate", "scorer", "--list")
    assert done.exit_code == 0
    rows = [line.split("|")[1:-1] for line in done.output.splitlines() if line.startswith("| ")]
    assert len(rows) == 13 and all(len(row) == 5 and all(map(str.strip, row)) for row in rows)
    assert any("editscore" in row[0] and "0 to 25" in row[4] for row in rows)


def test_critic_without_a_verdict_has_no_score() -> None:
    images = images_of([True, False], 1)
    assert critic_scores(images).scores == [None, None]
    with pytest.raises(SettingsError):
        annotated_images([Path("/nonexistent")])
