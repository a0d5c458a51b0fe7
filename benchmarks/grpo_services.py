"""Time saved in a critic's reinforcement learning by two generator services instead of one local generator.

    python -m benchmarks.grpo_services              # three pairs of whole trainings; the last line is JSON
    python -m benchmarks.grpo_services --pairs 1 --rollouts 1

Answers and rewards must be equal; the time spent generating is compared. The training is the real one in the
tiny world, and the services are real, with worker processes. A GPU is simulated by the tiny world's generator
plus waiting up to a quarter of a second without using the processor, since a machine with two cores cannot
imitate two GPUs otherwise. Generation time is the time in which at least one image was being generated, which
excludes critic and scorer.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from support.running_service import running_service
from support.slow_card import SECONDS, SlowCard, open_card
from support.small_grpo import SMALL, make_data, run

from interleave_thinker.backend.generators import Generator, open_generator
from interleave_thinker.backend.pictures import Picture
from interleave_thinker.service.settings import ModelSettings, ServiceSettings
from interleave_thinker.training.reward.redraws.drawing_settings import DrawingSettings

BOUND = 0.55


class Timed:
    """A generator that records when it runs."""

    def __init__(self, inner: Generator) -> None:
        self.inner = inner
        self.identity = inner.identity
        self.intervals: list[tuple[float, float]] = []

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        """Generate an image and record the interval."""
        began = time.monotonic()
        try:
            return self.inner.draw(prompt, source, seed)
        finally:
            self.intervals.append((began, time.monotonic()))

    @property
    def seconds(self) -> float:
        """Seconds in which at least one image was being generated."""
        total = ended = 0.0
        for began, until in sorted(self.intervals):
            total += max(0.0, until - max(began, ended))
            ended = max(ended, until)
        return total


class TimedServices(Timed):
    """The same for services, which report how many images they generate at once."""

    @property
    def draws_at_once(self) -> int:
        """Number of images that the services generate at once."""
        return self.inner.draws_at_once  # type: ignore[attr-defined]


def train(data: Path, out: Path, drawer: Timed, settings: Any) -> dict[str, Any]:
    """Run one training with this generator; returns rewards, answers, number of images and seconds."""
    began = time.monotonic()
    run(data, out, settings, generator=drawer, drawing=DrawingSettings(), cache=out.with_suffix(".sqlite"))
    lines = [line for path in sorted((out / "rollouts").glob("*.jsonl")) for line in path.open()]
    samples = [json.loads(line) for line in lines]
    return {
        "draws": len(drawer.intervals),
        "draw_seconds": round(drawer.seconds, 2),
        "seconds": round(time.monotonic() - began, 1),
        "answers": [sample["answer"] for sample in samples],
        "rewards": [sample["overall"] for sample in samples],
    }


def main() -> None:
    """Run the experiment and print its figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--pairs", type=int, default=3, help="pairs of trainings: one generator, two services"
    )
    parser.add_argument("--rollouts", type=int, default=3)
    parser.add_argument("--prompts", type=int, default=12, help="rows per rollout, with eight answers each")
    options = parser.parse_args()
    settings = SMALL.model_copy(
        update={"rollouts": options.rollouts, "prompts": options.prompts}
        | {"num_generations": 8, "per_device_train_batch_size": 8}
    )
    pairs = []
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        data = make_data(folder, right=12, wrong=2 * options.prompts + 4)
        model = ModelSettings(name="tinyworld", generator="tinyworld")
        services = []
        for number in range(2):
            (folder / f"service-{number}").mkdir()
            service = running_service(
                folder / f"service-{number}", [model], ServiceSettings(keep=0), open_card
            )
            services.append(stack.enter_context(service))
        urls = ",".join(one.url for one in services)
        local = SlowCard()
        for drawer in (local, *(open_generator(f"http:{one.url}") for one in services)):
            drawer.draw("a sea page", None, 0)  # exclude the first image of a process, which takes seconds
        for number in range(options.pairs):
            one = train(data, folder / f"one-{number}", Timed(local), settings)
            two = train(
                data, folder / f"two-{number}", TimedServices(open_generator(f"http:{urls}")), settings
            )
            equal = one["rewards"] == two["rewards"] and one["answers"] == two["answers"]
            ratio = round(two["draw_seconds"] / one["draw_seconds"], 3)
            pairs.append({"equal": equal, "ratio": ratio, "one": one, "two": two})
            for what in ("one", "two"):
                row = pairs[-1][what]
                print(
                    f"{what} GPU(s): {row['draws']} images in {row['draw_seconds']} s of {row['seconds']} s",
                    flush=True,
                )
            print(f"equal rewards: {equal}, drawing time {ratio}", flush=True)
    found = [pair["ratio"] for pair in pairs]
    summary = {
        "benchmark": "grpo_services",
        "card_seconds": SECONDS,
        "draws": pairs[0]["one"]["draws"],
        "rewards": len(pairs[0]["one"]["rewards"]),
        "equal_rewards": all(pair["equal"] for pair in pairs),
        "drawing_time_ratio": {"median": median(found), "range": [min(found), max(found)]},
        "bound": BOUND,
        "holds": all(pair["equal"] for pair in pairs) and median(found) <= BOUND,
    }
    print(json.dumps(summary))


if __name__ == "__main__":
    main()
