"""Agents that write one text with any chat model: prompt enhancer, cast writer, step rewriter, translator.

None needs a checkpoint of its own. The enhancer rewrites the prompt of a step for the image model. It reads
the prompt alone, without the images, so an enhanced prompt can be cached by its prompt. The cast writer reads
the request and the finished plan, and answers who is in the story, who is in each step, and what is true
there, since planners do not write a cast. The step rewriter describes the whole image of a step that failed
as an edit, so that it can be generated from text.

A reply that cannot be used is asked for once more. If that fails too, the prompt or the plan stays as it is,
with a warning.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from ...core.answers.answer_models import unfit
from ...core.answers.grammar import GrammarName
from ...core.answers.reading import answers_in
from ...core.answers.reply_text import OTHER_TAG, TAG, OtherTags, split_reply, tag_name
from ...core.errors import AnswerError, SettingsError, first_fault
from ...core.prompts.prompt_set import SLOT, TEMPLATES, EnhancerPrompts, enhancer_prompts, fill, read_template
from ...core.seams.adoption import adopt
from ...core.seams.chat_model import ChatModel, Message, Reply, ReplySettings, shares_weights
from ...core.types import MAX_STEPS, MAX_TEXT, Enhancement, Plan, Request, Step
from ...core.types.cast import MAX_CAST, MAX_FACTS, MAX_TRAIT, MAX_TRAITS, CastMember, MemberKind, check_cast
from .asking import bounded, own_answer, sampled_again

Written = TypeVar("Written")


class Writer:
    """Asks a chat model for one text. By default it decodes greedily.

    Args:
        chat: The chat model.
        settings: Decoding settings of the replies.
        staying: Chat models whose weights stay in VRAM. If they are not this chat model's, it is offloaded
            after its reply, so that the image model has room. The list may be filled later.

    Raises:
        SettingsError: The chat model writes only plans or verdicts.
    """

    reader: ClassVar[str]
    """Name of the agent in messages."""

    max_tokens: ClassVar[int]
    """Default token limit of a reply."""
    second_grammar: ClassVar[GrammarName | None] = None
    """Grammar of the second reply, for backends that can constrain it."""

    def __init__(
        self, chat: ChatModel, settings: ReplySettings | None = None, staying: Sequence[object] = ()
    ) -> None:
        self.chat = adopt(chat, ChatModel)
        if not self.chat.writes_texts:
            raise SettingsError(
                f"The tiny world's agents cannot be {self.reader}: they write only plans or verdicts.",
                "Choose another chat model, such as a Qwen3-VL model.",
            )
        given = settings or ReplySettings()
        self.settings = given.model_copy(update={"max_tokens": given.max_tokens or self.max_tokens})
        self._staying = staying

    def written(
        self, messages: Sequence[Message], read: Callable[[str], Written], again: str, template: str
    ) -> Written:
        """Return what `read` finds in the reply.

        A reply that cannot be used is asked for once more, sampled.

        Args:
            messages: The question.
            read: Parses a reply. It raises AnswerError if the reply cannot be used.
            again: Added to the question for the second reply, with the error in place of `{problem}`.
            template: The prompt template of the question.

        Raises:
            AnswerError: The second reply cannot be used either.
            ChatError: The backend failed.
            Cancelled: The run was cancelled.
        """
        try:
            try:
                return own_answer(read, _whole(self.chat.reply(messages, self.settings)), template, messages)
            except AnswerError as error:
                reason = again.format(problem=error.problem)
            last = messages[-1]
            asked = [*messages[:-1], last.model_copy(update={"content": (*last.content, reason)})]
            settings = sampled_again(self.settings)
            if self.second_grammar is not None:
                settings = settings.model_copy(update={"grammar": self.second_grammar})
            return own_answer(read, _whole(self.chat.reply(asked, settings)), template, messages)
        finally:
            self._offload()

    def _offload(self) -> None:
        """Take the model off the device, unless its weights are those of one that stays."""
        if not any(shares_weights(self.chat, one) for one in self._staying):
            self.chat.offload()


def _whole(reply: Reply) -> str:
    if reply.finish == "length":
        raise AnswerError(f"It was cut off after {reply.tokens} tokens.")
    return reply.whole


ENHANCER_READER, ENHANCER_HINT = "the prompt enhancer", "Shorten the prompt or the enhancer's template."
MAX_ENHANCED = 20_000
"""Maximum length of an enhanced prompt in characters."""
ENHANCE_AGAIN = "\n\nYour last answer could not be used: {problem} Answer once more, with the new text alone."
NOT_ENHANCED = (
    "The enhancer's reply could not be used twice. {problem} The image model was given the prompt as it is."
)
FENCE = re.compile(r"```[\w+-]{0,20}\n(.*)\n```", re.DOTALL)
QUOTES = ('""', "“”", "«»", "「」")


class PromptEnhancer(Writer):
    """Rewrites prompts.

    Args:
        chat: The chat model.
        prompts: Templates. Default: the pack's own.
        settings: As for `Writer`.
        staying: As for `Writer`.
    """

    reader = ENHANCER_READER
    max_tokens = 2048
    """An enhanced prompt has 100 to 300 tokens, a JSON caption 1,000 to 1,500."""

    def __init__(
        self,
        chat: ChatModel,
        prompts: EnhancerPrompts | None = None,
        settings: ReplySettings | None = None,
        staying: Sequence[object] = (),
    ) -> None:
        super().__init__(chat, settings, staying)
        self.prompts = prompts or enhancer_prompts()

    @property
    def identity(self) -> str:
        """Everything that affects an enhanced prompt, as a cache key."""
        return f"{self.chat.identity}|prompts={self.prompts.digest}|{self.settings.key()}"

    def enhance(self, prompt: str, is_edit: bool) -> Enhancement:
        """Return the enhanced prompt.

        If the reply cannot be used, the model is asked once more. If the second reply cannot be used either,
        the prompt stays as it is, and the enhancement has a warning with the reason.

        Args:
            prompt: The prompt.
            is_edit: Whether the step edits an image.

        Raises:
            ChatError: The backend failed, or the prompt is too long for a message.
            Cancelled: The run was cancelled.
        """
        template = self.prompts.edit if is_edit else self.prompts.text
        messages = _messages(template, prompt)
        try:
            return Enhancement(prompt=self.written(messages, read_prompt, ENHANCE_AGAIN, template))
        except AnswerError as error:
            return Enhancement(prompt=prompt, warning=NOT_ENHANCED.format(problem=error.problem))


def _messages(template: str, prompt: str) -> list[Message]:
    if SLOT in template:
        messages = [
            Message(
                role="user",
                content=(bounded(template.replace(SLOT, prompt), ENHANCER_READER, ENHANCER_HINT),),
            )
        ]
    else:
        system = Message(role="system", content=(bounded(template, ENHANCER_READER, ENHANCER_HINT),))
        messages = [system, Message(role="user", content=(prompt,))]
    return messages


def read_prompt(reply: str) -> str:
    """Return the prompt that is all of a reply but its thoughts.

    Raises:
        AnswerError: It is empty or too long.
    """
    text = _without_thoughts(reply)
    if fenced := FENCE.fullmatch(text):
        text = fenced.group(1).strip()
    if text[:1] + text[-1:] in QUOTES and text[:1] not in text[1:-1]:
        text = text[1:-1].strip()
    if not text:
        raise AnswerError("It does not contain a prompt.")
    if len(text) > MAX_ENHANCED:
        raise AnswerError(f"It has {len(text)} characters; the maximum is {MAX_ENHANCED}.")
    return text


def _without_thoughts(text: str) -> str:
    """Return what a reply contains after its thoughts; empty if a thought does not end.

    Tags elsewhere are part of the prompt, such as `<image2>`: only thoughts that start the reply are removed.
    """
    tags = list(TAG.finditer(text))
    ends = [tag.end() for tag in tags if tag_name(tag) == "/think"]
    if ends:
        text = text[ends[-1] :]
    elif any(tag_name(tag) == "think" for tag in tags):
        return ""
    text = text.strip()
    # Some model families give their thoughts other names.
    if (tag := OTHER_TAG.match(text)) and (closing := OtherTags(text).closing(tag)):
        text = text[closing.end() :].strip() or text
    answer = re.search(r"<answer>(.*?)(?:</answer>|$)", text, re.DOTALL | re.IGNORECASE)
    return answer.group(1).strip() if answer else text


CAST_READER, CAST_HINT = "the cast writer", "Shorten the request or the prompts of the plan."
CAST_TEMPLATE = TEMPLATES / "cast" / "cast.txt"
CAST_AGAIN = (
    "\n\nYour last answer could not be used: {problem} Answer once more from the beginning. Answer with "
    '<think>your reasoning</think> and then <answer>{{"cast": [{{"name": "...", "kind": "character", '
    '"traits": ["..."]}}], "steps": [{{"step_number": 1, "cast": ["..."], "facts": ["..."]}}]}}</answer>.'
)
GIVEN = "The cast is given. Copy it into your answer, and use exactly these names:\n{members}"
NO_CAST = "The plan has no cast: the reply of its writer could not be used twice. {problem}"


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

    reader = CAST_READER
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
        template = read_template(CAST_TEMPLATE)
        message = Message(
            role="user", content=(bounded(_cast_question(template, request, plan), CAST_READER, CAST_HINT),)
        )

        def read(reply: str) -> CastAnswer:
            answer = read_cast_answer(reply)
            _cast_of(plan, answer)
            return answer

        try:
            answer = self.written([message], read, CAST_AGAIN, template)
        except AnswerError as error:
            told = NO_CAST.format(problem=error.problem)
            return plan.model_copy(update={"warning": f"{plan.warning} {told}".strip()[:MAX_TEXT]})
        return _with_answer(plan, answer)


def _cast_question(template: str, request: Request, plan: Plan) -> str:
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
        reason = first_fault(error).reason if isinstance(error, ValidationError) else error
        raise AnswerError(f"A member of the cast is not valid: {reason}.") from error
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


REWRITE_READER, REWRITE_HINT = "the planner", "Shorten the prompts of the plan."
MAX_PROBLEM = 2_000
"""Maximum length of the critic's reasoning in the question, in characters."""
REWRITE_TEMPLATE = TEMPLATES / "cast" / "rewrite.txt"
REWRITE_AGAIN = (
    "\n\nYour last answer could not be used: {problem} Answer once more, with the description alone."
)


class StepRewriter(Writer):
    """Describes images (`loop.collaborators.RewritesSteps`). Its arguments are those of `Writer`."""

    reader = "the step rewriter"
    max_tokens = 1024
    """150 words have about 250 tokens."""

    def __call__(self, plan: Plan, step: Step, problem: str) -> str | None:
        """Return a prompt for the whole image of a step, or `None` if two replies could not be used.

        Args:
            plan: The plan.
            step: The step that failed.
            problem: What the critic said about its last image.

        Raises:
            ChatError: The backend failed, or the plan is too long for a message.
            Cancelled: The run was cancelled.
        """
        template = read_template(REWRITE_TEMPLATE)
        question = bounded(_rewrite_question(template, plan, step, problem), REWRITE_READER, REWRITE_HINT)
        try:
            return self.written(
                [Message(role="user", content=(question,))], read_prompt, REWRITE_AGAIN, template
            )
        except AnswerError:
            return None


def _rewrite_question(template: str, plan: Plan, step: Step, problem: str) -> str:
    steps = "\n".join(f"{one.number}. {' '.join(one.prompt.split())}" for one in plan.steps if one.prompt)
    reason = " ".join(problem.split())[:MAX_PROBLEM] or "It did not show what the step asks for."
    return fill(template, plan=steps, number=str(step.number), problem=reason)


TRANSLATE = (
    "Translate this text of an illustrated story into {language}. Keep its meaning, its tone, its length and "
    f"the names in it. Answer with the translation alone, without quotation marks around it.\n\n{SLOT}"
)
TRANSLATE_READER, TRANSLATE_HINT = "the translator", "Shorten the texts of the plan."
MAX_QUOTED = 60


class Translator(Writer):
    """Translates the texts of a plan. Its arguments are those of `Writer`."""

    reader = TRANSLATE_READER
    max_tokens = 2048

    def __call__(self, plan: Plan, language: str) -> Plan:
        """Return the plan with the names and captions of its steps in a language. Its prompts stay.

        Raises:
            AnswerError: Two replies about a text could not be used, as those of a model that only plans.
            ChatError: The backend failed, or a text is too long for a message.
            Cancelled: The run was cancelled.
        """

        def read(reply: str) -> str:
            if (text := read_prompt(reply))[0] in "{[":
                raise AnswerError("It is not a translation.", text)
            return text

        def said(text: str | None) -> str | None:
            if not text:
                return text
            question = fill(TRANSLATE, language=language, prompt=text)
            messages = [Message(role="user", content=(bounded(question, TRANSLATE_READER, TRANSLATE_HINT),))]
            try:
                return self.written(messages, read, ENHANCE_AGAIN, TRANSLATE)
            except AnswerError as error:
                problem = f"{text[:MAX_QUOTED]!r} was not translated into {language}. {error.problem}"
                hint = "Use another model: a planner's checkpoint may write only plans."
                raise AnswerError(problem, error.quote, hint) from error

        steps = [
            step.model_copy(update={"name": said(step.name), "auxiliary_text": said(step.auxiliary_text)})
            for step in plan.steps
        ]
        self.chat.offload()
        return plan.model_copy(update={"steps": tuple(steps)})

    def _offload(self) -> None:
        """Leave the model on the device: another text may follow."""
