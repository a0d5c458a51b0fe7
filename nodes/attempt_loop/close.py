"""Where a sub-graph that is tried until the critic accepts ends: its image is judged here, and the next try
laid out (next_attempt.py).

Decision: whether a try is needed is asked of the journal before its nodes run: what is in the output folder
is not drawn again, whichever cache the host keeps and also after a restart. What a body draws with is named
by its nodes and settings; a body with a node that always changes is drawn anew every time, as the host does.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from comfy_api.latest import io
from pydantic import ValidationError

from ...backend.chat.protocol import ChatModel
from ...backend.errors import SettingsError
from ...backend.journal.files import first_fault
from ...backend.loop.external import ExternalAttempts
from ...backend.types import RunSettings
from .. import host
from ..agents.strictness import accept_at_of
from ..host import expansion
from ..host.internals import settle_changes
from ..inputs.connected import AGENT, check_connected, check_optional
from ..inputs.loop_inputs import (
    accept_at_input,
    candidates_input,
    critic_input,
    keep_input,
    max_attempts_input,
)
from ..inputs.run_folder import RUNS, run_folder
from ..inputs.sockets import CATEGORY
from ..live.live_run import LiveTarget
from ..loop.critic_loop import workflow_of
from .next_attempt import Carried, PendingRun, begin, go_on, only_batch, watch
from .open import ATTEMPT, AttemptSocket, OpenedAttempt
from .results import closed_outputs
from .shown import ShownAttempts, target_at
from .subgraph import AttemptBody, body_digest, find_body, image_nodes

_asked: dict[str, tuple[float, ShownAttempts]] = {}
"""When the first try of a Try Close, by its id, was asked for, and where it is shown."""


class AttemptClose(io.ComfyNode):
    """Ends nodes of your own that are tried until the critic accepts their image."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return io.Schema(
            node_id="InterleaveTryClose",
            display_name="Try Close",
            category=CATEGORY,
            description="Shows the image of the nodes since Try Open to the critic "
            "and runs them again with its better prompt, until it accepts or the tries are used up. "
            "Every try is kept in output/interleave-thinker: "
            "with more tries allowed only the new ones are drawn.",
            search_aliases=["loop end", "retry until right", "until accepted", "critic", "judge", "end loop"],
            is_output_node=True,
            is_input_list=True,
            enable_expand=True,
            not_idempotent=True,
            hidden=[io.Hidden.unique_id, io.Hidden.dynprompt],
            inputs=[
                io.Image.Input(
                    "image",
                    lazy=True,
                    tooltip="The image that your nodes since Try Open made. Of a batch (16 at most) the "
                    "critic judges each and the best is kept.",
                ),
                AttemptSocket.Input(
                    "opened", display_name="try", tooltip="From the Try Open before these nodes."
                ),
                critic_input(),
                max_attempts_input(),
                accept_at_input(),
                keep_input(),
                candidates_input(),
            ],
            outputs=closed_outputs(lists=True),
        )

    @classmethod
    async def check_lazy_status(
        cls,
        opened: list[OpenedAttempt],
        image: Sequence[torch.Tensor | None] = (None,),
        critic: Sequence[ChatModel | None] = (None,),
        **settings: list[Any],
    ) -> list[str]:
        check_attempts(opened, image, critic)
        if image[0] is not None:
            return []
        limits = settings_of(critic[0], settings)
        dynprompt, name = cls.hidden.dynprompt, cls.hidden.unique_id
        graph = expansion.graph_of(dynprompt)
        body = find_body(graph, name, expansion.is_output_class)
        await settle_changes(dynprompt, image_nodes(graph, body))
        for one in opened:
            check_source(one, body)
        story, *others = stories_of(opened, graph, body, limits)
        if others:
            # One story after the other: the host would make the first try of each before any is judged.
            return ["image"] if body.has_previews else []
        if expansion.keeps_no_results() and not body.has_previews:
            # Laid out like the later tries it shares with them what comes from outside, made once for all.
            return []
        if story.attempts.is_drawn(story.wanted):
            return []
        shown = begin(story, critic[0], cls.target(body))
        shown.open()
        _asked[name] = time.monotonic(), shown
        return ["image"]

    @classmethod
    def fingerprint_inputs(cls, **inputs: Any) -> int:
        return watch.edition(cls.hidden.unique_id or "")

    @classmethod
    def execute(
        cls,
        opened: list[OpenedAttempt],
        image: Sequence[torch.Tensor | None] = (None,),
        critic: Sequence[ChatModel | None] = (None,),
        **settings: list[Any],
    ) -> io.NodeOutput:
        check_attempts(opened, image, critic)
        name = cls.hidden.unique_id
        graph = expansion.graph_of(cls.hidden.dynprompt)
        body = find_body(graph, name, expansion.is_output_class)
        stories = stories_of(opened, graph, body, settings_of(critic[0], settings), image)
        for story in stories:
            watch.runs(name, story.attempts.folder)
        target = cls.target(body)
        began, shown = _asked.pop(name, (time.monotonic(), None))
        first = stories[0]
        carried = Carried(
            stories,
            critic[0],
            body,
            target,
            first.wanted,
            shown or begin(first, critic[0], target),
            began,
        )
        output = go_on(cls, carried, first.images, None)
        # Of a result in its cache the host shows what this node said, and nothing of the further tries.
        output.ui = output.ui or {RUNS: tuple(story.attempts.folder.name for story in stories)}
        return output

    @classmethod
    def target(cls, body: AttemptBody) -> LiveTarget:
        """Where the tries are shown."""
        shown_at = cls.hidden.dynprompt.get_display_node_id(body.closed)
        return target_at(str(shown_at), workflow_of(cls.hidden))


def check_attempts(
    opened: Sequence[OpenedAttempt], image: Sequence[torch.Tensor | None], critic: Sequence[ChatModel | None]
) -> None:
    """Raise SettingsError for sockets that something else is connected to, or a list of nothing."""
    if not (opened and image and critic):
        raise SettingsError("Try Close is given an empty list.", "Look at what is connected to it.")
    for one in opened:
        check_connected("Try Close", ATTEMPT, opened=one)
    check_optional("Try Close", AGENT, critic=critic[0])


def check_source(opened: OpenedAttempt, body: AttemptBody) -> None:
    """Raise SettingsError where the nodes of a try edit an image that it does not have."""
    if body.edits and opened.wanted.source is None:
        raise SettingsError(
            f"Step {opened.wanted.step} has no image to edit, but the nodes after Try Open use its source "
            "image.",
            "Connect one to Try Open's source_image (a blank one from Empty Image will do).",
        )


def settings_of(critic: ChatModel | None, given: Mapping[str, Sequence[Any]]) -> RunSettings:
    """The settings of the tries, each of which the host gives as a list of one; raises SettingsError for a
    value that came over a wire and is out of range."""
    values = {name: value[0] for name, value in given.items()}
    own = accept_at_of(critic, values.pop("accept_at"))
    try:
        return RunSettings(accept_at=own, **values)
    except ValidationError as error:
        raise SettingsError(f"Try Close cannot use what is connected to it{first_fault(error)}") from error


def stories_of(
    opened: Sequence[OpenedAttempt],
    graph: dict[str, Any],
    body: AttemptBody,
    settings: RunSettings,
    images: Sequence[torch.Tensor | None] = (None,),
) -> tuple[PendingRun, ...]:
    """The stories that are to be drawn, one for each try that Try Open gave, with the images of their first
    tries where the host made them.

    The body has a name of its own if what it draws with is unknown. Raises SettingsError for a list of images
    that is not one for each.
    """
    if len(opened) == 1:
        images = (only_batch(opened[0].wanted, images),)
    elif len(images) == 1:
        images = [None] * len(opened) if images[0] is None else images
    if len(images) != len(opened):
        raise SettingsError(
            f"There are {len(opened)} tries, but {len(images)} images.",
            "Let your nodes make one image, or one batch, for each try.",
        )
    digest = body_digest(graph, body, expansion.file_stamp) or f"once-{secrets.token_hex(8)}"
    return tuple(
        PendingRun(
            ExternalAttempts(
                one.external_run,
                f"comfyui-graph {digest}",
                settings,
                run_folder(host.output_folder(), one.external_run.request, one.external_run.seed),
            ),
            one.wanted,
            image,
        )
        for one, image in zip(opened, images, strict=True)
    )
