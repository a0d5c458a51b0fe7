"""The strictness choices of critics: how probable success must be before an image is accepted.

The choice of the node that judges wins, since it is next to the result that it changes. An agent can still
carry a choice of its own, which old workflows set; it is used where the judging node leaves the decision
open.
"""

from __future__ import annotations

from typing import Any

from ...backend.errors import SettingsError

FROM_THE_AGENT = "from the agent"
STRICTNESS: dict[str, float | None] = {FROM_THE_AGENT: None, "lenient": 0.3, "normal": 0.5, "strict": 0.8}
"""Acceptance threshold (0..1) of each choice of an agent's node; `None` is the critic's own verdict."""

OWN_VERDICT, CUSTOM = "critic's own verdict", "custom"
CHOICES: dict[str, float | None] = {OWN_VERDICT: None, "lenient": 0.3, "normal": 0.5, "strict": 0.8}
"""Acceptance threshold (0..1) of each choice of a node that judges, `CUSTOM` aside."""

STRICTNESS_HELP = (
    "Kept for old workflows. Set the strictness in the Critic Loop, Attempt End or Judge instead. This value "
    "is used only if theirs is 'custom' with 'accept at' 0."
)


def accept_at_of(critic: Any, strictness: str, accept_at: float) -> float | None:
    """Return the acceptance threshold that a node judges with, in 0..1.

    Args:
        critic: Agent that judges, which may carry an `accept_at` of its own, or `None`.
        strictness: One of `CHOICES`, or `CUSTOM`.
        accept_at: Used with `CUSTOM` only. 0 takes the agent's threshold.

    Returns:
        The threshold, or `None` for the critic's own verdict.

    Raises:
        SettingsError: `strictness` is not one of the choices.
    """
    if strictness == CUSTOM:
        return accept_at or getattr(critic, "accept_at", None)
    if strictness not in CHOICES:
        raise SettingsError(
            f"Unknown strictness {strictness!r:.60}.", f"Choose one of: {', '.join(CHOICES)}, {CUSTOM}."
        )
    return CHOICES[strictness]
