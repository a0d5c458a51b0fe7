"""Time saved by a full-length cache when answers for reinforcement learning are generated on a CPU.

    OMP_NUM_THREADS=1 python -m benchmarks.answer_cache        # the last line is JSON
    OMP_NUM_THREADS=1 python -m benchmarks.answer_cache --batch 16

The same answers are generated with a growing cache and with one of full length (training/grpo/trainer.py).
Plans and verdicts of the shipped agents are generated in batches of a rollout's size, because the saving
depends on how much is copied. Both ways alternate in one process and are compared in processor seconds, with
the share of equal answers.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from random import Random
from statistics import median
from typing import Any

from interleave_thinker.backend.agents.critic import critic_message
from interleave_thinker.backend.agents.planner import planner_message
from interleave_thinker.backend.chat.protocol import Message
from interleave_thinker.backend.pictures import Picture
from interleave_thinker.backend.prompts import default_prompt_set, prompt_set_of
from interleave_thinker.tinyworld.lab.runs.stories import request_of
from interleave_thinker.tinyworld.lab.world.judged_images import rendered
from interleave_thinker.tinyworld.lab.world.requests import random_story
from interleave_thinker.tinyworld.runtime import checkpoint
from interleave_thinker.tinyworld.runtime.wording import prompt_text
from interleave_thinker.training.data.rows.rl import as_conversation
from interleave_thinker.training.gate.held_out import greedy_answers

TOKENS = {"planner": 288, "critic": 224}
"""Maximum tokens of an answer."""
CACHES = {"growing": None, "full length": "static"}


def questions(agent: str, count: int) -> list[Message]:
    """Return new requests of five to eight steps for the planner, or rendered images for the critic."""
    rng, prompt_set = Random(1), prompt_set_of(checkpoint(agent)) or default_prompt_set()
    if agent == "planner":
        stories = [random_story(rng, "evaluate", 5 + number % 4) for number in range(count)]
        return [planner_message(prompt_set, request_of(story)) for story in stories]
    messages = []
    for page in (rendered(rng) for _ in range(count)):
        pictures = (page.before or Picture.white(page.after.size), page.after)
        prompts = prompt_text(page.edit), prompt_text(page.edit, page.clauses)
        messages.append(critic_message(prompt_set, pictures, *prompts))
    return messages


def compared(agent: str, messages: Sequence[Message], batch: int, rounds: int) -> dict[str, float]:
    """Return the median processor seconds of both caches, their ratio, and the share of equal answers."""
    import torch
    from transformers import AutoModelForImageTextToText, AutoProcessor

    folder: Any = checkpoint(agent)
    model = AutoModelForImageTextToText.from_pretrained(folder, local_files_only=True, dtype=torch.float32)
    processor = AutoProcessor.from_pretrained(folder, local_files_only=True)
    asked = [
        {
            "prompt": as_conversation(message),
            "images": [part for part in message.content if isinstance(part, Picture)],
        }
        for message in messages
    ]
    seconds: dict[str, list[float]] = {name: [] for name in CACHES}
    said: dict[str, list[str]] = {}
    greedy_answers(model, processor, asked[:1], 8, 1)
    for _ in range(rounds):
        for name, kind in CACHES.items():
            model.generation_config.cache_implementation = kind
            began = time.process_time()
            said[name], _ = greedy_answers(model, processor, asked, TOKENS[agent], batch)
            seconds[name].append(time.process_time() - began)
    growing, full = (median(seconds[name]) for name in CACHES)
    same = sum(one == other for one, other in zip(*said.values(), strict=True)) / len(asked)
    return {"growing": growing, "full length": full, "ratio": full / growing, "same answers": same}


def main() -> None:
    """Run the experiment and print its figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--count", type=int, default=256, help="questions to each agent")
    parser.add_argument("--batch", type=int, default=128, help="questions per batch")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    found = {}
    for agent in TOKENS:
        found[agent] = compared(agent, questions(agent, options.count), options.batch, options.rounds)
        print(agent, " ".join(f"{key} {value:.3g}" for key, value in found[agent].items()))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
