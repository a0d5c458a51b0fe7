"""The transition between attempts: judge the images, then return the results or expand one more attempt.

The first attempt runs the user's own nodes. Every further attempt is a copy of them (subgraph.py) that ends
in an Attempt Next, which works like Attempt End. With a list of plans or prompts at Attempt Start, each item
is a story; a story is finished before the next one begins.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from comfy_api.latest import io

from ...backend.chat.protocol import ChatModel
from ...backend.errors import SettingsError
from ...backend.feedback.live.live_run import LiveTarget
from ...backend.loop.events import Finished
from ...backend.loop.external_run.attempts import ExternalAttempts
from ...backend.loop.external_run.requests import DrawNeeded, ExternalDrawRequest, ExternalDrawResult
from ...backend.report.completeness import is_complete
from ...backend.types import Trajectory
from .. import host
from ..agents.interruptible import critic_with
from ..agents.managed_chat import offload_others
from ..host import expansion
from ..inputs.images import OverflowedImage, to_pictures
from ..inputs.run_folder import RunWatch
from .open import OpenedAttempt
from .results import closed_outputs, paused, results
from .shown import ShownAttempts
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
        hold=expansion.keeps_no_results(),
    )
    nodes, end = lay_out(
        expansion.graph_of(dynprompt), carried.body, further, shown_as=dynprompt.get_display_node_id
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
