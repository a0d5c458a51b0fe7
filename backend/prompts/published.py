"""Rules of the published runners that their prompt templates do not contain.

Their code removes one phrase from every request before the planner gets it, and puts images without a mark
after the whole text. Both apply only to the published prompt set, which is recognized by its digest: an agent
that was trained with another prompt set must get its requests unchanged.
"""

from __future__ import annotations

WORDINGS = frozenset({"ceec13c4d74bdbd4"})
"""Digests of the published prompt set as it is imported."""
ENDING = " both visually and textually"
"""Phrase that is removed from requests."""
