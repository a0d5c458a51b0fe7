"""Training batches of the tiny world's generator.

An image's mistakes depend on the noise that it is generated from. Otherwise four steps of flow matching
average out rare mistakes (measured: removals and backdrops were always correct although one training image in
six was wrong). Three latent channels of a cell's noise are its luck; the noise as a whole stays Gaussian.
Only the four noise levels used in sampling are trained.

Training starts with words: with long captions and mistakes from the start, places were not learned in 3000
steps; with terse captions and correct images they were learned in 300. Changed cells have a higher weight,
because most of an image stays the same. Sources are slightly perturbed, so that a chain of edits does not
drift. The data of a step depend only on the seed and the step's number.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Literal, NamedTuple

from pydantic import BaseModel, Field

from ...runtime.drawing import PAGE, draw_array
from ...runtime.scene import BACKDROPS, CELLS, COLORS, THINGS, Scene
from ...runtime.wording import prompt_text
from ..world.scenes import Luck, misdraw, random_clauses, random_edit, random_scene, random_start

if TYPE_CHECKING:
    import torch

    from ...runtime.pipeline import TinyWorldPipeline

SPOIL = 0.15
FIRST_SHIFT = 4.0
LEVELS = (1.0, 0.75, 0.5, 0.25)


class GeneratorTraining(BaseModel):
    """Settings of `train tinyworld-generator`."""

    steps: int = Field(default=6000, ge=1, description="Optimizer steps.")
    batch: int = Field(default=32, ge=1, description="Images per step.")
    learning_rate: float = Field(
        default=1e-3,
        gt=0,
        serialization_alias="rate",
        description="Peak learning rate (AdamW with warm-up and cosine decay).",
    )
    changed_weight: float = Field(
        default=5.0, ge=1, description="Weight of cells that differ from the source."
    )
    first_pages: float = Field(
        default=0.25, ge=0, le=1, description="Share of images generated from text alone."
    )
    sharpen_steps: int = Field(
        default=3000, ge=0, description="Additional steps at lower noise that remove ghosts from images."
    )
    plain_steps: int = Field(
        default=1000, ge=0, description="Initial steps with terse captions and correct images only."
    )
    terse: float = Field(default=0.5, ge=0, le=1, description="Share of captions without any clause.")
    heads: int = Field(
        default=6, ge=1, description="Attention heads of the transformer, each 32 channels wide."
    )
    layers: int = Field(default=6, ge=1, description="Layers of the transformer.")
    seed: int = Field(default=0, ge=0, description="Seed of weights, data and noise.")
    device: Literal["auto", "cpu"] = Field(
        default="auto", description="auto uses a GPU if one is available; cpu always uses the CPU."
    )


def vocabulary() -> list[str]:
    """Return every word of the prompts in a fixed order. Names of cells are single words."""
    words = set(CELLS)
    words |= {*THINGS, *COLORS, *BACKDROPS, ";", "nothing"}
    words |= set(
        [
            "a",
            "add",
            "and",
            "at",
            "be",
            "change",
            "make",
            "move",
            "must",
            "page",
            "remove",
            "replace",
            "the",
            "to",
            "with",
        ]
    )
    return sorted(words)


def sample(
    rng: Random, settings: GeneratorTraining, luck: Luck, step: int
) -> tuple[str, Scene | None, Scene]:
    """Return a training example: caption, source scene (`None`: no source), and the scene with this luck."""
    sharpening, plain = step >= settings.steps, step < settings.plain_steps
    # First images are the hardest, because only the caption determines them.
    if rng.random() < settings.first_pages * (2 if sharpening else 1):
        before, edit = None, random_start(rng, 0)
    else:
        before = random_scene(rng)
        edit = random_edit(rng, before)
    after = edit.apply(before)  # pyright: ignore[reportArgumentType]
    if plain:
        return prompt_text(edit), before, after
    clauses = [] if rng.random() < settings.terse else random_clauses(rng, before, after)
    return prompt_text(edit, clauses), before, misdraw(before, edit, clauses, luck)


class Batch(NamedTuple):
    """A training batch of n examples.

    Attributes:
        prompts: The captions.
        clean: Clean latents `(n, channels, 3, 3)`.
        noisy: Noisy latents `(n, channels, 3, 3)`.
        source: Encoded sources `(n, channels + 1, 3, 3)`.
        sigma: Noise levels `(n,)`, from 0 to 1.
        weight: Weights of the loss `(n, 1, 3, 3)`.
    """

    prompts: list[str]
    clean: torch.Tensor
    noisy: torch.Tensor
    source: torch.Tensor
    sigma: torch.Tensor
    weight: torch.Tensor


def batch_of(pipeline: TinyWorldPipeline, settings: GeneratorTraining, step: int) -> Batch:
    """Return the data of one step, on the pipeline's device."""
    import numpy as np
    import torch

    from ...runtime.pipeline import CHANNELS, SHIFT

    rng, noise = (
        Random(f"{settings.seed}/{step}"),
        torch.Generator().manual_seed(settings.seed * 10**7 + step),
    )

    white = np.full((PAGE, PAGE, 3), 255, np.uint8)

    def pixels(scenes: list[Scene | None]) -> torch.Tensor:
        pages = np.stack([white if scene is None else draw_array(scene) for scene in scenes])
        return torch.from_numpy(pages).to(pipeline.device).permute(0, 3, 1, 2).float() / 127.5 - 1

    eps = torch.randn(settings.batch, CHANNELS, 3, 3, generator=noise)
    luck = torch.special.ndtr(eps[:, :3]).flatten(2).movedim(1, -1).tolist()
    rows = [sample(rng, settings, page_luck, step) for page_luck in luck]
    clean = pipeline.codec.encode(pixels([after for _, _, after in rows]))
    blank = torch.tensor([before is None for _, before, _ in rows], device=pipeline.device)
    source = pipeline.place(pixels([before for _, before, _ in rows]), blank)
    changed = ((clean - source[:, :-1]).abs().amax(1, keepdim=True) > 0.05).float()
    spoil = SPOIL * torch.rand(len(rows), 1, 1, 1, generator=noise).to(source) * source[:, -1:]
    spoilt = spoil * torch.randn(clean.shape, generator=noise).to(source)
    shift = FIRST_SHIFT if step < settings.steps else SHIFT
    levels = torch.tensor(LEVELS)
    levels = shift * levels / (1 + (shift - 1) * levels)
    sigma = levels[torch.randint(0, len(LEVELS), (len(rows),), generator=noise)].to(source)
    level = sigma.view(-1, 1, 1, 1)
    return Batch(
        prompts=[prompt for prompt, _, _ in rows],
        clean=clean,
        noisy=(1 - level) * clean + level * eps.to(source),
        source=source + torch.cat([spoilt, 0 * spoil], 1),
        sigma=sigma,
        weight=1 + (settings.changed_weight - 1) * changed,
    )
