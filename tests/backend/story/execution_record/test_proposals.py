"""The meaning of a record's `refine_prompt` in published files, our current ones and older ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interleave_thinker import Attempt, JournalError, Picture, Plan, StepResult
from interleave_thinker.backend.core.types import Request, RunSettings, Step, StopReason, Trajectory, Verdict
from interleave_thinker.backend.output.exporters import record
from interleave_thinker.backend.story.execution_record.trajectory import record_trajectory

PAGE = Picture.white((4, 4))
SLOW = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

prompts = st.sampled_from(["P0", "R1", "R2", "R3", " R1", "x" * 40])
success = st.sampled_from([True, False, False, None])
# One step: its prompt, then the critic's verdict and refined prompt for each image.
said = st.tuples(success, st.one_of(st.just(""), prompts))
histories = st.lists(st.tuples(prompts, st.lists(said, min_size=1, max_size=5)), min_size=1, max_size=4)


def told(history: Any) -> list[list[tuple[str, bool | None, str]]]:
    """(prompt used, success, refined prompt) of every attempt, as a loop makes them."""
    steps = []
    for prompt, attempts in history:
        step, used = [], prompt
        for verdict, proposed in attempts:
            proposed = "" if verdict else proposed
            step.append((used, verdict, proposed))
            used = proposed or used
        steps.append(step)
    return steps


def write_record(folder: Path, history: Any, drawn_with: bool, **more: Any) -> Path:
    """Write a file as published, or with the prompts used, as older versions of this package did."""
    entries = [
        {
            "step": number,
            "prompt": prompt,
            "refine_prompt": used if drawn_with else proposed,
            "source_img": None,
            "target_img": f"step{number}.png",
            "success": verdict,
            "reasoning": "r",
        }
        for number, ((prompt, _), step) in enumerate(zip(history, told(history), strict=True), 1)
        for used, verdict, proposed in step
    ]
    path = folder / "execution_record.json"
    path.write_text(json.dumps({"user_input": "x", "steps": entries, **more}))
    return path


def made(history: Any) -> Trajectory:
    results = []
    for number, ((prompt, _), step) in enumerate(zip(history, told(history), strict=True), 1):
        attempts = tuple(
            Attempt(
                prompt=used,
                seed=0,
                image=PAGE,
                verdict=Verdict(success=verdict, refined_prompt=used if verdict else proposed, reasoning="r"),
            )
            for used, verdict, proposed in step
        )
        results.append(
            StepResult(
                step=Step(number=number, prompt=prompt),
                attempts=attempts,
                chosen=0,
                stop_reason=StopReason.attempts_used_up,
            )
        )
    plan = Plan(steps=tuple(result.step for result in results))
    return Trajectory(request=Request(text="x"), plan=plan, results=tuple(results), settings=RunSettings())


THREE = [("P0", [(False, "R1"), (False, "R2"), (True, "")])]


def test_the_refined_prompt_is_written_and_the_used_prompt_is_read(tmp_path: Path) -> None:
    path = record.export(made(THREE), tmp_path)
    data = json.loads(path.read_text())
    assert [entry["refine_prompt"] for entry in data["steps"]] == ["R1", "R2", ""]
    assert data["refine_prompt_is"] == "proposal" and "drawn_with" not in data["steps"][1]
    found = record.read_record(path)
    assert [entry.drawn_with for entry in found.entries] == ["P0", "R1", "R2"]
    again = record_trajectory(found).results[0].attempts
    assert [attempt.prompt for attempt in again] == ["P0", "R1", "R2"]
    assert [attempt.verdict and attempt.verdict.refined_prompt for attempt in again] == ["R1", "R2", "R2"]


@SLOW
@given(histories)
def test_our_record_is_read_back_unchanged(tmp_path: Path, history: Any) -> None:
    trajectory = made(history)
    again = record_trajectory(record.read_record(record.export(trajectory, tmp_path)))
    for result, before in zip(again.results, trajectory.results, strict=True):
        assert [one.prompt for one in result.attempts] == [one.prompt for one in before.attempts]
        assert [one.verdict for one in result.attempts] == [one.verdict for one in before.attempts]


@SLOW
@given(histories)
def test_our_older_files_are_read_as_prompts_used(tmp_path: Path, history: Any) -> None:
    found = record.read_record(write_record(tmp_path, history, drawn_with=True))
    attempts = [attempt for step in told(history) for attempt in step]
    assert [entry.drawn_with for entry in found.entries] == [used for used, _, _ in attempts]
    for entry, (_, _, proposed) in zip(found.entries, attempts, strict=True):
        assert entry.proposed in (None, proposed), "missing prompts are not invented"


@SLOW
@given(histories)
def test_published_files_are_read_with_the_prompts_used(tmp_path: Path, history: Any) -> None:
    attempts = [attempt for step in told(history) for attempt in step]
    firsts = [step[0] for step in told(history)]
    could_be_older = all(proposed for _, _, proposed in attempts) and all(
        used.strip() == proposed.strip() for used, _, proposed in firsts
    )
    found = record.read_record(write_record(tmp_path, history, drawn_with=False))
    if not could_be_older:
        assert [entry.drawn_with for entry in found.entries] == [used for used, _, _ in attempts]
        assert [entry.proposed for entry in found.entries] == [proposed for _, _, proposed in attempts]
    marked = write_record(tmp_path, history, drawn_with=False, refine_prompt_is="proposal")
    found = record.read_record(marked)
    assert [entry.drawn_with for entry in found.entries] == [used for used, _, _ in attempts]


def entries(*rows: tuple[str, str | None, bool | None]) -> dict[str, Any]:
    keys = ("prompt", "refine_prompt", "success")
    return {"steps": [{"step": 1, **dict(zip(keys, row, strict=True))} for row in rows]}


def read(folder: Path, data: Any) -> record.Record:
    path = folder / "execution_record.json"
    path.write_text(json.dumps(data))
    return record.read_record(path)


def test_an_ambiguous_file_is_read_as_prompts_used(tmp_path: Path) -> None:
    data = entries(("P0", "P0", False), ("P0", "R1", False))
    assert [one.drawn_with for one in read(tmp_path, data).entries] == ["P0", "R1"]
    marked = read(tmp_path, data | {"refine_prompt_is": "proposal"})
    assert [one.drawn_with for one in marked.entries] == ["P0", "P0"]


def test_a_file_of_neither_form_raises_with_advice(tmp_path: Path) -> None:
    data = entries(("P0", "R1", False), ("P0", "R9", True))
    with pytest.raises(JournalError, match="refine_prompt_is"):
        read(tmp_path, data)
    assert read(tmp_path, data | {"refine_prompt_is": "drawn with"}).entries[1].drawn_with == "R9"
    with pytest.raises(JournalError, match="refine_prompt_is"):
        read(tmp_path, data | {"refine_prompt_is": "whatever"})


def test_an_accepted_attempt_may_repeat_its_prompt(tmp_path: Path) -> None:
    found = read(tmp_path, entries(("P0", "R1", False), ("P0", "R1", True)))
    assert [(one.drawn_with, one.proposed) for one in found.entries] == [("P0", "R1"), ("R1", "")]


@pytest.mark.parametrize("shift", [0, 1])
def test_a_record_that_counts_from_0_is_a_story_from_1(tmp_path: Path, shift: int) -> None:
    plan = [
        {"step_number": 0, "step_name": "a", "instruction": "i", "prompt": "P0", "auxiliary_text": None},
        {"step_number": 1, "step_name": "b", "instruction": "i", "prompt": "P1", "auxiliary_text": None},
        {"step_number": 2, "instruction": "only words", "prompt": None, "auxiliary_text": None},
    ]
    rows = [
        {"step": number + shift, "prompt": f"P{number}", "refine_prompt": "", "success": True}
        for number in (0, 1)
    ]
    found = record_trajectory(read(tmp_path, {"global_context": {"execution_plan": plan}, "steps": rows}))
    assert [(step.number, step.prompt) for step in found.plan.steps] == [(1, "P0"), (2, "P1"), (3, None)]
    assert found.plan.steps[2].auxiliary_text == "only words"
    assert [result.attempts[0].prompt for result in found.results[:2]] == ["P0", "P1"]


def test_the_other_forms_count_from_0_too(tmp_path: Path) -> None:
    assert [one.step for one in read(tmp_path, {"0": {"prompt": "a"}, "1": {"prompt": "b"}}).entries] == [
        1,
        2,
    ]
    assert [one.step for one in read(tmp_path, [{"step": 0, "text": "a"}, {"step": 1}]).entries] == [1, 2]
