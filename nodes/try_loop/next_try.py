"""From one try to the next: the image of a try is judged, and either the results are out or one more try is
laid out.

Decision: the first try is the artist's own nodes, every further one a copy of them (subgraph.py) that ends in
a Try Next, which does what Try Close does.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from comfy_api.latest import io

from ...backend.errors import SettingsError
from ...backend.loop.events import AttemptDrawn, AttemptJudged, Event, StepFinished
from ...backend.loop.external import Given, NextTry, Tries, Wanted
from ...backend.loop.loop import CriticLike
from ...backend.pictures import Picture
from ...backend.report.outcomes import stop_sentence
from ...backend.report.text import attempt_words
from ...backend.types import RunSettings, StopReason
from .. import host
from ..host import expansion
from ..inputs.images import only_picture
from .open import OpenedTry
from .results import closed_outputs, results
from .subgraph import Body, FurtherTry, lay_out


@dataclass(frozen=True)
class Carried:
    """What the tries of one Try Close hand on to one another; `wanted` is the draw of the try at hand."""

    tries: Tries
    critic: CriticLike | None
    body: Body
    wanted: Wanted
    began: float
    """When the nodes of this try were asked for (time.monotonic)."""


def go_on(
    node: type[io.ComfyNode], carried: Carried, images: Sequence[torch.Tensor | None], held: object | None
) -> io.NodeOutput:
    """Judge the image of a try, if one was drawn; then the results, or the next try."""
    dynprompt, tries = node.hidden.dynprompt, carried.tries
    shown_at = dynprompt.get_display_node_id(carried.body.closed)

    def say(event: Event) -> None:
        line = event_text(event, carried.wanted, tries.settings)
        if line:
            expansion.say_at(line, shown_at)

    image = drawn_image(carried.wanted, images)
    given = None if image is None else Given(carried.wanted, image, time.monotonic() - carried.began)
    with host.host_interrupts():
        try:
            return results(tries.follow(carried.critic, given, say), tries.folder)
        except NextTry as missing:
            wanted = missing.wanted
    further = FurtherTry(
        prefix=f"{carried.body.closed}.{wanted.step}.{wanted.attempt + 1}.",
        opened=OpenedTry(trial=tries.trial, wanted=wanted),
        carried=replace(carried, wanted=wanted, began=time.monotonic()),
        held=held,
        hold=expansion.keeps_no_results(),
    )
    nodes, end = lay_out(
        expansion.graph_of(dynprompt), carried.body, further, shown_as=dynprompt.get_display_node_id
    )
    outputs = len(closed_outputs(lists=False))
    return io.NodeOutput(*([end, number] for number in range(outputs)), expand=nodes)


def drawn_image(wanted: Wanted, images: Sequence[torch.Tensor | None]) -> Picture | None:
    """The image of a try, None if it was not asked for. Raises SettingsError if there are several."""
    where = f"The image of step {wanted.step}, try {wanted.attempt + 1},"
    if len(images) != 1:
        raise SettingsError(
            f"{where} is a list of {len(images)}, but one is wanted.", "Let your nodes make one image a try."
        )
    return None if images[0] is None else only_picture(images[0], where)


def event_text(event: Event, wanted: Wanted, settings: RunSettings) -> str:
    """The line that the node shows at an event while `wanted` is the draw at hand; empty for none."""
    if isinstance(event, AttemptDrawn | AttemptJudged):
        if (event.step.number, event.attempt) != (wanted.step, wanted.attempt):
            return ""
        judged = isinstance(event, AttemptJudged)
        state = attempt_words(event.record, settings) if judged else "judging"
        return f"Step {event.step.number}, try {event.attempt + 1} of {settings.max_attempts}: {state}"
    if isinstance(event, StepFinished) and event.result.stop_reason is not StopReason.cancelled:
        return f"Step {event.result.step.number}: {stop_sentence(event.result)}"
    return ""
