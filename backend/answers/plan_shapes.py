"""Converts the plan formats of untrained agents to the requested one.

Only unambiguous cases are converted. A list without its object, in another object or written as a text is the
plan. Steps under their numbers, or one by one in a tag or code fence that is closed, are a list. Without that
end, a cut-off reply would look complete. A key in capitals, with spaces or under a common other name is that
key. Steps without any numbers are counted. Anything ambiguous stays unchanged and fails where it is checked.
Two habits of published plans are understood too. Numbers from 0 become numbers from 1, so that the first step
is generated from text and no step 0 is shown. A step whose text is only in `instruction`, with the prompt
null, is a text-only step.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from ..errors import AnswerError
from .found_object import STEP_NUMBER, FoundObject, continues
from .objects import PLAN, read_object
from .reply_text import ReplyPart, find_objects

LIST_KEYS = (PLAN, "plan", "steps")
OTHER_NAMES = {
    "step": "step_number",
    "number": "step_number",
    "title": "step_name",
    "name": "step_name",
    "image_prompt": "prompt",
    "caption": "auxiliary_text",
    "text": "auxiliary_text",
}
STEP_KEYS = ("step_number", "step_name", "instruction", "prompt", "auxiliary_text")
LONE_LIST = re.compile(r"\s*(\[\s*\{.*\}\s*\])\s*", re.DOTALL)
STEP_CONTENT = {"prompt", "auxiliary_text"}
FENCED = re.compile(r"```[\w+-]{0,20}(.*?)```", re.DOTALL)
BETWEEN_STEPS = re.compile(r"[\s,\[\]]*")
CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
BETWEEN_WORDS = re.compile(r"[\W_]+")
MAX_STEP_KEYS = 40


def normal_key(key: object) -> str:
    """Return a key for comparison: lower-case words with underscores, also for `previousStepSuccess`."""
    return BETWEEN_WORDS.sub("_", CAPITAL.sub("_", str(key))).strip("_").lower()


def shaped_plans(places: tuple[ReplyPart, ...]) -> list[FoundObject]:
    """Return the plans in parts of a reply that do not have an object with `execution_plan`.

    These are plans in another object, under another name, or as a list.

    Raises:
        AnswerError: An object cannot be parsed.
    """
    found: list[FoundObject] = []
    for place in places:
        listed = [one for container in _containers(place) for one in _listed_in(container)]
        found += listed or [
            replace(one, value={PLAN: value})
            for one in find_objects(place)
            if one.alone
            for value in _within(one.value)
        ]
    return found


def _containers(place: ReplyPart) -> Sequence[ReplyPart]:
    """Return the code fences of a part, or the part itself if it has none."""
    if place.content.count("```") % 2:
        raise AnswerError("A code fence is not closed.", place.content[-200:])
    return [
        ReplyPart(place.text, place.begin + fenced.start(1), place.begin + fenced.end(1), closed=True)
        for fenced in FENCED.finditer(place.content)
    ] or [place]


def _listed_in(container: ReplyPart) -> Iterator[FoundObject]:
    """Yield the plan in a container that contains only a list of steps, or steps one by one."""
    if listed := LONE_LIST.fullmatch(container.content):
        yield _as_plan(listed[1])
        return
    steps = list(find_objects(container)) if container.closed else []
    ends = [container.begin, *(one.end for one in steps)]
    starts = [*(one.start for one in steps), container.end]
    between = [container.text[end:start] for end, start in zip(ends, starts, strict=True)]
    values = [one.value for one in steps]
    if (
        # A single step is refused, since others may be missing.
        len(values) > 1
        and all(STEP_CONTENT & value.keys() for value in values)
        and all(map(BETWEEN_STEPS.fullmatch, between))
        and all(continues([before], [after]) for before, after in itertools.pairwise(values))
    ):
        yield replace(steps[-1], value={PLAN: values}, uncertain=any(one.uncertain for one in steps))


def _as_plan(text: str) -> FoundObject:
    source = f'{{"{PLAN}": {text}}}'
    found = read_object(source, 0, len(source))
    if found.cut_off or found.uncertain:
        raise AnswerError("The list of steps is damaged.", text)
    return found


def _within(value: dict[str, Any]) -> Iterator[Any]:
    """Yield the plan in an object without `execution_plan`: under another name, or one level below."""
    names = {normal_key(key): one for key, one in value.items()}
    for key in LIST_KEYS[1:]:
        if isinstance(names.get(key), (list, dict)):
            yield names[key]
            return
    for one in value.values():
        below = {normal_key(key): item for key, item in one.items()} if isinstance(one, dict) else {}
        if PLAN in below:
            yield below[PLAN]


def steps_in(value: Any) -> Any:
    """Return the steps as a list of objects with the requested keys, if that is meant; else the value."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        value = _as_plan(value).value.get(PLAN)
    if isinstance(value, dict):
        value = _listed(value)
    if not isinstance(value, list):
        return value
    steps = [_named(step) if isinstance(step, dict) else step for step in value]
    if steps and all(isinstance(step, dict) and "step_number" not in step for step in steps):
        return [{"step_number": place, **step} for place, step in enumerate(steps, 1)]
    return steps


def _listed(value: dict[str, Any]) -> Any:
    """Convert an object that contains the list, has a step under each number, or is a step."""
    names = {normal_key(key): one for key, one in value.items()}
    for key in LIST_KEYS:
        if isinstance(names.get(key), list):
            return names[key]
    numbers = [STEP_NUMBER.fullmatch(str(key)) for key in value]
    if value and all(numbers) and all(isinstance(one, dict) for one in value.values()):
        return [
            {"step_number": number[1] if number else None, **step}
            for number, step in zip(numbers, value.values(), strict=True)
        ]
    return [value] if "prompt" in names or "auxiliary_text" in names else value


def _named(step: dict[str, Any]) -> dict[str, Any]:
    """Return a step with the requested keys."""
    named, others = dict(step), False
    if len(step) > MAX_STEP_KEYS:
        return named
    for key, value in step.items():
        name = normal_key(key)
        name = name if name in STEP_KEYS else OTHER_NAMES.get(name, name)
        if name in STEP_KEYS and named.setdefault(name, value) != value and name != "step_number":
            raise AnswerError(f"A step has two different values for {name!r}.", f"{named[name]!r}, {value!r}")
        others |= name not in STEP_KEYS
    if "prompt" not in named and (others or named.get("instruction")):
        raise AnswerError(
            "A step does not have a prompt.", repr(step), "Write the prompt, or null for a text-only step."
        )
    number = named.get("step_number")
    if isinstance(number, str) and (found := STEP_NUMBER.fullmatch(number)):
        named["step_number"] = found[1]
    named["auxiliary_text"] = _words(named.get("auxiliary_text"))
    return named


def _words(value: Any) -> Any:
    """Return a caption: several texts as lines, a number as text, false as `None`."""
    if value is False:
        return None
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return "\n".join(value) or None
    return value


def shift_of(numbers: Iterable[int]) -> int:
    """Return what to add to the step numbers of a plan: 1 if they count from 0, else 0."""
    return 1 if min(numbers, default=1) == 0 else 0


def words_of(
    instruction: str | None, prompt: str | None, auxiliary_text: str | None
) -> tuple[str | None, str | None]:
    """Return instruction and auxiliary text of a step; a text-only step (prompt null) has only the latter."""
    if instruction and prompt is None and not auxiliary_text:
        return None, instruction
    return instruction, auxiliary_text
