"""Inputs that are fields of a settings class, and those of the nodes that judge images.

A field has its default, range, choices and description in its class. A node states only what differs.
"""

from __future__ import annotations

from typing import Any, get_args

from comfy_api.latest import io
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from ...backend.core.types import RunSettings
from ...backend.pipeline.as_published import STORY_SETTINGS
from ...backend.pipeline.story_check import MAX_REOPENED
from .sockets import AgentSocket
from .validation import CHOICES, CUSTOM, OWN_VERDICT

OWN_SETTINGS = "off"
"""Value of `as_published` that leaves the node's settings as they are."""
AGENTS_CHOICE = 0.0
"""Value of `accept_at` that leaves the decision to the agent: its strictness, else its own verdict."""
WIDGETS: dict[Any, Any] = {int: io.Int, float: io.Float, bool: io.Boolean, str: io.String}


def setting_input(kind: type[BaseModel], name: str, *, id: str = "", **given: Any) -> Any:
    """Return the widget of a settings field. `given` replaces options, such as a choice that a node lacks."""
    field = kind.model_fields[name]
    name = id or name
    declared = field.annotation
    types = [one for one in get_args(declared) if isinstance(one, type)]
    options: dict[str, Any] = {"default": field.default, "tooltip": field.description}
    if field.default is PydanticUndefined:
        del options["default"]
    for bound in field.metadata:
        options |= {at: getattr(bound, of) for at, of in (("min", "ge"), ("max", "le")) if hasattr(bound, of)}
    if isinstance(next(iter(get_args(declared)), None), str):
        return io.Combo.Input(name, **{"options": list(get_args(declared)), **options, **given})
    return WIDGETS[types[0] if types else declared].Input(name, **{**options, **given})


def attempts_inputs(*keep: str) -> list[Any]:
    """Return the critic and the inputs that decide how often a step is generated. `keep`: more choices."""
    return [
        AgentSocket.Input("critic", optional=True),
        setting_input(RunSettings, "max_attempts"),
        accept_at_input(),
        setting_input(RunSettings, "keep", options=["best", "last", *keep]),
    ]


def accept_at_input() -> Any:
    """Return the input for the acceptance threshold."""
    return setting_input(RunSettings, "accept_at", default=AGENTS_CHOICE, step=0.05)


def strictness_input() -> io.Combo.Input:
    """Return the input for the strictness. An older workflow without it means `CUSTOM` (web/choices.js)."""
    return io.Combo.Input("strictness", options=[*CHOICES, CUSTOM], default=OWN_VERDICT, optional=True)


def check_story_input() -> io.Int.Input:
    """Return the input for the story check. Default: off, so that old workflows run unchanged."""
    return io.Int.Input("check_story", default=0, min=0, max=MAX_REOPENED, optional=True)


def published_input() -> io.Combo.Input:
    """Return the input for the settings of the published system. Default: none of them."""
    return io.Combo.Input(
        "as_published", options=[OWN_SETTINGS, *STORY_SETTINGS], default=OWN_SETTINGS, optional=True
    )
