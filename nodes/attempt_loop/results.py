"""Outputs of Attempt End.

A list cannot pass through an expansion as a list output, since the host reads its values as the next outputs.
So an Attempt Next passes each list as one value. It also has its own display, since a display returned
together with an expansion stays as it was before the first further attempt.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from comfy_api.latest import io

from ...backend.errors import GeneratorError
from ...backend.feedback.live.shown import waiting_in_display
from ...backend.journal.records.run_files import PICTURES
from ...backend.loop.events import Finished
from ...backend.report.image_texts import image_texts
from ...backend.report.text import report
from ...backend.types import StopReason, Trajectory
from .. import host
from ..inputs.images import to_batch
from ..inputs.run_folder import RUNS
from ..inputs.sockets import TrajectorySocket
from ..loop.critic_loop import why_nothing_was_drawn


def closed_outputs(lists: bool) -> list[io.Output]:
    """Return the outputs of Attempt End; with `lists` False those of its replacement at later attempts."""
    return [
        io.Image.Output(
            "image", is_output_list=lists, tooltip="The kept image; for several steps, one each."
        ),
        io.String.Output(
            "text",
            is_output_list=lists,
            tooltip="The result of every attempt, with the critic's reasoning.",
        ),
        io.Boolean.Output(
            "accepted",
            is_output_list=lists,
            tooltip="Whether the critic accepted the image (of every step, if there are several).",
        ),
        io.Image.Output("attempts", is_output_list=lists, tooltip="The images of all attempts."),
        io.String.Output("prompt", is_output_list=lists, tooltip="The prompt that generated the kept image."),
        TrajectorySocket.Output(
            "TRAJECTORY",
            is_output_list=lists,
            tooltip="The whole story, for Storyboard, Save Story or the next Attempt Start.",
        ),
        io.String.Output(
            "image_texts",
            display_name="image texts",
            is_output_list=lists,
            tooltip="One text per image, in the order of 'image'. The text of a text-only step is added to "
            "that of the image before it.",
        ),
    ]


def results(ended: Sequence[tuple[Trajectory, Path]]) -> io.NodeOutput:
    """Return the outputs and the display of finished runs, each with the folder of its journal.

    Every output is a list. Image, image texts and attempts have the values of all steps of all runs, the
    others one value per run.

    Raises:
        GeneratorError: A run has no image, and none of its steps was skipped.
    """
    columns: list[list[Any]] = [[] for _ in closed_outputs(lists=True)]
    files: list[Path] = []
    for trajectory, folder in ended:
        drawn = [result for result in trajectory.results if result.image is not None]
        skipped = any(result.stop_reason is StopReason.skipped for result in trajectory.results)
        if not drawn and not skipped:
            raise GeneratorError("No image was generated.", why_nothing_was_drawn(trajectory))
        chosen = [result.attempts[result.chosen or 0] for result in drawn]
        images = [attempt.image for attempt in chosen if attempt.image]
        attempts = [attempt.image for result in drawn for attempt in result.attempts if attempt.image]
        passed = all(
            result.stop_reason
            in (StopReason.accepted, StopReason.picked, StopReason.skipped, StopReason.text_only)
            for result in trajectory.results
        )
        files += [folder / PICTURES / f"{picture.digest}.png" for picture in images]
        row: list[list[Any]] = [
            [to_batch(picture.image) for picture in images],
            [report(trajectory)],
            [passed],
            [to_batch(picture.image) for picture in attempts],
            [chosen[-1].prompt if chosen else ""],
            [trajectory],
            image_texts(trajectory.results) if drawn else [],
        ]
        for column, values in zip(columns, row, strict=True):
            column += values
    return io.NodeOutput(
        *(column or host.nothing() for column in columns),
        ui={
            **host.shown_files(files),
            "text": tuple(columns[1]),
            RUNS: tuple(folder.name for _, folder in ended),
        },
    )


def paused(ended: Finished, folder: Path) -> io.NodeOutput:
    """Return empty outputs and the display of a run that waits for the user.

    The nodes behind Attempt End are skipped: the next Attempt Start must not go on from an image that is not
    approved.
    """
    images = [result.image for result in ended.trajectory.results if result.image]
    return io.NodeOutput(
        *(host.nothing() for _ in closed_outputs(lists=True)),
        ui={
            **host.shown_files([folder / PICTURES / f"{picture.digest}.png" for picture in images]),
            "text": (report(ended.trajectory),),
            RUNS: (folder.name,),
            **waiting_in_display(ended.waiting),
        },
    )
