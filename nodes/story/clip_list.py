"""Node that lists the image pairs of a story for the host's nodes that generate video between two frames."""

from __future__ import annotations

from typing import Any

from comfy_api.latest import io

from ...backend.clips.families import FAMILIES
from ...backend.clips.pairs import clip_pairs, missing_pairs
from ...backend.errors import SettingsError
from ...backend.types import Trajectory
from .. import host
from ..inputs.connected import TRAJECTORY, check_connected
from ..inputs.images import to_batch
from ..inputs.sockets import CATEGORY, TrajectorySocket
from ..inputs.validation import in_range

MEGAPIXEL = 1_000_000
NO_PAIR = "A clip leads from one image to another one: the story needs at least two different images."


class ClipList(io.ComfyNode):
    """Lists first image, last image, prompt and size of each clip of a story."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Declare the node."""
        return io.Schema(
            node_id="InterleaveClipList",
            display_name="Clip List",
            category=CATEGORY,
            description="Lists what each clip of a story leads from and to, for ComfyUI's own nodes that "
            "generate a video between a first and a last frame. The nodes behind it run once per clip. Add "
            "Clips takes their frames.",
            search_aliases=[
                "video",
                "first last frame",
                "flf2v",
                "story to video",
                "image to video",
                "movie",
                "animate",
            ],
            inputs=[
                TrajectorySocket.Input("trajectory", tooltip="From Critic Loop, Attempt End or Load Story."),
                io.Combo.Input(
                    "family",
                    options=list(FAMILIES),
                    default=next(iter(FAMILIES)),
                    tooltip="The video model: Wan 2.1 and 2.2, LTX-Video and LTX-2, or MiniMax H3. It "
                    "decides the frames per second, and which lengths and sizes are possible.",
                ),
                io.Float.Input(
                    "seconds",
                    default=5.0,
                    min=0.1,
                    max=60.0,
                    step=0.1,
                    tooltip="Duration of each clip, rounded to a length that the model supports.",
                ),
                io.Boolean.Input(
                    "only_missing",
                    default=True,
                    optional=True,
                    tooltip="List only clips that the story does not have yet, or whose images or prompt "
                    "changed. Off: make all clips again.",
                ),
                io.Float.Input(
                    "megapixels",
                    default=0.0,
                    min=0.0,
                    max=4.0,
                    step=0.05,
                    optional=True,
                    advanced=True,
                    tooltip="Million pixels of a frame. 0: the usual size of the model. The shape is that of "
                    "the image.",
                ),
            ],
            outputs=[
                TrajectorySocket.Output("TRAJECTORY", tooltip="The story, for Add Clips."),
                io.Image.Output("first_image", is_output_list=True, tooltip="First frame of each clip."),
                io.Image.Output("last_image", is_output_list=True, tooltip="Last frame of each clip."),
                io.String.Output("prompt", is_output_list=True, tooltip="What happens in each clip."),
                io.Int.Output("width", is_output_list=True, tooltip="Width of each clip in pixels."),
                io.Int.Output("height", is_output_list=True, tooltip="Height of each clip in pixels."),
                io.Int.Output("length", tooltip="Number of frames of each clip."),
                io.Float.Output("fps", tooltip="Frames per second of each clip."),
            ],
        )

    @classmethod
    def execute(
        cls,
        trajectory: Trajectory,
        family: str,
        seconds: float,
        only_missing: bool = True,
        megapixels: float = 0.0,
    ) -> io.NodeOutput:
        """List the clips."""
        check_connected("Clip List", TRAJECTORY, trajectory=trajectory)
        in_range("Clip List", 0.1, 60, seconds=seconds)
        in_range("Clip List", 0, 4, megapixels=megapixels)
        kind = FAMILIES.get(family)
        if kind is None:
            raise SettingsError(
                f"Clip List: unknown video model {family[:40]!r}.", f"Choose one of: {', '.join(FAMILIES)}."
            )
        if not clip_pairs(trajectory):
            raise SettingsError(f"Clip List: {NO_PAIR}", "Connect a longer story.")
        if not only_missing:
            trajectory = trajectory.model_copy(update={"clips": ()})
        pairs, every = missing_pairs(trajectory), len(clip_pairs(trajectory))
        area = round(megapixels * MEGAPIXEL) or None
        sizes = [kind.size(pair.last.size, area) for pair in pairs]
        lists: list[list[Any]] = [
            [to_batch(pair.first.image) for pair in pairs],
            [to_batch(pair.last.image) for pair in pairs],
            [pair.prompt for pair in pairs],
            [width for width, _ in sizes],
            [height for _, height in sizes],
        ]
        length = kind.length(seconds)
        each = f", each with {length} frames at {kind.fps} per second" if pairs else ""
        host.NodeProgress().say(f"Clips to make: {len(pairs)} of {every}{each}.")
        skipped = [host.nothing()]
        return io.NodeOutput(trajectory, *(one or skipped for one in lists), length, float(kind.fps))
