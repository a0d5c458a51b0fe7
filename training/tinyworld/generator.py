"""Trains the tiny world's generator: flow matching on captions of uneven quality.

Decisions. A page's mistakes are tied to the noise that it is drawn from: four steps of plain flow matching average rare
mistakes away (measured: removals and backdrops came out right always, although one training page in six was wrong).
Three latent channels of a cell's noise are the luck of that cell; the noise as a whole stays Gaussian. The four noise
levels of sampling are the only ones trained, since no others are ever used. Words come first: with long captions and
mistakes from the start places were not learned in 3000 steps, with terse captions and right pages in 300. What to draw is
learned at high noise; then a second, shorter run at the noise levels of sampling takes the ghosts of other things away. Changed cells
weigh more, for most of a page stays as it was. Sources are slightly spoilt, so that a chain of edits does not drift.
A run is resumable: state is saved every SAVE_EVERY steps and the data of a step depend on the seed and its number only.
"""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from random import Random
from typing import Any, Literal

from pydantic import BaseModel, Field

from ...backend.errors import SettingsError, boundary
from ...backend.tinyworld.drawing import draw_array
from ...backend.tinyworld.scene import BACKDROPS, CELLS, COLORS, THINGS, Scene
from ...backend.tinyworld.wording import prompt_text
from .scenes import Luck, misdraw, random_clauses, random_edit, random_scene, random_start

SAVE_EVERY = 250
SPOIL = 0.15
FIRST_SHIFT = 4.0
SHARPEN_RATE = 0.5


class GeneratorTraining(BaseModel):
    """Settings of `train tinyworld-generator`."""

    steps: int = Field(default=6000, ge=1, description="Optimiser steps.")
    batch: int = Field(default=32, ge=1, description="Pages per step.")
    rate: float = Field(default=1e-3, gt=0, description="Peak learning rate (AdamW, warm-up, cosine).")
    changed_weight: float = Field(
        default=5.0, ge=1, description="Weight of cells that differ from the source."
    )
    first_pages: float = Field(default=0.25, ge=0, le=1, description="Share of pages drawn from text alone.")
    sharpen_steps: int = Field(
        default=3000, ge=0, description="Further steps at lower noise, for pages without ghosts."
    )
    plain_steps: int = Field(
        default=1000, ge=0, description="Steps at first with terse captions and right pages only."
    )
    terse: float = Field(default=0.5, ge=0, le=1, description="Share of captions without any clause.")
    heads: int = Field(
        default=6, ge=1, description="Attention heads of the transformer, 32 numbers wide each."
    )
    layers: int = Field(default=6, ge=1, description="Layers of the transformer.")
    seed: int = Field(default=0, ge=0, description="Seed of weights, data and noise.")
    device: Literal["auto", "cpu"] = Field(
        default="auto", description="Where to train: a GPU if there is one, or the CPU."
    )


def vocabulary() -> list[str]:
    """Every word of the prompts, in a fixed order; a cell's name is one word, so that it is met as a whole."""
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
    """A caption, the source page (None: no source) and the page drawn for it with this luck, at a step of training."""
    sharpening, plain = step >= settings.steps, step < settings.plain_steps
    # First pages are the hardest: nothing but words to go by.
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


def train(settings: GeneratorTraining, folder: Path, log: Any = print) -> Path:
    """Train into `folder`, continuing a run that was stopped; returns the pipeline's folder."""
    import numpy as np
    import torch

    from ...backend.tinyworld.pipeline import CHANNELS, SHIFT, TinyWorldPipeline, untrained_parts

    torch.manual_seed(settings.seed)
    device = "cuda" if settings.device == "auto" and torch.cuda.is_available() else "cpu"
    pipeline = TinyWorldPipeline(**untrained_parts(vocabulary(), settings.heads, settings.layers)).to(device)
    weights = [*pipeline.transformer.parameters(), *pipeline.text_encoder.parameters()]
    optimizer = torch.optim.AdamW(weights, settings.rate, betas=(0.9, 0.98), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _rate(step, settings))
    average = torch.optim.swa_utils.AveragedModel(
        torch.nn.ModuleList([pipeline.transformer, pipeline.text_encoder]),
        multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.995),
    )
    state_file = folder / "state.pt"
    folder.mkdir(parents=True, exist_ok=True)
    first = _restore(state_file, settings, pipeline, optimizer, schedule, average)
    quarters = torch.tensor([1.0, 0.75, 0.5, 0.25])
    pages = lambda scenes: (
        torch.from_numpy(np.stack(scenes)).permute(0, 3, 1, 2).float().to(device) / 127.5 - 1
    )  # noqa: E731
    white = np.full_like(draw_array(random_scene(Random(0))), 255)
    started, losses = time.monotonic(), []
    last = settings.steps + settings.sharpen_steps
    for step in range(first, last):
        shift = FIRST_SHIFT if step < settings.steps else SHIFT
        sigmas = shift * quarters / (1 + (shift - 1) * quarters)
        rng, noise = (
            Random(f"{settings.seed}/{step}"),
            torch.Generator().manual_seed(settings.seed * 10**7 + step),
        )
        random = lambda draw, *shape: draw(*shape, generator=noise).to(device)  # noqa: E731, B023
        eps = random(torch.randn, settings.batch, CHANNELS, 3, 3)
        luck = torch.special.ndtr(eps[:, :3]).flatten(2).movedim(1, -1).tolist()
        rows = [sample(rng, settings, page_luck, step) for page_luck in luck]
        blank = torch.tensor([before is None for _, before, _ in rows], device=device)
        clean = pipeline.codec.encode(pages([draw_array(after) for _, _, after in rows]))
        source = pages([white if before is None else draw_array(before) for _, before, _ in rows])
        source = pipeline.place(source, blank)
        changed = ((clean - source[:, :-1]).abs().amax(1, keepdim=True) > 0.05).float()
        weight = 1 + (settings.changed_weight - 1) * changed
        spoil = SPOIL * random(torch.rand, len(rows), 1, 1, 1) * source[:, -1:]
        source = source + torch.cat([spoil * random(torch.randn, *clean.shape), 0 * spoil], 1)
        sigma = sigmas[torch.randint(0, 4, (len(rows),), generator=noise)].to(device)
        level = sigma.view(-1, 1, 1, 1)
        noisy = (1 - level) * clean + level * eps
        text, mask = pipeline.encode([prompt for prompt, _, _ in rows])
        loss = (weight * (pipeline.predict(noisy, source, sigma, text, mask) - clean) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        schedule.step()
        average.update_parameters(torch.nn.ModuleList([pipeline.transformer, pipeline.text_encoder]))
        losses.append(loss.detach())
        if (step + 1) % 50 == 0:
            pace = (time.monotonic() - started) / (step + 1 - first)
            log(f"step {step + 1}/{last} loss {float(sum(losses[-50:])) / 50:.5f} {pace:.3f} s/step")
        if (step + 1) % SAVE_EVERY == 0 or step + 1 == last:
            _save(state_file, step + 1, settings, pipeline, optimizer, schedule, average)
            _export(pipeline, average, folder / "pipeline")
    (folder / "losses.json").write_text(json.dumps([float(loss) for loss in losses]), encoding="utf-8")
    return folder / "pipeline"


def _rate(step: int, settings: GeneratorTraining) -> float:
    """Share of the peak rate: a warm-up and a cosine for each of the two runs."""
    sharpening = step >= settings.steps
    done, steps = (step - settings.steps, settings.sharpen_steps) if sharpening else (step, settings.steps)
    warm_up = max(1, min(200, steps // 10))
    cosine = 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * min(1.0, done / max(1, steps))))
    return min(1.0, (done + 1) / warm_up) * cosine * (SHARPEN_RATE if sharpening else 1.0)


def _save(path: Path, step: int, settings: GeneratorTraining, pipeline, optimizer, schedule, average) -> None:
    import torch

    state = {
        "step": step,
        "settings": settings.model_dump_json(exclude={"device"}),
        "transformer": pipeline.transformer.state_dict(),
        "text_encoder": pipeline.text_encoder.state_dict(),
        "optimizer": optimizer.state_dict(),
        "schedule": schedule.state_dict(),
        "average": average.state_dict(),
    }
    torch.save(state, path.with_suffix(".part"))
    path.with_suffix(".part").replace(path)


def _restore(path: Path, settings: GeneratorTraining, pipeline, optimizer, schedule, average) -> int:
    import torch

    if not path.exists():
        return 0
    with boundary(SettingsError, f"The training state {str(path)!r} cannot be read; delete it to start anew"):
        state = torch.load(path, map_location=pipeline.device, weights_only=True)
    if state["settings"] != settings.model_dump_json(exclude={"device"}):
        raise SettingsError(
            f"{str(path)!r} was made with other settings: {state['settings']}.", "Choose another --out."
        )
    pipeline.transformer.load_state_dict(state["transformer"])
    pipeline.text_encoder.load_state_dict(state["text_encoder"])
    optimizer.load_state_dict(state["optimizer"])
    schedule.load_state_dict(state["schedule"])
    average.load_state_dict(state["average"])
    return state["step"]


def _export(pipeline, average, folder: Path) -> None:
    """Save the averaged weights as a pipeline in half precision, which is what ships."""
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
    ready.save_pretrained(folder, safe_serialization=True)
