"""Cost and benefit of several candidates per attempt in the tiny world, judged one by one or together.

    OMP_NUM_THREADS=1 python -m benchmarks.candidates                # the last line is JSON
    OMP_NUM_THREADS=1 python -m benchmarks.candidates --stories 200 --attempts 6

Real agents run the same stories, because the benefit depends on which images a critic can tell apart. Forward
passes and tokens are counted; processor seconds are shown next to them. The work differs from that with
single candidates, so it has a separate table.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from random import Random

from interleave_thinker.backend.agents.critic import Critic
from interleave_thinker.backend.agents.planner import Planner
from interleave_thinker.backend.chat import open_chat
from interleave_thinker.backend.machine.counters import counting
from interleave_thinker.backend.pictures import Picture
from interleave_thinker.backend.types import Verdict
from interleave_thinker.tinyworld.lab.evaluation import measure_planner
from interleave_thinker.tinyworld.lab.runs.stories import StoryRuns, run_stories
from interleave_thinker.tinyworld.lab.world.requests import random_story
from interleave_thinker.tinyworld.runtime import checkpoint
from interleave_thinker.tinyworld.runtime.generator import TinyWorldGenerator, load_pipeline


class OneByOne:
    """The same critic, asked about one image at a time."""

    def __init__(self, critic: Critic) -> None:
        self._critic = critic
        self.identity, self.prompt_set_digest = critic.identity, critic.prompt_set_digest

    def judge(
        self, before: Picture | None, after: Picture, original_prompt: str, prompt_used: str
    ) -> Verdict:
        """Judge a single image."""
        return self._critic.judge(before, after, original_prompt, prompt_used)


def rows_of(options: argparse.Namespace, candidates: Sequence[int]) -> list[dict[str, object]]:
    """Run the stories for each number of candidates and print a table."""
    stories = [random_story(Random(f"candidates/{number}"), "evaluate") for number in range(options.stories)]
    plans = measure_planner(Planner(open_chat("tinyworld:planner")), stories)[1]
    generator = TinyWorldGenerator(load_pipeline(checkpoint("generator")), "tinyworld")
    critic = Critic(open_chat("tinyworld:critic"))
    rows: list[dict[str, object]] = []
    print(f"{'':28} {'right':>6} {'draws':>6} {'judged':>7} {'passes':>7} {'tokens':>8} {'cpu s':>7}")
    for number in candidates:
        for together in (False, True) if number > 1 else (False,):
            judge = critic if together else OneByOne(critic)
            began = time.process_time()
            with counting() as counts:
                runs = StoryRuns([options.attempts], candidates=number)
                outcomes = run_stories(stories, plans, generator, judge, runs, print)[options.attempts]
            row = {
                "candidates": number,
                "together": together,
                "right": sum(one.right for one in outcomes) / len(outcomes),
                "draws": sum(one.draws for one in outcomes),
                "judgements": counts.judgements,
                "lm_forwards": counts.lm_forwards,
                "lm_tokens": counts.lm_tokens,
                "cpu_seconds": round(time.process_time() - began, 1),
            }
            rows.append(row)
            name = f"{number} at a time" + (", judged together" if together else "")
            print(
                f"{name:28} {row['right']:6.3f} {row['draws']:6} {counts.judgements:7} "
                f"{counts.lm_forwards:7} "
                f"{counts.lm_tokens:8} {row['cpu_seconds']:7}",
                flush=True,
            )
    return rows


def main() -> None:
    """Run the experiment and print its figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--stories", type=int, default=100)
    parser.add_argument("--attempts", type=int, default=6, help="images per step, including candidates")
    parser.add_argument("--candidates", type=int, nargs="+", default=[1, 2, 3])
    options = parser.parse_args()
    rows = rows_of(options, options.candidates)
    outcomes = {"benchmark": "candidates", "stories": options.stories, "attempts": options.attempts}
    print(json.dumps({**outcomes, "rows": rows}))


if __name__ == "__main__":
    main()
