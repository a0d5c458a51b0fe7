"""The reward as the published training code gives it, where that differs from ours: how it reads an answer,
and what it draws.

Decisions. Learned from the published code's behaviour (its reward function and the trainer's calls of it), so
that a run can be compared with the published one; ours is the default because it never takes one of two
answers for the answer, and never pays for one that the running system could not read. What differs:

- White space around "<", ">" and "/" is removed from the whole reply first, inside the refined prompt too.
- The first closed `<answer>` counts, whatever follows it and whatever stands before it; it is repaired where
  it is no JSON. One in other letters than these, or not closed, is no answer.
- The form is 1 for a bool verdict and a text as refined prompt under exactly these two names, if no `<think>`
  stands after `<answer>`; thoughts may be open, or closed and never opened.
- A verdict is right if it equals the truth as Python compares them: 1 is true, "true" is not.
- A reply without an answer draws too: like an empty refined prompt, the row's `rewritten_prompt`, even if
  that is empty as well.
- An answer that is a list, a text or a number is a fault in the published code: that sample's reward is 0.
  (Where other samples follow in its batch, the published run takes their images for one another's or ends;
  that is not repeated here.)
- A refined prompt that is no text cannot be drawn by the published service, which makes it a failed redraw:
  0.5.
"""

from __future__ import annotations

import re
from typing import NamedTuple

SIGNS = re.compile(r"([<>/])")
OPENED = {name: re.compile(f"<{name}>", re.IGNORECASE) for name in ("think", "answer")}
MAX_REPAIR = 8_000
"""Most characters of an answer that are repaired; a critic's answer has a few hundred."""
VERDICT, REFINED = "previous_step_success", "refine_prompt"


class PublishedAnswer(NamedTuple):
    """An answer as the published code reads it: its form (0 or 1), and verdict and refined prompt as they
    stand, None and "" where there is none."""

    form: float
    verdict: object = None
    refined: object = ""

    def accuracy(self, truth: bool) -> float:
        """1.0 if the verdict equals the truth, else 0.0."""
        return float(self.verdict is not None and self.verdict == truth)


def read_published(text: str) -> PublishedAnswer | None:
    """The answer in a reply; None for one that the published code fails on, whose reward is 0."""
    text = _unspaced(text)
    value = _value_in(text)
    if not value:
        return PublishedAnswer(0.0)
    if not isinstance(value, dict):
        return None
    verdict, refined = value.get(VERDICT), value.get(REFINED, "")
    whole = isinstance(verdict, bool) and REFINED in value and isinstance(refined, str)
    return PublishedAnswer(float(whole and _in_order(text)), verdict, refined)


def _unspaced(text: str) -> str:
    """The text without white space around "<", ">" and "/", in a time that grows with its length alone."""
    pieces = SIGNS.split(text)
    if len(pieces) == 1:
        return text
    return "".join([pieces[0].rstrip(), *(piece.strip() for piece in pieces[1:-1]), pieces[-1].lstrip()])


def _in_order(text: str) -> bool:
    """Whether no thoughts begin after the answer begins."""
    think, answer = (OPENED[name].search(text) for name in ("think", "answer"))
    return answer is not None and (think is None or think.start() < answer.start())


def _value_in(text: str) -> object:
    """What the first closed answer holds, repaired if it has to be; None if there is none or it is beyond
    repair."""
    import json_repair

    start = text.find("<answer>")
    end = text.find("</answer>", start)
    if start < 0 or end < 0:
        return None
    held = text[start + len("<answer>") : end].strip()
    # Repairing takes the square of the length.
    if len(held) > MAX_REPAIR:
        return None
    try:
        return json_repair.loads(held)
    except (ValueError, TypeError, IndexError, KeyError, AttributeError, RecursionError):
        return None
