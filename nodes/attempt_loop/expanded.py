"""Nodes that Attempt End expands for further attempts. They are not in the node menu.

They are separate classes, since the host does not let an expansion set undeclared inputs, and on Attempt
Start and Attempt End such inputs would be sockets that no user can connect.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from comfy_api.latest import io

from ...backend.core.errors import SettingsError
from ..inputs.sockets import CATEGORY, Kind, check_connected, check_optional, instance_of
from ..inputs.validation import in_range
from .next_attempt import Carried, closed_outputs, go_on, only_batch
from .open import ATTEMPT, AttemptSocket, OpenedAttempt, opened_outputs, opened_values
from .subgraph import AGAIN, HELD, HOLD, NEXT

CARRIED = Kind("the state of the attempts", instance_of(Carried))
CarriedSocket = io.Custom("INTERLEAVE_CARRIED")
HeldSocket = io.Custom("INTERLEAVE_HELD")
ALIASES = ["try loop internals"]


@dataclass(frozen=True)
class HeldValues:
    """Values of several outputs, each a list as in the host."""

    values: tuple[list[Any], ...]


VALUES = Kind("held values", instance_of(HeldValues))


def first_of(values: Sequence[Any]) -> Any:
    """Return the first value of an input, `None` for an empty list."""
    return values[0] if values else None


def _schema(node_id: str, name: str, description: str, **given: Any) -> io.Schema:
    return io.Schema(
        node_id=node_id,
        display_name=name,
        category=CATEGORY,
        description=description,
        search_aliases=ALIASES,
        is_dev_only=True,
        **given,
    )


class AttemptAgain(io.ComfyNode):
    """Replaces Attempt Start at a further attempt."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Declare the node."""
        return _schema(
            AGAIN,
            "Attempt Again",
            "Created by Attempt End for a further attempt; replaces Attempt Start.",
            inputs=[AttemptSocket.Input("opened", tooltip="The attempt to generate.")],
            outputs=opened_outputs(),
        )

    @classmethod
    def execute(cls, opened: OpenedAttempt) -> io.NodeOutput:
        """Return the values of the attempt."""
        check_connected("Attempt Again", ATTEMPT, opened=opened)
        return opened_values(opened)


class AttemptNext(io.ComfyNode):
    """Replaces Attempt End at a further attempt."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Declare the node."""
        return _schema(
            NEXT,
            "Attempt Next",
            "Created by Attempt End for a further attempt; judges its image and expands the next.",
            is_input_list=True,
            enable_expand=True,
            hidden=[io.Hidden.dynprompt],
            inputs=[
                io.Image.Input("image", tooltip="The image of this attempt."),
                CarriedSocket.Input("carried", tooltip="State passed from attempt to attempt."),
                HeldSocket.Input("held", optional=True, tooltip="Values from outside that all attempts use."),
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
        """Judge the image, then return the results or expand the next attempt."""
        check_connected("Attempt Next", CARRIED, carried=first_of(carried))
        check_optional("Attempt Next", VALUES, held=first_of(held))
        return go_on(cls, carried[0], only_batch(carried[0].wanted, image), held[0])


class AttemptHold(io.ComfyNode):
    """Collects the values from outside where the host would compute them again for every attempt."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Declare the node."""
        return _schema(
            HOLD,
            "Attempt Hold",
            "Created by Attempt End where ComfyUI keeps no cache; collects the values from outside.",
            is_input_list=True,
            accept_all_inputs=True,
            outputs=[HeldSocket.Output("held", tooltip="The values from outside.")],
        )

    @classmethod
    def execute(cls, **values: list[Any]) -> io.NodeOutput:
        """Collect the values."""
        names = [f"value{number}" for number in range(len(values))]
        if set(names) != set(values):
            raise SettingsError("Attempt Hold is only for Attempt End.", "Remove it from the graph.")
        return io.NodeOutput(HeldValues(tuple(values[name] for name in names)))


class AttemptHeld(io.ComfyNode):
    """Returns one of the values of an Attempt Hold."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Declare the node."""
        return _schema(
            HELD,
            "Attempt Held",
            "Created by Attempt End where ComfyUI keeps no cache; returns a value from outside.",
            inputs=[
                HeldSocket.Input("box", tooltip="The values from outside."),
                io.Int.Input("index", default=0, min=0, tooltip="Index of the value."),
            ],
            outputs=[io.AnyType.Output("value", is_output_list=True, tooltip="The value.")],
        )

    @classmethod
    def execute(cls, box: HeldValues, index: int) -> io.NodeOutput:
        """Return one value."""
        check_connected("Try Held", VALUES, box=box)
        in_range("Try Held", 0, len(box.values) - 1, index=index)
        return io.NodeOutput(box.values[index])


INNER_NODES: list[type[io.ComfyNode]] = [AttemptAgain, AttemptNext, AttemptHold, AttemptHeld]
