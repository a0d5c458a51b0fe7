"""400 stories of the tiny world, with and without the cached question: equal plans, verdicts and images.

Every story is planned, generated and judged twice by the shipped agents. The last quarter has two candidates
for each attempt, judged in a batch. `tests/backend/models/chat/test_local_chat.py` compares single replies.
"""

from __future__ import annotations

from random import Random

import pytest

from interleave_thinker.backend.core.machine.counters import counting
from interleave_thinker.backend.core.types import RunSettings, StepResult, Trajectory
from interleave_thinker.backend.models.chat import open_chat
from interleave_thinker.backend.models.chat.local.base_model import EngineSettings
from interleave_thinker.backend.story.agents.critic import Critic
from interleave_thinker.backend.story.agents.planner import Planner
from interleave_thinker.backend.story.journal.store import InMemoryStore
from interleave_thinker.backend.story.loop.collaborators import Collaborators
from interleave_thinker.backend.story.loop.events import Finished
from interleave_thinker.backend.story.loop.loop import run
from interleave_thinker.research.tinyworld.stories import request_of
from interleave_thinker.research.tinyworld.world.requests import TinyStory, random_story
from interleave_thinker.tinyworld import checkpoint
from interleave_thinker.tinyworld.generator import TinyWorldGenerator, load_pipeline

pytestmark = [pytest.mark.stress, pytest.mark.timeout(7200)]

STORIES, PARTS = 400, 8
TIE = 1e-9
"""Candidates whose P(success) differs by less are chosen by rounding, whatever reads them."""
CACHED = EngineSettings(prefix_tokens=EngineSettings().prefix_tokens)


def told(story: TinyStory, settings: RunSettings, planner: Planner, critic: Critic) -> Trajectory:
    generator = TinyWorldGenerator(load_pipeline(checkpoint("generator")), "tinyworld")
    for event in run(request_of(story), Collaborators(planner, generator, critic), settings, InMemoryStore()):
        if isinstance(event, Finished):
            return event.trajectory
    raise AssertionError("a run ends with Finished")


def decisions(trajectory: Trajectory) -> list[tuple[object, ...]]:
    """Return the plan, and for each attempt its prompt, its image and its verdict without the probability."""
    attempts = [(result.step, result.chosen, one) for result in trajectory.results for one in result.attempts]
    return [
        (
            step,
            chosen,
            one.prompt,
            one.image and one.image.digest,
            one.verdict and (one.verdict.success, one.verdict.refined_prompt, one.verdict.reasoning),
        )
        for step, chosen, one in attempts
    ]


def probabilities(trajectory: Trajectory) -> list[float]:
    verdicts = [one.verdict for result in trajectory.results for one in result.attempts if one.verdict]
    return [verdict.probability or 0.0 for verdict in verdicts]


def by_rounding(one: Trajectory, other: Trajectory) -> bool:
    """Whether two runs part where two candidates have the same P(success) except for rounding."""
    for first, second in zip(one.results, other.results, strict=True):
        if first.chosen != second.chosen:
            chosen = [(first.chosen or 0, second.chosen or 0), (second.chosen or 0, first.chosen or 0)]
            both = zip((first, second), chosen, strict=True)
            return all(abs(_probability(run, a) - _probability(run, b)) < TIE for run, (a, b) in both)
    return False


def _probability(result: StepResult, at: int) -> float:
    verdict = result.attempts[at].verdict
    return (verdict.probability if verdict else None) or 0.0


@pytest.mark.parametrize("part", range(PARTS))
def test_the_cache_changes_no_plan_verdict_or_image(part: int) -> None:
    candidates = 2 if part >= PARTS * 3 // 4 else 1
    agents = [
        (Planner(open_chat("tinyworld:planner", **options)), Critic(open_chat("tinyworld:critic", **options)))
        for options in ({}, {"engine": CACHED})
    ]
    judged, different, ties, furthest, reused = 0, [], [], 0.0, 0
    for number in range(part, STORIES, PARTS):
        story = random_story(Random(f"prefix/{number}"), "evaluate")
        settings = RunSettings(max_attempts=4, seed=number, candidates=candidates)
        found = []
        for planner, critic in agents:
            with counting() as counts:
                found.append(told(story, settings, planner, critic))
            reused += counts.prefix_tokens_reused
        judged += len(probabilities(found[0]))
        if decisions(found[0]) != decisions(found[1]):
            (ties if by_rounding(*found) else different).append(number)
        else:
            apart = zip(*map(probabilities, found), strict=True)
            furthest = max([furthest, *(abs(one - other) for one, other in apart)])
    print(
        f"part {part}: {STORIES // PARTS} stories, {candidates} candidates, {judged} verdicts, "
        f"{len(different)} different, {len(ties)} by a tie; P(success) differs by up to {furthest:.1g}; "
        f"{reused} tokens reused"
    )
    assert reused and not different and len(ties) <= 5
    assert furthest < 1e-4
