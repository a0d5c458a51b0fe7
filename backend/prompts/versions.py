"""Names of the pack's own prompt sets by digest: runs store digests, users want names.

Every prompt set that was ever the pack's own keeps its number here, so a run of any age can name the one it
used. If a template changes without a new number, a test fails.
"""

from __future__ import annotations

KNOWN = {
    "439dca4616566d46": "default 1",
    "82d5533c937df94a": "default 2, plans in one reply",
    "bc0bcdc0a9556b15": "default 2",
    "e306dacd436046fd": "default 3, plans in one reply",
    "663a02b92eb2723c": "default 3",
    "e29100c48aae2bdb": "verdict-first 1",
    "226304b94783c5b4": "verdict-first 2",
    "f283c4114e1fc179": "verdict-first 3",
    "374cb8cc3234acb9": "short 1",
    "062f4b214d040eeb": "short 2",
    "93f449b8d5991cec": "short 3",
    "396e83d34a44e3b4": "tiny world 1",
}
"""Name and version by digest. Two sets with the same number differ in the templates for long plans."""


FOREIGN = "not the pack's own"


def described(digests: str) -> str:
    """Return the prompt sets of a run by name, each followed by its digest.

    Args:
        digests: `Identities.prompt_set`: one digest, or the planner's and the critic's with a plus between.
    """
    return ", ".join(f"{KNOWN.get(one, FOREIGN)} ({one})" for one in digests.split("+") if one)


def named(digests: str) -> str:
    """Return the prompt sets of a run by name, with the digest only of those without a name.

    Args:
        digests: As for `described`.
    """
    return ", ".join(KNOWN.get(one, f"{FOREIGN} ({one})") for one in digests.split("+") if one)
