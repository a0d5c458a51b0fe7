"""The words that the tiny world's planner knows, and the error for requests with other words.

A model with two million weights answers any request and turns unknown words into known ones: an owl becomes a
flower, bread a white scene. Requests with unknown words are therefore rejected before a model is loaded, with
a list of the known ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ...backend.errors import SettingsError
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
"""All words of the training requests (tinyworld/lab/world/requests.py)."""
OF_CONSTRAINTS = frozenset(("exactly", "steps", "no", "not", "short", "paragraph"))
"""Words that are added to a request to ask for a number of steps or captions (agents/plan_constraints.py)."""
MAX_NAMED = 12
MAX_WORD_LENGTH = 40
EXAMPLE = "Draw a sea page with a red boat in the middle. Then a yellow sun appears at the top right."


def unknown_words(text: str) -> list[str]:
    """Return the unknown words of a request in lower case, in order and without duplicates."""
    words = (word.lower() for word in WORD.findall(text.replace("<image>", " ")))
    return list(dict.fromkeys(word for word in words if word not in KNOWN | OF_CONSTRAINTS))


def check_request(text: str) -> None:
    """Check that the planner knows all words of a request.

    Raises:
        SettingsError: If it does not; the message lists the unknown words and the known ones.
    """
    unknown = unknown_words(text)
    if not unknown:
        return
    named = ", ".join(word[:MAX_WORD_LENGTH] for word in unknown[:MAX_NAMED])
    more = f" and {len(unknown) - MAX_NAMED} more" if len(unknown) > MAX_NAMED else ""
    raise SettingsError(
        f"The tiny world's planner does not know: {named}{more}.",
        f"It is a small test model that knows {len(KNOWN)} words: "
        f"backdrops ({_list(BACKDROPS)}), objects ({_list(THINGS)}), colors ({_list(COLORS)}), "
        f"places ({_list(CELLS)}), and simple verbs (add, move, make, replace, remove, change). Example: "
        f"{EXAMPLE} For other stories, choose a Qwen3-VL model as planner, or write the plan yourself.",
    )


def _list(words: Iterable[str]) -> str:
    return ", ".join(words)
