"""What agents answer, read tolerantly and written strictly (FORMATS: what an agent answers).

Decision: tolerance is about form only. Whatever could change the meaning (two verdicts, a value that is
neither true nor false, a refined prompt or a plan that was cut off) is an AnswerError quoting the place,
never a guess: the agent is asked once more. So is a reply that says the opposite anywhere but in its thoughts
and in the texts of the answer itself, a verdict that is spoken about within a sentence (reply_text.py), and a
form that is only repeated ("true or false"). A writer reads its own text back before giving it away, so what
it writes is exactly what will be read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from ..errors import AnswerError
from ..types import MAX_STEPS, Plan, Several, Step, Text, Verdict
from .agent_texts import TYPES, check_prompt, check_text
from .found_object import FoundObject
from .other_verdicts import (
    DIFFER,
    REFINE_KEYS,
    STATED_VERDICT,
    VERDICT_KEYS,
    bool_from_word,
    check_other_verdicts,
    is_envelope_like,
)
from .plan_shapes import normal_key, shaped_plans, shift_of, steps_in, words_of
from .reply_text import TAG, SplitReply, find_objects, frame, split_reply
from .unfit import unfit

PLAN_KEYS = ("execution_plan",)

GRAMMAR_OF_PLANS = (
    'Answer with <think>your reasoning</think> and then <answer>{"execution_plan": [{"step_number": 1, '
    '"step_name": '
    '"...", "instruction": "..." or null, "prompt": "..." or null, "auxiliary_text": "..." or null}, '
    "...]}</answer>."
)
GRAMMAR_OF_VERDICTS = (
    'Answer with <think>your reasoning</think> and then <answer>{"previous_step_success": true or false, '
    '"refine_prompt": "..."}</answer>.'
)
GRAMMAR_OF_VERDICTS_FIRST = (
    'Answer with <answer>{"previous_step_success": true or false, "refine_prompt": "..."}</answer> and '
    "then, if it is false, <think>your reasoning</think>."
)

# A name in quotes before a colon: a piece of an object of which the braces are missing.
PIECE = re.compile(r"[\"'“][\w .-]{1,40}\\{0,99}[\"'”]\s{0,30}:")
SWALLOWED_STEPS = re.compile(r"\}\s*,\s*\{\s*\\?[\"']step_number")


def _none_from_word(value: object) -> object:
    return None if isinstance(value, str) and value.strip().lower() in ("none", "null") else value


class _Answer(BaseModel):
    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)


OptionalText = Annotated[Text | None, Field(strict=True), BeforeValidator(_none_from_word)]


class _StepAnswer(_Answer):
    step_number: int = Field(ge=0)
    step_name: Annotated[Text | None, Field(strict=True)] = None
    instruction: OptionalText = None
    prompt: OptionalText = None
    auxiliary_text: OptionalText = None


class _PlanAnswer(_Answer):
    execution_plan: Several[_StepAnswer] = Field(min_length=1, max_length=MAX_STEPS)


class _VerdictAnswer(_Answer):
    previous_step_success: Annotated[bool, Field(strict=True), BeforeValidator(bool_from_word)]
    refine_prompt: OptionalText = None


def read_plan(text: str) -> Plan:
    """The plan in a planner's reply; raises AnswerError if there is none, several that differ, or a cut
    one."""
    return find_plan(text)[0]


def find_plan(text: str) -> tuple[Plan, FoundObject]:
    """As `read_plan`, with the object that the plan was read from (the last, if several say the same)."""
    reply = split_reply(text)
    try:
        found, _ = answers_in(reply, PLAN_KEYS)
    except AnswerError:
        found = shaped_plans(reply.places)
        if not found:
            raise
    found = found or shaped_plans(reply.places)
    if not found:
        raise AnswerError("There is no execution_plan in the reply.", text or "(empty)", GRAMMAR_OF_PLANS)
    plans = [_plan_of(one, reply.reasoning) for one in found]
    if any(plan != plans[0] for plan in plans):
        raise AnswerError("The reply holds several plans that differ.", text)
    return plans[0], found[-1]


def read_verdict(text: str) -> Verdict:
    """The verdict in a critic's reply; raises AnswerError if there is none, it is ambiguous, or its refined
    prompt was cut off. A reply that ends right after a true verdict and its comma is whole: nothing after it
    matters."""
    return find_verdict(text)[0]


def find_verdict(text: str) -> tuple[Verdict, FoundObject, int]:
    """As `read_verdict`, with the object that the verdict was read from (the first, if several say the same)
    and where in the text its word begins."""
    reply = split_reply(text)
    found, others = answers_in(reply, VERDICT_KEYS)
    if not found:
        raise AnswerError("There is no verdict in the reply.", text or "(empty)", GRAMMAR_OF_VERDICTS)
    verdicts = [_verdict_of(one, reply.reasoning) for one in found]
    first = verdicts[0]
    if any(verdict.success != first.success for verdict in verdicts) or (
        not first.success and any(verdict != first for verdict in verdicts)
    ):
        raise AnswerError(DIFFER, text)
    check_other_verdicts(first, found, others)
    _check_the_rest(text, first, reply, found, others)
    word = next(at for key, at in found[0].places.items() if normal_key(key) in VERDICT_KEYS)
    return first, found[0], word


def write_plan(plan: Plan) -> str:
    """The plan as an agent's answer; raises AnswerError for a text that could not be read back (tags in
    it...)."""
    steps = [
        {
            "step_number": step.number,
            "step_name": step.name,
            "instruction": step.instruction,
            "prompt": step.prompt,
            "auxiliary_text": step.auxiliary_text,
        }
        for step in plan.steps
    ]
    text = _write(plan.reasoning, {"execution_plan": steps})
    if read_plan(text) != plan:
        raise AnswerError(
            "This plan cannot be written as an answer: it would be read back differently.", text
        )
    return text


def write_verdict(verdict: Verdict, verdict_first: bool = False) -> str:
    """The verdict as an agent's answer (without the probability), its reasoning before or after; raises
    AnswerError for one that was not understood (success None) or a text that could not be read back."""
    if verdict.success is None:
        raise AnswerError("A verdict that was not understood cannot be written.", verdict.reasoning)
    value = {"previous_step_success": verdict.success, "refine_prompt": verdict.refined_prompt}
    text = _write(verdict.reasoning, value)
    if verdict_first:
        reasoning, _, answer = text.rpartition("\n\n<answer>")
        text = f"<answer>{answer}\n{reasoning}" if verdict.reasoning else f"<answer>{answer}"
    if read_verdict(text) != verdict.model_copy(update={"probability": None}):
        raise AnswerError(
            "This verdict cannot be written as an answer: it would be read back differently.", text
        )
    return text


def _write(reasoning: str, value: Mapping[str, object]) -> str:
    body = json.dumps(value, ensure_ascii=False)
    # A tag inside a JSON string would end the answer early; escaped, it is the same string to every JSON
    # reader.
    body = TAG.sub(lambda tag: "\\u003c" + tag.group()[1:], body)
    return f"<think>{frame(reasoning)}</think>\n\n<answer>{body}</answer>"


def answers_in(reply: SplitReply, keys: tuple[str, ...]) -> tuple[list[FoundObject], list[FoundObject]]:
    """The objects of a reply that are answers, and the others. Raises AnswerError for an <answer> that holds
    an object but no answer, and for an answer that stands within a sentence."""
    answers: list[FoundObject] = []
    others: list[FoundObject] = []
    for place in reply.places:
        found = list(find_objects(place))
        mine = [one for one in found if any(normal_key(key) in keys for key in one.value)]
        if place.tagged and not mine and "{" in place.content:
            raise AnswerError(f"An <answer> holds no {keys[0]}.", place.content)
        answers += mine
        others += [one for one in found if one not in mine]
    for one in answers:
        if not one.alone:
            raise AnswerError(
                "The answer stands within a sentence.", one.text[max(0, one.start - 60) : one.end + 60]
            )
    return answers, others


def _check_the_rest(
    text: str, verdict: Verdict, reply: SplitReply, found: list[FoundObject], others: list[FoundObject]
) -> None:
    """Raise AnswerError if a text says the opposite of its verdict anywhere but in a thought or within an
    answer that is beyond doubt, or if a piece of an object lies outside of the objects."""
    thoughts = [(thought.begin, thought.end) for thought in reply.thoughts]
    sure = [(one.start, one.end) for one in found if one.strict and not is_envelope_like(one)]
    opposite = str(not verdict.success).lower()
    for stated in _outside(STATED_VERDICT, text, thoughts + sure):
        if stated.group(1).lower() == opposite:
            raise AnswerError("The verdict is not stated clearly.", _around(text, stated))
    for piece in _outside(PIECE, text, thoughts + [(one.start, one.end) for one in [*found, *others]]):
        raise AnswerError("A piece of an object lies beside the verdict.", _around(text, piece))


def _outside(pattern: re.Pattern[str], text: str, spans: list[tuple[int, int]]) -> Iterator[re.Match[str]]:
    """What of a pattern lies outside of the spans."""
    position = 0
    for begin, end in [*sorted(spans), (len(text), len(text))]:
        yield from pattern.finditer(text, position, max(position, begin))
        position = max(position, end)


def _around(text: str, found: re.Match[str]) -> str:
    return text[max(0, found.start() - 60) : found.end() + 60]


def only_value(found: FoundObject, keys: tuple[str, ...]) -> dict[str, Any]:
    """The value under any spelling of a key as {first spelling: value}, {} if absent; they may not
    disagree."""
    values = [value for key, value in found.value.items() if normal_key(key) in keys]
    words = [bool_from_word(value) for value in values]
    if any(word != words[0] for word in words):
        raise AnswerError(f"The answer gives two different values for {keys[0]!r}.", found.raw)
    return {keys[0]: values[0]} if values else {}


def _plan_of(found: FoundObject, reasoning: str) -> Plan:
    # The outermost brace may be missing; an open list may have had further steps.
    if found.open_string or found.open_depth > 1:
        raise AnswerError("The plan is cut off.", found.raw[-200:])
    value = {name: steps_in(steps) for name, steps in only_value(found, PLAN_KEYS).items()}
    try:
        steps = _PlanAnswer.model_validate(value).execution_plan
    except ValidationError as error:
        raise unfit("plan", error, found) from error
    for step in steps:
        # A step of words may be called Text. A form that is repeated has its types in the other fields, too.
        name = None if (step.step_name or "").strip().lower() in TYPES else step.step_name
        for field in (name, step.instruction, step.prompt, step.auxiliary_text):
            if field and (swallowed := SWALLOWED_STEPS.search(field)):
                raise AnswerError(
                    f"Step {step.step_number} has swallowed the steps after it into a text.",
                    field[max(0, swallowed.start() - 60) : swallowed.end() + 60],
                )
            check_text(f"Step {step.step_number} of the plan", field)
        check_prompt(f"The prompt of step {step.step_number}", step.prompt)
    shift = shift_of(step.step_number for step in steps)
    try:
        return Plan(reasoning=reasoning, steps=tuple(_step_of(step, shift) for step in steps))
    except ValidationError as error:
        raise unfit("plan", error, found) from error


def _step_of(step: _StepAnswer, shift: int) -> Step:
    instruction, words = words_of(step.instruction, step.prompt, step.auxiliary_text)
    return Step(
        number=step.step_number + shift,
        name=step.step_name or "",
        instruction=instruction,
        prompt=step.prompt,
        auxiliary_text=words,
    )


def _verdict_of(found: FoundObject, reasoning: str) -> Verdict:
    try:
        answer = _VerdictAnswer.model_validate(only_value(found, VERDICT_KEYS) | _refined(found))
    except ValidationError as error:
        raise unfit("verdict", error, found) from error
    success, refined = answer.previous_step_success, answer.refine_prompt or ""
    if found.open_depth:
        whole = not found.open_string and found.raw.rstrip()[-1:] in "\"'" and bool(refined)
        if not success and not whole:
            raise AnswerError("The refined prompt is cut off.", found.raw[-200:])
        refined = refined if whole else ""
    if not success:
        check_prompt("The refined prompt", refined)
    return Verdict(success=success, refined_prompt=refined, reasoning=reasoning)


def _refined(found: FoundObject) -> dict[str, Any]:
    return only_value(found, REFINE_KEYS)
