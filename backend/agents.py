"""Planner and Critic: a prompt set, a chat backend and the reader of answers, put together.

Decision: an agent is stateless, so any number of threads may ask it (its chat backend answers one at a time where it must),
and asks at most twice. A reply that cannot be read is answered with the reason and the
grammar; a second one that cannot be read is an error (planner) or a verdict of None (critic), never a guess.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Literal, TypeVar

from .answer_grammar import GrammarName
from .answers import (
    GRAMMAR_OF_PLANS,
    GRAMMAR_OF_VERDICTS,
    GRAMMAR_OF_VERDICTS_FIRST,
    read_plan,
    read_verdict,
)
from .chat.protocol import ChatModel, Message, OnDevice, RepliesTogether, Reply, ReplySettings, Reserves
from .errors import AnswerError, ChatError, SettingsError
from .pictures import Picture
from .prompts import PromptSet, default_prompt_set, fill
from .types import MAX_TEXT, Plan, Request, Verdict

IMAGE_MARK = "<image>"
Hold = Literal["never", "retry", "always"]
"""When replies are held to the grammar of their answer (where the backend can): `retry` holds the second try alone, so that no
reply that can be read is changed and no mask is computed for it."""
PLAN_TOKENS = 16384
"""Of a plan for which no other limit is set: about 130 steps. The model's context may have room for less."""
LIMIT_BEFORE = 2048
"""Limit that a cache key tells where none is set: it was everybody's once, and runs of then go on."""
Answer = TypeVar("Answer")
OnToken = Callable[[str], None]


class Planner:
    """Writes all steps of a request. Prompt set: the given one, else the checkpoint's, else the pack's own."""

    def __init__(
        self,
        chat: ChatModel,
        prompt_set: PromptSet | None = None,
        settings: ReplySettings | None = None,
        hold: Hold = "retry",
    ) -> None:
        self.chat = chat
        self.prompt_set = prompt_set or chat.prompt_set or default_prompt_set()
        self.settings = held(settings or ReplySettings(), "plan", hold)
        self.hold: Hold = hold

    @property
    def prompt_set_digest(self) -> str:
        return self.prompt_set.digest

    @property
    def identity(self) -> str:
        return _identity(self.chat, self.prompt_set, self.settings)

    def plan(self, request: Request, on_token: OnToken | None = None) -> Plan:
        """All steps of the request; raises AnswerError if two replies cannot be read, SettingsError if the text has
        `<image>` marks but not as many as images, ChatError, Cancelled."""
        message = _planner_message(self.prompt_set, request)
        limit = min(PLAN_TOKENS, self.chat.most_tokens) if isinstance(self.chat, Reserves) else PLAN_TOKENS
        settings = self.settings.model_copy(update={"max_tokens": self.settings.max_tokens or limit})
        again = retried(settings, "plan", self.hold)
        first = self.chat.reply([message], settings, on_token)
        return _read(first, self.chat, message, again, read_plan, GRAMMAR_OF_PLANS, on_token)[0]

    def rest(self, staying: object) -> None:
        """Free the device that the planner's weights are on, unless `staying`, the critic, is on the same weights."""
        other = getattr(staying, "chat", None)
        shared = (
            isinstance(other, OnDevice)
            and isinstance(self.chat, OnDevice)
            and other.weights is self.chat.weights
        )
        if isinstance(self.chat, OnDevice) and not shared:
            self.chat.leave()


class Critic:
    """Judges one image against its step's original prompt. `settings` default to greedy with a watched verdict."""

    def __init__(
        self,
        chat: ChatModel,
        prompt_set: PromptSet | None = None,
        settings: ReplySettings | None = None,
        hold: Hold = "retry",
    ) -> None:
        self.chat = chat
        self.prompt_set = prompt_set or chat.prompt_set or default_prompt_set()
        self.settings = held(settings or ReplySettings(watch_verdict=True), "verdict", hold)
        self.hold: Hold = hold

    @property
    def prompt_set_digest(self) -> str:
        return self.prompt_set.digest

    @property
    def identity(self) -> str:
        return _identity(self.chat, self.prompt_set, self.settings)

    def judge(
        self,
        before: Picture | None,
        after: Picture,
        original_prompt: str,
        prompt_used: str,
        on_token: OnToken | None = None,
    ) -> Verdict:
        """The verdict on `after`; `before` None (drawn from text) is shown as a white page of the same size.

        A refined prompt that is empty, or beside a True verdict, becomes `prompt_used`. Two replies that cannot be
        read give success None with the problem as reasoning. Raises ChatError, Cancelled.
        """
        message = self._question(before, after, original_prompt, prompt_used)
        return self._verdict(
            message, self.chat.reply([message], self.settings, on_token), prompt_used, on_token
        )

    @property
    def judges_together(self) -> bool:
        return isinstance(self.chat, RepliesTogether)

    def judge_together(
        self, before: Picture | None, afters: Sequence[Picture], original_prompt: str, prompt_used: str
    ) -> list[Verdict]:
        """As `judge`, for several images that were drawn with the same prompt, in the same passes. Raises ChatError, also where
        the chat backend cannot do that (`judges_together`)."""
        if not isinstance(self.chat, RepliesTogether):
            raise ChatError("This agent answers one question at a time.")
        questions = [self._question(before, after, original_prompt, prompt_used) for after in afters]
        replies = self.chat.reply_together(questions, self.settings)
        return [
            self._verdict(question, reply, prompt_used, None)
            for question, reply in zip(questions, replies, strict=True)
        ]

    def _question(
        self, before: Picture | None, after: Picture, original_prompt: str, prompt_used: str
    ) -> Message:
        pictures = (before or Picture.white(after.size), after)
        return critic_message(self.prompt_set, pictures, original_prompt, prompt_used)

    def _verdict(
        self, question: Message, first: Reply, prompt_used: str, on_token: OnToken | None
    ) -> Verdict:
        try:
            again = retried(self.settings, "verdict", self.hold)
            form = GRAMMAR_OF_VERDICTS_FIRST if self.prompt_set.verdict_first else GRAMMAR_OF_VERDICTS
            verdict, reply = _read(first, self.chat, question, again, read_verdict, form, on_token)
        except AnswerError as problem:
            return Verdict(success=None, reasoning=f"The critic could not be understood. {problem}")
        keep = verdict.success or not verdict.refined_prompt.strip()
        return Verdict(
            success=verdict.success,
            refined_prompt=prompt_used if keep else verdict.refined_prompt,
            reasoning=verdict.reasoning,
            probability=reply.probability,
        )


def held(settings: ReplySettings, name: GrammarName, hold: Hold) -> ReplySettings:
    """The settings of a first try, with the grammar of this answer in them if it is to be held to it."""
    return settings.model_copy(update={"grammar": name}) if hold == "always" else settings


def retried(settings: ReplySettings, name: GrammarName, hold: Hold) -> ReplySettings:
    """The settings of a second try: drawn, so that it can say something new, and held to the grammar unless `hold` is never."""
    return settings.drawn().model_copy(update={} if hold == "never" else {"grammar": name})


def _identity(chat: ChatModel, prompt_set: PromptSet, settings: ReplySettings) -> str:
    told = json.loads(settings.key())
    if settings.grammar is None:
        # Likewise from a time without.
        del told["grammar"]
    # A limit that was set stands last, so that 2048 tokens that are set are not those that everybody had.
    limit = told.pop("max_tokens")
    told = {"max_tokens": LIMIT_BEFORE, **told} if limit is None else {**told, "max_tokens": limit}
    return f"{chat.identity}|prompts={prompt_set.digest}|{json.dumps(told, separators=(',', ':'))}"


def _read(
    reply: Reply,
    chat: ChatModel,
    message: Message,
    again: ReplySettings,
    read: Callable[[str], Answer],
    grammar: str,
    on_token: OnToken | None,
) -> tuple[Answer, Reply]:
    """The answer to a message and the reply that gave it: this one, or, where it cannot be read, a second one with the settings
    `again`. Raises AnswerError if that cannot be read either."""
    try:
        return read(reply.whole), reply
    except AnswerError as error:
        problem = _explained(error, reply)
    reason = f"Your answer could not be read. {problem.message} {grammar} Keep it short."
    retry = [
        message,
        Message(role="assistant", content=(reply.text[:MAX_TEXT],)),
        Message(role="user", content=(reason,)),
    ]
    reply = chat.reply(retry, again, on_token)
    try:
        return read(reply.whole), reply
    except AnswerError as error:
        raise _explained(error, reply) from error


def _explained(error: AnswerError, reply: Reply) -> AnswerError:
    if reply.finish != "length":
        return error
    problem = AnswerError(f"The reply was cut off after {reply.tokens} tokens. {error.message}")
    problem.quote, problem.hint = error.quote, "Allow more tokens."
    return problem


def _planner_message(prompt_set: PromptSet, request: Request) -> Message:
    given = len(request.images)
    marks = request.text.count(IMAGE_MARK)
    if marks and marks != given:
        raise SettingsError(
            f"The request has {marks} {IMAGE_MARK} mark(s) but {given} image(s).",
            "Write one mark for each image, in their order, or none at all.",
        )
    template = prompt_set.planner_images if given else prompt_set.planner_text
    # A template with marks of its own has placed the images already; the user's marks are then only words.
    own = template.count(IMAGE_MARK)
    if own and given and own != given and not marks:
        raise SettingsError(
            f"The planner's template has {own} {IMAGE_MARK} mark(s) but {given} image(s) are given."
        )
    if own == given:
        return _message(_filled_parts(template, text_input=request.text), request.images)
    filled = fill(template.replace(IMAGE_MARK, ""), text_input=request.text)
    return _message(filled.split(IMAGE_MARK) if marks else [filled], request.images)


def critic_message(
    prompt_set: PromptSet, pictures: Sequence[Picture], original_prompt: str, prompt_used: str
) -> Message:
    """The question that a critic is asked, the two pictures (before, after) in it. Raises SettingsError."""
    parts = _filled_parts(
        prompt_set.critic, original_instruction=original_prompt, rewritten_prompt=prompt_used
    )
    if len(parts) not in (1, len(pictures) + 1):
        raise SettingsError(
            f"The critic's template has {len(parts) - 1} {IMAGE_MARK} mark(s).",
            "It needs two (before, after) or none.",
        )
    return _message(parts, pictures)


def _filled_parts(template: str, **values: str) -> list[str]:
    """The template cut at its own marks; a mark inside a value stays text."""
    return [fill(part, **values) for part in template.split(IMAGE_MARK)]


def _message(parts: Sequence[str], pictures: Sequence[Picture]) -> Message:
    """Pictures between the parts, or all before a single part."""
    if len(parts) == 1:
        return _question((*pictures, parts[0]))
    content: list[str | Picture] = []
    for index, part in enumerate(parts):
        if part:
            content.append(part)
        if index < len(pictures):
            content.append(pictures[index])
    return _question(tuple(content))


def _question(content: tuple[str | Picture, ...]) -> Message:
    if any(isinstance(part, str) and len(part) > MAX_TEXT for part in content):
        raise SettingsError(
            f"The agent would be asked more than {MAX_TEXT} characters.", "Shorten the request or the prompt."
        )
    return Message(role="user", content=content)
