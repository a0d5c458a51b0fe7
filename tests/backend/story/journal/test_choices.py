"""The user picks another attempt of a step, or requests one more."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pytest
from PIL import Image, ImageChops

from interleave_thinker import AttemptDrawn, CriticLike, Event, Plan, RunSettings, Step, load_trajectory
from interleave_thinker.backend.core.errors import GeneratorError, JournalError
from interleave_thinker.backend.core.pictures import Picture
from interleave_thinker.backend.core.types import Redraw, Request, StepResult, StopReason, Trajectory, Verdict
from interleave_thinker.backend.models.generators.fake import FakeGenerator
from interleave_thinker.backend.story.journal.choices import (
    CHOICES,
    MAX_REDRAWS,
    Choices,
    ask_redraw,
    newest_redraws,
    pick,
    read_choices,
)
from interleave_thinker.backend.story.journal.journal import Journal
from interleave_thinker.backend.story.loop.collaborators import Collaborators
from interleave_thinker.backend.story.loop.events import AttemptJudged, AttemptStarted, Finished, StepFinished
from interleave_thinker.backend.story.loop.loop import run
from interleave_thinker.backend.story.outcomes import stop_sentence

REQUEST = Request(text="three pictures")
PLAN = Plan(steps=tuple(Step(number=number, prompt=f"picture {number}") for number in (1, 2, 3)))


FAILS = "what cannot be drawn at first"


class CountingGenerator:
    fails = False

    def __init__(self) -> None:
        self.painter, self.drawn = FakeGenerator(), []
        self.identity = self.painter.identity

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        if self.fails and prompt == FAILS:
            raise GeneratorError("Out of memory.")
        self.drawn.append(prompt)
        return self.painter.draw(prompt, source, seed)


class SecondIsRight(CriticLike):
    """Rejects every first attempt and the user's prompts, and accepts its own refined prompt."""

    identity, prompt_set_digest = "second is right", ""
    seen: ClassVar[list[tuple[Picture | None, str]]] = []

    def judge(self, before: Picture | None, after: Picture, original: str, used: str) -> Verdict:
        self.seen.append((before, original))
        return Verdict(
            success=used.endswith("better"), refined_prompt=f"{original}, better", reasoning="seen"
        )


def nothing(event: Event) -> None:
    pass


def story(
    folder: Path,
    critic: bool = True,
    on_event: Callable[[Event], None] = nothing,
    plan: Plan | None = None,
    **settings: object,
) -> tuple[Trajectory, list[str]]:
    generator = CountingGenerator()
    chosen = RunSettings.model_validate({"max_attempts": 3, **settings})
    judge = SecondIsRight() if critic else None
    trajectory = None
    for event in run(REQUEST, Collaborators(None, generator, judge), chosen, Journal(folder), plan or PLAN):
        on_event(event)
        if isinstance(event, Finished):
            trajectory = event.trajectory
    assert trajectory is not None
    return trajectory, generator.drawn


def digest(result: StepResult, attempt: int) -> str:
    image = result.attempts[attempt].image
    assert image is not None
    return image.digest


def test_a_redraw_becomes_the_result_and_only_later_steps_are_generated(tmp_path: Path) -> None:
    first, _ = story(tmp_path)
    ask_redraw(tmp_path, 2, "a blue whale")
    second, drawn = story(tmp_path)
    assert drawn == ["a blue whale", "picture 3", "picture 3, better"]
    result = second.results[1]
    assert [one.prompt for one in result.attempts] == ["picture 2", "picture 2, better", "a blue whale"]
    assert [one.redraw for one in result.attempts] == [None, None, Redraw(by="user", number=1)]
    assert (result.chosen, result.stop_reason) == (2, StopReason.redrawn)
    assert stop_sentence(result) == "Generated again by hand at attempt 3, not accepted"
    assert second.results[0] == first.results[0]
    assert second.results[2].attempts[0].source == result.image
    assert load_trajectory(tmp_path) == second
    assert story(tmp_path) == (second, [])
    (tmp_path / "trajectory.json").unlink()
    assert [one.chosen for one in load_trajectory(tmp_path).results] == [1, 2, 1]


def test_another_attempt_keeps_the_prompt_and_changes_the_seed(tmp_path: Path) -> None:
    first, _ = story(tmp_path)
    ask_redraw(tmp_path, 1, picture=digest(first.results[0], 1))
    ask_redraw(tmp_path, 3)
    second, _ = story(tmp_path)
    *before, asked = second.results[0].attempts
    assert asked.prompt == "picture 1, better" and asked.seed not in {one.seed for one in before}
    assert second.results[0].stop_reason is StopReason.accepted, "the critic is heard of it, too"
    assert second.results[0].chosen == 2
    assert second.results[2].attempts[-1].prompt == "picture 3"


def test_only_the_painted_area_changes_with_a_caption(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def draw_anew(self: CountingGenerator, prompt: str, source: Picture | None, seed: int) -> Picture:
        return self.painter.draw(f"{prompt} {source and source.digest}", None, seed)

    monkeypatch.setattr(CountingGenerator, "draw", draw_anew)
    first, _ = story(tmp_path)
    base, mask = first.results[1].image, Image.new("RGB", (64, 64))
    mask.paste("white", (0, 0, 64, 24))
    ask_redraw(tmp_path, 2, "a whale", base.digest, mask=Picture(mask), caption="A whale came.")
    seen: list[tuple[Picture | None, str]] = []
    monkeypatch.setattr(SecondIsRight, "seen", seen)
    second, _ = story(tmp_path)
    assert seen[0] == (base, "a whale"), "the critic judges the edit of the painted image"
    result = second.results[1]
    assert result.step.auxiliary_text == "A whale came."
    assert result.attempts[2].verdict and not second.judged_as_step(result).attempts[2].verdict
    assert ImageChops.difference(base.image, result.image.image).getbbox() == (0, 0, 64, 24)
    assert (result.attempts[2].source, newest_redraws(tmp_path)) == (result.attempts[1].source, {})
    (tmp_path / "trajectory.json").unlink()
    assert load_trajectory(tmp_path).results[1] == result
    told = PLAN.steps[1].model_copy(update={"auxiliary_text": "A whale sang."})
    changed = PLAN.model_copy(update={"steps": (PLAN.steps[0], told, PLAN.steps[2])})
    assert story(tmp_path, plan=changed)[0].results[1].step == told, "the newest caption counts"
    ask_redraw(tmp_path, 1, "a red sea")
    assert len(story(tmp_path)[0].results[1].attempts) == 2, "the painted image is no longer there"


def test_the_newest_decision_counts(tmp_path: Path) -> None:
    first, _ = story(tmp_path)
    pick(tmp_path, 2, digest(first.results[1], 0))
    ask_redraw(tmp_path, 2, "a blue whale")
    assert read_choices(tmp_path).steps == {}, "a redraw replaces the pick"
    redrawn, _ = story(tmp_path)
    assert redrawn.results[1].chosen == 2
    pick(tmp_path, 2, digest(redrawn.results[1], 0))
    picked, drawn = story(tmp_path)
    assert (picked.results[1].chosen, picked.results[1].stop_reason) == (0, StopReason.picked)
    assert len(picked.results[1].attempts) == 3, "earlier images stay for comparison"
    assert drawn == ["picture 3", "picture 3, better"]
    pick(tmp_path, 2, None)
    assert story(tmp_path) == (redrawn, [])


def test_a_redraw_requested_during_its_step_is_generated_next(tmp_path: Path) -> None:
    def ask(event: Event) -> None:
        if isinstance(event, AttemptJudged) and (event.step.number, event.attempt) == (2, 0):
            ask_redraw(tmp_path, 2, "a blue whale")

    trajectory, drawn = story(tmp_path, on_event=ask)
    assert drawn[2:4] == ["picture 2", "a blue whale"]
    result = trajectory.results[1]
    assert [one.redraw is not None for one in result.attempts] == [False, True] and result.chosen == 1
    assert story(tmp_path) == (trajectory, []), "a resumed run has the same attempts in the same order"


def test_a_dependent_step_applies_its_own_redraw_at_once(tmp_path: Path) -> None:
    story(tmp_path)
    for prompt in ("a blue whale", "a white whale"):
        ask_redraw(tmp_path, 2, prompt)
        story(tmp_path)
    ask_redraw(tmp_path, 1, "a red sea")
    third, drawn = story(tmp_path)
    assert drawn == ["a red sea", "a white whale", "picture 3", "picture 3, better"]
    assert [one.redraw for one in third.results[1].attempts] == [Redraw(number=2)]


def test_a_failed_redraw_keeps_the_result_and_is_retried(tmp_path: Path) -> None:
    story(tmp_path)
    ask_redraw(tmp_path, 3, FAILS)
    CountingGenerator.fails = True
    try:
        failed, _ = story(tmp_path)
    finally:
        CountingGenerator.fails = False
    result = failed.results[2]
    assert (result.chosen, result.stop_reason) == (1, StopReason.accepted) and result.attempts[2].error
    again, drawn = story(tmp_path)
    assert drawn == [FAILS] and again.results[2].chosen == 2


@pytest.mark.parametrize("redraws", [0, 1, 3])
def test_redraws_do_not_count_towards_max_draws(tmp_path: Path, redraws: int) -> None:
    """Four images: two each for the first two steps; requested attempts are not counted."""
    trajectory, _ = story(tmp_path, max_draws=4)
    for number in range(redraws):
        ask_redraw(tmp_path, 1, f"a blue whale {number}")
        trajectory, _ = story(tmp_path, max_draws=4)
    own = [[one for one in result.attempts if one.redraw is None] for result in trajectory.results]
    assert [len(attempts) for attempts in own] == [2, 2]
    assert len(trajectory.results[0].attempts) == 2 + redraws


def test_the_time_budget_applies_to_redraws(tmp_path: Path) -> None:
    story(tmp_path)
    ask_redraw(tmp_path, 2, "a blue whale")
    trajectory, drawn = story(tmp_path, time_budget=1e-9)
    assert drawn == [] and trajectory.results[-1].stop_reason is StopReason.budget
    assert story(tmp_path)[1][0] == "a blue whale"


@pytest.mark.parametrize(
    ("step", "values"),
    [(7, {}), (2, {"picture": "f" * 40}), (2, {"picture": "../run"}), (2, {"prompt": "x" * 100_001})],
)
def test_an_impossible_redraw_is_rejected(tmp_path: Path, step: int, values: dict[str, str]) -> None:
    story(tmp_path)
    with pytest.raises(JournalError):
        ask_redraw(tmp_path, step, **values)
    assert read_choices(tmp_path) == Choices()


def test_redraws_are_bounded_and_parallel_ones_are_all_kept(tmp_path: Path) -> None:
    story(tmp_path)
    threads = [
        threading.Thread(target=ask_redraw, args=(tmp_path, 2, f"whale {number}")) for number in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    asked = read_choices(tmp_path).redraws[2]
    assert {one.prompt for one in asked} == {f"whale {number}" for number in range(20)}
    full = {"2": [{"planned": "picture 2", "prompt": "a whale"}] * MAX_REDRAWS}
    (tmp_path / CHOICES).write_text(json.dumps({"redraws": full}), encoding="utf-8")
    with pytest.raises(JournalError, match="Step 2 has 100 requested attempts"):
        ask_redraw(tmp_path, 2)


@pytest.mark.skipif(sys.platform == "win32", reason="fork is POSIX")
@pytest.mark.parametrize("kind", [AttemptStarted, AttemptDrawn, AttemptJudged, StepFinished])
def test_a_process_killed_during_a_redraw_resumes_it(tmp_path: Path, kind: type[Event]) -> None:
    story(tmp_path / "whole")
    ask_redraw(tmp_path / "whole", 2, "a blue whale")
    whole, _ = story(tmp_path / "whole")
    story(tmp_path / "run")
    ask_redraw(tmp_path / "run", 2, "a blue whale")

    def die(event: Event) -> None:
        if isinstance(event, kind) and "a blue whale" in str(event):
            os._exit(7)

    child = os.fork()
    if child == 0:
        story(tmp_path / "run", on_event=die)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    drawn_before = kind is not AttemptStarted
    resumed, drawn = story(tmp_path / "run")
    assert drawn == [*["a blue whale"][drawn_before:], "picture 3", "picture 3, better"]
    assert [[one.image for one in result.attempts] for result in resumed.results] == [
        [one.image for one in result.attempts] for result in whole.results
    ]
    assert resumed.results[1].chosen == 2 == load_trajectory(tmp_path / "run").results[1].chosen


def test_a_redraw_of_an_earlier_step_waits_for_the_next_run(tmp_path: Path) -> None:
    def ask(event: Event) -> None:
        if isinstance(event, StepFinished) and event.result.step.number == 2:
            ask_redraw(tmp_path, 1, "a red sea")

    first, _ = story(tmp_path, on_event=ask)
    assert len(first.results[0].attempts) == 2
    second, drawn = story(tmp_path)
    assert drawn[0] == "a red sea" and second.results[0].chosen == 2


def test_a_picked_attempt_becomes_the_result_and_only_later_steps_are_generated(tmp_path: Path) -> None:
    first, drawn = story(tmp_path)
    assert len(drawn) == 6
    pick(tmp_path, 2, digest(first.results[1], 0))
    second, drawn = story(tmp_path)
    assert drawn == ["picture 3", "picture 3, better"]
    result = second.results[1]
    assert (result.chosen, result.stop_reason) == (0, StopReason.picked)
    assert len(result.attempts) == 2, "the other attempts stay to be compared and picked again"
    assert stop_sentence(result) == "Attempt 1 picked by hand"
    assert second.results[2].attempts[0].source == result.image
    assert load_trajectory(tmp_path) == second
    (tmp_path / "trajectory.json").unlink()
    assert [one.chosen for one in load_trajectory(tmp_path).results] == [1, 0, 1]


def test_a_picked_step_gets_no_further_attempts(tmp_path: Path) -> None:
    """If it was picked before its attempts were used up, nothing new is generated for it."""
    first, _ = story(tmp_path, accept_at=1.0, max_attempts=1)
    pick(tmp_path, 1, digest(first.results[0], 0))
    second, drawn = story(tmp_path)
    assert [one.stop_reason for one in second.results] == [StopReason.picked, *[StopReason.accepted] * 2]
    assert drawn == ["picture 2, better", "picture 3", "picture 3, better"]


@pytest.mark.parametrize(
    "content", ["[]", '{"steps": {"0": "' + "a" * 40 + '"}}', '{"steps": {"1": "../x"}}', "{"]
)
def test_a_damaged_file_gives_one_clear_error(tmp_path: Path, content: str) -> None:
    story(tmp_path)
    (tmp_path / CHOICES).write_text(content)
    with pytest.raises(JournalError, match=r"choices\.json"):
        story(tmp_path)


@pytest.mark.parametrize("picture", ["f" * 40, "../run", "", "f" * 40 + "\n"])
def test_only_images_of_the_run_can_be_picked(tmp_path: Path, picture: str) -> None:
    story(tmp_path)
    with pytest.raises(JournalError):
        pick(tmp_path, 1, picture)
    assert read_choices(tmp_path).steps == {}


@pytest.mark.parametrize("step", [999, 2**40])
def test_only_steps_of_the_plan_can_be_picked_for(tmp_path: Path, step: int) -> None:
    trajectory, _ = story(tmp_path)
    picture = digest(trajectory.results[0], 0)
    for chosen in (picture, None):
        with pytest.raises(JournalError, match=f"Step {step} of the run .* is text only"):
            pick(tmp_path, step, chosen)
    assert not (tmp_path / CHOICES).exists()
    # A step that the plan has no more is given back all the same.
    (tmp_path / CHOICES).write_text(json.dumps({"steps": {str(step): picture}}))
    assert pick(tmp_path, step, None).steps == {}
