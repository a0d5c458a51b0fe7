"""Nodes that list the image pairs of a story for the host's video nodes, and add their clips to the story."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from comfy_api.latest import io

from ...backend.core.errors import SettingsError
from ...backend.core.files.video import clip_of
from ...backend.core.types import Trajectory
from ...backend.core.types.clip import MAX_FPS, MAX_FRAMES, MIN_FPS, Clip, ClipPair, Footage
from ...backend.models.clips import FAMILIES
from ...backend.story.clips import clip_pairs, clips_of, missing_pairs, with_clips
from ...backend.story.journal.journal import Journal
from ...backend.story.journal.run_files import RUN
from .. import host
from ..attempt_loop.subgraph import as_id, as_link, class_of, downstream, upstream
from ..host import running_graph
from ..inputs.images import checked_batch, to_batch, to_pictures
from ..inputs.run_folder import run_folder
from ..inputs.sockets import TRAJECTORY, TrajectorySocket, check_connected, node_schema
from ..inputs.validation import in_range
from .export import held_back

MEGAPIXEL = 1_000_000
SETTINGS = ("family", "seconds", "megapixels", "fps", "frame_rate", "width", "height", "length")
"""Inputs whose values are recorded with a clip, with those that name a file of a model."""
NO_PAIR = "A clip leads from one image to another one: the story needs at least two different images."
LISTS = "Connect the outputs of one Clip List to the video nodes, and its TRAJECTORY to Add Clips."


@dataclass(frozen=True)
class OneClip:
    """Marks a copy of Clip List or Add Clips that is for the first missing clip; `kept` are older clips."""

    kept: tuple[Clip, ...]


class ClipList(io.ComfyNode):
    """Lists first image, last image, prompt and size of each clip of a story."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Declare the node."""
        return node_schema(
            "InterleaveClipList",
            shown=("family", "seconds"),
            inputs=[
                TrajectorySocket.Input("trajectory"),
                io.Combo.Input("family", options=list(FAMILIES), default=next(iter(FAMILIES))),
                io.Float.Input("seconds", default=5.0, min=0.1, max=60.0, step=0.1),
                io.Boolean.Input("only_missing", default=True, optional=True),
                io.Float.Input("megapixels", default=0.0, min=0.0, max=4.0, step=0.05, optional=True),
            ],
            outputs=[
                TrajectorySocket.Output("TRAJECTORY"),
                io.Image.Output("first_image", is_output_list=True),
                io.Image.Output("last_image", is_output_list=True),
                io.String.Output("prompt", is_output_list=True),
                io.Int.Output("width", is_output_list=True),
                io.Int.Output("height", is_output_list=True),
                io.Int.Output("length"),
                io.Float.Output("fps"),
            ],
        )

    @classmethod
    def execute(
        cls,
        trajectory: Trajectory,
        family: str,
        seconds: float,
        only_missing: bool | OneClip = True,
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
        if held := held_back(trajectory, 8):
            return held
        if not clip_pairs(trajectory):
            raise SettingsError(f"Clip List: {NO_PAIR}", "Connect a longer story.")
        if not only_missing:
            trajectory = trajectory.model_copy(update={"clips": ()})
        pairs, every = missing_pairs(trajectory), len(clip_pairs(trajectory))
        if isinstance(only_missing, OneClip):
            pairs = pairs[:1]
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


class AddClips(io.ComfyNode):
    """Adds clips to a story. Takes one list item per clip."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Declare the node."""
        return node_schema(
            "InterleaveAddClips",
            is_input_list=True,
            enable_expand=True,
            hidden=[io.Hidden.unique_id, io.Hidden.dynprompt],
            inputs=[
                TrajectorySocket.Input("trajectory"),
                io.Float.Input("fps", default=16.0, min=MIN_FPS, max=MAX_FPS, step=0.01),
                io.Image.Input("frames", optional=True, lazy=True),
                io.Video.Input("videos", optional=True, lazy=True),
            ],
            outputs=[TrajectorySocket.Output("TRAJECTORY"), io.String.Output("report")],
        )

    @classmethod
    def check_lazy_status(cls, trajectory: list[Trajectory], fps: list[float], **connected: Any) -> list[str]:
        """Return the inputs that must be computed now: none if the story has all of its clips."""
        for one in trajectory:
            check_connected("Add Clips", TRAJECTORY, trajectory=one)
        if not missing_pairs(trajectory[0]) or (
            not _marks(*connected.values()) and _one_by_one(cls.hidden, trajectory[0])
        ):
            return []
        return [name for name, values in connected.items() if values[0] is None]

    @classmethod
    def execute(
        cls,
        trajectory: list[Trajectory],
        fps: list[float],
        frames: list[Any] | tuple[None] = (None,),
        videos: list[Any] | tuple[None] = (None,),
    ) -> io.NodeOutput:
        """Add the clips."""
        if len(trajectory) != 1:
            raise SettingsError(f"Add Clips takes one story, not {len(trajectory)}.", LISTS)
        (story,) = trajectory
        check_connected("Add Clips", TRAJECTORY, trajectory=story)
        in_range("Add Clips", MIN_FPS, MAX_FPS, fps=max(fps))
        made: list[Clip] = []
        marks = _marks(frames, videos)
        kept = marks[0].kept if marks else story.clips
        asked = _asked(cls.hidden)
        if missing_pairs(story):
            if not marks and (expanded := _one_by_one(cls.hidden, story)):
                return expanded
            given = frames if videos[0] is None or videos[0] in marks else videos
            if given[0] is None:
                raise SettingsError("Add Clips: neither frames nor videos are connected.", LISTS)
            pairs = missing_pairs(story)[:1] if marks else _pairs(story, len(given))
            rates = fps * len(pairs) if len(fps) == 1 else fps
            if len(rates) != len(pairs):
                raise SettingsError(f"Add Clips: {len(fps)} values of fps for {len(pairs)} clips.", LISTS)
            folder = run_folder(host.output_folder(), story.request, story.settings.seed)
            journal = Journal(folder) if (folder / RUN).is_file() else None
            progress = host.NodeProgress()
            with journal.writing() if journal else nullcontext():
                for number, (pair, one, rate) in enumerate(zip(pairs, given, rates, strict=True), 1):
                    host.stop_if_interrupted()
                    progress.say(f"Clip {number} of {len(pairs)}")
                    clip = clip_of(pair, _footage(one, rate, pair)).model_copy(update={"asked": asked})
                    made.append(journal.keep_clip(clip) if journal else clip)
        story = with_clips(story, made)
        host.NodeProgress().say(f"Clips added: {len(made)}, kept: {len(story.clips) - len(made)}.")
        lines = [
            f"Step {step}: {'kept, made with ' if clip in kept else ''}{clip.seconds:.1f} s, "
            f"{clip.frames} frames, {clip.size[0]}x{clip.size[1]}{_differences(clip, asked)}"
            for step, clip in clips_of(story).items()
        ]
        return io.NodeOutput(story, "\n".join(lines))


def _asked(hidden: io.HiddenHolder) -> str:
    """Return the settings of an Add Clips and of the nodes before it, up to Clip List, that shape a clip.

    They are lines: seconds, sizes, frame rates and names of model files. Seeds and prompts are not in them.
    """
    graph, name = running_graph.graph_of(hidden.dynprompt), hidden.unique_id or ""
    lists = {node for node in graph if class_of(graph, node) == "InterleaveClipList"}
    asked = {
        f"{key.replace('_', ' ')} {value}"
        for node in upstream(graph, [name], lists)
        for key, value in graph[node]["inputs"].items()
        if (key in SETTINGS or key.endswith("_name")) and as_link(value) is None
    }
    return "\n".join(sorted(asked))


def _differences(clip: Clip, asked: str) -> str:
    """Return how the settings of a clip differ from those of now, "" if they do not or are not known."""
    others = [line for line in clip.asked.split("\n") if line and line not in asked.split("\n")]
    return f". With {', '.join(others)}: switch only missing off to make it again" if others else ""


def _marks(*given: Sequence[Any]) -> list[OneClip]:
    return [one for values in given for one in values if isinstance(one, OneClip)]


def _one_by_one(hidden: io.HiddenHolder, story: Trajectory) -> io.NodeOutput | None:
    """Return an expansion in which the video nodes of a clip wait until the clip before is stored.

    `None` if there is not one Clip List before the Add Clips, or if a video node is shown or saved, since the
    host then runs it for all clips.
    """
    graph, name = running_graph.graph_of(hidden.dynprompt), hidden.unique_id or ""
    links = [as_link(graph[name]["inputs"].get(key)) for key in ("frames", "videos", "fps")]
    before = upstream(graph, [link[0] for link in links if link], barriers=set())
    lists = [node for node in before if class_of(graph, node) == "InterleaveClipList"]
    body = before & downstream(graph, lists[0]) if len(lists) == 1 else set[str]()
    beside = {one for node in body for one in downstream(graph, node)} - downstream(graph, name) - {name}
    if not body or any(running_graph.is_output_class(class_of(graph, one)) for one in beside):
        return None
    nodes: dict[str, Any] = {}
    story_link: Any = story
    for pair in missing_pairs(story):
        ids = {node: f"{as_id(name)}/clip{pair.step}/{as_id(node)}" for node in (*body, *lists, name)}
        for node, copied in ids.items():
            inputs: dict[str, Any] = {
                key: [ids[link[0]], link[1]] if (link := as_link(value)) and link[0] in ids else value
                for key, value in graph[node]["inputs"].items()
            }
            if node in lists:
                inputs |= {"trajectory": story_link, "only_missing": OneClip(story.clips)}
            elif node == name:
                unused = "frames" if "videos" in inputs else "videos"
                inputs |= {"trajectory": [ids[lists[0]], 0], unused: OneClip(story.clips)}
            shown = hidden.dynprompt.get_display_node_id(node)
            kind = graph[node]["class_type"]
            nodes[copied] = {"class_type": kind, "inputs": inputs, "override_display_id": shown}
        story_link = [ids[name], 0]
    return io.NodeOutput(story_link, [story_link[0], 1], expand=nodes)


def _pairs(story: Trajectory, count: int) -> tuple[ClipPair, ...]:
    """Return the pairs that a number of clips is for: the missing ones, or all.

    Raises:
        SettingsError: There are more or fewer clips.
    """
    missing, every = missing_pairs(story), clip_pairs(story)
    if count not in (len(missing), len(every)):
        raise SettingsError(
            f"Add Clips: {count} clips for a story that lacks {len(missing)} of its {len(every)} clips.",
            LISTS,
        )
    return missing if count == len(missing) else every


def _footage(given: Any, rate: float, pair: ClipPair) -> Footage:
    """Return the frames of a batch of images or of a video of the host.

    Raises:
        SettingsError: It is something else, or has too many frames.
    """
    if callable(getattr(given, "get_components", None)):
        components = given.get_components()
        given, rate = components.images, float(components.frame_rate)
    batch = checked_batch(given)
    if len(batch) > MAX_FRAMES:
        raise SettingsError(
            f"Add Clips: the clip of step {pair.step} has {len(batch)} frames; the maximum is {MAX_FRAMES}.",
            "Make a shorter clip.",
        )
    return Footage(to_pictures(batch), rate)
