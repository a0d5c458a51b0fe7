"""Parses the answers of a plan that is written in parts: the outline, and some steps with notes.

The lines of an outline are notes of the agent for itself, which it sees again with every part. So any form
that assigns the lines to steps is accepted: texts, objects, a list, or one object by number. The steps of a
part are parsed like those of a whole plan. A part is valid only if it has every requested step. Further steps
are dropped, since they are requested later.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import Any

from ..errors import AnswerError
from ..types import MAX_STEPS, Step
from .answer_models import check_text
from .reading import answers_in, find_plan, only_value
from .reply_text import split_reply

OUTLINE_KEYS = ("outline", "plan_outline")
ALWAYS_KEYS = ("always",)
STATE_KEYS = ("state",)
LINE_KEYS = ("line", "instruction", "step_name", "title", "text", "description", "summary", "content")
NUMBER_KEYS = ("step_number", "number", "step")
MAX_LINE = 1_000
MAX_NOTE = 6_000
"""Maximum length, in characters, of the notes that are passed to the planner with each part."""
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
    """One line per step, and what all images have in common. The first line has the number `first`."""

    lines: tuple[str, ...]
    first: int = 1
    always: str = ""
    reasoning: str = ""

    @property
    def numbers(self) -> range:
        """Numbers of the steps."""
        return range(self.first, self.first + len(self.lines))


@dataclass(frozen=True)
class PlanPart:
    """The requested steps, and what is true after them (empty if the agent did not write it)."""

    steps: tuple[Step, ...]
    state: str = ""
    reasoning: str = ""


def read_outline(text: str) -> Outline:
    """Return the outline in a planner's reply.

    Raises:
        AnswerError: The reply does not have an outline, has several different ones, or its numbers do not
            ascend one by one.
    """
    reply = split_reply(text)
    found, _ = answers_in(reply, OUTLINE_KEYS)
    if not found:
        raise AnswerError("The reply does not contain an outline.", text or "(empty)", GRAMMAR_OF_OUTLINES)
    outlines = []
    for one in found:
        if one.open_string or one.open_depth > 1 or one.uncertain:
            raise AnswerError("The outline is cut off.", one.raw[-200:])
        lines, first = _lines(only_value(one, OUTLINE_KEYS)[OUTLINE_KEYS[0]])
        always = _note(only_value(one, ALWAYS_KEYS), ALWAYS_KEYS[0])
        outlines.append(Outline(lines, first, always, reply.reasoning))
    if any(outline != outlines[0] for outline in outlines):
        raise AnswerError("The reply contains several different outlines.", text)
    reasoning = reply.reasoning or found[0].reasoning
    return replace(outlines[0], reasoning=reasoning)


def read_part(text: str, numbers: range) -> PlanPart:
    """Return the steps with these numbers from a planner's reply.

    If the reply has the right number of steps but counts from 1, these are the requested steps.

    Raises:
        AnswerError: A step is missing.
    """
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
            f"Steps {numbers[0]} to {numbers[-1]} were requested, but step {missing[0]} is missing.",
            f"step numbers: {had}",
        )
    state = _note(only_value(found, STATE_KEYS), STATE_KEYS[0])
    return PlanPart(tuple(steps[number] for number in numbers), state, plan.reasoning)


def _lines(value: Any) -> tuple[tuple[str, ...], int]:
    """Return the lines of an outline without their numbers, and the number of the first."""
    if isinstance(value, str):
        value = [line for line in value.splitlines() if line.strip()]
    if isinstance(value, dict):
        value = [f"{number}. {_words(line)}" for number, line in value.items()]
    if not isinstance(value, list) or not value:
        raise AnswerError("The outline is not a list of lines.", str(value))
    if len(value) > MAX_STEPS:
        raise AnswerError(f"The outline has {len(value)} lines; the maximum is {MAX_STEPS} steps.")
    lines = [_words(line) for line in value]
    found = [NUMBERED.match(line) for line in lines]
    numbers = {place: int(one.group(1)) for place, one in enumerate(found) if one}
    if len(numbers) < len(lines):
        # A line may start with a number that does not count: "3-2-1, the rocket starts".
        numbers = {}
    first = numbers.get(0, 1)
    if any(number != first + place for place, number in numbers.items()):
        raise AnswerError(
            "The numbers of the outline do not ascend one by one.", ", ".join(map(str, numbers.values()))
        )
    texts = [line[one.end() :] if one and numbers else line for line, one in zip(lines, found, strict=True)]
    for place, line in enumerate(texts):
        if not line.strip() or len(line) > MAX_LINE:
            raise AnswerError(
                f"Line {place + 1} of the outline is empty or longer than {MAX_LINE} characters.", line
            )
        check_text(f"Line {place + 1} of the outline", line)
    return tuple(" ".join(line.split()) for line in texts), max(1, first)


def _words(line: Any) -> str:
    """Return a line as text, from a text or from an object that has it under one of several names."""
    if isinstance(line, dict):
        names = {str(key).strip().lower(): value for key, value in line.items()}
        number = next((names[key] for key in NUMBER_KEYS if key in names), None)
        words = next((names[key] for key in LINE_KEYS if isinstance(names.get(key), str)), None)
        if words is not None:
            return words if number is None else f"{number}. {words}"
    if not isinstance(line, str):
        raise AnswerError("A line of the outline is not a text.", str(line))
    return line


def _note(given: dict[str, Any], name: str) -> str:
    """Return a note of the agent in any form."""
    value = given.get(name)
    text = value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)
    if len(text) > MAX_NOTE:
        raise AnswerError(f"{name!r} has {len(text)} characters; the maximum is {MAX_NOTE}.", text[:200])
    check_text(repr(name), text)
    return "" if text.strip() == "None" else text.strip()
