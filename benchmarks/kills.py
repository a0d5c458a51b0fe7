"""Runs that are killed at random moments, again and again, and resumed: each ends byte for byte as one that
was left alone.

Decision: a run is a forked child with everything loaded already, so that its kills (SIGKILL) fall into the
run and not into its imports. Every draw is noted before it begins. Whatever was recorded before a child began
must not be drawn by it, no story may take more draws than it needs and one for each kill, and in the end
every file of the folder, pictures, records, plan and trajectory, is compared with the undisturbed run's; only
the seconds that things took are left out.

    OMP_NUM_THREADS=1 python benchmarks/kills.py                            # 500 kills; the last line is JSON
    OMP_NUM_THREADS=1 python benchmarks/kills.py --kind tinyworld --kills 100
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import conftest  # noqa: F401 - makes the package importable
from support.small_agents import Counting, OneInThree, OnePlan

from interleave_thinker.backend.agents.critic import Critic
from interleave_thinker.backend.agents.planner import Planner
from interleave_thinker.backend.chat import open_chat
from interleave_thinker.backend.generators import Generator, open_generator
from interleave_thinker.backend.journal.journal import Journal
from interleave_thinker.backend.journal.store import DrawKey
from interleave_thinker.backend.loop.loop import run
from interleave_thinker.backend.pictures import Picture
from interleave_thinker.backend.types import Plan, Request, RunSettings, Step

SECONDS = re.compile(rb'"seconds": ?[0-9.e+-]+')
STORIES = [
    (
        "Draw a sea page with a red boat in the middle. Then make it blue. Then add a yellow fish at the "
        "bottom left."
    ),
    (
        "Draw a meadow page with a green tree in the middle. Then add a red house at the top right. Then "
        "remove the tree."
    ),
]
RunRequest = Callable[[Path, Path, int], object]


class Noted:
    """A generator that notes every draw before it begins."""

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


def fake_story() -> RunRequest:
    def run_request(folder: Path, log: Path, number: int) -> None:
        steps = tuple(Step(number=1 + index, prompt=f"page {number}, {index}") for index in range(12))
        generator = Noted(Counting(None, 0.004), log)
        request = Request(text=f"story {number}", images=(Picture.white((16, 16)),))
        settings = RunSettings(seed=number)
        for _ in run(
            request, OnePlan(Plan(steps=steps)), generator, OneInThree(), settings, journal=Journal(folder)
        ):
            pass

    return run_request


def tiny_world_story() -> RunRequest:
    planner, critic = Planner(open_chat("tinyworld:planner")), Critic(open_chat("tinyworld:critic"))
    generator = open_generator("tinyworld")

    def run_request(folder: Path, log: Path, number: int) -> None:
        request = Request(text=STORIES[number % len(STORIES)])
        settings = RunSettings(seed=number)
        for _ in run(request, planner, Noted(generator, log), critic, settings, journal=Journal(folder)):
            pass

    return run_request


KINDS = {"fake": fake_story, "tinyworld": tiny_world_story}
SHARE = 0.6
"""Of the time of an undisturbed run, for which a child is left alive at the longest."""


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): SECONDS.sub(b'"seconds": 0', path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def recorded(folder: Path) -> set[str]:
    return {path.stem for path in folder.glob("attempts/[0-9a-f]*.json")}


def drawn(log: Path) -> list[str]:
    return log.read_text().split() if log.exists() else []


def killed_child(work: Callable[[], object], seconds: float) -> bool:
    """Do the work in a child that is killed after this time; whether it was."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if os.waitpid(child, os.WNOHANG)[0]:
            return False
        time.sleep(0.0005)
    os.kill(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, -signal.SIGKILL), f"a child ended with {code}"
    return code != 0


def resumed_story(
    run_request: RunRequest, place: Path, number: int, dice: random.Random, most: int
) -> tuple[int, int]:
    """Run a request with kills until it is finished; kills, and draws beyond those that it needs. Raises
    AssertionError."""
    alone, log_alone = place / f"alone-{number}", place / f"alone-{number}.log"
    began = time.monotonic()
    assert not killed_child(lambda: run_request(alone, log_alone, number), 600.0)
    longest = (time.monotonic() - began) * SHARE
    folder, log = place / f"killed-{number}", place / f"killed-{number}.log"
    kills, going = 0, True
    while going:
        before, count = recorded(folder), len(drawn(log))
        left = dice.uniform(0.0, longest) if kills < most else 600.0
        going = killed_child(lambda: run_request(folder, log, number), left)
        kills += going
        assert not before & set(drawn(log)[count:]), f"story {number}: drew again what was recorded"
        assert len(set(drawn(log)[count:])) == len(drawn(log)[count:]), f"story {number}: drew twice"
    one, other = files_of(alone), files_of(folder)
    assert one.keys() == other.keys(), f"story {number}: other files: {sorted(one.keys() ^ other.keys())}"
    changed = [name for name in one if one[name] != other[name]]
    assert not changed, f"story {number}: other content: {changed}"
    more = len(drawn(log)) - len(drawn(log_alone))
    assert set(drawn(log)) == set(drawn(log_alone)) and more <= kills, (
        f"story {number}: {more} draws too many"
    )
    return kills, more


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--kind", choices=list(KINDS), default="fake")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    dice, kills, more, number = random.Random(options.seed), 0, 0, 0
    run_request = KINDS[options.kind]()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        while kills < options.kills:
            here, extra = resumed_story(run_request, Path(place), number, dice, options.kills - kills)
            kills, more, number = kills + here, more + extra, number + 1
            print(f"story {number}: {here} kills, {extra} draws again", flush=True)
    seconds = round(time.monotonic() - began, 1)
    print(
        json.dumps(
            {
                "kind": options.kind,
                "kills": kills,
                "stories": number,
                "drawn_again": more,
                "wrong": 0,
                "seconds": seconds,
            }
        )
    )


if __name__ == "__main__":
    main()
