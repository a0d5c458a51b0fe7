"""Rows of the tiny planner for both kinds of training, the exact judge of its plans, and prompt files.

A row for reinforcement learning has a request with a reference plan (world/requests.py). The prompt file has
the planner's training distribution and is split by the same digest as its evaluation, so a planner trained on
the results can be measured with `benchmark tinyworld`.

The judge simulates the tiny world. A step is correct if it leaves the scene that the reference's step leaves,
so another phrasing of the same edit is correct. Each step is tested on the scene before the reference's step
and not on the result of the plan's own earlier steps. Otherwise one wrong step would make all later ones
wrong, and nothing could be learned from them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any

from ....backend.core.answers.reading import write_plan
from ....backend.core.errors import SettingsError
from ....backend.core.files.atomic import write_bytes, write_text
from ....backend.core.pictures import Picture
from ....backend.core.prompts.prompt_set import fill
from ....backend.core.types import MAX_STEPS, Plan, Step
from ....tinyworld.drawing import draw
from ....tinyworld.scene import (
    Scene,
    StartScene,
    applies,
)
from ....tinyworld.scorer import read_image
from ....tinyworld.wording import read_prompt
from ....training.reward.plan_judges import PlanJudge, PlanScore
from ....training.rows.rl import PlannerRlRow, StepRange, write_rl_lines
from ....training.rows.sft import SftRow
from ..world.requests import Split, TinyStory, random_story
from .critic_rows import PROMPT_SET, ImageFolder, row_of


class SimulatedWorld(PlanJudge):
    """Judges plans exactly, by the scenes that their steps lead to."""

    identity = "tinyworld-plans-2"

    def check(self, row: PlannerRlRow) -> None:
        """Check that a row has a reference whose steps belong to the tiny world.

        Raises:
            SettingsError: If it does not.
        """
        if not row.reference:
            raise SettingsError(
                f"{row.place or 'A row'} has no reference plan.", "Use --judge CHAT for such rows."
            )
        for step in row.reference:
            if step.prompt and read_prompt(step.prompt) is None:
                raise SettingsError(
                    f"{row.place or 'A row'}: the reference step {step.prompt[:80]!r} is not a prompt "
                    "of the tiny world."
                )

    def score(self, row: PlannerRlRow, plan: Plan, pictures: Sequence[Picture]) -> PlanScore:
        """Score a plan.

        Half of the match is for an exact plan. The other half is the share of correct steps in the
        reference's order, relative to the longer of both plans. A caption must exist where the reference has
        one; a text-only step must have the same text.
        """
        page = read_image(pictures[0]).scene if pictures else None
        expected, _ = _walked(row.reference, page)
        _, found = _walked(plan.steps, page)
        # A text-only step instead of an image step does not act on anything either.
        drawn = max(sum(step.prompt is not None for step in steps) for steps in (row.reference, plan.steps))
        share = _in_order(expected, plan.steps) / max(len(expected), len(plan.steps))
        exact = share == 1.0
        return PlanScore(match=(share + exact) / 2, consistency=found / drawn if drawn else 0.0, exact=exact)


@dataclass(frozen=True)
class _Expected:
    """A step of the reference, with the scenes before and after it."""

    step: Step
    before: Scene | None
    after: Scene | None

    def is_met_by(self, step: Step) -> bool:
        """Return whether another step does the same on the scene before this one."""
        if not _same_words(self.step, step):
            return False
        return step.prompt is None or _acted(_act(step.prompt), self.before) == self.after is not None


def _same_words(asked: Step, step: Step) -> bool:
    if asked.prompt is None:
        return step.prompt is None and step.auxiliary_text == asked.auxiliary_text
    return step.prompt is not None and bool(step.auxiliary_text) == bool(asked.auxiliary_text)


def _walked(steps: Sequence[Step], page: Scene | None) -> tuple[list[_Expected], int]:
    """Apply steps one after the other.

    Returns:
        The steps with the scenes before and after them, and how many prompts find what they act on, up to the
            first prompt that cannot be applied.
    """
    walked: list[_Expected] = []
    consistent, lost = 0, False
    for step in steps:
        before = page
        if step.prompt is not None:
            act = _act(step.prompt)
            after = _acted(act, page)
            lost = lost or after is None
            if not lost:
                consistent += isinstance(act, StartScene) or (page is not None and applies(act, page))
            page = after or page
        walked.append(_Expected(step, before, page))
    return walked, consistent


def _acted(act: Any, page: Scene | None) -> Scene | None:
    """Return the scene after an edit; `None` if it cannot be applied."""
    return None if act is None or (page is None and not isinstance(act, StartScene)) else act.apply(page)


def _in_order(expected: Sequence[_Expected], steps: Sequence[Step]) -> int:
    """Return how many expected steps are met in order (length of the longest common subsequence)."""
    above = [0] * (len(steps) + 1)
    for one in expected:
        row = [0]
        for place, step in enumerate(steps):
            met = one.is_met_by(step)
            row.append(above[place] + 1 if met else max(row[place], above[place + 1]))
        above = row
    return above[-1]


@lru_cache(maxsize=1024)
def _act(prompt: str) -> Any:
    # Each planned step is tested on each scene of the reference, and the plans of a group are similar.
    found = read_prompt(prompt)
    return None if found is None else found[0]


RL_FILE = "planner_rl.jsonl"
MAX_REQUEST_STEPS = 20


@dataclass(frozen=True)
class StoryKind:
    """A kind of story: `least` to `most` steps with images, equally frequent."""

    least: int = 1
    most: int = 6

    def __post_init__(self) -> None:
        """Check the numbers of steps."""
        if not 1 <= self.least <= self.most <= min(MAX_REQUEST_STEPS, MAX_STEPS):
            raise SettingsError(
                f"Cannot create stories of {self.least} to {self.most} steps.",
                f"Use numbers from 1 to {MAX_REQUEST_STEPS}, the smaller one first.",
            )

    def stories(self, seed: str, split: Split) -> Iterator[TinyStory]:
        """Yield stories forever; the same seed gives the same stories."""
        rng = Random(f"{seed}/{self.least}-{self.most}/usual")
        while True:
            yield random_story(rng, split, rng.randint(self.least, self.most))


def make_planner_rl(folder: Path, count: int, seed: int, kind: StoryKind, split: Split = "train") -> Path:
    """Write `count` different requests with their plans below `folder`, and return the data file.

    Raises:
        SettingsError: If a file cannot be written.
    """
    pages = ImageFolder(folder / "pages")
    rows: dict[str, PlannerRlRow] = {}
    for story in kind.stories(f"planner rl/{seed}", split):
        row = PlannerRlRow(
            request=story.text,
            images=[pages.name(draw(story.before))] if story.before is not None else [],
            reference=list(story.plan.steps),
            steps=StepRange(least=len(story.plan.steps), most=len(story.plan.steps)),
            judge=SimulatedWorld.identity,
        )
        rows.setdefault(row.line(), row)
        if len(rows) == count:
            break
    path = folder / RL_FILE
    write_rl_lines(path, list(rows.values()))
    return path


BUCKETS = 50
"""Number of batches within which rows are sorted by length."""


def prompt_of(story: TinyStory) -> str:
    """Return the planner's question, with an `<image>` mark if the story starts from an image."""
    template = PROMPT_SET.planner_images if story.before else PROMPT_SET.planner_text
    return fill(template, text_input=story.text)


def in_buckets(rows: list[SftRow], batch: int, seed: int) -> list[SftRow]:
    """Sort rows into batches of similar length, in random order within windows of BUCKETS batches.

    This reduces padding (6,800 instead of 5,300 tokens/s).
    """
    rng, ordered = Random(f"buckets/{seed}"), []
    for start in range(0, len(rows), BUCKETS * batch):
        window = sorted(rows[start : start + BUCKETS * batch], key=_length)
        batches = [window[at : at + batch] for at in range(0, len(window), batch)]
        rng.shuffle(batches)
        ordered += [row for one in batches for row in one]
    return ordered


def _length(row: SftRow) -> int:
    return sum(len(message.content) for message in row.messages)


def make(folder: Path, count: int, seed: int) -> list[SftRow]:
    """Build `count` rows; input images are written below `folder / "pages"`."""
    rng = Random(f"planner/{seed}")
    pages = ImageFolder(folder / "pages")
    rows = []
    for _ in range(count):
        rows.append(_row(random_story(rng, "train"), pages))
    return rows


def _row(story: TinyStory, pages: ImageFolder) -> SftRow:
    return row_of(prompt_of(story), write_plan(story.plan), _images(story, pages))


def _images(story: TinyStory, pages: ImageFolder) -> list[str]:
    return [pages.name(draw(story.before))] if story.before is not None else []


FILE = "prompts.jsonl"
PAGES = "pages"


def make_prompts(out: Path, count: int, seed: int, split: Split = "train") -> Path:
    """Write `out`/prompts.jsonl with `count` distinct requests and their input images, and return its path.

    A larger `count` starts with the same requests.

    Raises:
        SettingsError: If a file cannot be written.
    """
    rng = Random(f"prompts {seed}")
    rows: dict[str, dict[str, object]] = {}
    while len(rows) < count:
        story = random_story(rng, split)
        before = draw(story.before) if story.before else None
        digest = hashlib.blake2b(f"{story.text}\0{before.digest if before else ''}".encode(), digest_size=6)
        name = f"tw-{digest.hexdigest()}"
        if name in rows:
            continue
        if before:
            write_bytes(out / PAGES / f"{name}.png", before.png(), SettingsError, "Page")
        rows[name] = _prompt_row(name, story, f"{PAGES}/{name}.png" if before else None)
    lines = [json.dumps(row) + "\n" for row in rows.values()]
    write_text(out / FILE, "".join(lines), SettingsError, "Prompt file")
    return out / FILE


def _prompt_row(name: str, story: TinyStory, page: str | None) -> dict[str, object]:
    image = {"user_input_image": page} if page else {}
    return {
        "id": name,
        "user_input": story.text,
        **image,
        "category": "tiny world",
        "split": "train" if story.split == "train" else "held out",
        "language": "en",
    }
