"""Trains the tiny world's generator by flow matching on captions of uneven quality (generator_batches.py).

The content is learned at high noise. A second, shorter run at the noise levels of sampling then removes
ghosts of other things. The shipped weights are averaged and in half precision. A run can be continued: its
state is saved every SAVE_EVERY steps and leads to the same weights.
"""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....backend.errors import SettingsError, TrainingError, boundary
from ....backend.files.atomic import write_text, writing, writing_folder
from .generator_batches import GeneratorTraining, batch_of, vocabulary

if TYPE_CHECKING:
    import torch

    from ...runtime.pipeline import TinyWorldPipeline

SAVE_EVERY = 250
SHARPEN_RATE = 0.5


class _Run:
    """The state of a training: weights, optimizer, schedule, averaged weights."""

    def __init__(self, settings: GeneratorTraining) -> None:
        import torch

        from ...runtime.pipeline import TinyWorldPipeline, untrained_parts

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

    def _parts(self) -> dict[str, Any]:
        return {
            "learned": self.learned,
            "optimizer": self.optimizer,
            "schedule": self.schedule,
            "average": self.average,
        }

    def save(self, path: Path, step: int) -> None:
        """Write the state after `step` steps. If this is interrupted, the previous state remains."""
        import torch

        state = {name: part.state_dict() for name, part in self._parts().items()}
        with writing(path, TrainingError, "The training's state") as temporary:
            torch.save({"step": step, "settings": _written(self.settings), **state}, temporary)

    def restore(self, state: dict[str, Any]) -> None:
        """Load a state that `save` wrote."""
        for name, part in self._parts().items():
            part.load_state_dict(state[name])


def _read_state(path: Path, settings: GeneratorTraining) -> dict[str, Any] | None:
    """Read a state, or return `None` if there is none.

    Raises:
        SettingsError: If the state is damaged or belongs to other settings.
    """
    import torch

    if not path.exists():
        return None
    with boundary(SettingsError, f"The training state {str(path)!r} cannot be read; delete it to start over"):
        state = torch.load(path, map_location="cpu", weights_only=True)
    if state["settings"] != _written(settings):
        raise SettingsError(
            f"The training state {str(path)!r} belongs to other settings: {state['settings']}.",
            "Use the same settings, or choose another --out.",
        )
    return state


def train(settings: GeneratorTraining, folder: Path, log: Any = print) -> Path:
    """Train into `folder`, continuing a stopped run, and return the pipeline's folder."""
    state_file, losses = folder / "state.pt", []
    folder.mkdir(parents=True, exist_ok=True)
    state = _read_state(state_file, settings)
    run = _Run(settings)
    if state is not None:
        run.restore(state)
    first, last = state["step"] if state else 0, settings.steps + settings.sharpen_steps
    started = time.monotonic()
    for step in range(first, last):
        losses.append(run.step(step))
        if (step + 1) % 50 == 0:
            pace = (time.monotonic() - started) / (step + 1 - first)
            log(f"step {step + 1}/{last} loss {float(sum(losses[-50:])) / 50:.5f} {pace:.3f} s/step")
        if (step + 1) % SAVE_EVERY == 0 or step + 1 == last:
            run.save(state_file, step + 1)
            _export(run.pipeline, run.average, folder / "pipeline")
    text = json.dumps([float(loss) for loss in losses])
    write_text(folder / "losses.json", text, TrainingError, "The file of losses")
    return folder / "pipeline"


def _written(settings: GeneratorTraining) -> str:
    """Return the settings as stored in a state: `rate` keeps its first name, and the device may change."""
    return settings.model_dump_json(by_alias=True, exclude={"device"})


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
