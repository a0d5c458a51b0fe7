"""What an agent answers where a plan is written in parts: an outline of all steps, then some steps with what
is true after them.

Decision: an outline's lines are words for the agent itself, which reads them again with every part, so any
form that says which line is which step is taken: texts, objects, a list or one object by number. The steps of
a part are read as those of a whole plan. A part counts as read only if it has every step that was asked for;
steps beyond them are left out, since they are asked for later.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from ..errors import AnswerError
from ..types import MAX_STEPS, Step
from .agent_texts import check_text
from .reading import answers_in, find_plan, only_value
from .reply_text import split_reply

OUTLINE_KEYS = ("outline", "plan_outline")
ALWAYS_KEYS = ("always",)
STATE_KEYS = ("state",)
LINE_KEYS = ("line", "instruction", "step_name", "title", "text", "description", "summary", "content")
NUMBER_KEYS = ("step_number", "number", "step")
MAX_LINE = 1_000
MAX_NOTE = 6_000
"""Most characters of what an agent notes for itself; it is shown to it again with every part."""
NUMBERED = re.compile(r"\s*(?:step\s*|第\s*)?(\d{1,4})\s*(?:步\s*)?[.):：。、\-–—]\s*", re.IGNORECASE)

GRAMMAR_OF_OUTLINES = (
    'Answer with <think>your reasoning</think> and then <answer>{"outline": ["1. ...", "2. ...", ...], '
    '"always": "..."}</answer>.'
)
GRAMMAR_OF_PARTS = (
    'Answer with <think>your reasoning</think> and then <answer>{"execution_plan": [{"step_number": ..., '
    '"step_name": "...", "instruction": "..." or null, "prompt": "..." or null, "auxiliary_text": "..." or '
    'null}, ...], "state": "..."}</answer>.'
)


@dataclass(frozen=True)
class Outline:
    """A line for each step, the first of which has the number `first`, and what every picture keeps."""

    lines: tuple[str, ...]
    first: int = 1
    always: str = ""
    reasoning: str = ""

    @property
    def numbers(self) -> range:
        return range(self.first, self.first + len(self.lines))


@dataclass(frozen=True)
class PlanPart:
    """The steps that were asked for, and what is true after them (empty where the agent did not say)."""

    steps: tuple[Step, ...]
    state: str = ""
    reasoning: str = ""


def read_outline(text: str) -> Outline:
    """The outline in a planner's reply; raises AnswerError if there is none, several that differ, or one of
    which the numbers do not rise one by one."""
    reply = split_reply(text)
    found, _ = answers_in(reply, OUTLINE_KEYS)
    if not found:
        raise AnswerError("There is no outline in the reply.", text or "(empty)", GRAMMAR_OF_OUTLINES)
    outlines = []
    for one in found:
        if one.open_string or one.open_depth > 1:
            raise AnswerError("The outline is cut off.", one.raw[-200:])
        lines, first = _lines(only_value(one, OUTLINE_KEYS)[OUTLINE_KEYS[0]])
        always = _note(only_value(one, ALWAYS_KEYS), ALWAYS_KEYS[0])
        outlines.append(Outline(lines, first, always, reply.reasoning))
    if any(outline != outlines[0] for outline in outlines):
        raise AnswerError("The reply holds several outlines that differ.", text)
    return outlines[0]


def read_part(text: str, numbers: range) -> PlanPart:
    """The steps of these numbers in a planner's reply; raises AnswerError if one is missing. Steps that are
    as many and count from 1 are those that were asked for."""
    plan, found = find_plan(text)
    steps = {step.number: step for step in plan.steps}
    if list(steps) == list(range(1, len(numbers) + 1)):
        shift = numbers.start - 1
        steps = {
            number + shift: step.model_copy(update={"number": number + shift})
            for number, step in steps.items()
        }
    missing = [number for number in numbers if number not in steps]
    if missing:
        had = ", ".join(map(str, list(steps)[:20]))
        raise AnswerError(
            f"Steps {numbers[0]} to {numbers[-1]} were asked for, and step {missing[0]} is missing.",
            f"step numbers: {had}",
        )
    state = _note(only_value(found, STATE_KEYS), STATE_KEYS[0])
    return PlanPart(tuple(steps[number] for number in numbers), state, plan.reasoning)


def _lines(value: Any) -> tuple[tuple[str, ...], int]:
    """The lines of an outline without their numbers, and the number of the first."""
    if isinstance(value, str):
        value = [line for line in value.splitlines() if line.strip()]
    if isinstance(value, dict):
        value = [f"{number}. {_words(line)}" for number, line in value.items()]
    if not isinstance(value, list) or not value:
        raise AnswerError("The outline is no list of lines.", str(value))
    if len(value) > MAX_STEPS:
        raise AnswerError(f"The outline has {len(value)} lines; a plan has at most {MAX_STEPS} steps.")
    lines = [_words(line) for line in value]
    found = [NUMBERED.match(line) for line in lines]
    numbers = {place: int(one.group(1)) for place, one in enumerate(found) if one}
    if len(numbers) < len(lines):
        # A line may begin with a number of its own: "3-2-1, the rocket starts".
        numbers = {}
    first = numbers.get(0, 1)
    if any(number != first + place for place, number in numbers.items()):
        raise AnswerError(
            "The outline's numbers do not rise one by one.", ", ".join(map(str, numbers.values()))
        )
    texts = [line[one.end() :] if one and numbers else line for line, one in zip(lines, found, strict=True)]
    for place, line in enumerate(texts):
        if not line.strip() or len(line) > MAX_LINE:
            raise AnswerError(
                f"Line {place + 1} of the outline is empty or has more than {MAX_LINE} characters.", line
            )
        check_text(f"Line {place + 1} of the outline", line)
    return tuple(" ".join(line.split()) for line in texts), max(1, first)


def _words(line: Any) -> str:
    """A line as text: a text, or an object that has it under one of several names."""
    if isinstance(line, dict):
        names = {str(key).strip().lower(): value for key, value in line.items()}
        number = next((names[key] for key in NUMBER_KEYS if key in names), None)
        words = next((names[key] for key in LINE_KEYS if isinstance(names.get(key), str)), None)
        if words is not None:
            return words if number is None else f"{number}. {words}"
    if not isinstance(line, str):
        raise AnswerError("A line of the outline is no text.", str(line))
    return line


def _note(given: dict[str, Any], name: str) -> str:
    """What an agent notes for itself, in whatever form."""
    value = given.get(name)
    text = value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)
    if len(text) > MAX_NOTE:
        raise AnswerError(f"{name!r} has {len(text)} characters; at most {MAX_NOTE} are read.", text[:200])
    check_text(repr(name), text)
    return "" if text.strip() == "None" else text.strip()
