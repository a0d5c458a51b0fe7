"""Parses the answers of agents tolerantly and writes them strictly (docs/reference/file-formats.md).

Only the form may vary. Anything that could change the meaning raises an AnswerError with a quote, and is
never guessed: two verdicts, a value that is neither true nor false, a refined prompt or a plan that was cut
off. The agent is then asked once more. The same holds for a reply that contradicts its answer anywhere except
in its thoughts and in the texts of the answer, for a verdict that is only mentioned in a sentence
(reply_text.py), and for a copy of the answer format ("true or false"). A writer parses its own text before
returning it, so written answers are always read back exactly.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from ..errors import AnswerError
from ..types import Plan, Step, Verdict
from .answer_models import TYPES, PlanAnswer, StepAnswer, VerdictAnswer, check_prompt, check_text, unfit
from .objects import FoundObject
from .other_forms import (
    DIFFER,
    REFINE_KEYS,
    STEP_KEYS,
    VERDICT_KEYS,
    bool_from_word,
    check_other_verdicts,
    check_the_rest,
    normal_key,
    shaped_plans,
    shift_of,
    steps_in,
    words_of,
)
from .reply_text import TAG, SplitReply, find_objects, frame, split_reply

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

_QUOTE, _KEY = "[\"'“”‘’`]", f"(?:{'|'.join(STEP_KEYS)})"
SWALLOWED = re.compile(
    rf"(?:{_QUOTE}\s*{_KEY}|\b{_KEY}\\*{_QUOTE})\\*{_QUOTE}?\s*[:：]|{_QUOTE}\s*{_KEY}\\*{_QUOTE}\s*\\*{_QUOTE}"
)
"""A key of a step before a colon or a quote, within a text: a delimiter before it is missing."""


def read_plan(text: str) -> Plan:
    """Return the plan in a planner's reply.

    Raises:
        AnswerError: The reply does not have a plan, has several different ones, or the plan is cut off.
    """
    return find_plan(text)[0]


def find_plan(text: str) -> tuple[Plan, FoundObject]:
    """Return the plan as `read_plan`, and the object that it was parsed from (the last of equal ones)."""
    reply = split_reply(text)
    try:
        found, _ = answers_in(reply, PLAN_KEYS)
    except AnswerError:
        found = shaped_plans(reply.places)
        if not found:
            raise
    found = found or shaped_plans(reply.places)
    if not found:
        raise AnswerError(
            "The reply does not contain an execution_plan.", text or "(empty)", GRAMMAR_OF_PLANS
        )
    plans = [_plan_of(one, reply.reasoning) for one in found]
    if any(plan != plans[0] for plan in plans):
        raise AnswerError("The reply contains several different plans.", text)
    reasoning = plans[0].reasoning or found[-1].reasoning
    return plans[0].model_copy(update={"reasoning": reasoning}), found[-1]


def read_verdict(text: str) -> Verdict:
    """Return the verdict in a critic's reply.

    A reply that ends right after a true verdict and its comma is complete, since nothing after it matters.

    Raises:
        AnswerError: The reply does not have a verdict, it is ambiguous, or its refined prompt is cut off.
    """
    return find_verdict(text)[0]


def find_verdict(text: str) -> tuple[Verdict, FoundObject, int]:
    """Return the verdict as `read_verdict`, the object that it was parsed from, and the position of its word.

    Of several equal verdicts the object is the first.
    """
    reply = split_reply(text)
    found, others = answers_in(reply, VERDICT_KEYS)
    if not found:
        raise AnswerError("The reply does not contain a verdict.", text or "(empty)", GRAMMAR_OF_VERDICTS)
    verdicts = [_verdict_of(one, reply.reasoning) for one in found]
    first = verdicts[0]
    if any(verdict.success != first.success for verdict in verdicts) or (
        not first.success and any(verdict != first for verdict in verdicts)
    ):
        raise AnswerError(DIFFER, text)
    check_other_verdicts(first, found, others)
    check_the_rest(text, first, reply, found, others)
    word = next(at for key, at in found[0].places.items() if normal_key(key) in VERDICT_KEYS)
    reasoning = first.reasoning or found[0].reasoning
    return first.model_copy(update={"reasoning": reasoning}), found[0], word


def write_plan(plan: Plan) -> str:
    """Return the plan as an agent's answer.

    Raises:
        AnswerError: A text could not be read back, for example because it contains tags.
    """
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
        raise AnswerError("The plan cannot be written as an answer: it would be read back differently.", text)
    return text


def write_verdict(verdict: Verdict, verdict_first: bool = False) -> str:
    """Return the verdict, without the probability and the checklist, as an agent's answer.

    Args:
        verdict: The verdict.
        verdict_first: Whether the reasoning comes after the answer.

    Raises:
        AnswerError: `success` is `None`, or a text could not be read back.
    """
    if verdict.success is None:
        raise AnswerError("A verdict without a result cannot be written as an answer.", verdict.reasoning)
    value = {"previous_step_success": verdict.success, "refine_prompt": verdict.refined_prompt}
    text = _write(verdict.reasoning, value)
    if verdict_first:
        reasoning, _, answer = text.rpartition("\n\n<answer>")
        text = f"<answer>{answer}\n{reasoning}" if verdict.reasoning else f"<answer>{answer}"
    if read_verdict(text) != verdict.model_copy(update={"probability": None, "items": (), "forced": False}):
        raise AnswerError(
            "The verdict cannot be written as an answer: it would be read back differently.", text
        )
    return text


def _write(reasoning: str, value: Mapping[str, object]) -> str:
    body = json.dumps(value, ensure_ascii=False)
    # A tag inside a JSON string would end the answer; escaped, it is the same string for every JSON parser.
    body = TAG.sub(lambda tag: "\\u003c" + tag.group()[1:], body)
    return f"<think>{frame(reasoning)}</think>\n\n<answer>{body}</answer>"


def answers_in(reply: SplitReply, keys: tuple[str, ...]) -> tuple[list[FoundObject], list[FoundObject]]:
    """Return the objects of a reply that are answers, and the other objects.

    Raises:
        AnswerError: An <answer> contains an object but no answer, or an answer is part of a sentence.
    """
    answers: list[FoundObject] = []
    others: list[FoundObject] = []
    for place in reply.places:
        found = list(find_objects(place))
        mine = [one for one in found if any(normal_key(key) in keys for key in one.value)]
        if place.tagged and not mine and "{" in place.content:
            raise AnswerError(f"An <answer> does not contain {keys[0]}.", place.content)
        answers += mine
        others += [one for one in found if one not in mine]
    for one in answers:
        if not one.alone:
            raise AnswerError(
                "The answer is part of a sentence.", one.text[max(0, one.start - 60) : one.end + 60]
            )
    return answers, others


def only_value(found: FoundObject, keys: tuple[str, ...]) -> dict[str, Any]:
    """Return the value under any spelling of a key as {first spelling: value}, or {} if there is none.

    Raises:
        AnswerError: Several spellings have different values.
    """
    values = [value for key, value in found.value.items() if normal_key(key) in keys]
    words = [bool_from_word(value) for value in values]
    if any(word != words[0] for word in words):
        raise AnswerError(f"The answer contains two different values for {keys[0]!r}.", found.raw)
    return {keys[0]: values[0]} if values else {}


def _plan_of(found: FoundObject, reasoning: str) -> Plan:
    if found.cut_off:
        raise AnswerError("The plan is cut off.", found.raw[-200:])
    if found.uncertain:
        raise AnswerError(
            "A text of the plan has no end: quotes in it are missing or not escaped.", found.raw
        )
    value = {name: steps_in(steps) for name, steps in only_value(found, PLAN_KEYS).items()}
    try:
        steps = PlanAnswer.model_validate(value).execution_plan
    except ValidationError as error:
        raise unfit("plan", error, found) from error
    for step in steps:
        # A text-only step may be called Text. A copy of the answer format has types in its other fields too.
        name = None if (step.step_name or "").strip().lower() in TYPES else step.step_name
        for field in (name, step.instruction, step.prompt, step.auxiliary_text):
            if field and (swallowed := SWALLOWED.search(field)):
                raise AnswerError(
                    f"The text of step {step.step_number} contains the keys after it.",
                    field[max(0, swallowed.start() - 60) : swallowed.end() + 60],
                )
            check_text(f"Step {step.step_number} of the plan", field)
        check_prompt(f"The prompt of step {step.step_number}", step.prompt)
    shift = shift_of(step.step_number for step in steps)
    try:
        return Plan(reasoning=reasoning, steps=tuple(_step_of(step, shift) for step in steps))
    except ValidationError as error:
        raise unfit("plan", error, found) from error


def _step_of(step: StepAnswer, shift: int) -> Step:
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
        value = only_value(found, VERDICT_KEYS) | only_value(found, REFINE_KEYS)
        answer = VerdictAnswer.model_validate(value)
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
