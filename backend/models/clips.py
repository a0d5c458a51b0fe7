"""Makes clips with pipelines of diffusers that take a first and a last frame.

Wan's pipeline has an argument for each frame. LTX-Video's takes any number of images with their frame
numbers. Noise comes from a CPU generator, as for images, so a seed gives the same noise on every device.
Frame rates, lengths and sizes are those of ComfyUI's own nodes and subgraphs (0.33).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any

from pydantic import Field, field_validator

from ..core.errors import Cancelled, GeneratorError, SettingsError, boundary
from ..core.machine.environment import device_named
from ..core.pictures import Picture
from ..core.types.clip import MAX_FPS, MAX_FRAMES, MAX_SIDE, MIN_FPS, ClipMaker, ClipPair, Footage
from ..core.types.run_settings import sides_of
from ..core.types.values import DIRECT, Text, Value, bounded_identity, read_options
from .generators.pipelines.folder import content_digest
from .generators.pipelines.generator import raise_if_out_of_memory, resized
from .generators.pipelines.kinds import Dtype, arguments_of
from .generators.pipelines.opening import choose_dtype, found_pipeline, load_pipeline


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


MAX_SECONDS = 60.0


@dataclass(frozen=True)
class _Kind:
    """How a pipeline class is loaded and called.

    `loads` is the class of diffusers that takes both frames with the same weights, `rate` the name of its
    argument for frames per second.
    """

    family: ClipFamily
    loads: str
    rate: str | None = None


KINDS = {
    "WanImageToVideoPipeline": _Kind(WAN, "WanImageToVideoPipeline"),
    "LTXPipeline": _Kind(LTX, "LTXConditionPipeline", "frame_rate"),
    "LTXImageToVideoPipeline": _Kind(LTX, "LTXConditionPipeline", "frame_rate"),
    "LTXConditionPipeline": _Kind(LTX, "LTXConditionPipeline", "frame_rate"),
}


class ClipOptions(Value):
    """Options of a clip pipeline, also of the command `clips`."""

    seconds: float | None = Field(
        default=None,
        gt=0,
        le=MAX_SECONDS,
        description="Seconds of a clip, rounded to a length that the model supports. Default: its usual "
        "length.",
        json_schema_extra=DIRECT,
    )
    size: str | None = Field(
        default=None,
        max_length=20,
        description="WIDTHxHEIGHT of the clips, rounded to what the model supports. Default: the shape of "
        "the later image, in the model's size.",
        json_schema_extra=DIRECT,
    )
    fps: float | None = Field(
        default=None, ge=MIN_FPS, le=MAX_FPS, description="Frames per second. Default: those of the model."
    )
    steps: int | None = Field(
        default=None,
        ge=1,
        le=1000,
        description="Sampling steps. Default: those of the pipeline.",
        json_schema_extra=DIRECT,
    )
    guidance: float | None = Field(
        default=None, ge=0, le=1000, description="Guidance scale. Default: that of the pipeline."
    )
    negative: Text | None = Field(default=None, description="Negative prompt.")
    device: str = Field(
        default="auto", max_length=100, description="Device of the model.", json_schema_extra=DIRECT
    )
    dtype: Dtype = Field(default="auto", description="Dtype of the model.")
    download: bool = Field(
        default=False, description="Download a model that is not cached.", json_schema_extra=DIRECT
    )

    @field_validator("size")
    @classmethod
    def _check_size(cls, size: str | None) -> str | None:
        if size is not None and max(sides_of(size)) > MAX_SIDE:
            raise ValueError(f"a side is above {MAX_SIDE} pixels")
        return size


class ClipPipeline(ClipMaker):
    """A loaded pipeline that generates clips. `interrupted` is called after every sampling step."""

    def __init__(self, pipeline: Any, kind: _Kind, identity: str, options: ClipOptions) -> None:
        self._identity = identity
        self.interrupted: Callable[[], bool] | None = None
        self._pipeline, self._kind, self._options = pipeline, kind, options
        pipeline.set_progress_bar_config(disable=True)

    @property
    def identity(self) -> str:
        """The model's files and all options."""
        return self._identity

    def make(self, pair: ClipPair, seed: int) -> Footage:
        """Return the frames from the first to the last image of a pair.

        Raises:
            OutOfMemory: Memory does not suffice.
            GeneratorError: The generation failed.
            Cancelled: `interrupted` returned True.
        """
        import torch

        self._stop_if_interrupted()
        options, family = self._options, self._kind.family
        size = family.size(pair.last.size)
        if options.size is not None:
            given = sides_of(options.size)
            size = family.size(given, given[0] * given[1])
        fps = options.fps or float(family.fps)
        seconds = options.seconds and options.seconds * fps / family.fps
        length = family.length(seconds)
        arguments: dict[str, Any] = {
            "prompt": pair.prompt,
            "width": size[0],
            "height": size[1],
            "num_frames": length,
            "generator": torch.Generator("cpu").manual_seed(seed),
            "output_type": "np",
            "callback_on_step_end": self._after_step,
        }
        given_options = {
            "num_inference_steps": options.steps,
            "guidance_scale": options.guidance,
            "negative_prompt": options.negative,
            self._kind.rate: fps if self._kind.rate else None,
        }
        arguments |= {str(name): value for name, value in given_options.items() if value is not None}
        arguments |= self._frames(pair, size, length)
        name = type(self._pipeline).__name__
        with boundary(GeneratorError, name):
            try:
                with torch.inference_mode():
                    frames = self._pipeline(**arguments).frames[0]
            except RuntimeError as error:
                raise_if_out_of_memory(error, arguments)
                raise
        return Footage(_pictures(frames, name), fps)

    def _frames(self, pair: ClipPair, size: tuple[int, int], length: int) -> dict[str, Any]:
        """Return the arguments with both images."""
        first, last = (resized(picture, size, crops=True) for picture in (pair.first, pair.last))
        if self._kind.family is WAN:
            return {"image": first, "last_image": last}
        from diffusers.pipelines.ltx.pipeline_ltx_condition import LTXVideoCondition

        return {
            "conditions": [
                LTXVideoCondition(image=first, frame_index=0),
                LTXVideoCondition(image=last, frame_index=length - 1),
            ]
        }

    def _after_step(self, pipeline: Any, step: int, timestep: Any, tensors: dict[str, Any]) -> dict[str, Any]:
        self._stop_if_interrupted()
        return tensors

    def _stop_if_interrupted(self) -> None:
        if self.interrupted is not None and self.interrupted():
            raise Cancelled("The generation was stopped.")


def open_clip_maker(model: str, **given: Any) -> ClipPipeline:
    """Load a pipeline of diffusers that generates clips between two images.

    Args:
        model: Folder of the pipeline, or hub id.
        **given: Options: seconds, size, fps, steps, guidance, negative, device, dtype, download.

    Raises:
        SettingsError: The model cannot end at a given image, or an option is invalid.
        GeneratorError: Loading failed.
    """
    options = read_options("Clips", ClipOptions, given)
    folder, name = found_pipeline(model, options.download)
    kind = KINDS.get(name)
    if kind is None:
        raise SettingsError(
            f"{name} is not a known pipeline for clips between two images.",
            f"Use a model of one of these classes: {', '.join(KINDS)}.",
        )
    # Without ftfy, this class of diffusers fails when it encodes the prompt, after everything is loaded.
    if kind.family is WAN and find_spec("ftfy") is None:
        raise SettingsError(f"{name} needs ftfy, which is not installed.", "Run: pip install ftfy")
    device = device_named(options.device)
    dtype = choose_dtype(options.dtype, device)
    pipeline = load_pipeline(folder, kind.loads, dtype, device)
    if pipeline.config.get("expand_timesteps"):
        raise SettingsError(
            f"{model!r} takes only the first frame: its pipeline ignores the last one.",
            "Use a Wan 2.1 FLF2V or Wan 2.2 14B model.",
        )
    if options.negative is not None and "negative_prompt" not in arguments_of(pipeline):
        raise SettingsError(f"{name} does not use a negative prompt.", "Omit negative.")
    named = options.model_dump(exclude={"device", "dtype", "download"}, exclude_none=True)
    said = " ".join(f"{key}={value!r}" for key, value in named.items())
    identity = bounded_identity(
        f"clips {kind.loads} {content_digest(folder)} device={device.split(':')[0]} dtype={dtype} {said}"
    )
    return ClipPipeline(pipeline, kind, identity, options)


def _pictures(frames: Any, name: str) -> list[Picture]:
    """Return frames `(frames, height, width, 3)` in 0..1 as images.

    Raises:
        GeneratorError: A pixel is NaN or infinite, or there are too many frames.
    """
    import numpy as np
    from PIL import Image

    if len(frames) > MAX_FRAMES or not np.isfinite(frames).all():
        raise GeneratorError(
            f"{name} returned pixels that are NaN or infinite, or more than {MAX_FRAMES} frames.",
            "If the model overflowed, use dtype=bfloat16 or dtype=float32.",
        )
    return [Picture(Image.fromarray(frame)) for frame in np.rint(frames * 255).clip(0, 255).astype("uint8")]
