"""Where a sub-graph that is tried until the critic accepts ends: its image is judged here, and the next try
laid out (next_try.py).

Decision: whether a try is needed is asked of the journal before its nodes run: what is in the output folder
is not drawn again, whichever cache the host keeps and also after a restart. What a body draws with is named
by its nodes and settings; a body with a node that always changes is drawn anew every time, as the host does.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from typing import Any

import torch
from comfy_api.latest import io
from pydantic import ValidationError

from ...backend.chat.protocol import ChatModel
from ...backend.errors import SettingsError
from ...backend.journal.files import first_fault
from ...backend.loop.external import Tries
from ...backend.types import RunSettings
from .. import host
from ..agents.strictness import accept_at_of
from ..host import expansion
from ..host.internals import settle_changes
from ..inputs.run_folder import ChoiceWatch, run_folder
from ..inputs.sockets import CATEGORY, AgentSocket
from ..loop.judge import critic_of
from .next_try import Carried, go_on
from .open import OpenedTry, TrySocket
from .results import closed_outputs
from .subgraph import Body, body_digest, find_body, image_nodes

OWN_WORD = 0.0
FIELDS = RunSettings.model_fields

choices = ChoiceWatch()


_asked: dict[str, float] = {}
"""When the first try of a Try Close, by its id, was asked for."""


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
        await settle_changes(dynprompt, image_nodes(graph, body))
        one = only(opened, "try")
        if body.edits and one.wanted.source is None:
            raise SettingsError(
                (
                    f"Step {one.wanted.step} has no image to edit, but the nodes after Try Open use its "
                    "source "
                    "image."
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
        name, one = cls.hidden.unique_id, only(opened, "try")
        graph = expansion.graph_of(cls.hidden.dynprompt)
        body = find_body(graph, name, expansion.is_output_class)
        tries = tries_of(one, graph, body, settings_of(critic[0], max_attempts[0], accept_at[0], keep[0]))
        choices.runs(name, tries.folder)
        judge = None if critic[0] is None else critic_of(critic[0])
        carried = Carried(tries, judge, body, one.wanted, _asked.pop(name, time.monotonic()))
        return go_on(cls, carried, image, None)


def settings_of(critic: ChatModel | None, max_attempts: int, accept_at: float, keep: Any) -> RunSettings:
    """The settings of the tries; raises SettingsError for a value that came over a wire and is out of
    range."""
    own = accept_at_of(critic, accept_at)
    try:
        return RunSettings(max_attempts=max_attempts, accept_at=own, keep=keep)
    except ValidationError as error:
        raise SettingsError(f"Try Close cannot use what is connected to it{first_fault(error)}") from error


def tries_of(opened: OpenedTry, graph: dict[str, Any], body: Body, settings: RunSettings) -> Tries:
    """The tries of this body, with a name of their own if what the body draws with is unknown."""
    digest = body_digest(graph, body, expansion.file_stamp) or f"once-{secrets.token_hex(8)}"
    folder = run_folder(host.output_folder(), opened.trial.request)
    return Tries(opened.trial, f"comfyui-graph {digest}", settings, folder)


def only(values: Sequence[Any], what: str) -> Any:
    """The only value of an input; raises SettingsError for a list of several."""
    if len(values) != 1:
        raise SettingsError(
            f"'{what}' brings a list of {len(values)}, but one is wanted.",
            "Give Try Open single values, not lists.",
        )
    return values[0]
