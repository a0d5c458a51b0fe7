"""A step whose attempts are used up is generated once from text, with a prompt for its whole image."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from support.journal_runs import events_of
from support.killed_runs import die_at
from support.small_agents import Counting, OnePlan, Verdicts

from interleave_thinker import Cancelled, CriticLike, Finished, Picture, Plan, StepFinished, StepRewritten
from interleave_thinker.backend.core.types import Request, RunSettings, Step, StopReason, Trajectory, Verdict
from interleave_thinker.backend.story.journal.choices import ask_redraw, pick, skip_step
from interleave_thinker.backend.story.journal.journal import Journal
from interleave_thinker.backend.story.loop.collaborators import Collaborators
from interleave_thinker.backend.story.loop.loop import run
from interleave_thinker.backend.story.loop.replay import load_trajectory

REQUEST = Request(text="three things")
PLAN = Plan(steps=tuple(Step(number=n, prompt=f"thing {n}") for n in (1, 2, 3)), style="Oil painting")
WHOLE = "everything so far and thing 2"


class Rewriter:
    """Returns one prompt, and counts its calls."""

    def __init__(self, prompt: str | None = WHOLE) -> None:
        self.prompt = prompt
        self.asked: list[tuple[Plan, Step, str]] = []

    def __call__(self, plan: Plan, step: Step, problem: str) -> str | None:
        self.asked.append((plan, step, problem))
        return self.prompt


def told(*verdicts: bool, rewriter: Rewriter, **rest: Any) -> tuple[list[Any], Trajectory]:
    settings = RunSettings(max_attempts=2, **rest.get("settings", {}))
    generator, critic = rest.get("generator") or Counting(), Verdicts(*verdicts)
    events = events_of(PLAN, generator, critic, request=REQUEST, settings=settings, rewriter=rewriter)
    assert isinstance(events[-1], Finished)
    return events, events[-1].trajectory


def test_a_failed_step_is_generated_from_text() -> None:
    rewriter = Rewriter()
    events, trajectory = told(True, False, False, True, True, rewriter=rewriter)
    first, second, third = trajectory.results
    assert [step.number for _, step, _ in rewriter.asked] == [2]
    assert second.stop_reason is StopReason.accepted
    (attempt,) = second.attempts
    assert attempt.prompt == f"Oil painting. {WHOLE}" and attempt.source is None
    assert third.attempts[0].source == second.image, "the later steps go on from it"
    assert trajectory.plan.drawn_steps[1] == second.step and second.step.settings.source == "text"
    assert [event.step.number for event in events if isinstance(event, StepRewritten)] == [2]
    assert [event.result for event in events if isinstance(event, StepFinished)] == [first, second, third]


def test_a_step_is_rewritten_once_and_never_if_it_has_no_source() -> None:
    rewriter = Rewriter()
    _, trajectory = told(*[False] * 10, rewriter=rewriter)
    assert [step.number for _, step, _ in rewriter.asked] == [2, 3], "the first step edits nothing"
    assert [len(result.attempts) for result in trajectory.results] == [2, 2, 2]
    assert all(result.stop_reason is StopReason.attempts_used_up for result in trajectory.results)


def test_rewritten_steps_count_for_the_limit_of_images() -> None:
    generator = Counting()
    told(
        True, False, False, False, False, rewriter=Rewriter(), generator=generator, settings={"max_draws": 4}
    )
    assert len(generator.drawn) == 4
    exact = Counting()
    rewriter = Rewriter()
    told(True, False, False, rewriter=rewriter, generator=exact, settings={"max_draws": 3})
    assert len(exact.drawn) == 3 and not rewriter.asked, "no image is left for it"


def cancelled(generator: Counting, rewriter: Rewriter, *verdicts: bool) -> tuple[list[Any], Trajectory]:
    """Return the events of a run that is cancelled, and its trajectory."""
    events: list[Any] = []
    settings, critic = RunSettings(max_attempts=2), Verdicts(*verdicts)
    with pytest.raises(Cancelled):
        for event in run(
            REQUEST, Collaborators(OnePlan(PLAN), generator, critic, rewriter=rewriter), settings
        ):
            events.append(event)
    assert isinstance(events[-1], Finished)
    return events, events[-1].trajectory


def test_a_cancelled_rewriter_leaves_one_result_with_the_attempts() -> None:
    class Cancels(Rewriter):
        def __call__(self, plan: Plan, step: Step, problem: str) -> str | None:
            raise Cancelled("Stop.")

    events, trajectory = cancelled(Counting(), Cancels(), True, False, False)
    assert [(one.step.number, one.stop_reason, len(one.attempts)) for one in trajectory.results] == [
        (1, StopReason.accepted, 1),
        (2, StopReason.cancelled, 2),
    ]
    finished = [event.result for event in events if isinstance(event, StepFinished)]
    assert tuple(finished) == trajectory.results


def test_a_cancelled_rewritten_step_is_the_step_of_the_plan() -> None:
    generator = Counting(failures=[None, None, None, Cancelled("Stop.")])
    _, trajectory = cancelled(generator, Rewriter(), True, False, False)
    last = trajectory.results[-1]
    assert last.stop_reason is StopReason.cancelled
    assert last.step == trajectory.plan.drawn_steps[1] and last.step.prompt == f"Oil painting. {WHOLE}"


class OnlyFromText(CriticLike):
    """Accepts images that are generated from text, and rejects edits."""

    identity, prompt_set_digest = "only from text", ""

    def judge(self, before: Picture | None, after: Picture, original: str, used: str) -> Verdict:
        return Verdict(success=before is None)


class Folder:
    """A run folder whose edits all fail. Calling it runs the same command; `drawn` counts all images."""

    def __init__(self, folder: Path, given: bool, **settings: Any) -> None:
        self.folder, self.rewriter = folder, Rewriter()
        self.planner, self.plan = (None, PLAN) if given else (OnePlan(PLAN), None)
        self.settings = RunSettings.model_validate({"max_attempts": 2, **settings})
        self.drawn: list[str] = []

    def __call__(self, dies_at: str = "") -> Trajectory:
        """Run the command. With `dies_at`, the generator fails badly at a prompt that contains it."""
        drawn = self.drawn

        class Logs(Counting):
            def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
                if dies_at and dies_at in prompt:
                    raise RuntimeError("killed")
                drawn.append(prompt)
                return super().draw(prompt, source, seed)

        agents = Collaborators(self.planner, Logs(), OnlyFromText(), rewriter=self.rewriter)
        store = Journal(self.folder)
        *_, last = run(REQUEST, agents, self.settings, store, self.plan)
        assert isinstance(last, Finished)
        return last.trajectory


def test_a_resumed_run_keeps_to_the_limit_of_images(tmp_path: Path) -> None:
    """The attempts before a rewrite are in no result, and still count after the run was killed."""
    folder = Folder(tmp_path, False, max_draws=4)
    with pytest.raises(RuntimeError):
        folder(dies_at=WHOLE)
    assert len(folder.drawn) == 3
    for _ in range(3):
        trajectory = folder()
        assert len(folder.drawn) == 4 and len(trajectory.results) == 2
    folder.settings = folder.settings.model_copy(update={"max_draws": None})
    assert len(folder().results) == 3


@pytest.mark.parametrize("given", [False, True])
def test_a_rewritten_step_is_not_rewritten_again(tmp_path: Path, given: bool) -> None:
    folder = Folder(tmp_path / "run", given)
    first = folder()
    asked, drawn = len(folder.rewriter.asked), len(folder.drawn)
    folder.rewriter.prompt = "another image every time"
    assert folder() == first and (len(folder.rewriter.asked), len(folder.drawn)) == (asked, drawn)
    assert first.plan.as_planned == PLAN and first.plan != PLAN
    assert load_trajectory(tmp_path / "run") == first
    other = Folder(tmp_path / "other", True, max_draws=1)
    other.plan = first.plan
    assert not any(step.rewritten for step in other().plan.steps), "another run's images do not count"
    assert len(other.drawn) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="fork is POSIX")
def test_death_before_every_write_of_a_rewritten_story(tmp_path: Path) -> None:
    """The plan is never lost: no agent may answer differently after a kill."""
    whole = Folder(tmp_path / "whole", False)()
    operation = 0
    while True:
        operation += 1
        folder = Folder(tmp_path / f"run-{operation}", False)
        if not die_at(operation, folder.folder, folder, ("plan.json", "run.json")):
            break
        attempted = list(folder.folder.glob("attempts/*.json"))
        assert not attempted or (folder.folder / "plan.json").exists(), "the plan is never missing"
        resumed = folder()
        assert [one.image for one in resumed.results] == [one.image for one in whole.results]
        assert resumed.plan == whole.plan and resumed.identities == whole.identities
    assert operation > 15


@pytest.mark.parametrize("decision", ["skip", "pick", "redraw", "edit"])
def test_a_decision_during_the_rewrite_counts(tmp_path: Path, decision: str) -> None:
    folder = Folder(tmp_path, given=False)
    edited = Plan(steps=(PLAN.steps[0], Step(number=2, prompt="my own words")))

    class UserDecides(Rewriter):
        def __call__(self, plan: Plan, step: Step, problem: str) -> str | None:
            if step.number == 2 and decision == "skip":
                skip_step(tmp_path, 2)
            elif step.number == 2 and decision == "redraw":
                ask_redraw(tmp_path, 2, "a blue thing")
            elif step.number == 2 and decision == "edit":
                (tmp_path / "plan.json").write_text(edited.model_dump_json())
            elif step.number == 2:
                pick(tmp_path, 2, next(iter(load_trajectory(tmp_path).results[1].attempts)).image.digest)
            return super().__call__(plan, step, problem)

    folder.rewriter = UserDecides()
    folder()
    folder.rewriter = Rewriter(None)
    second = folder().results[1]
    if decision == "skip":
        assert second.stop_reason is StopReason.skipped
    elif decision == "pick":
        assert (second.stop_reason, second.chosen) == (StopReason.picked, 0)
    elif decision == "redraw":
        assert second.attempts[-1].prompt == "a blue thing" and second.chosen == len(second.attempts) - 1
    else:
        assert second.step.prompt == "my own words"
