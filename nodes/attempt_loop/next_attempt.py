"""From one try to the next: the images of a try are judged, and either the results are out or one more try is
laid out.

Decision: the first try is the artist's own nodes, every further one a copy of them (subgraph.py) that ends in
a Try Next, which does what Try Close does. Of a list of tries (a list of plans or prompts at Try Open) each
is a story of its own; they follow one another by the same means, so a story is whole before the next begins.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from comfy_api.latest import io

from ...backend.chat.protocol import ChatModel
from ...backend.errors import SettingsError
from ...backend.loop.external import DrawNeeded, ExternalAttempts, ExternalDrawRequest, ExternalDrawResult
from ...backend.report.completeness import is_complete
from ...backend.types import Trajectory
from .. import host
from ..agents.interruptible import critic_with
from ..agents.managed_chat import offload_others
from ..host import expansion
from ..inputs.images import OverflowedImage, to_pictures
from ..inputs.run_folder import RunWatch
from ..live.live_run import LiveTarget
from .open import OpenedAttempt
from .results import closed_outputs, results
from .shown import ShownAttempts
from .subgraph import AttemptBody, FurtherAttempt, lay_out

watch = RunWatch()
"""Of all Try Close."""


@dataclass(frozen=True)
class PendingRun:
    """One of the trials of a Try Close: its first draw, and the images of that where the host made them."""

    attempts: ExternalAttempts
    wanted: ExternalDrawRequest
    images: torch.Tensor | None = None


@dataclass(frozen=True)
class Carried:
    """What the tries of one Try Close hand on to one another; `wanted` is the draw of the try at hand, which
    belongs to the story `stories[len(done)]`."""

    stories: tuple[PendingRun, ...]
    critic: ChatModel | None
    body: AttemptBody
    target: LiveTarget
    wanted: ExternalDrawRequest
    shown: ShownAttempts
    began: float
    """When the nodes of this try were asked for (time.monotonic)."""
    done: tuple[Trajectory, ...] = ()

    @property
    def story(self) -> PendingRun:
        return self.stories[len(self.done)]


def begin(story: PendingRun, critic: ChatModel | None, target: LiveTarget) -> ShownAttempts:
    """Show a story whose tries begin now."""
    offload_others(critic)
    return ShownAttempts(story.attempts, critic is not None, target)


def go_on(
    node: type[io.ComfyNode], carried: Carried, images: torch.Tensor | None, held: object | None
) -> io.NodeOutput:
    """Judge the images of a try, if one was drawn; then the results, or the next try."""
    while True:
        missing = _follow(carried, images)
        if isinstance(missing, ExternalDrawRequest):
            return _further(node, carried, missing, held)
        done = (*carried.done, missing)
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
    """Whether the steps that were to be tried are complete; the plan's others belong to other nodes."""
    return is_complete(trajectory, [step.number for step in story.attempts.external_run.steps])


def _follow(carried: Carried, images: torch.Tensor | None) -> Trajectory | ExternalDrawRequest:
    """The trajectory of the story at hand, or what is to be drawn before it can go on."""
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
    """Return the images of an attempt, or its error if pixels are NaN or infinite. Raises SettingsError if
    something else than images is connected."""
    try:
        return ExternalDrawResult(wanted, to_pictures(images), seconds)
    except OverflowedImage as error:
        return ExternalDrawResult(wanted, (), seconds, str(error))


def only_batch(wanted: ExternalDrawRequest, images: Sequence[torch.Tensor | None]) -> torch.Tensor | None:
    """The only image batch of a try, None if it was not asked for. Raises SettingsError for a list of
    several."""
    if len(images) != 1:
        raise SettingsError(
            f"The image of step {wanted.step}, try {wanted.attempt + 1}, is a list of {len(images)}, "
            "but one batch is wanted.",
            "Let your nodes make one image or one batch a try; of a batch the critic keeps the best.",
        )
    return images[0]
