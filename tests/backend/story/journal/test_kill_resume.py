"""A run that is killed at any moment, any number of times, ends with the same images as one that was not.

There are two ways of killing: real processes at random moments, and a forked process that dies at every
single file operation.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

import pytest
from support.journal_runs import told
from support.killed_runs import REQUEST, SETTINGS, die_at, tell
from support.small_agents import STORY, Counting, OneInThree, OnePlan

from interleave_thinker import Plan, RunSettings, Trajectory, Verdict, load_trajectory
from interleave_thinker.backend.core.types import Spent
from interleave_thinker.backend.story.journal.journal import Journal
from interleave_thinker.backend.story.loop.collaborators import Collaborators
from interleave_thinker.backend.story.loop.loop import run

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL and fork are POSIX")


def same_pictures(one: Trajectory, other: Trajectory) -> bool:
    """Return whether both have the same steps, attempts, verdicts and pixels; only the seconds may differ."""
    untimed = {"seconds": 0.0, "judging": Spent()}
    plain = [
        [
            result.model_copy(
                update={"attempts": tuple(one.model_copy(update=untimed) for one in result.attempts)}
            )
            for result in trajectory.results
        ]
        for trajectory in (one, other)
    ]
    return plain[0] == plain[1]


def finished(folder: Path) -> set[str]:
    """Return the keys of the recorded images."""
    return {path.stem for path in folder.glob("attempts/[0-9a-f]*.json")}


def drawn(log: Path) -> list[str]:
    return log.read_text().split() if log.exists() else []


EVERY = pytest.mark.parametrize(
    "every", [5, pytest.param(1, marks=[pytest.mark.stress, pytest.mark.timeout(1800)])]
)


@EVERY
@pytest.mark.parametrize("replanned", [False, True])
def test_death_before_every_file_operation(tmp_path: Path, replanned: bool, every: int) -> None:
    """Every fifth one by default. Also while the edit of a plan runs in the folder of a finished run."""
    short = Plan(steps=STORY.steps[2:])
    edited = Plan(steps=(short.steps[0], short.steps[1].model_copy(update={"prompt": "add a fish"})))
    wanted = edited if replanned else short
    undisturbed = tell(tmp_path / "undisturbed", plan=wanted)
    operation = 0
    while True:
        operation += every
        folder = tmp_path / f"run-{operation}"
        if replanned:
            tell(folder, plan=short)
            (folder / "plan.json").write_text(edited.model_dump_json())
        if not die_at(operation, folder, partial(tell, folder, plan=short)):
            break
        before = finished(folder)
        log = tmp_path / f"log-{operation}"
        resumed = tell(folder, log, plan=short)
        assert same_pictures(resumed, undisturbed), f"died before operation {operation}"
        assert not before & set(drawn(log))
        assert not list(folder.rglob("*.tmp"))
        assert not (folder / "in-use.lock").exists()
    assert operation > 30


def test_a_kill_before_judging_does_not_show_the_story_of_before(tmp_path: Path) -> None:
    """A finished run continues with another seed and dies after generating: its old end is not valid."""
    folder, short = tmp_path / "run", Plan(steps=STORY.steps[:1])
    old = tell(folder, plan=short).results[0].attempts

    class Dies(OneInThree):
        def judge(self, *shown: object) -> Verdict:
            os._exit(9)

    again = RunSettings(seed=99)
    child = os.fork()
    if child == 0:
        list(run(REQUEST, Collaborators(OnePlan(short), Counting(), Dies()), again, Journal(folder)))
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    (shown,) = load_trajectory(folder).results[0].attempts
    assert shown.verdict is None
    assert shown.image is not None and shown.image not in [attempt.image for attempt in old]


@EVERY
def test_a_killed_planning_never_passes_an_old_plan_off_as_an_edit(tmp_path: Path, every: int) -> None:
    """Another planner replaces the plan; wherever it dies, the next run ends with the new planner's plan."""
    other = Plan(steps=STORY.steps[:1])

    def tell_other(folder: Path) -> Trajectory:
        planner, store = OnePlan(other, identity="another planner"), Journal(folder)
        return told(None, Counting(), OneInThree(), store, REQUEST, SETTINGS, planner=planner)

    operation, dies = 0, True
    while dies:
        operation += every
        folder = tmp_path / f"run-{operation}"
        tell(folder, plan=Plan(steps=STORY.steps[:2]))
        dies = die_at(operation, folder, partial(tell_other, folder))
        trajectory = tell_other(folder)
        assert trajectory.plan == other
        assert trajectory.identities.planner.startswith("another planner")
    assert operation > 20
