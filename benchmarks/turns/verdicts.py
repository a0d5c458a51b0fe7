"""What reinforcement does to verdicts: sampled groups of answers, and greedy answers before and after.

The tiny critic's reasoning names the content of each cell that matters: before the step, as requested, and as
seen. A wrong verdict can therefore be traced to the part that was misread.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from pydantic import BaseModel

from interleave_thinker.tinyworld.lab.data.critic_rows import compare
from interleave_thinker.tinyworld.lab.data.oracle_critic import drawn_of
from interleave_thinker.tinyworld.lab.data.rl_rows import RL_FILE
from interleave_thinker.tinyworld.lab.runs.batched_agents import BatchedAgent, judging_of
from interleave_thinker.tinyworld.runtime.scene import BACKDROPS, CELLS, COLORS, THINGS
from interleave_thinker.training.data.rows.rl import read_rl_rows
from interleave_thinker.training.reward.terms import read_answer

GROUP = 8
NOTHING = 1e-6
"""Tolerance for rounding errors of a reward."""
PLACE = "|".join(sorted((*CELLS, "page"), key=len, reverse=True))
NAMED = rf"(smudge|nothing|blank|{'|'.join(BACKDROPS)}|(?:{'|'.join(COLORS)}) (?:{'|'.join(THINGS)}))"
CELL = re.compile(rf"was ({PLACE}) {NAMED} want \1 {NAMED} see \1 {NAMED}")
PARTS = ("before", "wanted", "seen")
"""What a reasoning says of a cell. The wanted content follows from the request and the image before."""
EMPTY = ("nothing", "nothing", "nothing")


class PageAnswers(BaseModel):
    """A critic's greedy answers to images, with the truth and the exact reasoning."""

    answers: list[str]
    truth: list[bool]
    exact: list[str]

    @property
    def right(self) -> list[bool]:
        """Whether each verdict is right."""
        return [_says(answer) is truth for answer, truth in zip(self.answers, self.truth, strict=True)]


def answers_of(agent: BatchedAgent, images: Path) -> PageAnswers:
    """Let a critic judge the rows in a folder greedily."""
    rows, _ = read_rl_rows(images / RL_FILE)
    asked = [judging_of(row, images) for row in rows]
    exact = [drawn_of(*one) for one in asked]
    return PageAnswers(
        answers=agent.answers([agent.question(one) for one in asked], agent.verdict_tokens),
        truth=[row.evaluation.success for row in rows],
        exact=[compare(one) if one else "" for one in exact],
    )


def groups_of(rollouts: Path, part: slice) -> Iterator[list[dict[str, Any]]]:
    """Yield the groups of answers of some rollouts of a training, in order."""
    for path in sorted(rollouts.glob("step_*.jsonl"))[part]:
        samples = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        yield from (samples[start : start + GROUP] for start in range(0, len(samples), GROUP))


def sampled(rollouts: Sequence[Path], part: slice, truth: bool) -> dict[str, float]:
    """Return the measures of groups about right or wrong images, over the trainings of all seeds.

    `right`: share of right verdicts. `mixed`: share of groups with both verdicts. `wrong mode`: share of
    groups with a majority of wrong verdicts, and `lost`: with wrong ones only. `pushed`: share of the mixed
    groups in which right verdicts have the higher mean reward. `gap`: their mean lead in standard deviations
    of the group. `punished`: share of the right verdicts in groups with a spread whose answers are rewarded
    below the group's mean.
    """
    every = [group for folder in rollouts for group in groups_of(folder, part)]
    groups = [group for group in every if group[0]["truth"] is truth]
    right = [sum(one["accuracy"] for one in group) for group in groups]
    mixed = [group for group, count in zip(groups, right, strict=True) if 0 < count < len(group)]
    leads = [lead for lead in map(_lead, mixed) if lead is not None]
    punished = [low for group in groups for low in _punished(group)]
    return {
        "groups": len(groups),
        "right": sum(right) / (GROUP * len(groups)),
        "mixed": len(mixed) / len(groups),
        "wrong mode": mean(float(count < GROUP / 2) for count in right),
        "lost": mean(float(not count) for count in right),
        "pushed": mean(float(lead > 0) for lead in leads) if leads else 0.0,
        "gap": mean(leads) if leads else 0.0,
        "punished": mean(punished) if punished else 0.0,
    }


def entropy(arm: Path, part: slice) -> float:
    """Return the mean entropy of a token in some rollouts of a training, from its last checkpoint's log."""
    states = sorted(arm.glob("steps/checkpoint-*/trainer_state.json"), key=lambda path: path.stat().st_mtime)
    history = json.loads(states[-1].read_text(encoding="utf-8"))["log_history"]
    return mean([one["entropy"] for one in history if "reward/overall" in one][part])


def _lead(group: Sequence[dict[str, Any]]) -> float | None:
    """Return by how many standard deviations right verdicts are rewarded more; None without a spread."""
    counted = [one for one in group if one["overall"] is not None]
    rewards = [one["overall"] for one in counted]
    sides = [[one["overall"] for one in counted if bool(one["accuracy"]) is side] for side in (True, False)]
    if not all(sides):
        return None
    middle = mean(rewards)
    spread = (sum((one - middle) ** 2 for one in rewards) / (len(rewards) - 1)) ** 0.5
    return (mean(sides[0]) - mean(sides[1])) / spread if spread > NOTHING else None


def _punished(group: Sequence[dict[str, Any]]) -> list[float]:
    """Return for each right verdict of a group with a spread whether its reward is below the mean."""
    counted = [one for one in group if one["overall"] is not None]
    rewards = [one["overall"] for one in counted]
    if not rewards or max(rewards) - min(rewards) < NOTHING:
        return []
    middle = mean(rewards) - NOTHING
    return [float(one["overall"] < middle) for one in counted if one["accuracy"]]


def changes(before: PageAnswers, after: PageAnswers) -> dict[str, int]:
    """Return how many verdicts became right or wrong, on right and on wrong images."""
    counted: Counter[str] = Counter()
    for was, now, truth in zip(before.right, after.right, after.truth, strict=True):
        if was != now:
            counted[f"{'right' if truth else 'wrong'} images, {'mended' if now else 'lost'}"] += 1
    names = [f"{image} images, {change}" for image in ("right", "wrong") for change in ("mended", "lost")]
    return {name: counted[name] for name in names}


def causes(found: PageAnswers) -> dict[str, int]:
    """Return how many verdicts are wrong, and in how many of them each part of the reasoning is wrong.

    A verdict may be counted for several parts.

    `conclusion`: every cell is named correctly, and the verdict is still wrong.
    """
    counted: Counter[str] = Counter()
    for answer, should, right in zip(found.answers, found.exact, found.right, strict=True):
        if not should or right:
            continue
        said, expected = _cells(answer), _cells(should)
        misread = [part for number, part in enumerate(PARTS) if _differs(said, expected, number)]
        counted.update(["wrong verdicts", *(misread or ["conclusion"])])
    return {part: counted[part] for part in ("wrong verdicts", *PARTS, "conclusion")}


def _cells(text: str) -> dict[str, tuple[str, str, str]]:
    """Return what a reasoning says of each cell and of the backdrop: before, wanted, seen."""
    return {found[1]: (found[2], found[3], found[4]) for found in CELL.finditer(text)}


def _differs(
    said: dict[str, tuple[str, str, str]], expected: dict[str, tuple[str, str, str]], part: int
) -> bool:
    """Return whether a part differs in any cell. A cell that is not named is empty."""
    cells = said.keys() | expected.keys()
    return any(said.get(cell, EMPTY)[part] != expected.get(cell, EMPTY)[part] for cell in cells)


def _says(answer: str) -> bool | None:
    verdict = read_answer(answer)
    return verdict.success if verdict else None
