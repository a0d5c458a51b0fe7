"""Measures what regenerating helps in the tiny world: errors by bias or chance, and how many are repaired.

    OMP_NUM_THREADS=1 python -m benchmarks.redrawn                                  # the shipped generator
    OMP_NUM_THREADS=1 python -m benchmarks.redrawn --generator runs/generator/pipeline

Wrong images are generated again from the same prompt, with a clause about the first wrong cell, and with
clauses about everything that matters, each with the same seed and a new one. Images come in chains as in
stories, and those from terse prompts are counted; precise prompts have clauses about everything that matters.
A mistake is due to a bias if the affected cells show exactly what the bias produces. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from interleave_thinker.backend.pictures import Picture
from interleave_thinker.tinyworld.lab.data.critic_rows import MAX_CLAUSES
from interleave_thinker.tinyworld.lab.world.biases import slips
from interleave_thinker.tinyworld.lab.world.judged_images import DrawnImage, real
from interleave_thinker.tinyworld.lab.world.scenes import changed_cells
from interleave_thinker.tinyworld.runtime import checkpoint
from interleave_thinker.tinyworld.runtime.generator import load_pipeline
from interleave_thinker.tinyworld.runtime.pipeline import TinyWorldPipeline
from interleave_thinker.tinyworld.runtime.reading import read_images
from interleave_thinker.tinyworld.runtime.scorer import faults
from interleave_thinker.tinyworld.runtime.wording import clauses_of, prompt_text
from interleave_thinker.training.statistics.intervals import share

BATCH = 64
OTHER_SEED = 7_777_777
Prompt = Callable[[DrawnImage], str]


def same_words(drawn: DrawnImage) -> str:
    """Return the same prompt."""
    return prompt_text(drawn.edit)


def first_fault(drawn: DrawnImage) -> str:
    """Return the prompt with a clause about the first wrong cell."""
    cell = faults(drawn.expected, drawn.seen)[0]
    stated = clauses_of(drawn.expected, [] if cell is None else [cell], backdrop=cell is None)
    return prompt_text(drawn.edit, stated)


def all_that_matters(drawn: DrawnImage) -> str:
    """Return the prompt with clauses about everything that matters."""
    changed = changed_cells(drawn.scene_before, drawn.expected)
    cells = sorted({*changed, *drawn.expected.occupied}, key=lambda cell: (cell not in changed, cell))
    return prompt_text(drawn.edit, clauses_of(drawn.expected, cells[:MAX_CLAUSES]))


def right_again(
    pipeline: TinyWorldPipeline, pages: Sequence[DrawnImage], prompt: Prompt, shift: int
) -> list[bool]:
    """Return whether each image is correct when it is generated again, with its seed plus `shift`."""
    right: list[bool] = []
    for start in range(0, len(pages), BATCH):
        some = pages[start : start + BATCH]
        images = pipeline(
            [prompt(one) for one in some],
            [one.before.image if one.before else None for one in some],
            [(one.seed or 0) + shift for one in some],
        )
        seen = read_images([Picture(image) for image in images])
        right += [not faults(one.expected, page) for one, page in zip(some, seen, strict=True)]
    return right


def biases_seen(drawn: DrawnImage) -> list[str]:
    """Return the biases that an image shows."""
    return [
        slip.bias
        for slip in slips(drawn.scene_before, drawn.edit, ())
        if all(drawn.seen.cells[cell] == content for cell, content in slip.puts.items())
    ]


def main() -> None:
    """Run the experiment and print its figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--generator", type=Path, default=checkpoint("generator"))
    parser.add_argument("--pages", type=int, default=1200, help="Number of images from terse prompts.")
    parser.add_argument("--seed", type=int, default=91)
    options = parser.parse_args()
    pipeline = load_pipeline(options.generator)
    terse: list[DrawnImage] = []
    for drawn in real(pipeline, options.seed):
        if not drawn.clauses:
            terse.append(drawn)
        if len(terse) == options.pages:
            break
    failed = [one for one in terse if not one.success]
    seen = [biases_seen(one) for one in failed]
    figures = {
        "terse right": share([one.success for one in terse]),
        "precise right": share(right_again(pipeline, terse, all_that_matters, OTHER_SEED)),
        "failed by a bias": share([bool(one) for one in seen]),
    }
    for name, prompt in {
        "same words": same_words,
        "clause on the first wrong cell": first_fault,
        "all that matters": all_that_matters,
    }.items():
        for seed, shift in {"same seed": 0, "new seed": OTHER_SEED}.items():
            figures[f"failed, {name}, {seed}"] = share(right_again(pipeline, failed, prompt, shift))
    for name, one in figures.items():
        print(f"{name:56s} {one}")
    counted = Counter(bias for one in seen for bias in one)
    print(", ".join(f"{bias} {count}" for bias, count in counted.most_common()))
    print(
        json.dumps(
            {"pages": len(terse), "failed": len(failed), "biases": counted}
            | {name: one.rate for name, one in figures.items()}
        )
    )


if __name__ == "__main__":
    main()
