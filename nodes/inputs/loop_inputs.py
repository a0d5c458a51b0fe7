"""The inputs that several of the nodes that judge images have: one id, range, default and tooltip for all."""

from __future__ import annotations

from comfy_api.latest import io

from ...backend.types import MAX_BATCH, RunSettings
from .sockets import AgentSocket

OWN_WORD = 0.0
"""Value of `accept_at` that leaves the decision to the agent."""
ACCEPT_AT_TIP = (
    "Probability of success needed to accept an image; 0 takes what the critic was loaded with, else its own "
    "word."
)
FIELDS = RunSettings.model_fields


def critic_input() -> io.Input:
    """The agent that judges every image."""
    return AgentSocket.Input(
        "critic", optional=True, tooltip="The agent that judges. Without one each step is drawn once."
    )


def max_attempts_input() -> io.Int.Input:
    """How many attempts a step may have."""
    return io.Int.Input("max_attempts", default=5, min=1, max=100, tooltip=FIELDS["max_attempts"].description)


def accept_at_input(tooltip: str = ACCEPT_AT_TIP) -> io.Float.Input:
    """The probability of success at which an image is accepted."""
    return io.Float.Input("accept_at", default=OWN_WORD, min=0.0, max=1.0, step=0.05, tooltip=tooltip)


def keep_input() -> io.Combo.Input:
    """Which attempt is kept if none was accepted."""
    return io.Combo.Input(
        "keep", options=["best", "last"], default="best", tooltip=FIELDS["keep"].description
    )


def candidates_input() -> io.Int.Input:
    """How many images are drawn for each attempt; 1 where a workflow does not have this input."""
    return io.Int.Input(
        "candidates",
        default=1,
        min=1,
        max=MAX_BATCH,
        optional=True,
        advanced=True,
        tooltip=FIELDS["candidates"].description,
    )
