"""The rules that choose rows from judged images: improvement, best attempt, RL, balance, held-out runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from interleave_thinker.backend.core.types import Score, Verdict
from interleave_thinker.training.from_runs.attempts import JudgedImage, JudgedStep
from interleave_thinker.training.from_runs.filter import (
    ImageDecision,
    choose_rows,
    held_out_of,
    with_found_variance,
)
from interleave_thinker.training.from_runs.settings import FilterData, RunsData

Told = tuple[bool, float | None, bool | None]
"""The critic's verdict, the score if any, and a person's label if any."""


def step(run: str, *told: Told, split: str = "", question: str = "", reasoning: str = "so") -> JudgedStep:
    """Return a step with these attempts. Steps with the same `question` have the same images."""
    question = question or run
    images = [
        JudgedImage(
            run=run,
            pictures=Path(),
            step=1,
            attempt=number,
            original=question,
            used=f"{question} {number}",
            before=None,
            after=f"{question} {number}",
            size=(4, 4),
            said=Verdict(success=said),
            label=label,
            score=None if score is None else Score(semantics=score, quality=score),
            answer=Verdict(success=said if label is None else label, reasoning=reasoning),
            source="critic" if label is None else "human",
            generator="",
            seed=number,
        )
        for number, (said, score, label) in enumerate(told)
    ]
    return JudgedStep(run, 1, tuple(images), split)


def scored(run: str, *scores: float) -> JudgedStep:
    return step(run, *((score >= 6.5, score, None) for score in scores))


def chosen(steps: Sequence[JudgedStep], **settings: Any) -> list[ImageDecision]:
    fixed: dict[str, Any] = {"balance": 0.0, "held_out_runs": 0.0, "rl_variance": 100}
    return choose_rows(steps, RunsData(**fixed | settings))


def fates(found: Sequence[ImageDecision]) -> list[str]:
    return [one.fate for one in found]


def kept(found: Sequence[ImageDecision], *wanted: str) -> dict[str, list[int]]:
    """Return the attempts with one of these fates by run."""
    runs: dict[str, list[int]] = {}
    for one in found:
        if one.fate in wanted:
            runs.setdefault(one.judged.run, []).append(one.judged.attempt)
    return runs


CHAINS: dict[str, tuple[list[float], list[int]]] = {
    "worse at once": ([5, 3], []), "as good": ([5, 5], [0]), "better, then worse": ([3, 6, 4], [0, 1]),
    "better, then as good": ([3, 6, 6], [0, 1]), "one attempt": ([4], [0]), "one bad attempt": ([2], []),
    "always bad": ([1, 2.5, 2], []), "widest": ([2, 9, 9.5], [0, 1, 2]),
    "down and up": ([6, 2, 7], [0, 1, 2]), "just at the floor": ([3, 3], [0]),
}  # fmt: skip
"""Overall scores of each trajectory's attempts, and which attempts are kept by the published rules."""
STEPS = [scored(name, *scores) for name, (scores, _) in CHAINS.items()]


def test_the_published_rules() -> None:
    settings = with_found_variance(STEPS, FilterData(balance=0.0, rl_share=0.2))
    found = choose_rows(STEPS, settings)
    assert kept(found, "sft", "rl") == {name: some for name, (_, some) in CHAINS.items() if some}
    assert kept(found, "rl") == {"widest": [0, 1, 2]} and 4.67 < settings.rl_variance < 11.4
    reasons = {one.judged.run: one.reason for one in found if one.fate == "left out"}
    assert reasons["worse at once"] == "no later attempt is as good as the first"
    assert reasons["always bad"] == reasons["one bad attempt"]
    assert reasons["always bad"] == "the step's best image scores below the minimum"
    assert reasons["better, then worse"] == "after the step's best attempt"


@pytest.mark.parametrize(("share", "rows"), [(0.0, 0), (0.2, 3), (0.4, 6), (1.0, 10)])
def test_the_target_share_determines_the_variance(share: float, rows: int) -> None:
    """Whole steps go to RL; three rows of single attempts or equal scores have no variance."""
    found = choose_rows(STEPS, with_found_variance(STEPS, FilterData(balance=0.0, rl_share=share)))
    assert sum(map(len, kept(found, "rl").values())) == rows


@pytest.mark.parametrize(
    ("settings", "rows"),
    [
        ({}, 3),
        ({"improved_only": False}, 4),
        ({"improved_only": False, "cut_at_best": False}, 6),
        ({"single": False}, 2),
        ({"floor": 7}, 1),
    ],
)
def test_every_rule_can_be_switched_off(settings: dict[str, Any], rows: int) -> None:
    steps = [scored("a", 5, 3), scored("b", 3, 6, 4), scored("c", 9)]
    assert fates(chosen(steps, **settings)).count("sft") == rows


def test_without_scores_of_all_images_the_critics_verdicts_rank() -> None:
    unscored = step("a", (False, None, None), (True, None, None), (False, None, None))
    mixed = step("b", (True, None, None), (False, 9.0, None))
    assert fates(chosen([unscored, mixed])) == ["sft", "sft", "left out", "left out", "left out"]


def test_a_persons_label_ranks_above_scores_and_keeps_its_image() -> None:
    found = chosen([step("a", (True, 9.0, False), (False, 2.0, True), (True, 8.0, None))])
    assert fates(found) == ["sft", "sft", "left out"] and [one.verdict for one in found[:2]] == [False, True]
    assert found[0].reason == "annotated by a person"


def test_steps_with_varying_scores_go_to_reinforcement() -> None:
    steps = [scored("wide", 2, 9), scored("narrow", 5, 6)]
    assert fates(chosen(steps, rl_variance=1.0)) == ["rl", "rl", "sft", "sft"]
    assert fates(chosen(steps, rl_variance=1.0, both=True)) == ["sft and rl"] * 2 + ["sft"] * 2
    labeled = step("wide", (False, 2.0, False), (True, 9.0, None))
    assert fates(chosen([labeled], rl_variance=1.0)) == ["sft and rl", "rl"], "annotations are used for both"


def test_rows_without_reasoning_can_be_left_out() -> None:
    steps = [step("a", (True, None, False), reasoning=""), step("b", (True, None, None))]
    assert fates(chosen(steps)) == ["sft", "sft"]
    found = chosen(steps, reasoning="required")
    assert [(one.fate, one.reason) for one in found] == [
        ("left out", "no reasoning"),
        ("sft", "the step's only attempt"),
    ]


def one_image_each(right: int, wrong: int, labels: int = 0) -> list[JudgedStep]:
    """Return steps of one image; the first ones of right images are confirmed by a person."""
    return [
        step(f"{verdict} {number}", (verdict, None, True if verdict and number < labels else None))
        for verdict, count in ((True, right), (False, wrong))
        for number in range(count)
    ]


def test_balancing_removes_unannotated_rows_of_the_more_frequent_verdict() -> None:
    steps = one_image_each(6, 3, labels=2)
    found = chosen(steps, balance=0.5)
    assert Counter(one.reason for one in found if one.fate == "left out") == {
        "too many rows say True, and this one is not annotated": 3
    }
    assert found == chosen(steps, balance=0.5) and all(one.copies == 1 for one in found)
    assert fates(found)[:2] == ["sft", "sft"]
    assert fates(chosen(steps, balance=0.4)).count("left out") == 2


def test_balancing_keeps_annotations_and_repeats_overruling_rows_first() -> None:
    overruled = [step("overruled", (True, None, False)), step("too", (True, None, False))]
    found = chosen([*one_image_each(8, 1, labels=8), *overruled], balance=0.5)
    copies = {one.judged.run: one.copies for one in found if one.copies > 1}
    assert (
        sum(one.copies for one in found if one.verdict)
        == 8
        == sum(one.copies for one in found if not one.verdict)
    )
    assert copies == {"overruled": 3, "too": 3, "False 0": 2} and "left out" not in fates(found)
    single = chosen([*one_image_each(8, 1, labels=8), *overruled], balance=0.5, copies=1)
    assert all(one.copies == 1 for one in single)


@pytest.mark.parametrize(("by", "rows"), [("repeat", 48), ("drop", 12)])
def test_verdicts_are_balanced_up_or_down(by: str, rows: int) -> None:
    settings = FilterData(balance=0.5, balance_by=by, held_out_runs=0.0)  # type: ignore[arg-type]
    found = [one for one in choose_rows(one_image_each(24, 6), settings) if one.fate == "sft"]
    assert sum(one.copies for one in found) == rows
    assert sum(one.copies for one in found if one.verdict) == rows / 2


def test_fine_tuning_and_reinforcement_share_the_balance() -> None:
    wide = [step(f"wide {number}", (False, 1.0, False), (True, 9.0, True)) for number in range(4)]
    narrow = [step(f"one {number}", (True, 5.0, True)) for number in range(3)]
    found = chosen([*wide, *narrow], balance=0.5, copies=2, rl_variance=1.0)
    assert fates(found) == ["sft and rl"] * 8 + ["sft"] * 3, "separate balancing would lose annotations"
    assert sum(one.copies - 1 for one in found) == 3


def test_duplicate_questions_are_merged_and_contradictions_left_out() -> None:
    same = [step(name, (True, None, label), question="q") for name, label in (("a", None), ("b", False))]
    assert kept(chosen([*same, step("c", (True, None, None))]), "sft") == {"b": [0], "c": [0]}
    found = chosen([*same, step("d", (True, None, True), question="q")])
    assert {one.reason for one in found} == {"contradicting annotations of the same image"}


def test_runs_with_annotations_are_held_out_as_a_whole() -> None:
    steps = [
        step(f"{number}", (False, None, False if number < 10 else None), (True, None, None))
        for number in range(20)
    ]
    found = chosen(steps, held_out_runs=0.3)
    held = set(kept(found, "held out"))
    assert len(held) >= 3 and held < {str(number) for number in range(10)}
    assert not held & set(kept(found, "sft")), "only annotated attempts are held out"
    reasons = {one.reason for one in found if one.judged.run in held and one.fate == "left out"}
    assert reasons == {"in a held-out run and not annotated"}
    assert set(kept(chosen(steps, held_out_runs=0.3, held_out_seed=1), "held out")) != held


def test_the_split_of_the_prompts_is_kept() -> None:
    splits = ["train", "validation", "held out", ""]
    found = chosen([step(split or "none", (True, 8.0, None), split=split) for split in splits])
    assert fates(found) == ["sft", "held out", "held out", "sft"]


def test_a_held_out_run_stays_held_out_with_more_runs() -> None:
    runs = [f"run {number}" for number in range(400)]
    many = held_out_of(runs, 0.2, 0)
    assert 0.15 < len(many) / 400 < 0.25
    for count in (2, 5, 30, 200):
        few = held_out_of(runs[:count], 0.2, 0)
        assert max(1, round(0.2 * count)) <= len(few) < count
        assert many & set(runs[:count]) <= few or len(few) == count - 1
    assert held_out_of(runs[:1], 0.5, 0) == held_out_of(runs, 0.0, 0) == set()
