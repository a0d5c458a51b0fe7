"""Frame rates, lengths and sizes of the video models that generate between a first and a last frame.

The values are those of ComfyUI's own nodes and subgraphs (0.33): the step and the default of `length` and
`width` of the node that takes both frames, and the frame rate of the subgraph's Create Video.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ..types.clip import MAX_FRAMES


@dataclass(frozen=True)
class ClipFamily:
    """What the clips of a video model look like.

    Attributes:
        fps: Frames per second.
        step: Lengths are `step` * n + `rest` frames.
        rest: See `step`.
        frames: Usual length in frames.
        most: Maximum length in frames that the model was trained with, or `MAX_FRAMES`.
        multiple: Width and height are multiples of this.
        area: Usual number of pixels of a frame.
        nodes: ComfyUI's nodes that take both frames.
    """

    fps: int
    step: int
    rest: int
    frames: int
    multiple: int
    area: int
    nodes: tuple[str, ...]
    most: int = MAX_FRAMES

    def length(self, seconds: float | None = None) -> int:
        """Return the number of frames that is nearest to a duration. `None`: the usual length."""
        if seconds is None:
            return self.frames
        least = 1 if seconds * self.fps > self.rest else 0
        groups = max(least, round((seconds * self.fps - self.rest) / self.step))
        most = (min(self.most, MAX_FRAMES) - self.rest) // self.step
        return self.step * max(1, min(groups, most)) + self.rest

    def size(self, shape: tuple[int, int], area: int | None = None) -> tuple[int, int]:
        """Return width and height of a frame.

        Args:
            shape: Width and height whose ratio is kept as far as the multiple permits.
            area: Number of pixels. Default: the usual one.
        """
        width, height = shape
        scale = ((area or self.area) / (width * height)) ** 0.5
        return self._rounded(width * scale), self._rounded(height * scale)

    def _rounded(self, side: float) -> int:
        return self.multiple * max(1, round(side / self.multiple))


WAN = ClipFamily(16, 4, 1, 81, 16, 832 * 480, ("WanFirstLastFrameToVideo", "WanFunInpaintToVideo"))
LTX = ClipFamily(24, 8, 1, 97, 32, 768 * 512, ("LTXVAddGuide",))
MINIMAX = ClipFamily(24, 17, 5, 124, 32, 1344 * 768, ("MiniMaxH3ImageToVideo",), most=362)

FAMILIES: Mapping[str, ClipFamily] = MappingProxyType({"Wan": WAN, "LTX": LTX, "MiniMax H3": MINIMAX})
