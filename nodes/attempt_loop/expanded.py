"""The nodes that Try Close lays out for further tries. They are no part of any menu: only expansions use
them.

Decision: classes of their own, since the host does not let an expansion give a node inputs that it has not
declared, and Try Open and Try Close would show these as sockets that nobody can use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from comfy_api.latest import io

from ...backend.errors import SettingsError
from ..inputs.connected import Kind, check_connected, check_optional, instance_of
from ..inputs.sockets import CATEGORY
from ..inputs.validation import in_range
from .next_attempt import Carried, go_on, only_batch
from .open import ATTEMPT, AttemptSocket, OpenedAttempt, opened_outputs, opened_values
from .results import closed_outputs
from .subgraph import AGAIN, HELD, HOLD, NEXT

CARRIED = Kind("the state of the tries", instance_of(Carried))
CarriedSocket = io.Custom("INTERLEAVE_CARRIED")
HeldSocket = io.Custom("INTERLEAVE_HELD")
ALIASES = ["try loop internals"]


@dataclass(frozen=True)
class HeldValues:
    """The values of some outputs, each a list as the host has it."""

    values: tuple[list[Any], ...]


VALUES = Kind("held values", instance_of(HeldValues))


def first_of(values: Sequence[Any]) -> Any:
    """The first of what arrives at a socket, None of an empty list."""
    return values[0] if values else None


class AttemptAgain(io.ComfyNode):
    """Stands in Try Open's place at a further try."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return io.Schema(
            node_id=AGAIN,
            display_name="Try Again",
            category=CATEGORY,
            description="Made by Try Close for a further try; stands in Try Open's place.",
            search_aliases=ALIASES,
            is_dev_only=True,
            inputs=[AttemptSocket.Input("opened", tooltip="What this try is to draw.")],
            outputs=opened_outputs(),
        )

    @classmethod
    def execute(cls, opened: OpenedAttempt) -> io.NodeOutput:
        check_connected("Try Again", ATTEMPT, opened=opened)
        return opened_values(opened)


class AttemptNext(io.ComfyNode):
    """Stands in Try Close's place at a further try."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return io.Schema(
            node_id=NEXT,
            display_name="Try Next",
            category=CATEGORY,
            description="Made by Try Close for a further try; judges its image and lays out the next.",
            search_aliases=ALIASES,
            is_dev_only=True,
            is_input_list=True,
            enable_expand=True,
            hidden=[io.Hidden.dynprompt],
            inputs=[
                io.Image.Input("image", tooltip="The image of this try."),
                CarriedSocket.Input("carried", tooltip="What the tries hand on to one another."),
                HeldSocket.Input("held", optional=True, tooltip="What all tries take from outside."),
            ],
            outputs=closed_outputs(lists=False),
        )

    @classmethod
    def execute(
        cls,
        image: Sequence[torch.Tensor | None],
        carried: Sequence[Carried],
        held: Sequence[HeldValues | None] = (None,),
    ) -> io.NodeOutput:
        check_connected("Try Next", CARRIED, carried=first_of(carried))
        check_optional("Try Next", VALUES, held=first_of(held))
        return go_on(cls, carried[0], only_batch(carried[0].wanted, image), held[0])


class AttemptHold(io.ComfyNode):
    """Collects what the nodes of a try take from outside, where the host would make it again for every
    try."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return io.Schema(
            node_id=HOLD,
            display_name="Try Hold",
            category=CATEGORY,
            description=(
                "Made by Try Close where ComfyUI keeps no cache: holds what all tries take from outside."
            ),
            search_aliases=ALIASES,
            is_dev_only=True,
            is_input_list=True,
            accept_all_inputs=True,
            outputs=[HeldSocket.Output("held", tooltip="The values from outside.")],
        )

    @classmethod
    def execute(cls, **values: list[Any]) -> io.NodeOutput:
        names = [f"value{number}" for number in range(len(values))]
        if set(names) != set(values):
            raise SettingsError("Try Hold is made by Try Close alone.", "Take it out of the graph.")
        return io.NodeOutput(HeldValues(tuple(values[name] for name in names)))


class AttemptHeld(io.ComfyNode):
    """Gives one of the values of a Try Hold to a try."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return io.Schema(
            node_id=HELD,
            display_name="Try Held",
            category=CATEGORY,
            description=(
                "Made by Try Close where ComfyUI keeps no cache: gives a value from outside to a try."
            ),
            search_aliases=ALIASES,
            is_dev_only=True,
            inputs=[
                HeldSocket.Input("box", tooltip="The values from outside."),
                io.Int.Input("index", default=0, min=0, tooltip="Which of them."),
            ],
            outputs=[io.AnyType.Output("value", is_output_list=True, tooltip="The value.")],
        )

    @classmethod
    def execute(cls, box: HeldValues, index: int) -> io.NodeOutput:
        check_connected("Try Held", VALUES, box=box)
        in_range("Try Held", 0, len(box.values) - 1, index=index)
        return io.NodeOutput(box.values[index])


INNER_NODES: list[type[io.ComfyNode]] = [AttemptAgain, AttemptNext, AttemptHold, AttemptHeld]
