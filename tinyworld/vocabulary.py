"""The words that the tiny world's planner knows, and the error for requests with other words.

A model with two million weights answers any request and turns unknown words into known ones: an owl becomes a
flower, bread a white scene. Requests with unknown words are therefore rejected before a model is loaded, with
a list of the known ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..backend.core.errors import SettingsError
from ..backend.core.types import Plan
from .scene import BACKDROPS, CELLS, COLORS, THINGS

WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
_OTHER_WORDS = """
a above add after ago and appears at away background be becomes begin below book caption captions centre
change colour comes continue continued corner corners disappears draw each end erase every finally first
for from get go goes good has here illustrate in into it just line long lower make move next now of on
once only page paint picture place please put remove replace rid row say scene send set show side start
step story swap switch take tell text that the then this three time to travels turn turns two under upon
upper we with words write
"""
_SEVERAL = [thing if thing == "fish" else f"{thing}s" for thing in THINGS]
KNOWN = frozenset(_OTHER_WORDS.split()).union(
    THINGS, _SEVERAL, COLORS, BACKDROPS, *(cell.split() for cell in CELLS)
)
"""All words of the training requests (research/tinyworld/world/requests.py)."""
OF_CONSTRAINTS = frozenset(("exactly", "steps", "no", "not", "short", "paragraph"))
"""Words that are added to a request to ask for a number of steps or captions (agents/plan_constraints.py)."""
MAX_REQUEST = 600
"""Maximum length of a request in characters. Those of the training have up to 400, and 6 steps."""
MAX_NAMED = 12
MAX_WORD_LENGTH = 40
OTHERWISE = "choose a Qwen3-VL model as planner, or write the plan yourself."
EXAMPLE = "Draw a sea page with a red boat in the middle. Then a yellow sun appears at the top right."


def unknown_words(text: str) -> list[str]:
    """Return the unknown words of a request in lower case, in order and without duplicates."""
    words = (word.lower() for word in WORD.findall(text.replace("<image>", " ")))
    return list(dict.fromkeys(word for word in words if word not in KNOWN | OF_CONSTRAINTS))


def check_request(text: str) -> None:
    """Check that the planner knows all words of a request and is not asked for too long a story.

    Raises:
        SettingsError: It cannot plan the request; the message lists unknown words and the known ones.
    """
    unknown = unknown_words(text)
    if not unknown and len(text) > MAX_REQUEST:
        raise SettingsError(
            f"The request has {len(text)} characters; the tiny world's planner reads up to {MAX_REQUEST}.",
            f"It is a small test model for stories of up to 6 steps. Shorten the request, or {OTHERWISE}",
        )
    if not unknown:
        return
    named = ", ".join(word[:MAX_WORD_LENGTH] for word in unknown[:MAX_NAMED])
    more = f" and {len(unknown) - MAX_NAMED} more" if len(unknown) > MAX_NAMED else ""
    raise SettingsError(
        f"The tiny world's planner does not know: {named}{more}.",
        f"It is a small test model that knows {len(KNOWN)} words: "
        f"backdrops ({_list(BACKDROPS)}), objects ({_list(THINGS)}), colors ({_list(COLORS)}), "
        f"places ({_list(CELLS)}), and simple verbs (add, move, make, replace, remove, change). Example: "
        f"{EXAMPLE} For other stories, {OTHERWISE}",
    )


def _list(words: Iterable[str]) -> str:
    return ", ".join(words)


# What a plan leaves out of a request. The small planner skips a sentence that it cannot carry out, and it
# invents steps if more are requested than described. Requests use few words, so comparing words finds both.
_COLOR, _THING, _BACKDROP = "|".join(COLORS), "|".join(THINGS), "|".join(BACKDROPS)
PAIR = re.compile(rf"\b({_COLOR})\s+({_THING})s?\b")
COLOR_ALONE = re.compile(rf"\b({_COLOR})\b")
THING_ALONE = re.compile(rf"\b({_THING})s?\b")
BACKDROP = re.compile(rf"\b({_BACKDROP})\b")
COUNT = re.compile(r"^\s*in exactly (\d+) steps?(?:, not \d+)?:", re.IGNORECASE)
WORDS_ONLY = re.compile(r"(?:write only the words|show just the text|only say)\s*:[^.;,]*", re.IGNORECASE)
"""A text-only step: its words are not edits."""
BREAK = re.compile(r"[.;!?:\n]+|,?\s*\b(?:and\s+)?(?:then|after that)\b,?", re.IGNORECASE)
FRAME = re.compile(
    r"\b(?:story|book|illustrate|captions?|line of text|paragraph|continue|go on|this page)\b", re.IGNORECASE
)
"""Words of sentences that describe the whole story instead of a step."""
MAX_MISSING = 5
MAX_LENGTH = 80
NEW_THING = "Add a red bird at the top."


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
        more = f" and {len(missing) - MAX_MISSING} more" if len(missing) > MAX_MISSING else ""
        named = ", ".join(f'"{part[:MAX_LENGTH]}"' for part in missing[:MAX_MISSING])
        hint = f" Name the color and the place of every new thing, such as: {NEW_THING}"
        unclear = any(
            THING_ALONE.search(part.lower()) and not COLOR_ALONE.search(part.lower()) for part in missing
        )
        warnings.append(f"The plan leaves out: {named}{more}.{hint if unclear else ''}")
    if asked and int(asked[1]) > described:
        warnings.append(
            f"The request describes {described} step{'' if described == 1 else 's'}, but {asked[1]} were "
            "requested: the tiny world's planner invents the others. Describe every step."
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
