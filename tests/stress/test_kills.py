"""Runs that are killed (SIGKILL) at random moments and resumed, hundreds of times.

Each ends with the same bytes as an undisturbed run, and nothing that was recorded is generated again. A run
is a forked child with everything loaded, so that a kill hits the run and not its imports. Only times may
differ.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import signal
import time
from pathlib import Path

import pytest
from support.forked import forked
from support.journal_runs import events_of
from support.small_agents import Counting, OneInThree, OnePlan
from support.small_teachers import SmallTeachers

from interleave_thinker import Generator, Picture, Plan, Request, RunSettings, Step
from interleave_thinker.backend.story.journal.journal import Journal
from interleave_thinker.backend.story.journal.store import DrawKey

pytestmark = [
    pytest.mark.stress,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(os.name != "posix", reason="SIGKILL and fork are POSIX"),
]

KILLS, LIMIT = 500, 600.0
MEASURED = re.compile(rb'"(seconds|checksum)": ?[^,\n]+')
SHARE = 0.6
"""Maximum lifetime of a child, as a share of the time of an undisturbed run."""


class Noted:
    """Records every image before it is generated."""

    def __init__(self, generator: Generator, log: Path) -> None:
        self._generator, self._log = generator, log

    @property
    def identity(self) -> str:
        return self._generator.identity

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        digest = source.digest if source else None
        key = DrawKey(generator=self.identity, prompt=prompt, seed=seed, source=digest)
        with self._log.open("a") as log:
            log.write(f"{key.digest}\n")
        return self._generator.draw(prompt, source, seed)


def painted_story(folder: Path, log: Path, number: int) -> None:
    steps = tuple(Step(number=1 + index, prompt=f"page {number}, {index}") for index in range(12))
    request = Request(text=f"story {number}", images=(Picture.white((16, 16)),))
    generator, settings = Noted(Counting(None, 0.004), log), RunSettings(seed=number)
    parts = {"planner": OnePlan(Plan(steps=steps))}
    events_of(None, generator, OneInThree(), Journal(folder), request, settings, **parts)


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): MEASURED.sub(rb'"\1": 0', path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def drawn(log: Path) -> list[str]:
    return log.read_text().split() if log.exists() else []


def resumed_story(place: Path, number: int, dice: random.Random, most: int) -> int:
    """Run a story with at most `most` kills until it is finished, compare it, and count the kills."""
    alone, log_alone = place / f"alone-{number}", place / f"alone-{number}.log"
    began = time.monotonic()
    assert forked(lambda: painted_story(alone, log_alone, number), LIMIT).code == 0
    longest = (time.monotonic() - began) * SHARE
    folder, log = place / f"killed-{number}", place / f"killed-{number}.log"
    kills, finished = 0, False
    while not finished:
        recorded, count = {path.stem for path in folder.glob("attempts/[0-9a-f]*.json")}, len(drawn(log))
        left = dice.uniform(0.0, longest) if kills < most else LIMIT
        ended = forked(lambda: painted_story(folder, log, number), left)
        assert ended.code == 0 or ended.killed, f"a child ended with {ended.code}"
        kills, finished = kills + ended.killed, not ended.killed
        new = drawn(log)[count:]
        assert not recorded & set(new), f"story {number}: drew again what was recorded"
        assert len(set(new)) == len(new), f"story {number}: drew twice"
    assert files_of(alone) == files_of(folder), f"story {number}"
    assert set(drawn(log)) == set(drawn(log_alone))
    assert len(drawn(log)) - len(drawn(log_alone)) <= kills, "more than one generation for each kill"
    return kills


def test_a_resumed_story_equals_an_uninterrupted_one(tmp_path: Path) -> None:
    dice, kills = random.Random(0), 0
    for number in itertools.count():
        kills += resumed_story(tmp_path, number, dice, KILLS - kills)
        if kills >= KILLS:
            break


def test_a_benchmark_killed_in_two_processes_gives_the_same_submission(tmp_path: Path) -> None:
    """Both processes of a pair share a folder. One is killed at a random moment, then the other."""
    from support.benchmark_runs import carry_out, setting_of

    from interleave_thinker.research.evaluation.submission import collect

    data, count = tmp_path / "merge.json", range(1, 121)
    data.write_text(
        json.dumps([{"Prompt": f"what {n} is", "Explanation": "it", "prompt_id": n} for n in count])
    )
    setting, least, dice = setting_of("wise", data), 30, random.Random(0)
    alone, out, log = tmp_path / "alone", tmp_path / "killed", tmp_path / "draws.log"
    began = time.monotonic()
    carry_out(alone, setting, SmallTeachers(seconds=0.01), retry_failed=True)
    longest = (time.monotonic() - began) / least
    teachers, kills, ended_alone = SmallTeachers(log, seconds=0.01), 0, 0
    while kills < least and ended_alone <= 3:
        other = os.fork()
        if other == 0:
            carry_out(out, setting, teachers, retry_failed=True)
            os._exit(0)
        ended = forked(
            lambda: carry_out(out, setting, teachers, retry_failed=True), dice.uniform(0.05, longest)
        )
        os.kill(other, signal.SIGKILL)
        kills += ended.killed + os.WIFSIGNALED(os.waitpid(other, 0)[1])
        ended_alone += not ended.killed
    carry_out(out, setting, teachers, retry_failed=True)
    for folder in (alone, out):
        collect(folder, log=lambda line: None)
    draws = log.read_text().split()
    print(json.dumps({"kills": kills, "draws": len(draws), "again": len(draws) - len(set(draws))}))
    assert kills > least / 2
    assert len(draws) - len(set(draws)) <= kills, (
        "an image is repeated only if the kill came before its record"
    )
    assert files_of(alone / "submission") == files_of(out / "submission")
