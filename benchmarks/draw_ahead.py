"""Gain and waste of generating the next step ahead, with generator and critic on two simulated devices.

    python -m benchmarks.draw_ahead                # the last line is JSON
    python -m benchmarks.draw_ahead --draw 0.4 --judge 0.8 --steps 20

Sleeping simulates devices that do not disturb each other, so the loop is measured and not a GPU. On a single
busy device there is less to gain, and the waste costs time. Wall-clock seconds are used, because waiting is
measured.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

from interleave_thinker.backend.generators.fake import FakeGenerator
from interleave_thinker.backend.loop.events import Finished
from interleave_thinker.backend.loop.loop import run
from interleave_thinker.backend.machine.counters import counting
from interleave_thinker.backend.pictures import Picture
from interleave_thinker.backend.types import Plan, Request, RunSettings, Step, Verdict

ACCEPTED = (1.0, 0.75, 0.5, 0.25, 0.0)
"""Shares of images that the critic accepts."""


class Slow(FakeGenerator):
    """A generator that takes some time."""

    def __init__(self, seconds: float) -> None:
        super().__init__(32)
        self.seconds = seconds

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        """Wait, then generate."""
        time.sleep(self.seconds)
        return super().draw(prompt, source, seed)


class Share:
    """A critic that takes some time and accepts a share of all images, based on their digests."""

    identity = prompt_set_digest = "share"

    def __init__(self, accepted: float, seconds: float) -> None:
        self.accepted, self.seconds = accepted, seconds

    def judge(
        self, before: Picture | None, after: Picture, original_prompt: str, prompt_used: str
    ) -> Verdict:
        """Wait, then judge."""
        time.sleep(self.seconds)
        success = int(after.digest[:8], 16) < self.accepted * 16**8
        return Verdict(success=success, refined_prompt=f"{prompt_used}, clearly")


def carried_out(
    options: argparse.Namespace, accepted: float, ahead: bool
) -> tuple[Any, float, dict[str, int]]:
    """Run the loop; returns the images' digests, the seconds and the counts."""
    plan = Plan(steps=tuple(Step(number=n + 1, prompt=f"thing {n}") for n in range(options.steps)))
    settings = RunSettings(max_attempts=3, keep="last", draw_ahead=ahead)
    began = time.monotonic()
    with counting() as counts:
        critic = Share(accepted, options.judge)
        events = list(run(Request(text="x"), None, Slow(options.draw), critic, settings, plan=plan))
    assert isinstance(events[-1], Finished)
    images = [result.image.digest for result in events[-1].trajectory.results if result.image]
    return images, time.monotonic() - began, counts.as_dict()


def main() -> None:
    """Run the experiment and print its figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--draw", type=float, default=0.2, help="seconds to generate an image")
    parser.add_argument("--judge", type=float, default=0.3, help="seconds to judge an image")
    parser.add_argument("--steps", type=int, default=10)
    options = parser.parse_args()
    rows = []
    print("accepted  draws  ahead  used  wasted  seconds  without  times less")
    for accepted in ACCEPTED:
        images, seconds, counts = carried_out(options, accepted, True)
        plain, without, _ = carried_out(options, accepted, False)
        assert images == plain, "images must not depend on drawing ahead"
        names = ("draws", "draws_ahead", "draws_ahead_used", "draws_ahead_wasted")
        row = {"accepted": accepted, **{name: counts[name] for name in names}}
        rows.append(row | {"seconds": round(seconds, 2), "without": round(without, 2)})
        columns = "  ".join(f"{counts[name]:5}" for name in names)
        print(
            f"{accepted:8}  {columns}  {seconds:7.2f}  {without:7.2f}  {without / seconds:10.2f}", flush=True
        )
    print(json.dumps({"benchmark": "draw ahead", "draw": options.draw, "judge": options.judge, "rows": rows}))


if __name__ == "__main__":
    main()
