"""Size of the exported page of a run of photographs, where each step edits the image of the previous one.

    python -m benchmarks.page_size [--steps 20] [--side 512] [--frames 0] [--grain 0] [--out FOLDER]

The photographs are synthetic: soft shapes of many colors, edges and sensor noise. Their PNG files are as
large as those of real photographs (1.7 bytes per pixel). With `--frames`, a clip leads from each photograph
to the next, in the size of Wan: a blend of both. `--grain` is the standard deviation of its noise, which
differs in every frame.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image, ImageFilter

from interleave_thinker.backend.clips.encoding import clip_of
from interleave_thinker.backend.clips.families import WAN
from interleave_thinker.backend.clips.pairs import clip_pairs, with_clips
from interleave_thinker.backend.exporters import export_by_name
from interleave_thinker.backend.pictures import Picture
from interleave_thinker.backend.types import (
    Attempt,
    Plan,
    Request,
    Step,
    StepResult,
    StopReason,
    Trajectory,
    Verdict,
)
from interleave_thinker.backend.types.clip import Clip, Footage

NOISE = 3.0


def photograph(side: int, number: int) -> Picture:
    """Return a synthetic photograph; each number gives another one."""
    random = np.random.default_rng(number)
    layers = np.zeros((side, side, 3))
    for cells, weight in ((4, 0.5), (16, 0.3), (64, 0.2)):
        coarse = Image.fromarray(random.integers(0, 256, (cells, cells, 3), dtype=np.uint8))
        layers += weight * np.asarray(coarse.resize((side, side), Image.Resampling.BICUBIC), dtype=float)
    edges = Image.fromarray(random.integers(0, 2, (side // 32, side // 32), dtype=np.uint8) * 255)
    mask = edges.resize((side, side), Image.Resampling.NEAREST).filter(ImageFilter.GaussianBlur(1))
    layers += np.asarray(mask, dtype=float)[..., None] * 0.15 - 20
    layers += random.normal(0, NOISE, layers.shape)
    return Picture(Image.fromarray(np.clip(layers, 0, 255).astype(np.uint8)))


def run(steps: int, side: int) -> Trajectory:
    """Return a run with one accepted attempt per step."""
    results, before = [], None
    for number in range(1, steps + 1):
        step = Step(number=number, name=f"Step {number}", prompt=f"change {number}", instruction="Change it.")
        after = photograph(side, number)
        verdict = Verdict(success=True, refined_prompt="", reasoning="It is as it was asked for.")
        attempt = Attempt(prompt=f"change {number}", seed=number, source=before, image=after, verdict=verdict)
        results.append(StepResult(step=step, attempts=(attempt,), chosen=0, stop_reason=StopReason.accepted))
        before = after
    plan = Plan(steps=tuple(result.step for result in results))
    return Trajectory(request=Request(text="Photographs."), plan=plan, results=tuple(results))


def clips(trajectory: Trajectory, frames: int, grain: float) -> list[Clip]:
    """Return a clip for each pair of photographs."""
    random, made = np.random.default_rng(0), []
    for pair in clip_pairs(trajectory):
        size = WAN.size(pair.last.size)
        first, last = (np.asarray(one.image.resize(size), dtype=float) for one in (pair.first, pair.last))
        shown = []
        for at in range(frames):
            blend = first + (last - first) * at / max(1, frames - 1) + random.normal(0, grain, first.shape)
            shown.append(Picture(Image.fromarray(np.clip(blend, 0, 255).astype(np.uint8))))
        made.append(clip_of(pair, Footage(shown, WAN.fps)))
    return made


def main() -> None:
    """Print the sizes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--side", type=int, default=512)
    parser.add_argument("--frames", type=int, default=0)
    parser.add_argument("--grain", type=float, default=0.0)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    trajectory = run(given.steps, given.side)
    if given.frames:
        trajectory = with_clips(trajectory, clips(trajectory, given.frames, given.grain))
    png = [len(result.image.png()) for result in trajectory.results if result.image]
    with tempfile.TemporaryDirectory() as place:
        page = export_by_name("page", trajectory, given.out or Path(place))
        found = {
            "images": len(png),
            "mean_png_kb": sum(png) // len(png) // 1000,
            "page_mb": page.stat().st_size / 1e6,
            "clips_mb": [round(len(clip.movie.data) / 1e6, 3) for clip in trajectory.clips],
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
