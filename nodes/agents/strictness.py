"""How sure a critic must be before an image passes, in words that an artist chooses from.

Decision: the choice belongs to the agent, since what a probability means differs between checkpoints; a
loop's own number wins where one is given. "From the agent" is the critic's own word, True or False.
"""

from __future__ import annotations

from typing import Any

FROM_THE_AGENT = "from the agent"
STRICTNESS: dict[str, float | None] = {FROM_THE_AGENT: None, "lenient": 0.3, "normal": 0.5, "strict": 0.8}
"""Probability of success needed (0..1); None is the critic's own word."""

STRICTNESS_HELP = (
    "How sure this agent must be, as critic, that an image is right: lenient 30 %, normal 50 %, strict 80 %; "
    "'from the agent' takes its own word. A number in the Critic Loop's accept_at wins over it."
)


def accept_at_of(critic: Any, own: float) -> float | None:
    """The probability of success that a loop needs: its own, or where that is 0 what was chosen for the
    critic.

    None is the critic's own word. `critic` None or without an `accept_at` has none.
    """
    return own or getattr(critic, "accept_at", None)
