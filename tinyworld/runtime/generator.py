"""The tiny world's learned generator behind the common seam.

Decision: one page, or one batch of pages, is drawn at a time, whoever asks, since the pipeline's scheduler
counts its steps. It runs in float32 on the CPU whatever else is at hand, so that the same prompt, source and
seed give the same pixels on every machine of one kind, and no GPU is touched for a picture of 96 x 96.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from ...backend.checkpoints.one_reader import READING
from ...backend.errors import GeneratorError, boundary
from ...backend.generators.pipelines.folder import content_digest
from ...backend.machine.threads import one_thread
from ...backend.pictures import Picture
from . import checkpoint

if TYPE_CHECKING:
    from .pipeline import TinyWorldPipeline


class TinyWorldGenerator:
    """Draws pages of 96 x 96 pixels; a source of another size is scaled to that first."""

    def __init__(self, pipeline: TinyWorldPipeline, identity: str) -> None:
        self.pipeline = pipeline
        self.identity = identity
        self._one_at_a_time = threading.Lock()

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        """A page for the prompt; raises GeneratorError."""
        with boundary(GeneratorError, "The tiny world's generator failed"), self._one_at_a_time, one_thread():
            return Picture(self.pipeline([prompt], [source.image if source else None], [seed])[0])

    def draw_many(
        self, prompts: Sequence[str], sources: Sequence[Picture | None], seeds: Sequence[int]
    ) -> list[Picture]:
        """Pages for all prompts in one go, which is several times faster; equal to `draw`'s but for rounding.
        Raises GeneratorError."""
        with boundary(GeneratorError, "The tiny world's generator failed"), self._one_at_a_time, one_thread():
            pages = self.pipeline(
                list(prompts), [source.image if source else None for source in sources], list(seeds)
            )
            return [Picture(page) for page in pages]


def load_pipeline(folder: Path) -> TinyWorldPipeline:
    """The pipeline in a folder, in float32 on the CPU, without a progress bar for some milliseconds of
    loading."""
    from transformers.utils import logging

    from .pipeline import TinyWorldPipeline

    with READING:
        shown = logging.is_progress_bar_enabled()
        logging.disable_progress_bar()
        try:
            return TinyWorldPipeline.load(folder)
        finally:
            if shown:
                logging.enable_progress_bar()


def open(argument: str) -> TinyWorldGenerator:
    """`tinyworld`, or `tinyworld:FOLDER` for one that was trained here; raises SettingsError,
    GeneratorError."""
    folder = Path(argument).expanduser() if argument else checkpoint("generator")
    with boundary(GeneratorError, f"The tiny world's generator in {str(folder)!r} cannot be loaded"):
        # The same weights draw other pixels under another version of torch (measured: from the second step of
        # a story on), so a journal that was made before an upgrade must not be taken for this generator's.
        return TinyWorldGenerator(
            load_pipeline(folder), f"tinyworld/1 {content_digest(folder)} torch {version('torch')}"
        )
