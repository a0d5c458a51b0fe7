"""Checks that the overhead of a long story grows only with its images: time, memory and open files.

    python -m benchmarks.scale                      # steps 1..50, attempts 1..5; the last line is JSON
    python -m benchmarks.scale --generator tinyworld --steps 1 10 50 --attempts 5

Every case runs in a separate process, so that memory belongs to the case and nothing is cached. Another
process then reads the finished journal, and the first one runs on it again, like a graph that is queued twice
in ComfyUI. The generator adds grain, so that its images compress as badly as photographs. The critic rejects
everything, so that every attempt is made. Their time is measured and subtracted; the rest is the loop, the
journal, the node's live view and its previews. Processor time is compared, since wall-clock time depends on
other programs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

PROMPT = "page {number}: a small boat on a quiet sea, painted in watercolours, with a lamp at its bow"
LINEAR = 0.05
FLAT_BYTES = 32 * 1024 * 1024
"""Allowed growth of resident memory once the pixel cache is full, due to the allocator."""
FULL = 25
"""Number of megapixel images that fill the pixel cache (64 MB)."""


class Clocked:
    """Wall-clock and processor seconds of the models."""

    def __init__(self) -> None:
        self.wall = self.cpu = 0.0

    def run(self, act: Callable[[], Any]) -> Any:
        """Run a function and add its time."""
        wall, cpu = time.monotonic(), time.process_time()
        try:
            return act()
        finally:
            self.wall += time.monotonic() - wall
            self.cpu += time.process_time() - cpu


class Painter:
    """The fake generator with grain, or the tiny world's generator."""

    def __init__(self, kind: str, side: int, clock: Clocked) -> None:
        from interleave_thinker.backend.generators import open_generator

        self._inner = open_generator(f"fake:{side}" if kind == "fake" else kind)
        self._grain = kind == "fake"
        self._clock = clock
        self.identity = f"scale {self._inner.identity}"

    def draw(self, prompt: str, source: Any, seed: int) -> Any:
        """Generate an image and add its time."""
        return self._clock.run(lambda: self._draw(prompt, source, seed))

    def _draw(self, prompt: str, source: Any, seed: int) -> Any:
        picture = self._inner.draw(prompt, source, seed)
        if not self._grain:
            return picture
        import numpy
        from PIL import Image

        from interleave_thinker.backend.pictures import Picture

        digest = hashlib.blake2b(f"{prompt} {seed}".encode(), digest_size=8).digest()
        noise = numpy.random.default_rng(int.from_bytes(digest, "little"))
        pixels = numpy.asarray(picture.image).astype(numpy.int16)
        pixels = pixels + noise.integers(-4, 5, size=pixels.shape, dtype=numpy.int16)
        return Picture(Image.fromarray(pixels.clip(0, 255).astype(numpy.uint8)))


class Refusing:
    """Rejects every image with a new prompt and four hundred words, like a thorough critic."""

    identity, prompt_set_digest = "scale/refusing", ""

    def __init__(self, clock: Clocked) -> None:
        self._clock, self._count = clock, 0

    def judge(self, before: Any, after: Any, original_prompt: str, prompt_used: str) -> Any:
        """Judge an image and add its time."""
        return self._clock.run(lambda: self._judge(original_prompt))

    def _judge(self, original: str) -> Any:
        from interleave_thinker.backend.types import Verdict

        self._count += 1
        words = "The boat is too far to the left and its lamp does not shine. " * 30
        return Verdict(
            success=False,
            refined_prompt=f"{original}, take {self._count}",
            reasoning=words,
            probability=0.2,
        )


def resident() -> int:
    """Return the resident memory of this process in bytes."""
    fields = Path("/proc/self/statm").read_text().split()
    return int(fields[1]) * resource.getpagesize()


def case(steps: int, attempts: int, kind: str, side: int, folder: Path) -> dict[str, Any]:
    """Run one story, run it again on its finished journal, and return the figures."""
    from interleave_thinker.backend.feedback.live.live_run import LiveRun
    from interleave_thinker.backend.journal.journal import Journal
    from interleave_thinker.backend.loop.events import AttemptDrawn, StepFinished
    from interleave_thinker.backend.loop.loop import run
    from interleave_thinker.backend.pictures import KEPT_PIXELS
    from interleave_thinker.backend.types import Plan, Request, RunSettings, Step

    clock = Clocked()
    painter, critic = Painter(kind, side, clock), Refusing(clock)
    plan = Plan(
        steps=tuple(Step(number=number + 1, prompt=PROMPT.format(number=number)) for number in range(steps))
    )
    settings = RunSettings(max_attempts=max(2, attempts))
    judge = critic if attempts > 1 else None
    painter.draw("warm", None, 0)
    clock.wall = clock.cpu = 0.0
    memory, live = [], LiveRun("scale", plan, settings, judge is not None)
    wall, cpu = time.monotonic(), time.process_time()
    for event in run(Request(text="scale"), None, painter, judge, settings, Journal(folder), plan=plan):
        live.follow(event)
        if isinstance(event, AttemptDrawn) and event.record.image:
            event.record.image.image.resize((256, 256)).tobytes()
        if isinstance(event, StepFinished):
            memory.append(resident())
    wall, cpu = time.monotonic() - wall, time.process_time() - cpu
    files = len(os.listdir("/proc/self/fd"))
    again = time.monotonic(), time.process_time()
    for _ in run(Request(text="scale"), None, painter, judge, settings, Journal(folder), plan=plan):
        pass
    again = time.monotonic() - again[0], time.process_time() - again[1]
    made = steps * attempts
    return {
        "steps": steps,
        "attempts": attempts,
        "wall_s": round(wall, 3),
        "model_wall_s": round(clock.wall, 3),
        "added_cpu_ms_an_attempt": round((cpu - clock.cpu) / made * 1000, 3),
        "added_wall_ms_an_attempt": round((wall - clock.wall) / made * 1000, 3),
        "again_s": round(again[0], 3),
        "again_cpu_ms_an_attempt": round(again[1] / made * 1000, 3),
        "resident_mb": [
            round(memory[min(step, steps - 1)] / 1e6, 1) for step in (0, -(-FULL // attempts) - 1, steps - 1)
        ],
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6, 1),
        "kept_pixels_mb": round(KEPT_PIXELS.bytes / 1e6, 1),
        "live_view_kb_an_attempt": round(
            sum(len(message.model_dump_json()) for message in live.state()) / made / 1e3, 2
        ),
        "open_files": files,
    }


def reading(folder: Path) -> dict[str, Any]:
    """Read the finished journal with all its images."""
    from interleave_thinker.backend.loop.replay import load_trajectory

    began = time.monotonic(), time.process_time()
    trajectory = load_trajectory(folder)
    ended = time.monotonic() - began[0], time.process_time() - began[1]
    made = sum(len(result.attempts) for result in trajectory.results)
    return {
        "read_s": round(ended[0], 3),
        "read_cpu_ms_an_attempt": round(ended[1] / made * 1000, 3),
        "read_resident_mb": round(resident() / 1e6, 1),
    }


def measured(steps: int, attempts: int, options: argparse.Namespace) -> dict[str, Any]:
    """Run the case in separate processes; returns the round with the least added processor time."""
    rounds = []
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory() as folder:
            command = [
                sys.executable,
                "-m",
                "benchmarks.scale",
                "--case",
                str(steps),
                str(attempts),
                "--folder",
                f"{folder}/run",
            ]
            command += ["--generator", options.generator, "--side", str(options.side)]
            found = [
                json.loads(subprocess.run(one, check=True, stdout=subprocess.PIPE, text=True).stdout)
                for one in (command, [*command, "--read"])
            ]
            rounds.append({**found[0], **found[1]})
    return min(rounds, key=lambda one: one["added_cpu_ms_an_attempt"])


def linearity(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the added time per attempt by number of steps (10 or more), and its maximum deviation."""
    found = {}
    for attempts in sorted({one["attempts"] for one in results}):
        group = [one for one in results if one["attempts"] == attempts and one["steps"] >= 10]
        costs = {one["steps"]: one["added_cpu_ms_an_attempt"] for one in group}
        if len(costs) > 1:
            middle = median(costs.values())
            found[attempts] = {
                "ms_an_attempt": costs,
                "furthest": round(max(abs(cost / middle - 1) for cost in costs.values()), 4),
            }
    return found


def main() -> None:
    """Run the experiment and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, nargs="+", default=[1, 5, 10, 20, 50])
    parser.add_argument("--attempts", type=int, nargs="+", default=[1, 3, 5])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--generator", default="fake", choices=["fake", "tinyworld"])
    parser.add_argument("--side", type=int, default=1024, help="side of fake images in pixels")
    parser.add_argument("--case", type=int, nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--read", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        print(json.dumps(reading(options.folder)))
        return
    if options.case:
        print(json.dumps(case(*options.case, options.generator, options.side, options.folder)))
        return
    results = []
    for attempts in options.attempts:
        for steps in options.steps:
            results.append(measured(steps, attempts, options))
            one = results[-1]
            print(
                f"{steps:3} steps x {attempts}: {one['wall_s']:7.2f} s, models {one['model_wall_s']:7.2f} "
                "s, added "
                f"{one['added_cpu_ms_an_attempt']:6.2f} ms of processor an attempt; again "
                f"{one['again_s']:5.2f} s, read {one['read_s']:5.2f} s; "
                f"resident {one['resident_mb']} MB; {one['open_files']} files open",
                flush=True,
            )
    longest = [one for one in results if one["steps"] * one["attempts"] > FULL]
    straight = linearity(results)
    summary = {
        "generator": options.generator,
        "side": options.side,
        "results": results,
        "linearity": straight,
        "linear_within_5_percent": all(one["furthest"] <= LINEAR for one in straight.values()),
        "memory_flat": all(
            (one["resident_mb"][2] - one["resident_mb"][1]) * 1e6 <= FLAT_BYTES for one in longest
        ),
    }
    print(json.dumps(summary))


if __name__ == "__main__":
    main()
