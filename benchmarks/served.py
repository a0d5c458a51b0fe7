r"""Compares stories of a planner and critic on a chat server with those of the same agents in this process.

    transformers serve tinyworld/runtime/checkpoints/planner --device cpu --dtype float32 --port 8311 &
    transformers serve tinyworld/runtime/checkpoints/critic --device cpu --dtype float32 --port 8312 &
    python -m benchmarks.served openai:$PWD/tinyworld/runtime/checkpoints/planner@http://127.0.0.1:8311/v1 \
        openai:$PWD/tinyworld/runtime/checkpoints/critic@http://127.0.0.1:8312/v1

Every answer is compared, not only the number of correct images. A step is equal if its prompts, verdicts,
refined prompts and final image are. This reveals everything that a server does differently (image sizes, chat
template, sampling, removed reasoning).
"""

from __future__ import annotations

import argparse
import json
import sys
from random import Random

from interleave_thinker.backend.agents.critic import Critic
from interleave_thinker.backend.agents.planner import Planner
from interleave_thinker.backend.chat import open_chat
from interleave_thinker.backend.loop.events import Finished
from interleave_thinker.backend.loop.loop import run
from interleave_thinker.backend.types import RunSettings, StepResult, Trajectory
from interleave_thinker.tinyworld.lab.runs.stories import request_of, right_steps
from interleave_thinker.tinyworld.lab.world.requests import random_story
from interleave_thinker.tinyworld.runtime.generator import open as open_generator

ATTEMPTS = 3


def main() -> None:
    """Run the experiment and print its figures."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("planner", help="such as openai:MODEL@URL")
    arguments.add_argument("critic", help="such as openai:MODEL@URL")
    arguments.add_argument("--stories", type=int, default=40)
    arguments.add_argument("--seed", type=int, default=1)
    given = arguments.parse_args()
    local = Planner(open_chat("tinyworld:planner")), Critic(open_chat("tinyworld:critic"))
    served = (
        Planner(open_chat(given.planner), local[0].prompt_set),
        Critic(open_chat(given.critic), local[1].prompt_set, local[1].settings),
    )
    generator = open_generator("")
    rng = Random(f"evaluate/{given.seed}")
    figures = dict.fromkeys(
        ("requests", "plans_same", "steps", "steps_same", "right_local", "right_served"), 0
    )
    figures |= {"right_local_only": 0}
    for number in range(given.stories):
        request = request_of(random_story(rng, "evaluate"))
        settings = RunSettings(max_attempts=ATTEMPTS, seed=number)
        here, there = (_told(run(request, *pair(agents, generator), settings)) for agents in (local, served))
        figures["requests"] += 1
        figures["plans_same"] += here.plan == there.plan
        rights = right_steps(here), right_steps(there)
        figures["right_local"] += sum(rights[0])
        figures["right_served"] += sum(rights[1])
        figures["right_local_only"] += sum(
            right and not (at < len(rights[1]) and rights[1][at]) for at, right in enumerate(rights[0])
        )
        for one, other in zip(here.results, there.results, strict=False):
            figures["steps"] += 1
            same = _answers(one) == _answers(other)
            figures["steps_same"] += same
            if not same:
                print(
                    f"request {number}, step {one.step.number}:",
                    _answers(one),
                    _answers(other),
                    file=sys.stderr,
                )
        print(f"{number + 1}/{given.stories}", json.dumps(figures), file=sys.stderr)
    print(json.dumps(figures))


def pair(agents: tuple[Planner, Critic], generator: object) -> tuple[object, object, object]:
    """Return the three parts of the loop in order."""
    return agents[0], generator, agents[1]


def _told(events: object) -> Trajectory:
    for event in events:  # type: ignore[attr-defined]
        if isinstance(event, Finished):
            return event.trajectory
    raise AssertionError("a run ends with Finished")


def _answers(result: StepResult) -> tuple[object, ...]:
    verdicts = [
        (attempt.prompt, attempt.verdict and (attempt.verdict.success, attempt.verdict.refined_prompt))
        for attempt in result.attempts
    ]
    return result.step, result.image and result.image.digest, verdicts


if __name__ == "__main__":
    main()
