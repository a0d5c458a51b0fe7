"""The story check: the sheet, the checker's replies, reopened steps, resume, and unchanged runs."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from PIL import Image
from support.journal_runs import events_of
from support.small_agents import Counting, OnePlan

from interleave_thinker import CriticLike, Picture, Pipeline, Plan, RunSettings, StepResult, load_trajectory
from interleave_thinker.backend.core.errors import AnswerError, Cancelled, ChatError, SettingsError
from interleave_thinker.backend.core.seams.chat_model import Reply
from interleave_thinker.backend.core.types import Request, Step, StopReason, StoryFinding, Trajectory, Verdict
from interleave_thinker.backend.models.chat.scripted import ScriptedChat
from interleave_thinker.backend.pipeline.story_check import (
    MAX_AREA,
    StoryChecker,
    StoryCheckerLike,
    StoryReview,
    read_findings,
    story_sheet,
)
from interleave_thinker.backend.story.journal.journal import Journal
from interleave_thinker.backend.story.journal.store import InMemoryStore
from interleave_thinker.backend.story.loop.events import Event, Finished, StoryChecked
from interleave_thinker.backend.story.outcomes import all_accepted

PLAN = Plan(
    steps=(
        Step(number=1, prompt="a fox"),
        Step(number=2, auxiliary_text="It rained."),
        Step(number=3, prompt="the fox runs", auxiliary_text="Fast."),
        Step(number=4, prompt="the fox sleeps"),
    )
)
REQUEST = Request(text="a story of a fox")
HAT = "The fox must wear a hat."


class Accepts(CriticLike):
    """Accepts every image, except those whose prompt contains one of these texts."""

    identity, prompt_set_digest = "accepts", ""

    def __init__(self, *rejected: str) -> None:
        self.rejected = rejected

    def judge(self, before: Picture | None, after: Picture, original: str, used: str) -> Verdict:
        return Verdict(success=not any(one in used for one in self.rejected))


class Finds(StoryCheckerLike):
    """Finds these problems, one list per check; an exception is raised. Afterwards it finds nothing."""

    identity = "finds"

    def __init__(self, *answers: Sequence[int] | BaseException) -> None:
        self.answers = list(answers)
        self.seen: list[list[int]] = []

    def check(self, request: Request, pages: Sequence[StepResult]) -> tuple[StoryFinding, ...]:
        self.seen.append([page.step.number for page in pages])
        answer = self.answers.pop(0) if self.answers else ()
        if isinstance(answer, BaseException):
            raise answer
        return tuple(StoryFinding(step=number, kind="identity", problem=HAT) for number in answer)


def story(
    store: Journal | InMemoryStore,
    checker: Finds | StoryChecker | None,
    most: int = 1,
    critic: Accepts | None = None,
    plan: Plan = PLAN,
    **settings: object,
) -> tuple[Trajectory, list[str], list[Event]]:
    generator = Counting()
    chosen = RunSettings.model_validate({"max_attempts": 2, **settings})
    reviewer = StoryReview(checker, most) if checker else None
    parts = {"planner": OnePlan(plan), "reviewer": reviewer}
    events = events_of(None, generator, critic or Accepts(), store, REQUEST, chosen, **parts)
    last = events[-1]
    assert isinstance(last, Finished)
    return last.trajectory, [prompt for prompt, *_ in generator.drawn], events


def images(trajectory: Trajectory) -> list[Picture | None]:
    return [result.image for result in trajectory.results]


def chosen(trajectory: Trajectory) -> list[int | None]:
    return [result.chosen for result in trajectory.results]


def test_a_finding_reopens_its_step_and_the_later_steps_follow(tmp_path: Path) -> None:
    plain, first, _ = story(Journal(tmp_path / "plain"), None)
    checker = Finds([3])
    trajectory, drawn, events = story(Journal(tmp_path / "run"), checker, most=2)
    assert drawn == [*first, f"the fox runs. {HAT}", "the fox sleeps"]
    assert checker.seen == [[1, 3, 4], [1, 3, 4]], "checked again after the step was generated again"
    result = trajectory.results[2]
    assert (result.chosen, result.stop_reason) == (1, StopReason.accepted)
    redraw = result.attempts[1].redraw
    assert redraw is not None and (redraw.by, redraw.number) == ("story check", 1)
    assert images(trajectory)[0] == images(plain)[0]
    assert trajectory.results[3].attempts[0].source == result.image, "generated from the new image"
    assert len(trajectory.results) == 4 and all_accepted(trajectory)
    assert [[one.step for one in check.findings] for check in trajectory.checks] == [[3], []]
    assert [check.reopened for check in trajectory.checks] == [3, None]
    assert load_trajectory(tmp_path / "run") == trajectory
    assert sum(isinstance(event, StoryChecked) for event in events) == 2


@pytest.mark.parametrize("kind", ["folder", "RAM"])
def test_a_checked_story_is_not_checked_again(tmp_path: Path, kind: str) -> None:
    store = Journal(tmp_path) if kind == "folder" else InMemoryStore()
    checker = Finds([1], [])
    first, drawn, _ = story(store, checker, most=2)
    assert len(checker.seen) == 2 and len(drawn) == 6
    again, drawn, events = story(store, checker, most=2)
    assert again == first and not drawn and len(checker.seen) == 2
    assert [event.reused for event in events if isinstance(event, StoryChecked)] == [True]


def test_it_ends_after_the_last_step_that_may_be_reopened(tmp_path: Path) -> None:
    checker = Finds([1, 3], [3], [4])
    trajectory, drawn, _ = story(Journal(tmp_path), checker, most=2)
    assert len(checker.seen) == 2, "nothing could follow from a third check"
    assert [check.reopened for check in trajectory.checks] == [1, 3], "the earliest first"
    assert drawn[3:] == [
        f"a fox. {HAT}",
        "the fox runs",
        "the fox sleeps",
        f"the fox runs. {HAT}",
        "the fox sleeps",
    ]
    more, drawn, _ = story(Journal(tmp_path), checker, most=3)
    assert drawn == [f"the fox sleeps. {HAT}"], "a larger number continues"
    assert [check.reopened for check in more.checks] == [1, 3, 4]


def test_rejected_attempts_do_not_replace_an_accepted_one(tmp_path: Path) -> None:
    checker = Finds([3, 4])
    trajectory, drawn, _ = story(Journal(tmp_path), checker, most=2, critic=Accepts("runs. "))
    assert drawn[3:5] == [f"the fox runs. {HAT}"] * 2, "as many attempts as a step has"
    assert drawn[5:] == [f"the fox sleeps. {HAT}"], "the next finding follows"
    assert chosen(trajectory) == [0, None, 0, 1]
    assert trajectory.results[2].stop_reason is StopReason.accepted and all_accepted(trajectory)
    assert len(checker.seen) == 1, "the same images are not checked twice"


def test_a_rejected_attempt_is_followed_by_the_refined_prompt(tmp_path: Path) -> None:
    class Refines(Accepts):
        def judge(self, before: Picture | None, after: Picture, original: str, used: str) -> Verdict:
            rejected = used.endswith(HAT)
            return Verdict(success=not rejected, refined_prompt="a red fox in a hat" if rejected else "")

    styled = PLAN.model_copy(update={"style": "In ink."})
    trajectory, drawn, _ = story(Journal(tmp_path), Finds([4]), critic=Refines(), plan=styled)
    assert drawn[3:] == [f"In ink. the fox sleeps. {HAT}", "In ink. a red fox in a hat"]
    result = trajectory.results[3]
    assert (result.chosen, result.stop_reason) == (2, StopReason.accepted)
    assert [one.redraw.number for one in result.attempts if one.redraw] == [1, 1]
    assert story(Journal(tmp_path), Finds(), critic=Refines(), plan=styled)[:2] == (trajectory, [])


@pytest.mark.parametrize("failure", [AnswerError("Nonsense."), ChatError("No server.")])
def test_a_failed_check_leaves_the_story_and_is_repeated(tmp_path: Path, failure: Exception) -> None:
    plain, _, _ = story(Journal(tmp_path / "plain"), None)
    checker = Finds(failure)
    trajectory, _, _ = story(Journal(tmp_path / "run"), checker)
    assert images(trajectory) == images(plain) and str(failure) in trajectory.checks[0].warning
    again, _, _ = story(Journal(tmp_path / "run"), checker)
    assert len(checker.seen) == 2 and [check.warning for check in again.checks] == [""]


def test_a_cancelled_check_ends_the_run_and_is_made_by_the_next(tmp_path: Path) -> None:
    checker = Finds(Cancelled("Stop."), [3])
    with pytest.raises(Cancelled):
        story(Journal(tmp_path), checker)
    assert len(load_trajectory(tmp_path).results) == 4 and not load_trajectory(tmp_path).checks
    _, drawn, _ = story(Journal(tmp_path), checker)
    assert drawn == [f"the fox runs. {HAT}", "the fox sleeps"]


def test_an_unfinished_or_short_story_is_not_checked(tmp_path: Path) -> None:
    checker = Finds([1], [1])
    story(Journal(tmp_path / "one"), checker, plan=Plan(steps=PLAN.steps[:2]))
    story(Journal(tmp_path / "two"), checker, critic=Accepts("runs"), on_failure="stop")
    assert not checker.seen


def test_a_complete_story_stays_complete_when_the_time_is_used_up(tmp_path: Path) -> None:
    class Slow(Finds):
        def check(self, request: Request, pages: Sequence[StepResult]) -> tuple[StoryFinding, ...]:
            time.sleep(0.5)
            return super().check(request, pages)

    checker = Slow([3])
    trajectory, drawn, _ = story(Journal(tmp_path), checker, time_budget=0.5)
    assert chosen(trajectory) == [0, None, 0, 0] and trajectory.checks[0].findings
    _, drawn, _ = story(Journal(tmp_path), checker)
    assert drawn == [f"the fox runs. {HAT}", "the fox sleeps"] and len(checker.seen) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="fork is POSIX")
@pytest.mark.parametrize("at", ["request_redraw", "keep_drawn", "keep_judged", "finish"])
def test_a_run_that_is_killed_after_the_check_resumes(tmp_path: Path, at: str) -> None:
    """The process is killed between check and request, and before each later record."""
    whole, _, _ = story(Journal(tmp_path / "whole"), Finds([3]))

    def dies(checker: Finds) -> None:
        journal = Journal(tmp_path / "run")
        method = getattr(journal, at)

        def kill(*arguments: object) -> object:
            if checker.seen:
                os.kill(os.getpid(), signal.SIGKILL)
            return method(*arguments)

        setattr(journal, at, kill)
        story(journal, checker)

    child = os.fork()
    if child == 0:
        dies(Finds([3]))
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    checker = Finds()
    resumed, drawn, _ = story(Journal(tmp_path / "run"), checker)
    assert not checker.seen, "the check was stored"
    assert images(resumed) == images(whole) and chosen(resumed) == chosen(whole)
    assert resumed.checks == whole.checks
    assert set(drawn) <= {f"the fox runs. {HAT}", "the fox sleeps"}


def test_limits() -> None:
    with pytest.raises(SettingsError, match="max_draws"):
        story(InMemoryStore(), Finds(), max_draws=9)
    for most in (0, 21):
        with pytest.raises(SettingsError, match="1 to 20"):
            StoryReview(Finds(), most)


def test_a_pipeline_checks_its_stories() -> None:
    checker = Finds([3])
    pipeline = Pipeline(OnePlan(PLAN), Counting(), Accepts(), check_story=1, story_checker=checker)
    result = pipeline("a story")
    assert checker.seen and chosen(result.trajectory) == [0, None, 1, 0]
    chat = ScriptedChat([answer()])
    assert Pipeline(OnePlan(PLAN), Counting(), None, check_story=1, story_checker=chat)("x").trajectory.checks
    for critic, message in (
        ("tinyworld", "cannot be the story checker"),
        (None, "No model"),
        (Accepts(), "No model"),
    ):
        with pytest.raises(SettingsError, match=message):
            Pipeline(OnePlan(PLAN), Counting(), critic, check_story=1)("a story")


def test_a_model_that_cannot_read_a_sheet_is_refused() -> None:
    class Small(ScriptedChat):
        writes_texts = False

    with pytest.raises(SettingsError, match="cannot be the story checker"):
        StoryChecker(Small([]))


def answer(*findings: tuple[object, str, str]) -> str:
    value = [{"step_number": step, "kind": kind, "problem": problem} for step, kind, problem in findings]
    return f"<think>Looked.</think>\n<answer>{json.dumps({'findings': value})}</answer>"


def asked(*replies: str | Reply, store: InMemoryStore | None = None) -> tuple[Trajectory, ScriptedChat]:
    chat = ScriptedChat(replies)
    return story(store or InMemoryStore(), StoryChecker(chat))[0], chat


def test_a_model_sees_the_sheet_and_the_texts_once() -> None:
    trajectory, chat = asked(answer((4, "State", "The fox  must\nsleep."), (3, "identity", HAT)))
    assert [one.model_dump() for one in trajectory.checks[0].findings] == [
        {"step": 3, "kind": "identity", "problem": HAT},
        {"step": 4, "kind": "state", "problem": "The fox must sleep."},
    ]
    assert trajectory.results[2].attempts[-1].prompt == f"the fox runs. {HAT}"
    (message,) = chat.requests[0].messages
    texts = [part for part in message.content if isinstance(part, str)]
    assert "1. a fox\n3. the fox runs Fast.\n4. the fox sleeps" in texts[0]
    assert REQUEST.text in texts[0] and sum(isinstance(part, Picture) for part in message.content) == 1
    assert len(chat.requests) == 1


def test_an_unusable_reply_is_asked_for_once_more() -> None:
    trajectory, chat = asked("The images look fine.", answer((3, "style", "It must be a drawing.")))
    assert trajectory.checks[0].reopened == 3 and len(chat.requests) == 2
    (again,) = chat.requests[1].messages
    assert "does not contain findings" in str(again.content[-1])
    assert chat.requests[1].settings.temperature > 0
    trajectory, chat = asked("Fine.", "Fine.")
    assert len(chat.requests) == 2 and trajectory.checks[0].warning and chosen(trajectory) == [0, None, 0, 0]


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        ("", "does not contain"),
        (answer((2, "state", HAT)), "Step 2 is not on the sheet"),
        (answer((3, "quality", HAT)), "kind"),
        (answer((3, "state", " ")), "problem"),
        (answer((3, "state", "...")), "copy of the example"),
        (answer((3, "state", HAT)) + answer((4, "state", HAT)), "several different"),
        (answer((3, "state", HAT))[:-12], "cut off"),
        ('<answer>{"findings": "none"}</answer>', "list"),
    ],
)
def test_replies_that_are_no_findings(reply: str, problem: str) -> None:
    with pytest.raises(AnswerError, match=problem):
        read_findings(reply, [1, 3, 4])


def sizes() -> Iterable[list[tuple[int, int]]]:
    yield [(64, 64)] * 2
    yield [(1024, 1024)] * 6
    yield [(1344, 768)] * 12
    yield [(512, 2048)] * 7 + [(2048, 512)]
    yield [(640, 480)] * 100


@pytest.mark.parametrize("pages", sizes())
def test_the_sheet_is_bounded_and_shows_every_image(pages: list[tuple[int, int]]) -> None:
    colors = [(40 + 2 * number, 200 - 2 * number, 90) for number in range(len(pages))]
    shown = [
        (number + 1, Picture(Image.new("RGB", size, color)))
        for number, (size, color) in enumerate(zip(pages, colors, strict=True))
    ]
    sheet = story_sheet(shown)
    assert sheet.size[0] * sheet.size[1] <= MAX_AREA
    found = {color for _, color in sheet.image.getcolors(MAX_AREA) or []}
    assert set(colors) <= found
    assert (0, 0, 0) in found, "the numbers"
