"""The outputs of nodes that were tried until the critic accepted.

Decision: a list cannot pass through an expansion as a list output (the host lines its values up as if they
were the next outputs), so a Try Next hands its lists on as one value each; and its display is its own, since
one that is returned together with an expansion stays as it was before the first further try.
"""

from __future__ import annotations

from pathlib import Path

from comfy_api.latest import io

from ...backend.journal.files import PICTURES
from ...backend.report.text import report
from ...backend.types import StopReason, Trajectory
from .. import host
from ..inputs.images import to_batch
from ..inputs.sockets import TrajectorySocket


def closed_outputs(lists: bool) -> list[io.Output]:
    """The outputs of Try Close; with `lists` False those of the node that stands in its place at later
    tries."""
    return [
        io.Image.Output(
            "image", is_output_list=lists, tooltip="The kept image; of several steps one for each."
        ),
        io.String.Output("text", tooltip="How every try went, with the critic's words."),
        io.Boolean.Output(
            "accepted", tooltip="Whether the critic accepted (every step, if there are several)."
        ),
        io.Image.Output("attempts", is_output_list=lists, tooltip="The images of all tries."),
        io.String.Output("prompt", tooltip="The prompt that the kept image was drawn with."),
        TrajectorySocket.Output(
            "TRAJECTORY", tooltip="The whole run, for a Storyboard or the next Try Open."
        ),
    ]


def results(trajectory: Trajectory, folder: Path) -> io.NodeOutput:
    """The outputs and the display of a trial that has ended, whose journal is in `folder`."""
    drawn = [result for result in trajectory.results if result.image is not None]
    chosen = [result.attempts[result.chosen or 0] for result in drawn]
    images = [attempt.image for attempt in chosen if attempt.image]
    attempts = [attempt.image for result in drawn for attempt in result.attempts if attempt.image]
    passed = all(result.stop_reason in (StopReason.accepted, StopReason.picked) for result in drawn)
    text = report(trajectory)
    display = host.shown_files([folder / PICTURES / f"{picture.digest}.png" for picture in images])
    return io.NodeOutput(
        [to_batch(picture.image) for picture in images],
        text,
        passed,
        [to_batch(picture.image) for picture in attempts],
        chosen[-1].prompt,
        trajectory,
        ui={**display, "text": (text,)},
    )
