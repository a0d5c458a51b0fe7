"""Writes the cast of a finished plan with one call to a chat model.

Planners do not write a cast, and their checkpoints were trained without one. So any chat model may read the
request and the plan, and answers who is in the story, who is in each step, and what is true there. A reply
that cannot be used is asked for once more, constrained to the form of the answer if the backend supports
that. If that fails too, the plan stays without a cast, and its warning has the reason.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from ...answers.answer_models import unfit
from ...answers.grammar import GrammarName
from ...answers.reading import answers_in
from ...answers.reply_text import split_reply
from ...cast import MAX_CAST, MAX_FACTS, MAX_TRAIT, MAX_TRAITS, CastMember, MemberKind, check_cast
from ...chat.protocol import Message
from ...errors import AnswerError
from ...prompts import TEMPLATES, fill
from ...prompts.enhancer import read_template
from ...types import MAX_STEPS, MAX_TEXT, Plan, Request
from ..messages import bounded
from .writer import Writer

READER, HINT = "the cast writer", "Shorten the request or the prompts of the plan."
TEMPLATE = TEMPLATES / "cast" / "cast.txt"
AGAIN = (
    "\n\nYour last answer could not be used: {problem} Answer once more from the beginning. Answer with "
    '<think>your reasoning</think> and then <answer>{{"cast": [{{"name": "...", "kind": "character", '
    '"traits": ["..."]}}], "steps": [{{"step_number": 1, "cast": ["..."], "facts": ["..."]}}]}}</answer>.'
)
GIVEN = "The cast is given. Copy it into your answer, and use exactly these names:\n{members}"
UNUSABLE = "The plan has no cast: the reply of its writer could not be used twice. {problem}"


def _few(limit: int) -> Any:
    """Return a validator that keeps the first texts of a list, each cut to the length of a trait."""

    def kept(value: object) -> object:
        if not isinstance(value, list):
            return value
        texts = [" ".join(one.split())[:MAX_TRAIT].strip() if isinstance(one, str) else one for one in value]
        return [one for one in texts if one != ""][:limit]

    return BeforeValidator(kept)


class _Answer(BaseModel):
    model_config = ConfigDict(extra="ignore")


class _Member(_Answer):
    name: str
    kind: Annotated[MemberKind, BeforeValidator(lambda one: one.lower() if isinstance(one, str) else one)]
    traits: Annotated[list[str], _few(MAX_TRAITS)] = Field(default_factory=list)


class _Step(_Answer):
    step_number: int
    cast: list[str] = Field(default_factory=list)
    facts: Annotated[list[str], _few(MAX_FACTS)] = Field(default_factory=list)


class CastAnswer(_Answer):
    """A cast as a model writes it."""

    cast: Annotated[list[_Member], Field(max_length=MAX_CAST)]
    steps: Annotated[list[_Step], Field(max_length=MAX_STEPS)]


class CastWriter(Writer):
    """Writes casts. Its arguments are those of `Writer`."""

    max_tokens = 4096
    """Sixteen members and thirty steps have about 2,500 tokens."""
    second_grammar: ClassVar[GrammarName | None] = "cast"

    def write(self, request: Request, plan: Plan) -> Plan:
        """Return the plan with its cast, and with the members and facts of each step.

        If the plan has a cast, only who is in the steps and the facts are taken from the answer. If the
        second reply cannot be used either, the plan is unchanged except for its warning.

        Raises:
            ChatError: The backend failed, or the plan is too long for a message.
            Cancelled: The run was cancelled.
        """
        template = read_template(TEMPLATE)
        message = Message(role="user", content=(bounded(_question(template, request, plan), READER, HINT),))

        def read(reply: str) -> CastAnswer:
            answer = read_cast_answer(reply)
            _cast_of(plan, answer)
            return answer

        try:
            answer = self.written([message], read, AGAIN, template)
        except AnswerError as error:
            told = UNUSABLE.format(problem=error.problem)
            return plan.model_copy(update={"warning": f"{plan.warning} {told}".strip()[:MAX_TEXT]})
        return _with_answer(plan, answer)


def _question(template: str, request: Request, plan: Plan) -> str:
    steps = "\n".join(f"{step.number}. {' '.join(step.prompt.split())}" for step in plan.steps if step.prompt)
    members = "\n".join(
        f"- {member.name} ({member.kind}): {', '.join(member.traits)}" for member in plan.cast
    )
    given = GIVEN.format(members=members) if members else ""
    return fill(template, request=request.text, plan=steps, given=given)


def _cast_of(plan: Plan, answer: CastAnswer) -> tuple[CastMember, ...]:
    """Return the cast of a plan with an answer.

    Raises:
        AnswerError: The cast is not valid.
    """
    try:
        cast = plan.cast or tuple(CastMember(**one.model_dump()) for one in answer.cast)
        check_cast(cast, ())
    except ValueError as error:
        reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise AnswerError(
            f"A member of the cast is not valid: {reason.removeprefix('Value error, ')}."
        ) from error
    return cast


def _with_answer(plan: Plan, answer: CastAnswer) -> Plan:
    cast = _cast_of(plan, answer)
    if not cast:
        return plan
    known = {member.name.casefold(): member.name for member in cast}
    found = {step.step_number: step for step in answer.steps}
    steps = []
    for step in plan.steps:
        told = found.get(step.number)
        if told is not None and step.prompt:
            names = dict.fromkeys(
                known[name] for one in told.cast if (name := one.strip().casefold()) in known
            )
            step = step.model_copy(update={"cast": tuple(names), "facts": tuple(told.facts)})
        steps.append(step)
    return plan.model_copy(update={"cast": cast, "steps": tuple(steps)})


def read_cast_answer(text: str) -> CastAnswer:
    """Return the cast in a reply.

    Raises:
        AnswerError: The reply does not contain a cast, or it is cut off.
    """
    found, _ = answers_in(split_reply(text), ("cast",))
    found = [one for one in found if "steps" in one.value]
    if not found:
        raise AnswerError("The reply does not contain a cast with steps.", text or "(empty)")
    if found[-1].open_string or found[-1].open_depth > 1:
        raise AnswerError("The cast is cut off.", found[-1].raw[-200:])
    try:
        return CastAnswer.model_validate(found[-1].value)
    except ValidationError as error:
        raise unfit("cast", error, found[-1]) from error
