"""Trains the tiny world's generator by flow matching on captions of uneven quality.

The content is learned at high noise. A second, shorter run at the noise levels of sampling then removes
ghosts of other things. The shipped weights are averaged and in half precision; they are saved every
SAVE_EVERY steps.

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

import math
import time
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pydantic import BaseModel, Field

from ....backend.core.errors import TrainingError
from ....backend.core.files.atomic import writing_folder
from ....backend.core.types.values import DIRECT
from ....tinyworld.drawing import PAGE, draw_array
from ....tinyworld.scene import BACKDROPS, CELLS, COLORS, THINGS, Scene
from ....tinyworld.wording import prompt_text
from ..world.scenes import Luck, misdraw, random_clauses, random_edit, random_scene, random_start

if TYPE_CHECKING:
    import torch

    from ....tinyworld.pipeline import TinyWorldPipeline

SPOIL = 0.15
FIRST_SHIFT = 4.0
LEVELS = (1.0, 0.75, 0.5, 0.25)
WORDS = "a add and at be change make move must page remove replace the to with"
"""Words of the prompts that are no names."""


class GeneratorTraining(BaseModel):
    """Settings of `train tinyworld-generator`."""

    steps: int = Field(default=6000, ge=1, description="Optimizer steps.", json_schema_extra=DIRECT)
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
    seed: int = Field(
        default=0, ge=0, description="Seed of weights, data and noise.", json_schema_extra=DIRECT
    )
    device: Literal["auto", "cpu"] = Field(
        default="auto",
        description="auto uses a GPU if one is available; cpu always uses the CPU.",
        json_schema_extra=DIRECT,
    )


def vocabulary() -> list[str]:
    """Return every word of the prompts in a fixed order. Names of cells are single words."""
    words = set(CELLS)
    words |= {*THINGS, *COLORS, *BACKDROPS, ";", "nothing"}
    words |= set(WORDS.split())
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

    from ....tinyworld.pipeline import CHANNELS, SHIFT

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


SAVE_EVERY = 250
SHARPEN_RATE = 0.5


class _Run:
    """The state of a training: weights, optimizer, schedule, averaged weights."""

    def __init__(self, settings: GeneratorTraining) -> None:
        import torch

        from ....tinyworld.pipeline import TinyWorldPipeline, untrained_parts

        torch.manual_seed(settings.seed)
        device = "cuda" if settings.device == "auto" and torch.cuda.is_available() else "cpu"
        self.settings = settings
        self.pipeline: TinyWorldPipeline = TinyWorldPipeline(
            **untrained_parts(vocabulary(), settings.heads, settings.layers)
        ).to(device)
        self.learned = torch.nn.ModuleList([self.pipeline.transformer, self.pipeline.text_encoder])
        self.optimizer = torch.optim.AdamW(
            self.learned.parameters(), settings.learning_rate, betas=(0.9, 0.98), weight_decay=0.01
        )
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda step: _rate(step, settings))
        self.average = torch.optim.swa_utils.AveragedModel(
            self.learned, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.995)
        )

    def step(self, number: int) -> torch.Tensor:
        """Run one optimizer step and return its loss, a scalar."""
        import torch

        pipeline, batch = self.pipeline, batch_of(self.pipeline, self.settings, number)
        text, mask = pipeline.encode(batch.prompts)
        predicted = pipeline.predict(batch.noisy, batch.source, batch.sigma, text, mask)
        loss = (batch.weight * (predicted - batch.clean) ** 2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.learned.parameters(), 1.0)
        self.optimizer.step()
        self.schedule.step()
        self.average.update_parameters(self.learned)
        return loss.detach()


def train(settings: GeneratorTraining, folder: Path, log: Any = print) -> Path:
    """Train into `folder` and return the pipeline's folder."""
    losses = []
    run, last = _Run(settings), settings.steps + settings.sharpen_steps
    started = time.monotonic()
    for step in range(last):
        losses.append(run.step(step))
        if (step + 1) % 50 == 0:
            pace = (time.monotonic() - started) / (step + 1)
            log(f"step {step + 1}/{last} loss {float(sum(losses[-50:])) / 50:.5f} {pace:.3f} s/step")
        if (step + 1) % SAVE_EVERY == 0 or step + 1 == last:
            _export(run.pipeline, run.average, folder / "pipeline")
    return folder / "pipeline"


def _rate(step: int, settings: GeneratorTraining) -> float:
    """Return the share of the peak rate: warm-up and cosine for each of the two runs."""
    sharpening = step >= settings.steps
    done, steps = (step - settings.steps, settings.sharpen_steps) if sharpening else (step, settings.steps)
    warm_up = max(1, min(200, steps // 10))
    cosine = 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * min(1.0, done / max(1, steps))))
    return min(1.0, (done + 1) / warm_up) * cosine * (SHARPEN_RATE if sharpening else 1.0)


def _export(pipeline, average, folder: Path) -> None:
    """Save the averaged weights as a pipeline in half precision, the shipped form."""
    import copy

    import torch

    transformer, text_encoder = (copy.deepcopy(module) for module in average.module)
    ready = type(pipeline)(
        transformer=transformer.to(torch.float16),
        text_encoder=text_encoder.to(torch.float16),
        codec=copy.deepcopy(pipeline.codec).to(torch.float16),
        tokenizer=pipeline.tokenizer,
        scheduler=pipeline.scheduler,
    )
    with writing_folder(folder, TrainingError, "The pipeline") as temporary:
        ready.save_pretrained(temporary, safe_serialization=True)
