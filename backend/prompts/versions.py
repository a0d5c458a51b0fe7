"""Which of the pack's own prompt sets a digest is: a run holds digests, a person wants to know the wording.

Decision: every wording that was ever the pack's own keeps its number here, so that a run of any time says
which it was asked in. A changed template without a new number fails a test.
"""

from __future__ import annotations

KNOWN = {
    "439dca4616566d46": "default 1",
    "82d5533c937df94a": "default 2, plans in one reply",
    "bc0bcdc0a9556b15": "default 2",
    "e29100c48aae2bdb": "verdict-first 1",
    "226304b94783c5b4": "verdict-first 2",
    "374cb8cc3234acb9": "short 1",
    "062f4b214d040eeb": "short 2",
    "396e83d34a44e3b4": "tiny world 1",
}
"""Digest: name and version. Of two with one number the templates of parts are the difference."""


def described(digests: str) -> str:
    """A run's prompt sets (`Identities.prompt_set`: one digest, or the planner's and the critic's with a plus
    between) by name, the digest of each behind it."""
    foreign = "not the pack's own"
    names = [f"{KNOWN.get(one, foreign)} ({one})" for one in digests.split("+") if one]
    return ", ".join(names)
