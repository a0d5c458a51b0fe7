"""The tiny world's learned generator.

One image or batch is generated at a time, because the pipeline's scheduler counts its steps. It always runs
in float32 on the CPU, so that the same prompt, source and seed give the same pixels on all machines of one
kind, and no GPU is used for images of 96 x 96 pixels.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from ..backend.core.errors import GeneratorError, boundary
from ..backend.core.machine.environment import one_thread
from ..backend.core.pictures import Picture
from ..backend.core.seams.generator import Generator
from ..backend.models.checkpoints.checkpoint import loading, without_progress_bars
from ..backend.models.generators.pipelines.folder import content_digest, read_index
from . import checkpoint

if TYPE_CHECKING:
    from .pipeline import TinyWorldPipeline


class TinyWorldGenerator(Generator):
    """Generates images of 96 x 96 pixels; a source of another size is scaled first."""

    def __init__(self, pipeline: TinyWorldPipeline, identity: str) -> None:
        self.pipeline = pipeline
        self._identity = identity
        self._one_at_a_time = threading.Lock()

    @property
    def identity(self) -> str:
        """Digest of the weights, and the version of torch."""
        return self._identity

    @property
    def draws_many(self) -> bool:
        """True."""
        return True

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        """Generate an image.

        Raises:
            GeneratorError: If the pipeline fails.
        """
        return self.draw_many([prompt], [source], [seed])[0]

    def draw_many(
        self, prompts: Sequence[str], sources: Sequence[Picture | None], seeds: Sequence[int]
    ) -> list[Picture]:
        """Generate images for all prompts in one batch.

        This is several times faster than `draw`; results differ only by rounding.

        Raises:
            GeneratorError: If the pipeline fails.
        """
        with boundary(GeneratorError, "The tiny world's generator failed"), self._one_at_a_time, one_thread():
            pages = self.pipeline(
                list(prompts), [source.image if source else None for source in sources], list(seeds)
            )
            return [Picture(page) for page in pages]


def load_pipeline(folder: Path) -> TinyWorldPipeline:
    """Load the pipeline in a folder in float32 on the CPU, without a progress bar."""
    from .pipeline import TinyWorldPipeline

    with loading(), one_thread(), without_progress_bars():
        return TinyWorldPipeline.load(folder)


def check(argument: str) -> None:
    """Check that the folder exists, before torch is imported."""
    read_index(Path(argument).expanduser() if argument else checkpoint("generator"))


def open(argument: str) -> TinyWorldGenerator:
    """Open `tinyworld`, or `tinyworld:FOLDER` with a locally trained generator.

    Raises:
        GeneratorError: If it cannot be loaded.
        SettingsError: If the shipped checkpoint is missing, or the folder is not safe to load.
    """
    folder = Path(argument).expanduser() if argument else checkpoint("generator")
    with boundary(GeneratorError, f"The tiny world's generator in {str(folder)!r} cannot be loaded"):
        # The same weights generate other pixels with another version of torch (measured: from the second step
        # of a story). The identity therefore contains the version, so that images cached before an upgrade
        # are not reused.
        return TinyWorldGenerator(
            load_pipeline(folder), f"tinyworld/1 {content_digest(folder)} torch {version('torch')}"
        )
