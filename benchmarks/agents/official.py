"""Runs the official repository's loop on the same work: its generator class with replaced models.

The class is imported from the user's checkout; nothing of it is stored here. What its constructor loads (tens
of gigabytes of weights, flash attention, a CUDA device) is replaced by the small model and by `paint`. Its
prompts, files, parsing and order of calls are unchanged. This option runs third-party code.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

from PIL import Image

from interleave_thinker.backend.pictures import Picture

from .outcome import Outcome
from .work import MAX_ATTEMPTS, Forced, Work, paint

MODULE, CLASS = "demo_klein", "SingleSampleGenerator"


class OfficialLoop:
    """Runs `generate_sequence` of the checkout's class."""

    name = "official loop"

    def __init__(self, checkout: Path, folder: Path) -> None:
        import torch
        from transformers import AutoProcessor, Qwen3VLForConditionalGeneration

        self.model: Any = Qwen3VLForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval()
        processor: Any = AutoProcessor.from_pretrained(folder)
        self.forced = Forced(processor.tokenizer, self.model.generation_config.eos_token_id)
        self._module = imported(checkout.resolve())
        with self._models_replaced(processor):
            self.generator = getattr(self._module, CLASS)("planner", "critic", "processor", device="cpu")

    @contextlib.contextmanager
    def _models_replaced(self, processor: Any) -> Iterator[None]:
        """Replace the constructor's model sources by the small model, its processor and no generator."""

        def gives(value: Any) -> Any:
            return SimpleNamespace(from_pretrained=lambda *arguments, **options: value)

        names = {
            "Qwen3VLForConditionalGeneration": gives(self),
            "AutoProcessor": gives(processor),
            "Flux2KleinPipeline": gives(mock.MagicMock()),
        }
        with mock.patch.multiple(self._module, **names), quiet():
            yield

    @property
    def device(self) -> Any:
        """Device of the model."""
        return self.model.device

    def generate(self, **inputs: Any) -> Any:
        """Generate with the small model, which is forced to the next scripted answer."""
        import torch

        self.forced.say(next(self._answers))
        with torch.inference_mode():
            return self.model.generate(**inputs, do_sample=False, logits_processor=[self.forced])

    def run(self, work: Work, folder: Path, side: int) -> Outcome:
        """Do the work in the folder, which also contains the blank image."""
        outcome = Outcome()
        attempts = [key for key in work.verdicts if key[1] < MAX_ATTEMPTS]
        self._answers = iter([work.plan_text(), *(work.verdict_text(*key) for key in attempts)])
        left = iter(attempts)

        def draw(prompt: str, image: Image.Image | None = None, **options: Any) -> Any:
            step, _ = key = next(left)
            source = None if image is None else Picture(image)
            picture = paint(prompt, source, side)
            outcome.prompts.append((step, prompt))
            outcome.images.append(picture.digest)
            outcome.accepted.append(work.verdicts[key].success is True)
            return SimpleNamespace(images=[picture.image])

        given = [folder / f"given_{number}.png" for number in range(len(work.request.images))]
        for path, picture in zip(given, work.request.images, strict=True):
            picture.image.save(path)
        (folder / "data_gen").mkdir()
        Image.new("RGB", (side, side), (255, 255, 255)).save(folder / "data_gen" / "white.png")
        self.generator.pipeline = draw
        with inside(folder), quiet():
            sequence = self.generator.generate_sequence(
                work.request.text,
                str(folder / "out"),
                input_image=[str(path) for path in given] or None,
                max_step_iterations=MAX_ATTEMPTS,
                retry_delay=0.0,
                max_attempts=1,
            )
        outcome.chosen = [Picture.open(entry["image"]).digest for entry in sequence]
        return outcome


@contextlib.contextmanager
def inside(folder: Path) -> Iterator[None]:
    """Change the working directory, because the loop uses a relative path for the blank image."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Hide what the loop prints."""
    with contextlib.redirect_stdout(io.StringIO()):
        yield


def imported(checkout: Path) -> ModuleType:
    """Import the module from the checkout without changes."""
    if not (checkout / f"{MODULE}.py").is_file():
        raise SystemExit(
            f"{str(checkout)!r} does not contain {MODULE}.py. Pass a checkout of the official repository."
        )
    sys.path.insert(0, str(checkout))
    try:
        return importlib.import_module(MODULE)
    finally:
        sys.path.remove(str(checkout))
