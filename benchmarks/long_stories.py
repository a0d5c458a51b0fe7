"""Measures in the tiny world whether the steps of long stories fail more often the later they come.

    OMP_NUM_THREADS=1 python -m benchmarks.long_stories --stories 60
    OMP_NUM_THREADS=1 python -m benchmarks.long_stories --stories 60 --sources clean
    OMP_NUM_THREADS=1 python -m benchmarks.long_stories --stories 20 --critic learned

Stories of 50 steps with exact plans run through the regular loop with the shipped generator. A step is right
if its image is what its prompt makes of its source, so an error is counted once, where it happens. The slope
is the change of this share over 10 steps: a line is fitted to each story, and the interval is over stories.
Expected before the first run: no slope, since every edit is judged against its own source. Sources:

- edited: each step edits the image of the step before, as always.
- put back: as edited, and pixels that an edit need not change are put back.
- clean: each step edits a clean image of the scene before. What remains of the slope comes from the scenes,
  which get fuller, and not from images that get worse with every edit.

The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from random import Random

import numpy as np

from interleave_thinker.backend.generators.color_match import Restoring
from interleave_thinker.backend.generators.protocol import Generator
from interleave_thinker.backend.generators.wrapper import GeneratorWrapper
from interleave_thinker.backend.pictures import Picture
from interleave_thinker.tinyworld.lab.world.requests import random_story
from interleave_thinker.tinyworld.runtime.drawing import draw
from interleave_thinker.tinyworld.runtime.reading import read_image
from interleave_thinker.training.statistics.bootstrap import two_level_mean

from .cast import outcomes_of

STEPS = 50


class CleanSources(GeneratorWrapper):
    """Wraps a generator. It edits a clean image of the scene in each source."""

    @property
    def identity(self) -> str:
        """Identity of the wrapped generator and of the wrapper."""
        return f"{self.inner.identity} clean sources"

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        """Generate an image from the clean source; an unreadable one is left as it is."""
        scene = read_image(source).scene if source else None
        return self.inner.draw(prompt, draw(scene) if scene else source, seed)


SOURCES: dict[str, Callable[[Generator], Generator] | None] = {
    "edited": None,
    "put back": Restoring,
    "clean": CleanSources,
}


def main() -> None:
    """Run the stories and print shares and slopes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--stories", type=int, default=60)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--critic", choices=("exact", "learned", "none"), default="exact")
    parser.add_argument("--sources", choices=tuple(SOURCES), default="edited")
    options = parser.parse_args()
    rng = Random("long stories")
    stories = [random_story(rng, "evaluate", options.steps) for _ in range(options.stories)]
    told, _ = outcomes_of(stories, "remembers", options.critic, through=SOURCES[options.sources])
    figures = {}
    for attempts, outcomes in told.items():
        right = np.array([one.steps for one in outcomes], dtype=float)
        slopes = 10 * np.polyfit(np.arange(options.steps), right.T, 1)[0]
        slope = two_level_mean([list(slopes)], bounds=(-1.0, 1.0))
        tens = [round(float(part.mean()), 3) for part in np.array_split(right, options.steps // 10, axis=1)]
        figures[attempts] = {"slope": slope.model_dump(), "by tens": tens}
        print(f"{attempts} attempts: slope over 10 steps {slope}, right by tens {tens}", flush=True)
    print(json.dumps({"stories": options.stories, "steps": options.steps, "attempts": figures}))


if __name__ == "__main__":
    main()
