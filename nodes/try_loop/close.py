"""Where a sub-graph that is tried until the critic accepts ends: its image is judged here, and the next try
laid out.

Decision: the first try is the artist's own nodes, every further one a copy of them (subgraph.py) that ends in
a Try Next, which does what Try Close does. Whether a try is needed is asked of the journal before its nodes
run: what is in the output folder is not drawn again, whichever cache the host keeps and also after a restart.
What a body draws with is named by its nodes and settings; a body with a node that always changes is drawn
anew every time, as the host does.

A list cannot pass through an expansion as a list output (the host lines its values up as if they were the
next outputs), so a Try Next hands its lists on as one value each; and its display is its own, since one that
is returned together with an expansion is kept as it was before the first further try.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from comfy_api.latest import io
from pydantic import ValidationError

from ...backend.chat.protocol import ChatModel
from ...backend.errors import SettingsError
from ...backend.journal.files import PICTURES, first_fault
from ...backend.loop.events import AttemptDrawn, AttemptJudged, Event, StepFinished
from ...backend.loop.external import Given, NextTry, Tries, Wanted
from ...backend.loop.loop import CriticLike
from ...backend.pictures import Picture
from ...backend.report.outcomes import stop_sentence
from ...backend.report.text import attempt_words, report
from ...backend.types import RunSettings, StopReason, Trajectory
from .. import host
from ..agents.strictness import accept_at_of
from ..host import expansion
from ..inputs.images import only_picture, to_batch
from ..inputs.run_folder import ChoiceWatch, run_folder
from ..inputs.sockets import CATEGORY, AgentSocket, TrajectorySocket
from ..loop.judge import critic_of
from .open import OpenedTry, TrySocket
from .subgraph import Body, all_makers, body_digest, find_body, lay_out

OWN_WORD = 0.0
FIELDS = RunSettings.model_fields

choices = ChoiceWatch()


@dataclass(frozen=True)
class Carried:
    """What the tries of one Try Close hand on to one another; `wanted` is the draw of the try at hand."""

    tries: Tries
    critic: CriticLike | None
    body: Body
    wanted: Wanted
    began: float
    """When the nodes of this try were asked for (time.monotonic)."""


_asked: dict[str, float] = {}
"""When the first try of a Try Close, by its id, was asked for."""


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


class TryClose(io.ComfyNode):
    """Ends nodes of your own that are tried until the critic accepts their image."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return io.Schema(
            node_id="InterleaveTryClose",
            display_name="Try Close",
            category=CATEGORY,
            description="Shows the image of the nodes since Try Open to the critic and runs them again "
            "with its better "
            "prompt, until it accepts or the tries are used up. Every try is kept in "
            "output/interleave-thinker: with more "
            "tries allowed only the new ones are drawn.",
            search_aliases=["loop end", "retry until right", "until accepted", "critic", "judge", "end loop"],
            is_output_node=True,
            is_input_list=True,
            enable_expand=True,
            hidden=[io.Hidden.unique_id, io.Hidden.dynprompt],
            inputs=[
                io.Image.Input("image", lazy=True, tooltip="The image that your nodes since Try Open made."),
                TrySocket.Input(
                    "opened", display_name="try", tooltip="From the Try Open before these nodes."
                ),
                AgentSocket.Input(
                    "critic",
                    optional=True,
                    tooltip="The agent that judges. Without one each step is drawn once.",
                ),
                io.Int.Input(
                    "max_attempts", default=5, min=1, max=100, tooltip=FIELDS["max_attempts"].description
                ),
                io.Float.Input(
                    "accept_at",
                    default=OWN_WORD,
                    min=0.0,
                    max=1.0,
                    step=0.05,
                    tooltip="Probability of success needed to accept an image; 0 takes what the critic was "
                    "loaded "
                    "with, else its own word.",
                ),
                io.Combo.Input(
                    "keep", options=["best", "last"], default="best", tooltip=FIELDS["keep"].description
                ),
            ],
            outputs=closed_outputs(lists=True),
        )

    @classmethod
    async def check_lazy_status(
        cls,
        opened: list[OpenedTry],
        max_attempts: list[int],
        accept_at: list[float],
        keep: list[Any],
        image: Sequence[torch.Tensor | None] = (None,),
        critic: Sequence[ChatModel | None] = (None,),
    ) -> list[str]:
        if image[0] is not None:
            return []
        settings = settings_of(critic[0], max_attempts[0], accept_at[0], keep[0])
        dynprompt, name = cls.hidden.dynprompt, cls.hidden.unique_id
        graph = expansion.graph_of(dynprompt)
        body = find_body(graph, name, expansion.is_output_class)
        await expansion.settle_changes(dynprompt, all_makers(graph, body))
        one = only(opened, "try")
        if body.edits and one.wanted.source is None:
            raise SettingsError(
                (
                    f"Step {one.wanted.step} has no image to edit, but the nodes after Try Open use its "
                    f"source "
                    f"image."
                ),
                "Connect one to Try Open's source_image (a blank one from Empty Image will do).",
            )
        if expansion.keeps_no_results() and not body.has_previews:
            # Laid out like the later tries it shares with them what comes from outside, made once for all.
            return []
        if tries_of(one, graph, body, settings).is_drawn(one.wanted):
            return []
        _asked[name] = time.monotonic()
        return ["image"]

    @classmethod
    def fingerprint_inputs(cls, **inputs: Any) -> int:
        return choices.edition(cls.hidden.unique_id or "")

    @classmethod
    def execute(
        cls,
        opened: list[OpenedTry],
        max_attempts: list[int],
        accept_at: list[float],
        keep: list[Any],
        image: Sequence[torch.Tensor | None] = (None,),
        critic: Sequence[ChatModel | None] = (None,),
    ) -> io.NodeOutput:
        graph = expansion.graph_of(cls.hidden.dynprompt)
        body = find_body(graph, cls.hidden.unique_id, expansion.is_output_class)
        one, agent = only(opened, "try"), critic[0]
        settings = settings_of(agent, max_attempts[0], accept_at[0], keep[0])
        tries = tries_of(one, graph, body, settings)
        choices.runs(cls.hidden.unique_id, tries.folder)
        carried = Carried(
            tries=tries,
            critic=None if agent is None else critic_of(agent),
            body=body,
            wanted=one.wanted,
            began=_asked.pop(cls.hidden.unique_id, time.monotonic()),
        )
        return go_on(cls, carried, image, None)


def settings_of(critic: ChatModel | None, max_attempts: int, accept_at: float, keep: Any) -> RunSettings:
    """The settings of the tries; raises SettingsError for a value that came over a wire and is out of
    range."""
    own = accept_at_of(critic, accept_at)
    try:
        return RunSettings(max_attempts=max_attempts, accept_at=own, keep=keep)
    except ValidationError as error:
        raise SettingsError(f"Try Close cannot use what is connected to it{first_fault(error)}") from error


def go_on(
    node: type[io.ComfyNode], carried: Carried, images: Sequence[torch.Tensor | None], held: object | None
) -> io.NodeOutput:
    """Judge the image of a try, if one was drawn; then the results, or the next try."""
    dynprompt, tries = node.hidden.dynprompt, carried.tries
    shown_at = dynprompt.get_display_node_id(carried.body.closed)

    def say(event: Event) -> None:
        line = told(event, carried.wanted, tries.settings)
        if line:
            expansion.say_at(line, shown_at)

    image = drawn_image(carried.wanted, images)
    given = None if image is None else Given(carried.wanted, image, time.monotonic() - carried.began)
    with host.host_interrupts():
        try:
            return results(tries.follow(carried.critic, given, say), tries.folder)
        except NextTry as missing:
            wanted = missing.wanted
    nodes, end = lay_out(
        expansion.graph_of(dynprompt),
        carried.body,
        prefix=f"{carried.body.closed}.{wanted.step}.{wanted.attempt + 1}.",
        shown_as=dynprompt.get_display_node_id,
        opened=OpenedTry(trial=tries.trial, wanted=wanted),
        carried=replace(carried, wanted=wanted, began=time.monotonic()),
        held=held,
        hold=expansion.keeps_no_results(),
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


def tries_of(opened: OpenedTry, graph: dict[str, Any], body: Body, settings: RunSettings) -> Tries:
    """The tries of this body, with a name of their own if it cannot be said what the body draws with."""
    digest = body_digest(graph, body, expansion.file_stamp) or f"once-{secrets.token_hex(8)}"
    folder = run_folder(host.output_folder(), opened.trial.request)
    return Tries(opened.trial, f"comfyui-graph {digest}", settings, folder)


def results(trajectory: Trajectory, folder: Path) -> io.NodeOutput:
    """The outputs and the display of a trial that has ended, whose journal is in `folder`."""
    drawn = [result for result in trajectory.results if result.image is not None]
    kept = [result.attempts[result.chosen or 0] for result in drawn]
    images = [attempt.image for attempt in kept if attempt.image]
    attempts = [attempt.image for result in drawn for attempt in result.attempts if attempt.image]
    passed = all(result.stop_reason in (StopReason.accepted, StopReason.picked) for result in drawn)
    words = report(trajectory)
    display = host.shown_files([folder / PICTURES / f"{picture.digest}.png" for picture in images])
    return io.NodeOutput(
        [to_batch(picture.image) for picture in images],
        words,
        passed,
        [to_batch(picture.image) for picture in attempts],
        kept[-1].prompt,
        trajectory,
        ui={**display, "text": (words,)},
    )


def told(event: Event, wanted: Wanted, settings: RunSettings) -> str:
    """What the node says of an event while `wanted` is the draw at hand; empty where it says nothing."""
    if isinstance(event, AttemptDrawn | AttemptJudged):
        if (event.step.number, event.attempt) != (wanted.step, wanted.attempt):
            return ""
        judged = isinstance(event, AttemptJudged)
        words = attempt_words(event.record, settings) if judged else "judging"
        return f"Step {event.step.number}, try {event.attempt + 1} of {settings.max_attempts}: {words}"
    if isinstance(event, StepFinished) and event.result.stop_reason is not StopReason.cancelled:
        return f"Step {event.result.step.number}: {stop_sentence(event.result)}"
    return ""


def only(values: Sequence[Any], what: str) -> Any:
    """The only value of an input; raises SettingsError for a list of several."""
    if len(values) != 1:
        raise SettingsError(
            f"'{what}' brings a list of {len(values)}, but one is wanted.",
            "Give Try Open single values, not lists.",
        )
    return values[0]
