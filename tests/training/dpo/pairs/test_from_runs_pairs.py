"""Pairs from constructed runs: which answers are compared, and which are not."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support.made_runs import PROMPT, made_run, say

from interleave_thinker.backend.answers.reading import read_verdict
from interleave_thinker.backend.errors import SettingsError
from interleave_thinker.backend.prompts import default_prompt_set
from interleave_thinker.training.data.from_runs.convert import RunConverter
from interleave_thinker.training.data.from_runs.settings import RunsData
from interleave_thinker.training.data.rows.preference import CriticPair, read_critic_pairs
from interleave_thinker.training.dpo.pairs.choosing import Worth, best_and_worst, counted, show
from interleave_thinker.training.dpo.pairs.from_runs import RunPairs, pairs_from_runs


def pairs_of(
    tmp_path: Path,
    *runs: Path,
    success_at: float | None = None,
    said: list[str] | None = None,
    **settings: Any,
) -> Sequence[CriticPair]:
    log = said if said is not None else []
    converter = RunConverter(RunsData(success_at=success_at), default_prompt_set(), log=log.append)
    path = pairs_from_runs(converter, RunPairs(**settings), runs, tmp_path / "pairs")
    rows, problems = read_critic_pairs(path)
    assert not problems
    return rows


def test_a_rejection_with_a_note_is_preferred_to_the_critics_verdict(tmp_path: Path) -> None:
    run = made_run(tmp_path / "run", [(10, True, None), (200, True, None)])
    say(run, 0, accepted=False, better_prompt="a far lighter page", note="It is dark.")
    (pair,) = pairs_of(tmp_path, run)
    assert (pair.why, pair.by, pair.truth) == ("overruled", "human", False)
    chosen, rejected = read_verdict(pair.chosen), read_verdict(pair.rejected)
    assert (chosen.success, chosen.refined_prompt, chosen.reasoning) == (
        False,
        "a far lighter page",
        "It is dark.",
    )
    assert (rejected.success, rejected.reasoning) == (True, "seen 10")
    assert all((tmp_path / "pairs" / name).is_file() for name in pair.images)
    report = json.loads((tmp_path / "pairs" / "report.json").read_text())
    assert report["pairs"] == 1 and report["by_rule"] == {"overruled": 1}


def test_a_correction_without_a_reason_is_skipped_by_default(tmp_path: Path) -> None:
    run = made_run(tmp_path / "run", [(10, True, None)])
    say(run, 0, accepted=False, better_prompt="a far lighter page")
    said: list[str] = []
    with pytest.raises(SettingsError, match="No preference pairs"):
        pairs_of(tmp_path, run, said=said)
    assert any("without reasoning" in line for line in said)
    (pair,) = pairs_of(tmp_path, run, without_reasoning=True)
    assert read_verdict(pair.chosen).reasoning == ""


def test_a_refined_prompt_whose_image_was_rejected_loses_to_the_accepted_prompt(tmp_path: Path) -> None:
    run = made_run(tmp_path / "run", [(10, False, None), (20, False, None), (200, True, None)])
    rows = pairs_of(tmp_path, run)
    (pair,) = [row for row in rows if row.why == "remedy"]
    chosen, rejected = read_verdict(pair.chosen), read_verdict(pair.rejected)
    assert rejected.refined_prompt == f"{PROMPT} 1" and chosen.refined_prompt == f"{PROMPT} 2"
    assert chosen.success is rejected.success is False and chosen.reasoning == rejected.reasoning == "seen 10"
    assert len(rows) == 1, "the second proposal was accepted, and nothing is better than it"


def test_two_runs_with_the_same_question_are_compared_by_correctness(tmp_path: Path) -> None:
    right = made_run(tmp_path / "a", [(10, False, 2.0)])
    wrong = made_run(tmp_path / "b", [(10, True, 2.0)])
    pair = next(row for row in pairs_of(tmp_path, right, wrong, success_at=8.0) if row.why == "two answers")
    assert read_verdict(pair.chosen).success is False and read_verdict(pair.rejected).success is True
    assert pair.truth is False and pair.by == "scorer"


def test_the_rejection_with_the_better_next_image_is_chosen(tmp_path: Path) -> None:
    from interleave_thinker.backend.journal.copy import save_trajectory
    from interleave_thinker.backend.loop.replay import load_trajectory

    made_run(tmp_path / "low", [(10, False, 2.0), (20, False, 3.0)])
    trajectory = load_trajectory(made_run(tmp_path / "first", [(10, False, 2.0), (200, False, 9.0)]))
    (result,) = trajectory.results
    first, second = result.attempts
    assert first.verdict
    other = first.verdict.model_copy(update={"refined_prompt": "a page full of light"})
    attempts = (
        first.model_copy(update={"verdict": other}),
        second.model_copy(update={"prompt": other.refined_prompt}),
    )
    results = (result.model_copy(update={"attempts": attempts}),)
    save_trajectory(trajectory.model_copy(update={"results": results}), tmp_path / "high")
    rows = pairs_of(tmp_path, tmp_path / "low", tmp_path / "high")
    (pair,) = [row for row in rows if row.why == "two answers"]
    assert read_verdict(pair.chosen).refined_prompt == "a page full of light"
    assert (pair.chosen_score, pair.rejected_score) == (9.0, 3.0)
    with pytest.raises(SettingsError, match="No preference pairs"):
        pairs_of(tmp_path, tmp_path / "low", tmp_path / "high", least_margin=7.0)


def test_a_foreign_folder_is_not_replaced(tmp_path: Path) -> None:
    run = made_run(tmp_path / "run", [(10, False, None), (20, False, None), (200, True, None)])
    (tmp_path / "pairs").mkdir()
    (tmp_path / "pairs" / "diary.txt").write_text("dear diary")
    with pytest.raises(SettingsError, match="other files"):
        pairs_of(tmp_path, run)


@pytest.mark.parametrize(
    ("answers", "pair"),
    [
        ([("a", 0.9), ("b", 0.1)], ("a", "b")),
        ([("a", 0.9), ("b", 0.88)], None),
        ([("a", 0.9), ("b", None)], None),
        ([("longer", 0.9), ("a", 0.9), ("quite long", 0.1), ("bb", 0.1)], ("a", "bb")),
        ([("a", 0.9), (" a ", 0.1)], None),
        ([("a", 0.9), ("  ", 0.0), ("c", 0.2)], ("a", "c")),
    ],
)
def test_the_best_of_samples_is_set_against_the_worst_of_its_length(
    answers: list[tuple[str, float | None]], pair: tuple[str, str] | None
) -> None:
    found = best_and_worst([Worth(*one) for one in answers], 0.05)
    assert (found and (found[0].answer, found[1].answer)) == pair


def test_lopsided_pairs_are_warned_about() -> None:
    def row(chosen: str, rejected: str) -> CriticPair:
        return CriticPair.model_validate(
            {
                "messages": [{"role": "user", "content": "?"}],
                "chosen": chosen,
                "rejected": rejected,
                "truth": True,
            }
        )

    answer = '<think>{}</think>\n\n<answer>{{"previous_step_success": {}, "refine_prompt": "x"}}</answer>'
    longer = [row(answer.format("many words " * 20, "true"), answer.format("few", "false"))]
    said: list[str] = []
    assert len(show(counted(longer), said.append)) == 2
    even = [*longer, row(answer.format("few", "false"), answer.format("many words " * 20, "true"))]
    assert not show(counted(even), said.append)
