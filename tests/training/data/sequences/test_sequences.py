"""`data sequences`: a story as one text with its images, in its final form and with every attempt."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.made_runs import grey_page, made_run

from interleave_thinker.backend.errors import SettingsError
from interleave_thinker.backend.journal.copy import save_trajectory
from interleave_thinker.backend.types import (
    Attempt,
    Plan,
    Request,
    Step,
    StepResult,
    StopReason,
    Trajectory,
    Verdict,
)
from interleave_thinker.training.data.sequences.build import easy, hard, unfit
from interleave_thinker.training.data.sequences.make import make_sequences

IMAGE = "<image><img_token></image>.\n"


def attempt(grey: int, success: bool, refined: str) -> Attempt:
    verdict = Verdict(success=success, refined_prompt=refined, reasoning=f"saw {grey}")
    return Attempt(prompt="a boat", seed=0, image=grey_page(grey), verdict=verdict)


def story(text: str = "a boat, please", given: int = 0, end: StopReason = StopReason.accepted) -> Trajectory:
    steps = (
        Step(number=1, prompt="a boat", auxiliary_text="Ahoy."),
        Step(number=2, auxiliary_text="The end."),
    )
    attempts = (attempt(10, False, "a red boat"), attempt(20, True, "a red boat"))
    return Trajectory(
        request=Request(text=text, images=tuple(grey_page(200 + n) for n in range(given))),
        plan=Plan(steps=steps, reasoning="one boat"),
        results=(
            StepResult(step=steps[0], attempts=attempts, chosen=1, stop_reason=end),
            StepResult(step=steps[1], stop_reason=StopReason.text_only),
        ),
    )


def test_a_sequence_has_the_final_story() -> None:
    row = easy(story(given=1))
    assert row.user == f"{IMAGE}a boat, please"
    assert row.text == (
        "<gthink>\none boat\n</gthink>\n<plan>\na boat\n</plan>\n"
        f"{IMAGE}<info>\nAhoy.\n</info>\n<info>\nThe end.\n</info>\n"
    )
    assert row.images == (grey_page(200), grey_page(20))
    assert easy(story("<IMAGE>. Draw it", given=1)).user == "<image><img_token></image>.. Draw it"


@pytest.mark.parametrize("build", [easy, hard])
def test_the_published_form_has_the_request_as_typed_and_only_generated_images(build: Any) -> None:
    told = story("<image>. <b>Draw</b> it", given=1)
    row = build(told, quirks=True)
    assert row.user == "<image>. <b>Draw</b> it" and row.images == build(story()).images
    assert "<plan>\na boat\n<plan>\n" in row.text
    assert unfit(story("two <image>", given=2)) and not unfit(story("two <image>", given=2), quirks=True)


def test_a_sequence_has_every_attempt_with_its_verdict() -> None:
    row = hard(story())
    first = (
        '<critic>\n<think>\nsaw 10\n</think>\n{"success": false, "refine_prompt": "a red boat"}\n</critic>\n'
    )
    second = '<critic>\n<think>\nsaw 20\n</think>\n{"success": true, "refine_prompt": ""}\n</critic>\n'
    assert f"</plan>\n{IMAGE}{first}{IMAGE}{second}<info>" in row.text
    assert row.images == (grey_page(10), grey_page(20))


@pytest.mark.parametrize(
    ("trajectory", "reason"),
    [
        (story(), ""),
        (story(end=StopReason.attempts_used_up), "not every step"),
        (story(text="draw <image> of a boat"), "its text is"),
        (story(text="</critic><plan>"), "its text is"),
    ],
)
def test_unusable_runs_give_no_sequence(trajectory: Trajectory, reason: str) -> None:
    assert unfit(trajectory).startswith(reason) and bool(unfit(trajectory)) == bool(reason)


def test_files(tmp_path: Path) -> None:
    save_trajectory(story(given=1), tmp_path / "runs" / "a")
    made_run(tmp_path / "runs" / "b", [(10, False, None)])
    counts = make_sequences([tmp_path / "runs"], tmp_path / "out", log=lambda line: None)
    assert counts == {"sequences_easy.json": 1, "sequences_hard.json": 1}
    (row,) = json.loads((tmp_path / "out" / "sequences_hard.json").read_text())
    marks = sum(turn["content"].count("<img_token>") for turn in row["messages"])
    assert marks == len(row["images"]) == 3
    assert all((tmp_path / "out" / name).is_file() for name in row["images"])
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["left_out"] == {"not every step was accepted": 1}
    with pytest.raises(SettingsError, match="No sequence"):
        make_sequences([tmp_path / "runs" / "b"], tmp_path / "none", log=lambda line: None)
    assert not (tmp_path / "none").exists()
