"""Random decisions, edits and kills end with the story that the same decisions give in one go.

The story in one go is computed step by step without a run folder and without pauses: the attempts of a step
follow from its prompt, its seed and the image before it, and a decision selects one of them, adds one or
removes all.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from support.killed_runs import die_at
from support.paused_runs import REQUEST, Paused, images
from support.small_agents import OneInThree

from interleave_thinker.backend.core.pictures import Picture
from interleave_thinker.backend.core.types import Plan, Request, RunSettings, Step, StopReason
from interleave_thinker.backend.models.generators.fake import FakeGenerator
from interleave_thinker.backend.story.approval import approve
from interleave_thinker.backend.story.journal.choices import read_choices
from interleave_thinker.backend.story.journal.waiting import waiting_for
from interleave_thinker.backend.story.loop.collaborators import Collaborators
from interleave_thinker.backend.story.loop.events import Event, Finished
from interleave_thinker.backend.story.loop.loop import run
from interleave_thinker.backend.story.loop.policy import redraw_seed

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL and fork are POSIX")

PAINTER = FakeGenerator(16)
PROMPTS = ("a house", "add a sun", "add a boat", "add a bird", "make it night", "add snow")


@dataclass(frozen=True)
class Decision:
    """The last decision about a step: the critic's, a requested attempt, one of the attempts, or none."""

    kind: str = "critic"
    number: int = 0
    prompt: str = ""


def in_one_go(
    steps: Sequence[Step], decisions: Sequence[Decision], settings: RunSettings
) -> list[str | None]:
    """Return the digests of the images, without pauses, a run folder or a cache."""
    story: list[str | None] = []
    before: Picture | None = None
    for step, decision in zip(steps, decisions, strict=True):
        image = None if decision.kind == "skip" else image_of(step, decision, before, settings)
        story.append(image.digest if image else None)
        before = image or before
    return story


def image_of(step: Step, decision: Decision, before: Picture | None, settings: RunSettings) -> Picture:
    if decision.kind == "redraw":
        seed = redraw_seed(step, settings, decision.number, decision.prompt, ())
        return PAINTER.draw(decision.prompt, before, seed)
    request = Request(text=REQUEST.text, images=(before,) if before else ())
    plain = settings.model_copy(update={"pause": "never"})
    *_, last = run(request, Collaborators(None, PAINTER, OneInThree()), plain, plan=Plan(steps=(step,)))
    assert isinstance(last, Finished)
    (result,) = last.trajectory.results
    image = result.attempts[decision.number - 1].image if decision.kind == "use" else result.image
    assert image is not None
    return image


class Person:
    """Directs one story with random decisions, and notes the last one about every step."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.dice = random.Random(seed)
        prompts = self.dice.choices(PROMPTS, k=self.dice.randint(2, 4))
        self.steps = [Step(number=place, prompt=prompt) for place, prompt in enumerate(prompts, 1)]
        pause = self.dice.choice(["every step", "every step", "at rejected steps"])
        self.story = Paused(folder, pause, Plan(steps=tuple(self.steps)), seed=seed)
        self.decisions: dict[int, Decision] = {}
        self.requests: dict[int, int] = {}
        self.kills = 0
        self.kinds: list[str] = []

    def directs(self) -> Finished:
        while True:
            ended = self._run()
            if ended.waiting is None:
                return ended
            self._decide(ended)

    def _run(self) -> Finished:
        """Run the command until it is not killed."""
        while self.dice.random() < 0.3:
            self.kills += 1
            places = iter(range(self.dice.randint(0, 11), -50, -1))
            child = os.fork()
            if child == 0:

                def die(event: Event, places: Iterator[int] = places) -> None:
                    if next(places) == 0:
                        os.kill(os.getpid(), signal.SIGKILL)

                self.story(die)
                os._exit(0)
            os.waitpid(child, 0)
        return self.story()

    def _decide(self, ended: Finished) -> None:
        assert ended.waiting
        step, folder = ended.waiting.step, self.story.folder
        if step is None:
            self.kinds.append("plan")
            approve(folder)
            return
        result = ended.trajectory.results[-1]
        own = [place for place, one in enumerate(result.attempts, 1) if one.redraw is None]
        kind = self.dice.choice(["approve", "approve", "approve", "redraw", "use", "skip", "edit"])
        self.kinds.append(kind)
        if kind == "edit":
            self._edit(step)
        elif kind == "redraw":
            self.requests[step] = self.requests.get(step, 0) + 1
            prompt = f"{self.dice.choice(PROMPTS)} {self.requests[step]}"
            approve(folder, redraw=prompt)
            self.decisions[step] = Decision("redraw", self.requests[step], prompt)
        elif kind == "use":
            number = self.dice.choice(own)
            approve(folder, step, use=number)
            self.decisions[step] = Decision("use", number)
        elif kind == "skip":
            approve(folder, skip=True)
            self.decisions[step] = Decision("skip")
        else:
            approve(folder)

    def _edit(self, step: int) -> None:
        """Insert, delete or reword a step after this one."""
        kept, later = self.steps[:step], self.steps[step:]
        what = self.dice.choice(["insert", "delete", "reword"]) if later else "insert"
        place = self.dice.randrange(len(later)) if later else 0
        if what != "insert":
            later.pop(place)
        if what != "delete" and len(self.steps) < 7:
            later.insert(place, Step(number=1, prompt=self.dice.choice(PROMPTS)))
        steps = [*kept, *later]
        self.steps = [one.model_copy(update={"number": place}) for place, one in enumerate(steps, 1)]
        self.story.edit(*self.steps)


@pytest.mark.parametrize(
    "seeds",
    [range(10), pytest.param(range(10, 200), marks=[pytest.mark.stress, pytest.mark.timeout(1800)])],
    ids=["10", "others of 200"],
)
def test_random_sequences_end_like_the_story_in_one_go(tmp_path: Path, seeds: range) -> None:
    kinds: dict[str, int] = {}
    kills = 0
    for seed in seeds:
        person = Person(tmp_path / str(seed), seed)
        ended = person.directs()
        decisions = [person.decisions.get(step.number, Decision()) for step in person.steps]
        wanted = in_one_go(person.steps, decisions, person.story.settings)
        assert images(ended.trajectory) == wanted, f"sequence {seed}"
        assert [one.step for one in ended.trajectory.results] == person.steps
        skipped = [one.stop_reason is StopReason.skipped for one in ended.trajectory.results]
        assert skipped == [one.kind == "skip" for one in decisions]
        kills += person.kills
        for kind in person.kinds:
            kinds[kind] = kinds.get(kind, 0) + 1
    assert kills > len(seeds) / 2 and min(kinds.values()) > len(seeds) / 10, (kills, kinds)


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


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=[pytest.mark.stress, pytest.mark.timeout(1800)])])
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


def test_processes_killed_at_the_pause_itself(tmp_path: Path) -> None:
    """SIGKILL of a real process as soon as it has written what it waits for, at every pause of the story."""
    whole = direct(tmp_path / "whole")
    folder = tmp_path / "run"
    script = (
        "import sys; sys.path[:0] = [sys.argv[1]]; import conftest; from pathlib import Path\n"
        "from support.paused_runs import Paused; Paused(Path(sys.argv[2]))(); print('ended', flush=True)\n"
        "import time; time.sleep(60)"
    )
    places = []
    for _ in range(10):
        process = subprocess.Popen(
            [sys.executable, "-c", script, str(Path(__file__).parents[3]), str(folder)],
            stdout=subprocess.PIPE,
        )
        assert process.stdout
        until = time.monotonic() + 60
        while waiting_for(folder) is None and process.poll() is None and time.monotonic() < until:
            if (folder / "trajectory.json").exists() and not (folder / "waiting.json").exists():
                break
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        waiting = waiting_for(folder)
        if waiting is None:
            break
        places.append(waiting.step)
        decide(folder, waiting.step)
    assert places == [None, 1, 2, 2, 3]
    assert images(direct(folder).trajectory) == images(whole.trajectory)
