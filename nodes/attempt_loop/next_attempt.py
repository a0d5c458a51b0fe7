"""The transition between attempts: judge the images, then return the results or expand one more attempt.

The first attempt runs the user's own nodes. Every further attempt is a copy of them (subgraph.py) that ends
in an Attempt Next, which works like Attempt End. With a list of plans or prompts at Attempt Start, each item
is a story; a story is finished before the next one begins.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from comfy_api.latest import io

from ...backend.core.errors import GeneratorError, SettingsError
from ...backend.core.seams.chat_model import ChatModel
from ...backend.core.types import Plan, StopReason, Trajectory
from ...backend.core.types.roles import CriticLike
from ...backend.output.live.live_messages import waiting_in_display
from ...backend.output.live.live_run import LIVE_RUNS, LiveRun, LiveTarget, was_cancelled
from ...backend.output.report.run_report import image_texts, report
from ...backend.story.journal.run_files import PICTURES
from ...backend.story.journal.waiting import Waiting
from ...backend.story.loop.events import (
    AttemptDrawn,
    AttemptJudged,
    AttemptStarted,
    Event,
    Finished,
    PlanReady,
    StepFinished,
)
from ...backend.story.loop.external import (
    DrawNeeded,
    ExternalAttempts,
    ExternalDrawRequest,
    ExternalDrawResult,
    first_events,
)
from ...backend.story.outcomes import is_complete
from .. import host
from ..agents.managed_chat import critic_with, offload_others
from ..host import running_graph
from ..inputs.images import OverflowedImage, to_batch, to_pictures
from ..inputs.run_folder import RUNS, RunWatch
from ..inputs.sockets import TrajectorySocket
from ..loop.critic_loop import why_nothing_was_drawn
from .open import OpenedAttempt
from .subgraph import AttemptBody, FurtherAttempt, lay_out

watch = RunWatch()
"""Shared by all Attempt End nodes."""


@dataclass(frozen=True)
class PendingRun:
    """One run of an Attempt End: its first attempt, and the images of that attempt if they exist.

    Attributes:
        attempts: The run.
        wanted: The first attempt.
        images: Its images, `(count, height, width, channels)`.
    """

    attempts: ExternalAttempts
    wanted: ExternalDrawRequest
    images: torch.Tensor | None = None


@dataclass(frozen=True)
class Carried:
    """State passed between the attempts of one Attempt End.

    `wanted` is the current attempt, which belongs to the run `stories[len(done)]`.
    """

    stories: tuple[PendingRun, ...]
    critic: ChatModel | None
    body: AttemptBody
    target: LiveTarget
    wanted: ExternalDrawRequest
    shown: ShownAttempts
    began: float
    """Time at which the nodes of this attempt were requested (time.monotonic)."""
    done: tuple[Trajectory, ...] = ()

    @property
    def story(self) -> PendingRun:
        """The current run."""
        return self.stories[len(self.done)]


def begin(story: PendingRun, critic: ChatModel | None, target: LiveTarget) -> ShownAttempts:
    """Show a run that begins now."""
    offload_others(critic)
    return ShownAttempts(story.attempts, critic is not None, target)


def go_on(
    node: type[io.ComfyNode], carried: Carried, images: torch.Tensor | None, held: object | None
) -> io.NodeOutput:
    """Judge the images of an attempt, if there are any, then return the results or the next attempt.

    A run that waits for the user ends this, so the runs after it begin after the decision.
    """
    while True:
        ended = _follow(carried, images)
        if isinstance(ended, ExternalDrawRequest):
            return _further(node, carried, ended, held)
        if ended.waiting is not None:
            watch.incomplete(carried.body.closed)
            return paused(ended, carried.story.attempts.folder)
        done = (*carried.done, ended.trajectory)
        if len(done) == len(carried.stories):
            folders = [story.attempts.folder for story in carried.stories]
            if not all(map(_is_complete, carried.stories, done)):
                watch.incomplete(carried.body.closed)
            return results(list(zip(done, folders, strict=True)))
        story = carried.stories[len(done)]
        shown = begin(story, carried.critic, carried.target)
        carried = replace(carried, done=done, wanted=story.wanted, shown=shown, began=time.monotonic())
        images = story.images


def _is_complete(story: PendingRun, trajectory: Trajectory) -> bool:
    """Return whether the steps of this run are complete; other steps of the plan belong to other nodes."""
    return is_complete(trajectory, [step.number for step in story.attempts.external_run.steps])


def _follow(carried: Carried, images: torch.Tensor | None) -> Finished | ExternalDrawRequest:
    """Return how the current run ended, or the attempt that it needs next."""
    given = None
    if images is not None:
        given = given_of(carried.wanted, images, time.monotonic() - carried.began)
    critic = None if carried.critic is None else critic_with(carried.critic, carried.shown.hear)
    with host.host_interrupts():
        try:
            return carried.shown.follow(critic, given)
        except DrawNeeded as missing:
            return missing.wanted


def _further(
    node: type[io.ComfyNode], carried: Carried, wanted: ExternalDrawRequest, held: object | None
) -> io.NodeOutput:
    dynprompt, closed = node.hidden.dynprompt, carried.body.closed
    story = f"s{len(carried.done) + 1}." if carried.done else ""
    further = FurtherAttempt(
        prefix=f"{closed}.{story}{wanted.step}.{wanted.attempt + 1}.",
        opened=OpenedAttempt(external_run=carried.story.attempts.external_run, wanted=wanted),
        carried=replace(carried, wanted=wanted, began=time.monotonic()),
        held=held,
        hold=running_graph.keeps_no_results(),
    )
    nodes, end = lay_out(
        running_graph.graph_of(dynprompt), carried.body, further, shown_as=dynprompt.get_display_node_id
    )
    outputs = len(closed_outputs(lists=False))
    return io.NodeOutput(*([end, number] for number in range(outputs)), expand=nodes)


def given_of(wanted: ExternalDrawRequest, images: torch.Tensor, seconds: float) -> ExternalDrawResult:
    """Return the images of an attempt, or its error if pixels are NaN or infinite.

    Args:
        wanted: The attempt.
        images: Its images, `(count, height, width, channels)` in 0..1.
        seconds: Its duration.

    Raises:
        SettingsError: The input is not an image batch.
    """
    try:
        return ExternalDrawResult(wanted, to_pictures(images), seconds)
    except OverflowedImage as error:
        return ExternalDrawResult(wanted, (), seconds, str(error))


def only_batch(wanted: ExternalDrawRequest, images: Sequence[torch.Tensor | None]) -> torch.Tensor | None:
    """Return the only image batch of an attempt, `None` if it was not requested.

    Raises:
        SettingsError: There are several batches.
    """
    if len(images) != 1:
        raise SettingsError(
            f"Step {wanted.step}, attempt {wanted.attempt + 1}: Attempt End received a list of {len(images)} "
            "batches instead of one.",
            "Make one image or one batch per attempt. The best image of a batch is kept.",
        )
    return images[0]


def closed_outputs(lists: bool) -> list[io.Output]:
    """Return the outputs of Attempt End; with `lists` False those of its replacement at later attempts."""
    return [
        io.Image.Output("image", is_output_list=lists),
        io.String.Output("text", is_output_list=lists),
        io.Boolean.Output("accepted", is_output_list=lists),
        io.Image.Output("attempts", is_output_list=lists),
        io.String.Output("prompt", is_output_list=lists),
        TrajectorySocket.Output("TRAJECTORY", is_output_list=lists),
        io.String.Output("image_texts", display_name="image texts", is_output_list=lists),
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


class ShownAttempts:
    """Shows one run at `target`, from its first attempt to its last."""

    def __init__(self, attempts: ExternalAttempts, judged: bool, target: LiveTarget) -> None:
        self._attempts = attempts
        self._live = LiveRun(
            attempts.folder.name, Plan(steps=attempts.external_run.steps), attempts.settings, judged, target
        )
        self._seen: list[Event] = []
        LIVE_RUNS.begin(self._live)

    def hear(self, text: str) -> None:
        """Receive a part of the critic's text."""
        self._live.hear(text)

    def open(self) -> None:
        """Show the plan, with its first attempt started."""
        for event in first_events(self._attempts.external_run):
            self._show(event)

    def follow(self, critic: CriticLike | None, given: ExternalDrawResult | None) -> Finished:
        """Call `ExternalAttempts.follow`, show new events, and return how the run ended.

        Raises:
            DrawNeeded: The run needs another image.
            InterleaveError: As `ExternalAttempts.follow`.
        """
        place = 0
        ends: list[Event] = []
        waiting: Waiting | None = None

        def take(event: Event) -> None:
            nonlocal place, waiting
            if isinstance(event, Finished):
                waiting = event.waiting
            if _ends_early(event):
                ends.append(event)
                return
            if place == len(self._seen) or _content(event) != _content(self._seen[place]):
                del self._seen[place:]
                self._show(_fresh(event, given))
            place += 1

        try:
            return Finished(self._attempts.follow(critic, given, take), waiting)
        except DrawNeeded:
            raise
        except BaseException as error:
            for event in ends:
                self._live.follow(event)
            if not ends:
                self._live.fail(error)
            raise

    def _show(self, event: Event) -> None:
        self._seen.append(event)
        self._live.follow(event)


def _ends_early(event: Event) -> bool:
    if isinstance(event, StepFinished):
        return event.result.stop_reason is StopReason.cancelled
    return isinstance(event, Finished) and was_cancelled(event.trajectory)


def _fresh(event: Event, given: ExternalDrawResult | None) -> Event:
    """Return the event, marked as not reused if its image was just generated."""
    if given is None or not isinstance(event, AttemptDrawn):
        return event
    record, wanted = event.record, given.wanted
    made = (event.step.number, record.prompt, record.seed) == (wanted.step, wanted.prompt, wanted.seed)
    return replace(event, reused=False) if made else event


def _content(event: Event) -> Any:
    """Return the content of an event without its duration and whether its image was reused."""
    if isinstance(event, PlanReady):
        return "plan"
    if isinstance(event, AttemptStarted):
        return "started", event.step.number, event.attempt, event.prompt, event.seed
    if isinstance(event, AttemptDrawn):
        image = event.record.image
        return "drawn", event.step.number, event.attempt, image and image.digest
    if isinstance(event, AttemptJudged):
        return "judged", event.step.number, event.attempt, event.record.verdict, event.record.error
    if isinstance(event, StepFinished):
        return "step", event.result.step.number, event.result.chosen, event.result.stop_reason
    return "finished"
