"""Measures in the tiny world whether a calibrated P(success) means what it says.

    OMP_NUM_THREADS=1 python -m benchmarks.calibration

The shipped critic judges images of its own generator, and of a shifted one with a fault that it does not
know (tinyworld/lab/own_critic/shifted_generator.py). P(success) is calibrated on 50 to 400 images with known
truth, as a person's verdicts would be, and tested on 500 others, by Platt scaling and by isotonic regression.
The calibration error is |mean P - share of right images| over ten equal bins, weighted by images. Expected
before the first run: for its own generator nothing changes, since the critic is right in 98 %; for the
shifted one the error falls from above 0.1 to below 0.03, already with 100 images, and isotonic regression
needs more of them. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from itertools import islice
from random import Random
from typing import Any

from interleave_thinker.backend.chat.chat_template import rendered
from interleave_thinker.backend.chat.verdict_watch import AT_VERDICT
from interleave_thinker.backend.pictures import Picture
from interleave_thinker.tinyworld.lab.own_critic.shifted_generator import shifted_generator
from interleave_thinker.tinyworld.lab.runs.batched_agents import BatchedAgent
from interleave_thinker.tinyworld.lab.world.judged_images import DrawnImage, real
from interleave_thinker.tinyworld.runtime import checkpoint
from interleave_thinker.tinyworld.runtime.generator import TinyWorldGenerator, load_pipeline
from interleave_thinker.tinyworld.runtime.wording import edit_text, prompt_text
from interleave_thinker.training.data.rows.rl import as_conversation
from interleave_thinker.training.gate.calibration import Sure, calibration_error, fit
from interleave_thinker.training.gate.held_out import greedy_answers
from interleave_thinker.training.statistics.bootstrap import OF_DIFFERENCES, stratified_means

TESTED, VERDICT_TOKENS, BATCH = 500, 224, 32
SEED = 7_000_000


def probabilities(agent: BatchedAgent, pages: Sequence[DrawnImage]) -> list[Sure]:
    """Return P(success) at the verdict of each greedy answer, with the truth; unreadable answers are 0.5."""
    import torch

    model, processor = agent._loaded
    tokenizer = processor.tokenizer
    sides = [tokenizer.encode(word, add_special_tokens=False)[0] for word in ("true", "false")]
    found: list[Sure] = []
    for start in range(0, len(pages), BATCH):
        some = pages[start : start + BATCH]
        messages = [
            agent.question((one.before, one.after, edit_text(one.edit), prompt_text(one.edit, one.clauses)))
            for one in some
        ]
        asked = [
            {
                "prompt": as_conversation(message),
                "images": [part for part in message.content if isinstance(part, Picture)],
            }
            for message in messages
        ]
        answers, _ = greedy_answers(model, processor, asked, VERDICT_TOKENS, BATCH)
        beginnings = [_until_verdict(answer) for answer in answers]
        inputs: Any = processor(
            text=[
                rendered(processor, one["prompt"]) + beginning
                for one, beginning in zip(asked, beginnings, strict=True)
            ],
            images=[[picture.image for picture in one["images"]] for one in asked],
            return_tensors="pt",
            padding=True,
            padding_side="left",
        )
        with torch.no_grad():
            logits = model(**inputs, logits_to_keep=1).logits[:, -1].double()
        values = torch.sigmoid(logits[:, sides[0]] - logits[:, sides[1]]).tolist()
        found += [
            Sure(value if beginning else 0.5, one.success)
            for value, beginning, one in zip(values, beginnings, some, strict=True)
        ]
    return found


def _until_verdict(answer: str) -> str:
    ends = [found.end() for found in AT_VERDICT.finditer(answer)]
    return answer[: ends[-1]] if ends else ""


def isotonic(fitted: Sequence[Sure], tested: Sequence[Sure]) -> list[Sure]:
    """Return the tested verdicts with probabilities of an isotonic regression."""
    import numpy as np
    from scipy.optimize import isotonic_regression

    ordered = sorted(fitted)
    steps = isotonic_regression([float(one.success) for one in ordered]).x
    known = [one.probability for one in ordered]
    return [Sure(float(np.interp(one.probability, known, steps)), one.success) for one in tested]


def squared(judged: Sequence[Sure]) -> list[float]:
    """Return the squared error of each probability."""
    return [(one.probability - one.success) ** 2 for one in judged]


def main() -> None:
    """Run the experiment and print its figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, nargs="+", default=[50, 100, 200, 400], help="To fit on.")
    parser.add_argument("--tested", type=int, default=TESTED, help="Images to test on.")
    options = parser.parse_args()
    plain = TinyWorldGenerator(load_pipeline(checkpoint("generator")), "tinyworld")
    agent = BatchedAgent(checkpoint("critic"), VERDICT_TOKENS, VERDICT_TOKENS)
    figures: dict[str, Any] = {}
    for name, world in (("own generator", plain), ("shifted generator", shifted_generator(plain))):
        pages = list(islice(real(world.pipeline, SEED), max(options.images) + options.tested))
        judged = probabilities(agent, pages)
        tested, rest = judged[: options.tested], judged[options.tested :]
        sure = [one.success for one in tested if one.probability >= 0.8]
        right = sum(sure) / len(sure)
        print(
            f"{name}: error {calibration_error(tested):.3f}, "
            f"squared {sum(squared(tested)) / len(tested):.3f}; {len(sure)} of {len(tested)} have P(success) "
            f"of at least 0.8, {right:.3f} of them are right",
            flush=True,
        )
        figures[name] = {"raw": calibration_error(tested), "sure": len(sure), "right": right}
        for count in options.images:
            some = Random(count).sample(rest, count)
            platt = fit(some)
            arms = {
                "Platt": [Sure(platt.apply(one.probability), one.success) for one in tested],
                "isotonic": isotonic(some, tested),
            }
            for arm, scaled in arms.items():
                changes = [old - new for old, new in zip(squared(tested), squared(scaled), strict=True)]
                gain = stratified_means({"images": changes}, bounds=OF_DIFFERENCES).items
                error = calibration_error(scaled)
                print(
                    f"  {count} images, {arm}: error {error:.3f}, squared error falls by {gain}", flush=True
                )
                figures[name][f"{arm} {count}"] = {"error": error, "gain": gain.model_dump()}
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
