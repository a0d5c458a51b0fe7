"""Every kind of story is resumed, read from its records and copied, and a plain one is written as before."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from support.journal_runs import events_of
from support.small_agents import STORY, OneInThree, OnePlan

from interleave_thinker import (
    AttemptDrawn,
    AttemptJudged,
    AttemptScored,
    Finished,
    Picture,
    approve,
    export_by_name,
    load_trajectory,
)
from interleave_thinker.backend.core.machine.counters import counting
from interleave_thinker.backend.core.types import (
    CastMember,
    CheckedItem,
    ChecklistItem,
    Enhancement,
    Plan,
    Request,
    RunSettings,
    Score,
    Step,
    StepImage,
    StepResult,
    StepSettings,
    StoryFinding,
    Trajectory,
    Verdict,
)
from interleave_thinker.backend.models.generators.fake import FakeGenerator
from interleave_thinker.backend.models.generators.wrappers import EnhancedGenerator
from interleave_thinker.backend.pipeline.story_check import StoryCheckerLike, StoryReview
from interleave_thinker.backend.story.journal.archive import copy_run
from interleave_thinker.backend.story.journal.choices import ask_redraw, let_pass, pick, skip_step
from interleave_thinker.backend.story.journal.copy import save_trajectory
from interleave_thinker.backend.story.journal.journal import Journal
from interleave_thinker.backend.story.loop.events import StoryChecked

REQUEST = Request(text="a story", images=(Picture.white((16, 16)),))
RED = StepImage(name="red.png", picture=Picture(Image.new("RGB", (16, 16), "red")))
TWO = Plan(steps=(Step(number=1, prompt="a house"), Step(number=2, prompt="add a sun")))
CAST = (CastMember(name="Mia", traits=("red coat",), images=(RED,)),)
OWN = StepSettings(mask=RED, reference=RED, seed=7, negative="people", denoise=0.5)


class Checking(OneInThree):
    """Answers the items of a checklist: the first is always true, the second never."""

    checks_items = True

    def check(self, *asked: Any) -> tuple[CheckedItem, ...]:
        items: Sequence[ChecklistItem] = asked[-1]
        return tuple(CheckedItem(text=one.text, kind=one.kind, passed=not at) for at, one in enumerate(items))


class Silent(OneInThree):
    """Accepts every image, and answers no item."""

    checks_items = True

    def judge(self, *_: Any) -> Verdict:
        return Verdict(success=True)

    def check(self, *asked: Any) -> tuple[CheckedItem, ...]:
        return tuple(CheckedItem(text=one.text, kind=one.kind, unanswered=True) for one in asked[-1])


class Finds(StoryCheckerLike):
    """Finds fault with the second image, whatever it shows."""

    identity = "finds"

    def check(self, request: Request, pages: Sequence[StepResult]) -> tuple[StoryFinding, ...]:
        return (StoryFinding(step=pages[1].step.number, kind="state", problem="It must be night."),)


class Refusing(OneInThree):
    """Accepts only images that are generated from text."""

    def judge(self, before: Picture | None, *rest: Any) -> Verdict:
        return Verdict(success=before is None, refined_prompt=f"{rest[-1]}, clearly")


class Pairs(FakeGenerator):
    """Returns two images per call."""

    draws_several = True

    def draw_several(self, prompt: str, source: Picture | None, seed: int) -> tuple[Picture, ...]:
        return self.draw(prompt, source, seed), self.draw(prompt, source, seed + 1)


class Few(FakeGenerator):
    """A model of three images."""

    max_reference_images = 2


class Rising:
    """A scorer that likes each image more than the one before."""

    identity, scored = "rising", 0

    def score(self, before: Picture | None, after: Picture, instruction: str) -> Score:
        self.scored += 1
        return Score(semantics=self.scored, quality=self.scored)


def digest(story: Trajectory, step: int) -> str:
    image = story.results[step - 1].image
    assert image
    return image.digest


def paint(folder: Path, story: Trajectory) -> None:
    mask = Picture(Image.new("L", (8, 16), 255).crop((0, 0, 16, 16)))
    ask_redraw(folder, 2, "a cat", digest(story, 2), mask=mask, caption="A cat came.")


def ask_twice(folder: Path, story: Trajectory) -> None:
    """The second request replaces the first, which is never made."""
    ask_redraw(folder, 1, "a green house")
    ask_redraw(folder, 1, "a blue house")


def enhanced(generator: FakeGenerator) -> EnhancedGenerator:
    return EnhancedGenerator(
        generator, lambda prompt, _: Enhancement(prompt=f"{prompt}, in detail"), "longer"
    )


@dataclass(frozen=True)
class Feature:
    """A kind of story: its plan, its settings, what takes part in it, and what the user decides about it."""

    plan: Plan = TWO
    settings: dict[str, Any] = field(default_factory=dict)
    parts: dict[str, Any] = field(default_factory=dict)
    decide: Callable[[Path, Trajectory], object] | None = None


def steps(*changes: dict[str, Any], **plan: Any) -> Plan:
    made = (one.model_copy(update=change) for one, change in zip(TWO.steps, changes, strict=True))
    return Plan(steps=tuple(made), **plan)


ITEMS = tuple(ChecklistItem(text=text, kind="count") for text in ("two boats", "three suns"))
FEATURES = {
    "plain": Feature(STORY),
    "cast": Feature(steps({"cast": ("Mia",)}, {"facts": ("it rains",)}, cast=CAST)),
    "cast of a model of one image": Feature(
        steps({"cast": ("Mia",)}, {}, cast=CAST), {"most_images": 1}, {"critic": None}
    ),
    "checklist": Feature(steps({"checklist": ITEMS}, {}), parts={"critic": Checking()}),
    "enhanced prompts": Feature(parts={"generator": enhanced(FakeGenerator(16))}),
    "scorer": Feature(settings={"candidates": 2, "max_attempts": 4}, parts={"scorer": Rising()}),
    "earlier images": Feature(STORY, {"source": "all"}, {"generator": Few(16)}),
    "batches": Feature(settings={"max_attempts": 2}, parts={"generator": Pairs(16)}),
    "settings of a step": Feature(steps({}, {"settings": OWN})),
    "style": Feature(steps({}, {}, style="Ink")),
    "without a critic": Feature(settings={"max_attempts": 1}),
    "unanswered checklist": Feature(steps({"checklist": ITEMS}, {}), parts={"critic": Silent()}),
    "story check": Feature(STORY, parts={"reviewer": StoryReview(Finds(), 1)}),
    "requested attempt": Feature(steps({}, {}, style="Ink"), decide=ask_twice),
    "painted area": Feature(decide=paint),
    "pick": Feature(decide=lambda folder, told: pick(folder, 1, told.results[0].attempts[0].image.digest)),
    "skipped step": Feature(decide=lambda folder, _: skip_step(folder, 1)),
    "approved plan": Feature(settings={"pause": "every step"}, decide=lambda folder, _: approve(folder)),
    "approved by time": Feature(
        settings={"pause": "at rejected steps", "max_attempts": 2},
        parts={"critic": Refusing()},
        decide=lambda folder, told: let_pass(folder, 1, digest(told, 1)),
    ),
    "rewritten": Feature(
        settings={"max_attempts": 2}, parts={"critic": Refusing(), "rewriter": lambda *_: "a house, a sun"}
    ),
}


def told(feature: Feature, folder: Path | None) -> tuple[Trajectory, set[bool]]:
    """Return the trajectory, and whether its images, verdicts, scores and checks came from the cache."""
    parts = {"generator": FakeGenerator(16), "critic": OneInThree(), **feature.parts}
    how = {"store": folder and Journal(folder), "request": REQUEST}
    settings = RunSettings(**feature.settings)
    with counting() as counts:
        events = events_of(None, planner=OnePlan(feature.plan), settings=settings, **how, **parts)
    assert isinstance(events[-1], Finished)
    made = (AttemptDrawn, AttemptJudged, AttemptScored, StoryChecked)
    cached = {event.reused for event in events if isinstance(event, made)}
    return events[-1].trajectory, cached | {not counts.draws + counts.judgements}


def timeless(trajectory: Trajectory) -> list[Any]:
    written = trajectory.model_dump()["results"]
    for result in written:
        for attempt in result["attempts"]:
            del attempt["seconds"]
            attempt.pop("judging", None)
    return written


def verdicts(folder: Path) -> dict[str, Any]:
    return {path.name: json.loads(path.read_text())["verdict"] for path in folder.glob("verdicts/*.json")}


@pytest.mark.parametrize("kind", FEATURES)
def test_a_story_is_resumed_replayed_and_copied(kind: str, tmp_path: Path) -> None:
    feature, folder = FEATURES[kind], tmp_path / "run"
    whole, cached = told(feature, folder)
    assert False in cached or not whole.results
    if feature.decide:
        feature.decide(folder, whole)
        whole, _ = told(feature, folder)
    assert told(feature, folder) == (whole, {True}), "nothing is made twice"
    assert load_trajectory(folder) == whole
    (folder / "trajectory.json").unlink()
    assert load_trajectory(folder) == whole, "from the records alone"
    copies = {save_trajectory(whole, tmp_path / "copy"): whole}
    shared = export_by_name("zip", load_trajectory(tmp_path / "copy"), tmp_path)
    copies[copy_run(shared, tmp_path / "received")] = whole
    if not feature.decide:
        in_memory, _ = told(feature, None)
        copies[save_trajectory(in_memory, tmp_path / "of memory")] = in_memory
    for copy, saved in copies.items():
        assert load_trajectory(copy) == saved
        again, cached = told(feature, copy)
        assert cached == {True} and timeless(again) == timeless(saved)
    assert verdicts(tmp_path / "copy").items() <= verdicts(folder).items(), "only what the critic gave"


def keys_of(value: object) -> set[str]:
    """Return all names in a JSON value."""
    if isinstance(value, dict):
        return set(value).union(*map(keys_of, value.values()))
    return set().union(*map(keys_of, value)) if isinstance(value, list) else set()


def test_a_plain_run_is_written_as_before(tmp_path: Path) -> None:
    """Earlier versions read it: no field of a feature that it does not have, and no other cache key."""
    told(FEATURES["plain"], tmp_path)
    found = {path.stem: keys_of(json.loads(path.read_text())) for path in tmp_path.glob("*.json")}
    assert found.keys() == {"run", "plan", "trajectory"}
    later = {"cast", "facts", "checklist", "items", "style", "warning", "rewritten"}
    later |= {"redraw", "beside", "enhancement", "checks", "approved", "unused", "clips", "most_images"}
    later |= {"pause", "scorer", "max_draws"}
    for name, keys in found.items():
        assert not keys & later, name
    for path in tmp_path.glob("attempts/*.json"):
        record = json.loads(path.read_text())
        assert record["key"]["generator"] == FakeGenerator(16).identity
        assert not record.keys() & {"enhancement", "draft"}
    steps_written = json.loads((tmp_path / "plan.json").read_text())["steps"]
    assert all("settings" not in one for one in steps_written)
