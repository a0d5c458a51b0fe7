"""A story that records what it generates, and a process that dies, for tests that kill runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from support.journal_runs import REQUEST, told
from support.small_agents import STORY, Counting, OneInThree, OnePlan

from interleave_thinker import Plan, RunSettings, Trajectory
from interleave_thinker.backend.story.journal.journal import Journal

SETTINGS = RunSettings(seed=3)
TOUCHES = ("open", "os.rename", "os.remove", "os.link", "os.mkdir", "os.listdir", "os.scandir")


def tell(folder: Path, log: Path | None = None, seconds: float = 0.0, plan: Plan = STORY) -> Trajectory:
    """Run the story of these tests, which is the same in every process."""
    generator, planner = Counting(log, seconds), OnePlan(plan)
    return told(None, generator, OneInThree(), Journal(folder), REQUEST, SETTINGS, planner=planner)


def die_at(operation: int, folder: Path, work: Callable[[], object], names: tuple[str, ...] = ("",)) -> bool:
    """Run `work` in a forked process that dies, without cleaning up, before its n-th file operation.

    Only operations in the folder on paths with one of the names count. Returns False if it finished.
    """
    child = os.fork()
    if child == 0:
        seen = 0

        def count(event: str, arguments: tuple) -> None:
            nonlocal seen
            if event in TOUCHES and any(
                isinstance(given, str | Path)
                and str(folder) in str(given)
                and any(name in str(given).partition(str(folder))[2] for name in names)
                for given in arguments
            ):
                seen += 1
                if seen == operation:
                    os._exit(9)

        code = 1
        try:
            sys.addaudithook(count)
            work()
            code = 0
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, 9)
    return code == 9
