"""The outputs of nodes that were tried until the critic accepted.

Decision: a list cannot pass through an expansion as a list output (the host lines its values up as if they
were the next outputs), so a Try Next hands its lists on as one value each; and its display is its own, since
one that is returned together with an expansion stays as it was before the first further try.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from comfy_api.latest import io

from ...backend.errors import GeneratorError
from ...backend.journal.files import PICTURES
from ...backend.report.image_texts import image_texts
from ...backend.report.text import report
from ...backend.types import StopReason, Trajectory
from .. import host
from ..inputs.images import to_batch
from ..inputs.run_folder import RUNS
from ..inputs.sockets import TrajectorySocket
from ..loop.critic_loop import why_nothing_was_drawn


def closed_outputs(lists: bool) -> list[io.Output]:
    """The outputs of Try Close; with `lists` False those of the node that stands in its place at later
    tries."""
    return [
        io.Image.Output(
            "image", is_output_list=lists, tooltip="The kept image; of several steps one for each."
        ),
        io.String.Output(
            "text", is_output_list=lists, tooltip="How every try went, with the critic's words."
        ),
        io.Boolean.Output(
            "accepted",
            is_output_list=lists,
            tooltip="Whether the critic accepted (every step, if there are several).",
        ),
        io.Image.Output("attempts", is_output_list=lists, tooltip="The images of all tries."),
        io.String.Output(
            "prompt", is_output_list=lists, tooltip="The prompt that the kept image was drawn with."
        ),
        TrajectorySocket.Output(
            "TRAJECTORY",
            is_output_list=lists,
            tooltip="The whole run, for a Storyboard or the next Try Open.",
        ),
        io.String.Output(
            "image_texts",
            display_name="image texts",
            is_output_list=lists,
            tooltip="The text of every image, as many as 'image'; a step of words alone adds its own to the "
            "image before it.",
        ),
    ]


def results(ended: Sequence[tuple[Trajectory, Path]]) -> io.NodeOutput:
    """The outputs and the display of trials that have ended, each with the folder of its journal.

    Every output is a list: image, its texts and attempts of all steps of all trials, the others one value a
    trial. Raises GeneratorError if a trial has no image.
    """
    columns: list[list[Any]] = [[] for _ in closed_outputs(lists=True)]
    files: list[Path] = []
    for trajectory, folder in ended:
        drawn = [result for result in trajectory.results if result.image is not None]
        if not drawn:
            raise GeneratorError("No step has an image.", why_nothing_was_drawn(trajectory))
        chosen = [result.attempts[result.chosen or 0] for result in drawn]
        images = [attempt.image for attempt in chosen if attempt.image]
        attempts = [attempt.image for result in drawn for attempt in result.attempts if attempt.image]
        passed = all(
            result.stop_reason in (StopReason.accepted, StopReason.picked, StopReason.text_only)
            for result in trajectory.results
        )
        files += [folder / PICTURES / f"{picture.digest}.png" for picture in images]
        row: list[list[Any]] = [
            [to_batch(picture.image) for picture in images],
            [report(trajectory)],
            [passed],
            [to_batch(picture.image) for picture in attempts],
            [chosen[-1].prompt],
            [trajectory],
            image_texts(trajectory.results),
        ]
        for column, values in zip(columns, row, strict=True):
            column += values
    return io.NodeOutput(
        *columns,
        ui={
            **host.shown_files(files),
            "text": tuple(columns[1]),
            RUNS: tuple(folder.name for _, folder in ended),
        },
    )
