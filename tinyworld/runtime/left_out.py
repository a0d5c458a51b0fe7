"""Finds what a plan of the tiny world leaves out of its request.

The planner is a small model that silently skips a sentence it cannot carry out, and invents steps if more are
requested than the request describes. Requests use few words, so both can be found by comparing words.
"""

from __future__ import annotations

import re

from ...backend.types import Plan
from .scene import BACKDROPS, COLORS, THINGS

_COLOR, _THING, _BACKDROP = "|".join(COLORS), "|".join(THINGS), "|".join(BACKDROPS)
PAIR = re.compile(rf"\b({_COLOR})\s+({_THING})s?\b")
COLOR_ALONE = re.compile(rf"\b({_COLOR})\b")
THING_ALONE = re.compile(rf"\b({_THING})s?\b")
BACKDROP = re.compile(rf"\b({_BACKDROP})\b")
COUNT = re.compile(r"^\s*in exactly (\d+) steps?(?:, not \d+)?:", re.IGNORECASE)
WORDS_ONLY = re.compile(r"(?:write only the words|show just the text|only say)\s*:[^.;,]*", re.IGNORECASE)
"""A text-only step: its words are no edits."""
BREAK = re.compile(r"[.;!?:\n]+|,?\s*\b(?:and\s+)?(?:then|after that)\b,?", re.IGNORECASE)
FRAME = re.compile(
    r"\b(?:story|book|illustrate|captions?|line of text|paragraph|continue|go on|this page)\b", re.IGNORECASE
)
"""Words of sentences that describe the whole story instead of a step."""
MAX_NAMED = 5
MAX_LENGTH = 80
EXAMPLE = "Add a red bird at the top."


def plan_warning(text: str, plan: Plan) -> str:
    """Return a warning about a plan: sentences of the request without a step, and invented steps.

    Args:
        text: The request as the planner got it, which may begin with a number of steps.
        plan: The plan.

    Returns:
        The warning; empty if the plan covers the request.
    """
    asked = COUNT.match(text)
    request = text[asked.end() :] if asked else text
    spoken = WORDS_ONLY.sub(".", request)
    parts = [part.strip(" ,") for part in BREAK.split(spoken)]
    described = len(WORDS_ONLY.findall(request)) + sum(map(_most_steps, parts))
    warnings = []
    missing = [part for part in parts if not _is_planned(part.lower(), plan)]
    if missing:
        more = f" and {len(missing) - MAX_NAMED} more" if len(missing) > MAX_NAMED else ""
        named = ", ".join(f'"{part[:MAX_LENGTH]}"' for part in missing[:MAX_NAMED])
        hint = f" Name the color and the place of every new thing, such as: {EXAMPLE}"
        unclear = any(
            THING_ALONE.search(part.lower()) and not COLOR_ALONE.search(part.lower()) for part in missing
        )
        warnings.append(f"The plan leaves out: {named}{more}.{hint if unclear else ''}")
    if asked and int(asked[1]) > described:
        warnings.append(
            f"The request describes {described} step{'' if described == 1 else 's'}, but {asked[1]} were "
            f"requested: "
            "the tiny world's planner invents the others. Describe every step."
        )
    return " ".join(warnings)


def _most_steps(part: str) -> int:
    """Return the greatest number of steps that a part of a request can describe."""
    if len(part.split()) < 2 or FRAME.search(part):
        return 0
    if re.search(r"\b(?:page|scene)\b", part, re.IGNORECASE):
        return 1
    return 1 + part.count(",") + len(re.findall(r"\band\b", part, re.IGNORECASE))


def _is_planned(part: str, plan: Plan) -> bool:
    """Return whether all things, colors and backdrops of a part are in prompts of the plan."""
    prompts = " ; ".join((step.prompt or "").lower() for step in plan.steps)
    pairs = PAIR.findall(part)
    rest = PAIR.sub(" ", part)
    colors, things = COLOR_ALONE.findall(rest), THING_ALONE.findall(rest)
    found = all(f"{color} {thing}" in prompts for color, thing in pairs)
    found = found and all(backdrop in prompts for backdrop in BACKDROP.findall(part))
    for color in colors:
        named = [f"{color} {thing}" in prompts for thing in things]
        found = found and (any(named) or re.search(rf"make the \w+ {color}\b", prompts) is not None)
    if not pairs and not colors:
        found = found and all(re.search(rf"\b{thing}\b", prompts) for thing in things)
    return found
