"""How the published runners ask in their own wording, where that is not in the templates.

Facts of their code: they leave one phrase out of every request before a planner sees it, and they put an
image that the request does not mark behind the whole text. Decision: that holds for their wording alone,
known by its digest, so that an agent that was trained in another one is asked as it was trained.
"""

from __future__ import annotations

WORDINGS = frozenset({"ceec13c4d74bdbd4"})
"""Digests of the published prompt set as it is imported."""
ENDING = " both visually and textually"
"""Left out of requests."""
