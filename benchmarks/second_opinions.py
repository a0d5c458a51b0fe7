"""Measures two ways of asking the critic more often that are not built, since they gain nothing here.

    OMP_NUM_THREADS=1 python -m benchmarks.second_opinions votes
    OMP_NUM_THREADS=1 python -m benchmarks.second_opinions kept

votes: the shipped critic judges images of its generator, half of them right, once greedily and three times
sampled; the majority of the three counts. Expected before the first run: at most half a point better, for
three times the cost.

kept: steps of stories in which no attempt was accepted, with the shipped critic and generator. The true score
(0 to 10) of the attempt that is kept: the last, the one with the highest P(success), the winner of
comparisons of all pairs in both orders (ties are decided by P(success)), and the best one, which is the upper
bound. A comparison is scripted: it is wrong with a fixed probability if the scores differ, and prefers the
first image in 60 % of the cases if they are equal. A copy of the critic that was fine-tuned to compare two
images stayed at chance, so no learned comparison is measured. Expected before the first run: with five
attempts such steps are rarer than 3 %, so that even the best choice gains little. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any

from interleave_thinker.backend.errors import ScorerError
from interleave_thinker.backend.journal.store import InMemoryStore
from interleave_thinker.backend.loop.events import Finished
from interleave_thinker.backend.loop.loop import run
from interleave_thinker.backend.types import Attempt, RunSettings, StepResult, StopReason, Trajectory
from interleave_thinker.tinyworld.lab.data.oracle_critic import drawn_of
from interleave_thinker.tinyworld.lab.runs.batched_agents import BatchedAgent
from interleave_thinker.tinyworld.lab.runs.batched_tasks import (
    BatchedTasks,
    SharedCritic,
    SharedGenerator,
    drawing,
)
from interleave_thinker.tinyworld.lab.runs.stories import request_of
from interleave_thinker.tinyworld.lab.world.judged_images import balanced
from interleave_thinker.tinyworld.lab.world.requests import TinyStory, random_story
from interleave_thinker.tinyworld.runtime import checkpoint
from interleave_thinker.tinyworld.runtime.generator import TinyWorldGenerator, load_pipeline
from interleave_thinker.tinyworld.runtime.scorer import TinyWorldScorer
from interleave_thinker.tinyworld.runtime.wording import edit_text, prompt_text
from interleave_thinker.training.reward.terms import read_answer
from interleave_thinker.training.statistics.bootstrap import stratified_means
from interleave_thinker.training.statistics.intervals import paired_difference, share

from .calibration import VERDICT_TOKENS, probabilities

VOTES, TEMPERATURE, STEPS, PAGES_SEED = 3, 0.7, 4, 424_242
FIRST_IMAGE = 0.6
"""How often a scripted comparison of equally good images prefers the first."""


def agent_and_world() -> tuple[BatchedAgent, TinyWorldGenerator]:
    """Return the shipped critic and generator."""
    world = TinyWorldGenerator(load_pipeline(checkpoint("generator")), "tinyworld")
    return BatchedAgent(checkpoint("critic"), VERDICT_TOKENS, VERDICT_TOKENS), world


def votes(pages: int) -> dict[str, Any]:
    """Measure the majority of sampled verdicts."""
    import torch

    agent, world = agent_and_world()
    drawn = balanced(world.pipeline, pages, PAGES_SEED)
    asked = [
        agent.question((one.before, one.after, edit_text(one.edit), prompt_text(one.edit, one.clauses)))
        for one in drawn
    ]

    def said(temperature: float) -> list[bool | None]:
        answers = agent.answers(asked, VERDICT_TOKENS, temperature)
        return [verdict.success if (verdict := read_answer(answer)) else None for answer in answers]

    torch.manual_seed(0)
    greedy, sampled = said(0.0), [said(TEMPERATURE) for _ in range(VOTES)]
    truths = [one.success for one in drawn]
    majority = [sum(one is True for one in ones) * 2 > VOTES for ones in zip(*sampled, strict=True)]
    arms = {"one, greedy": greedy, "one, sampled": sampled[0], f"majority of {VOTES}": majority}
    hits = {
        name: [one == truth for one, truth in zip(ones, truths, strict=True)] for name, ones in arms.items()
    }
    figures: dict[str, Any] = {}
    for name, ones in hits.items():
        change = paired_difference(ones, hits["one, greedy"])
        print(f"{name}: right {share(ones)}, change {change}", flush=True)
        figures[name] = {"right": share(ones).model_dump(), "change": change.model_dump()}
    return figures


def trajectories(
    stories: Sequence[TinyStory], attempts: int, agent: BatchedAgent, world: TinyWorldGenerator
) -> list[Trajectory]:
    """Run the stories and return their trajectories."""
    together = BatchedTasks({"draw": drawing(world), "judge": agent.judge})
    generator, critic = SharedGenerator(together, "tinyworld"), SharedCritic(together, "critic")

    def told(number: int, story: TinyStory) -> Trajectory:
        settings = RunSettings(max_attempts=attempts, seed=number)
        events = run(request_of(story), None, generator, critic, settings, InMemoryStore(), plan=story.plan)
        return next(event.trajectory for event in events if isinstance(event, Finished))

    return together.run([partial(told, number, story) for number, story in enumerate(stories)])


def true_score(attempt: Attempt, prompt: str) -> float:
    """Return the semantics score of an attempt, 0 to 10; 0 if its source cannot be read."""
    assert attempt.image is not None
    try:
        return TinyWorldScorer().score(attempt.source, attempt.image, prompt).semantics
    except ScorerError:
        return 0.0


def winner(scores: Sequence[float], standing: Sequence[float], error: float, rng: Random) -> int:
    """Return the winner of scripted comparisons of all pairs in both orders."""

    def first_wins(one: int, other: int) -> bool:
        if scores[one] == scores[other]:
            return rng.random() < FIRST_IMAGE
        return (scores[one] > scores[other]) != (rng.random() < error)

    wins = [0.0] * len(scores)
    for one in range(len(scores)):
        for other in range(one + 1, len(scores)):
            for won in (first_wins(one, other), not first_wins(other, one)):
                wins[one if won else other] += 0.5
    return max(range(len(scores)), key=lambda index: (wins[index], standing[index]))


def kept(count: int, limits: Sequence[int]) -> dict[str, Any]:
    """Measure the attempt that is kept if none was accepted."""
    agent, world = agent_and_world()
    rng = Random("second opinions")
    stories = [random_story(rng, "evaluate", STEPS) for _ in range(count)]
    figures: dict[str, Any] = {}
    for attempts in limits:
        told = trajectories(stories, attempts, agent, world)
        steps = [result for one in told for result in one.results if result.step.prompt]
        open_steps = [one for one in steps if one.stop_reason is StopReason.attempts_used_up]
        print(f"{attempts} attempts: {len(open_steps)} of {len(steps)} steps were never accepted", flush=True)
        by_arm = _scores(open_steps, agent)
        figures[str(attempts)] = {"steps": len(steps), "open": len(open_steps), "scores": {}}
        for name, ones in by_arm.items():
            mean = stratified_means({"steps": ones}, bounds=(0.0, 10.0)).items
            changes = [one - other for one, other in zip(ones, by_arm["P(success)"], strict=True)]
            change = stratified_means({"steps": changes}, bounds=(-10.0, 10.0)).items
            print(f"  {name}: true score {mean}, against P(success) {change}", flush=True)
            figures[str(attempts)]["scores"][name] = {
                "score": mean.model_dump(),
                "change": change.model_dump(),
            }
    return figures


def _scores(open_steps: Sequence[StepResult], agent: BatchedAgent) -> dict[str, list[float]]:
    choices: dict[str, Callable[[list[float], list[float]], int]] = {
        "last": lambda scores, _: len(scores) - 1,
        "P(success)": lambda scores, standing: max(range(len(scores)), key=lambda at: (standing[at], at)),
        "pairs, 10 % wrong": lambda scores, standing: winner(scores, standing, 0.1, Random(str(scores))),
        "pairs, 30 % wrong": lambda scores, standing: winner(scores, standing, 0.3, Random(str(scores))),
        "best": lambda scores, _: max(range(len(scores)), key=lambda at: scores[at]),
    }
    found: dict[str, list[float]] = {name: [] for name in choices}
    for result in open_steps:
        prompt = result.step.prompt or ""
        scores = [true_score(one, prompt) for one in result.attempts]
        standing = [_probability(one, prompt, agent) for one in result.attempts]
        for name, choose in choices.items():
            found[name].append(scores[choose(scores, standing)])
    return found


def _probability(attempt: Attempt, prompt: str, agent: BatchedAgent) -> float:
    assert attempt.image is not None
    drawn = drawn_of(attempt.source, attempt.image, prompt, attempt.prompt)
    return 0.5 if drawn is None else probabilities(agent, [drawn])[0].probability


def main() -> None:
    """Run an experiment and print its figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("votes", "kept"))
    parser.add_argument("--pages", type=int, default=800, help="Images for votes.")
    parser.add_argument("--stories", type=int, default=200, help="Stories for kept.")
    parser.add_argument("--attempts", type=int, nargs="+", default=[2, 3, 5], help="Limits for kept.")
    options = parser.parse_args()
    print(
        json.dumps(
            votes(options.pages) if options.what == "votes" else kept(options.stories, options.attempts)
        )
    )


if __name__ == "__main__":
    main()
