"""A run pauses, says what it waits for, and continues exactly there after the user's decision."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

import pytest
from support.killed_runs import die_at
from support.paused_runs import PLAN, REQUEST, Paused, images
from support.small_agents import Counting, OneInThree, OnePlan, Verdicts

from interleave_thinker import Finished, approve, load_trajectory
from interleave_thinker.backend.core.errors import InterleaveError, SettingsError
from interleave_thinker.backend.core.types import Plan, RunSettings, Step, StopReason
from interleave_thinker.backend.output.exporters.page import export
from interleave_thinker.backend.story.journal.choices import ask_redraw, let_pass, read_choices
from interleave_thinker.backend.story.journal.waiting import WAITING, waiting_for
from interleave_thinker.backend.story.loop.collaborators import Collaborators
from interleave_thinker.backend.story.loop.loop import run
from interleave_thinker.backend.story.outcomes import all_accepted, only_waits, stop_sentence, summarize
from interleave_thinker.nodes.story.saved_runs import incomplete_line


def test_the_plan_waits_until_this_plan_is_approved(tmp_path: Path) -> None:
    story = Paused(tmp_path, "after the plan")
    first = story()
    assert first.waiting and first.waiting.step is None
    assert story.drawn == [] and first.trajectory.results == () and first.trajectory.plan == PLAN
    again = story()
    assert again.waiting == first.waiting == waiting_for(tmp_path), "also the time stays"
    assert approve(tmp_path) == "The plan is approved." and waiting_for(tmp_path) is None
    done = story()
    assert done.waiting is None and len(done.trajectory.results) == 3
    assert not (tmp_path / WAITING).exists()
    story.planner = OnePlan(Plan(steps=PLAN.steps[:2]), identity="another planner")
    other = story()
    assert other.waiting and other.waiting.step is None and story.drawn == []


def test_a_plan_that_the_user_edited_is_not_asked_about(tmp_path: Path) -> None:
    story = Paused(tmp_path, "after the plan")
    story()
    story.edit(Step(number=1, prompt="a red sea"))
    done = story()
    assert done.waiting is None and [one.step.prompt for one in done.trajectory.results] == ["a red sea"]


def test_every_step_waits_before_the_next_one_is_generated(tmp_path: Path) -> None:
    story = Paused(tmp_path)
    places = []
    for _ in range(5):
        ended = story()
        places.append(ended.waiting.step if ended.waiting else "done")
        if ended.waiting and ended.waiting.step:
            assert all(f"image {ended.waiting.step}" in prompt for prompt in story.drawn)
            assert ended.waiting.digest == images(ended.trajectory)[-1]
            assert len(ended.trajectory.results) == ended.waiting.step
        if ended.waiting:
            approve(tmp_path)
    assert places == [None, 1, 2, 3, "done"] and story.drawn == []
    plain = list(
        run(REQUEST, Collaborators(OnePlan(PLAN), Counting(), OneInThree()), RunSettings(max_attempts=3))
    )[-1]
    assert images(ended.trajectory) == images(plain.trajectory), "the same story as without pauses"
    assert {result.stop_reason for result in ended.trajectory.results} == {StopReason.picked}
    assert all_accepted(ended.trajectory)


def test_another_image_is_not_approved(tmp_path: Path) -> None:
    story = Paused(tmp_path)
    ended = decided_up_to(story, 3)
    before = ended.trajectory.results[0]
    other = next(i for i, one in enumerate(before.attempts) if i != before.chosen and one.image)
    approve(tmp_path, 1, use=other + 1)
    again = story()
    assert again.waiting and again.waiting.step == 2, "step 2 now edits another image"
    assert images(again.trajectory)[0] == before.attempts[other].image.digest


def decided_up_to(story: Paused, step: int):
    """Approve everything before this step, and return how the run ended at it."""
    ended = story()
    while ended.waiting and ended.waiting.step != step:
        approve(story.folder)
        ended = story()
    assert ended.waiting
    return ended


def test_a_skipped_step_has_no_image_and_the_next_edits_the_one_before(tmp_path: Path) -> None:
    story = Paused(tmp_path)
    decided_up_to(story, 2)
    approve(tmp_path, skip=True)
    ended = story()
    assert ended.waiting and ended.waiting.step == 3
    one, two, three = ended.trajectory.results
    assert (two.attempts, two.image, two.stop_reason) == ((), None, StopReason.skipped)
    assert three.attempts[0].source == one.image
    approve(tmp_path)
    done = story()
    assert all_accepted(done.trajectory) and load_trajectory(tmp_path) == done.trajectory
    (tmp_path / "trajectory.json").unlink()
    assert images(load_trajectory(tmp_path)) == images(done.trajectory)
    assert read_choices(tmp_path).skips == {2: "image 2"}
    ask_redraw(tmp_path, 2)
    assert read_choices(tmp_path).skips == {}, "the newest decision counts"


def test_an_image_that_passed_is_asked_about_when_it_changes(
    tmp_path: Path,
) -> None:
    story = Paused(tmp_path / "run")
    ended = decided_up_to(story, 2)
    let_pass(story.folder, 2, images(ended.trajectory)[1])
    story()
    assert read_choices(story.folder).timed == {2: images(ended.trajectory)[1]}
    approve(story.folder, 2, redraw="a blue whale")
    ended = story()
    assert ended.waiting.step == 2 and read_choices(story.folder).timed == {}


@pytest.mark.parametrize(
    "decision",
    [{"redraw": "x", "skip": True}, {"use": 9}, {"use": 0}, {"step": 7}, {"step": 7, "skip": True}],
)
def test_an_impossible_decision_changes_nothing(tmp_path: Path, decision: dict) -> None:
    story = Paused(tmp_path)
    decided_up_to(story, 2)
    before = read_choices(tmp_path)
    with pytest.raises(InterleaveError):
        approve(tmp_path, **decision)
    assert read_choices(tmp_path) == before and waiting_for(tmp_path)


def test_a_plan_can_only_be_approved_and_a_finished_run_waits_for_nothing(tmp_path: Path) -> None:
    story = Paused(tmp_path, "after the plan")
    story()
    with pytest.raises(SettingsError, match=r"edit plan\.json"):
        approve(tmp_path, skip=True)
    approve(tmp_path)
    story()
    with pytest.raises(SettingsError, match="does not wait"):
        approve(tmp_path)


def test_a_run_that_ended_early_does_not_wait(tmp_path: Path) -> None:
    story = Paused(tmp_path, "at rejected steps", max_draws=1, max_attempts=2)
    story.critic = Verdicts(True)
    ended = story()
    assert not ended.waiting and not only_waits(ended.trajectory)
    assert "2 steps not complete" in incomplete_line(ended.trajectory)


def test_an_approved_image_is_not_called_picked_by_hand(tmp_path: Path) -> None:
    story = Paused(tmp_path / "run", max_attempts=2)
    story.critic = Verdicts(True, False, False, True)
    ended = story()
    assert "3 steps not reached yet" in summarize(ended.trajectory).sentence
    while ended.waiting:
        if ended.waiting.step == 2:  # both attempts were rejected
            approve(tmp_path / "run", use=3 - (ended.waiting.attempt or 0))
        else:
            approve(tmp_path / "run")
        ended = story()
    results = ended.trajectory.results
    assert [one.approved for one in results] == [True, False, True]
    assert [stop_sentence(one) for one in results] == [
        "Approved at attempt 1",
        "Attempt 1 picked by hand",
        "Approved at attempt 1",
    ]
    assert "1 picked by hand · 2 approved by hand" in summarize(ended.trajectory).sentence
    written = json.loads((tmp_path / "run" / "trajectory.json").read_text(encoding="utf-8"))["results"]
    assert [one.get("approved") for one in written] == [True, None, True]
    assert load_trajectory(tmp_path / "run") == ended.trajectory
    page = export(ended.trajectory, tmp_path / "page").read_text(encoding="utf-8")
    assert page.count("Approved at attempt 1") == 2 * page.count("Attempt 1 picked by hand") > 0


pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL and fork are POSIX")


def decide(folder: Path, step: int | None) -> None:
    """Decide about a pause: use the first attempt of step 1, one more attempt at step 2, skip step 3."""
    if step == 1:
        approve(folder, use=1)
    elif step == 2 and 2 not in read_choices(folder).redraws:
        approve(folder, redraw="a whale")
    else:
        approve(folder, skip=step == 3)


def direct(folder: Path) -> Finished:
    """Run the command and decide, until the story is complete."""
    while True:
        ended = Paused(folder)()
        if ended.waiting is None:
            return ended
        decide(folder, ended.waiting.step)


@pytest.mark.parametrize(
    "every", [13, pytest.param(1, marks=[pytest.mark.stress, pytest.mark.timeout(1800)])]
)
def test_death_before_every_write_of_a_directed_story(tmp_path: Path, every: int) -> None:
    whole = direct(tmp_path / "whole")
    assert [one.stop_reason.value for one in whole.trajectory.results] == ["picked", "picked", "skipped"]
    operation = 0
    while True:
        operation += every
        folder = tmp_path / f"run-{operation}"
        if not die_at(operation, folder, partial(direct, folder), (".tmp",)):
            break
        before = {path.stem for path in folder.glob("attempts/*.json")}
        ended = direct(folder)
        assert images(ended.trajectory) == images(whole.trajectory), f"died before operation {operation}"
        assert {path.stem for path in folder.glob("attempts/*.json")} >= before
        assert not list(folder.rglob("*.tmp")) and waiting_for(folder) is None
    assert operation > 60
