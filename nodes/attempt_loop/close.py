"""Node that ends a part of a graph which is repeated until the critic accepts its image.

The image is judged here, and the next attempt is expanded (next_attempt.py). Before the nodes of an attempt
run, the journal is asked whether its image exists already, so nothing in the output folder is generated
again, with any cache of the host and after a restart. The body is identified by its nodes and settings; a
body with a node that always changes is generated every time, as the host does.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from comfy_api.latest import io
from pydantic import ValidationError

from ...backend.core.errors import SettingsError, first_fault
from ...backend.core.seams.chat_model import ChatModel
from ...backend.core.types import RunSettings
from ...backend.output.live.live_run import LiveTarget
from ...backend.story.loop.external import ExternalAttempts
from .. import host
from ..host import running_graph
from ..host.internals import settle_changes
from ..inputs.loop_inputs import attempts_inputs, setting_input, strictness_input
from ..inputs.run_folder import RUNS, run_folder
from ..inputs.sockets import AGENT, check_connected, check_optional, node_schema
from ..inputs.validation import CUSTOM, accept_at_of, only_text
from ..loop.critic_loop import workflow_of
from ..loop.live_loop import target_at
from .next_attempt import (
    Carried,
    PendingRun,
    ShownAttempts,
    begin,
    closed_outputs,
    go_on,
    only_batch,
    watch,
)
from .open import ATTEMPT, AttemptSocket, OpenedAttempt
from .subgraph import AttemptBody, body_digest, find_body, image_nodes

_asked: dict[str, tuple[float, ShownAttempts]] = {}
"""Start time and display of the first attempt of each Attempt End, by node id."""


class AttemptClose(io.ComfyNode):
    """Ends a part of the graph that is repeated until the critic accepts its image."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Declare the node."""
        return node_schema(
            "InterleaveTryClose",
            is_output_node=True,
            is_input_list=True,
            enable_expand=True,
            not_idempotent=True,
            hidden=[io.Hidden.unique_id, io.Hidden.dynprompt],
            shown=("max_attempts", "strictness"),
            inputs=[
                io.Image.Input("image", lazy=True),
                AttemptSocket.Input("opened"),
                *attempts_inputs(),
                setting_input(RunSettings, "candidates", optional=True),
                strictness_input(),
                # The plan comes over a wire and needs no approval.
                setting_input(
                    RunSettings, "pause", options=["never", "at rejected steps", "every step"], optional=True
                ),
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
        """Return the inputs that must be computed now."""
        check_attempts(opened, image, critic)
        if image[0] is not None:
            return []
        limits = settings_of(critic[0], settings)
        dynprompt, name = cls.hidden.dynprompt, cls.hidden.unique_id
        graph = running_graph.graph_of(dynprompt)
        body = find_body(graph, name, running_graph.is_output_class)
        await settle_changes(dynprompt, image_nodes(graph, body))
        for one in opened:
            check_source(one, body)
        story, *others = stories_of(opened, graph, body, limits)
        if others:
            # One story after the other: otherwise the host runs the first attempt of each before any is
            # judged.
            return ["image"] if body.has_previews else []
        if running_graph.keeps_no_results() and not body.has_previews:
            # Expanded like the later attempts, it shares the values from outside with them.
            return []
        if story.attempts.is_drawn(story.wanted):
            return []
        shown = begin(story, critic[0], cls.target(body))
        shown.open()
        _asked[name] = time.monotonic(), shown
        return ["image"]

    @classmethod
    def fingerprint_inputs(cls, **inputs: Any) -> int:
        """Return a value that changes when the node must run again."""
        return watch.edition(cls.hidden.unique_id or "")

    @classmethod
    def execute(
        cls,
        opened: list[OpenedAttempt],
        image: Sequence[torch.Tensor | None] = (None,),
        critic: Sequence[ChatModel | None] = (None,),
        **settings: list[Any],
    ) -> io.NodeOutput:
        """Judge the image, then return the results or expand the next attempt."""
        check_attempts(opened, image, critic)
        name = cls.hidden.unique_id
        graph = running_graph.graph_of(cls.hidden.dynprompt)
        body = find_body(graph, name, running_graph.is_output_class)
        stories = stories_of(opened, graph, body, settings_of(critic[0], settings), image)
        for story in stories:
            watch.runs(name, story.attempts.folder)
        target = cls.target(body)
        began, shown = _asked.pop(name, (time.monotonic(), None))
        first = stories[0]
        carried = Carried(
            stories, critic[0], body, target, first.wanted, shown or begin(first, critic[0], target), began
        )
        output = go_on(cls, carried, first.images, None)
        # For a cached result, the host shows the display of this node only, not of the further attempts.
        output.ui = output.ui or {RUNS: tuple(story.attempts.folder.name for story in stories)}
        return output

    @classmethod
    def target(cls, body: AttemptBody) -> LiveTarget:
        """Return where the attempts are shown."""
        shown_at = cls.hidden.dynprompt.get_display_node_id(body.closed)
        return target_at(str(shown_at), workflow_of(cls.hidden))


def check_attempts(
    opened: Sequence[OpenedAttempt], image: Sequence[torch.Tensor | None], critic: Sequence[ChatModel | None]
) -> None:
    """Check the types of the inputs.

    Raises:
        SettingsError: An input has another type, or is an empty list.
    """
    if not (opened and image and critic):
        raise SettingsError("Attempt End received an empty list.", "Check what is connected to it.")
    for one in opened:
        check_connected("Attempt End", ATTEMPT, opened=one)
    check_optional("Attempt End", AGENT, critic=critic[0])


def check_source(opened: OpenedAttempt, body: AttemptBody) -> None:
    """Check that there is a source image if the nodes of the attempt use it.

    Raises:
        SettingsError: They use it, and the step has none.
    """
    if body.edits and opened.wanted.source is None:
        raise SettingsError(
            f"Step {opened.wanted.step} has no image to edit, but the nodes after Attempt Start use its "
            "source image.",
            "Connect an image to source_image of Attempt Start (a blank one from Empty Image is enough).",
        )


def settings_of(critic: ChatModel | None, given: Mapping[str, Sequence[Any]]) -> RunSettings:
    """Return the settings of the attempts.

    Args:
        critic: The agent that judges, `None` for none.
        given: The node's inputs, each as a list of one value.

    Raises:
        SettingsError: A value on a wire is out of range.
    """
    values = {name: value[0] for name, value in given.items()}
    strictness = values.pop("strictness", CUSTOM)
    only_text("Attempt End", strictness=strictness)
    threshold = accept_at_of(critic, strictness, values.pop("accept_at"))
    try:
        return RunSettings(accept_at=threshold, **values)
    except ValidationError as error:
        raise SettingsError(
            f"Attempt End: an input is out of range{first_fault(error)}", "Check what is connected to it."
        ) from error


def stories_of(
    opened: Sequence[OpenedAttempt],
    graph: dict[str, Any],
    body: AttemptBody,
    settings: RunSettings,
    images: Sequence[torch.Tensor | None] = (None,),
) -> tuple[PendingRun, ...]:
    """Return the stories to generate, one per attempt from Attempt Start.

    A body that cannot be identified gets a random name, so none of its images are found again.

    Args:
        opened: The attempts.
        graph: The running graph in API form.
        body: The nodes of an attempt.
        settings: The settings of the attempts.
        images: Images of the first attempts, `(count, height, width, channels)`, or `None` for not generated
            yet.

    Raises:
        SettingsError: The list of images has another length than that of the attempts.
    """
    if len(opened) == 1:
        images = (only_batch(opened[0].wanted, images),)
    elif len(images) == 1:
        images = [None] * len(opened) if images[0] is None else images
    if len(images) != len(opened):
        raise SettingsError(
            f"Attempt End received {len(images)} images for {len(opened)} attempts.",
            "Make one image or one batch per attempt.",
        )
    digest = body_digest(graph, body, running_graph.file_stamp) or f"once-{secrets.token_hex(8)}"
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
