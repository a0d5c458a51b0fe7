"""What planner and critic share: the question put together from a template and pictures, and the second try.

Decision: one place knows that a reply which cannot be read is asked for once more, with the reason and the
grammar, so that both agents treat unreadable replies alike and their identities name everything that shapes a
reply.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Literal, TypeVar

from ..answers.grammar import GrammarName
from ..chat.protocol import ChatModel, Message, Reply, ReplySettings
from ..errors import AnswerError, SettingsError
from ..pictures import Picture
from ..prompts import PromptSet, fill
from ..types import MAX_TEXT

IMAGE_MARK = "<image>"


ConstrainedDecoding = Literal["never", "retry", "always"]
"""When replies are held to the grammar of their answer (where the backend can): `retry` holds the second try
alone, so that no reply that can be read is changed and no mask is computed for it."""


LIMIT_BEFORE = 2048
"""Limit that a cache key tells where none is set: it was everybody's once, and runs of then go on."""


Answer = TypeVar("Answer")


OnToken = Callable[[str], None]


def held(settings: ReplySettings, name: GrammarName, hold: ConstrainedDecoding) -> ReplySettings:
    """The settings of a first try, with the grammar of this answer in them if it is to be held to it."""
    return settings.model_copy(update={"grammar": name}) if hold == "always" else settings


def retried(settings: ReplySettings, name: GrammarName, hold: ConstrainedDecoding) -> ReplySettings:
    """The settings of a second try: drawn, so that it can say something new, and held to the grammar unless
    `hold` is never."""
    return settings.drawn().model_copy(update={} if hold == "never" else {"grammar": name})


def identity_of(chat: ChatModel, prompt_set: PromptSet, settings: ReplySettings) -> str:
    told = json.loads(settings.key())
    if settings.grammar is None:
        # Likewise from a time without.
        del told["grammar"]
    # A limit that was set stands last, so that 2048 tokens that are set are not those that everybody had.
    limit = told.pop("max_tokens")
    told = {"max_tokens": LIMIT_BEFORE, **told} if limit is None else {**told, "max_tokens": limit}
    return f"{chat.identity}|prompts={prompt_set.digest}|{json.dumps(told, separators=(',', ':'))}"


def read_reply(
    reply: Reply,
    chat: ChatModel,
    message: Message,
    again: ReplySettings,
    read: Callable[[str], Answer],
    grammar: str,
    on_token: OnToken | None,
) -> tuple[Answer, Reply]:
    """The answer to a message and the reply that gave it: this one, or, where it cannot be read, a second one
    with the settings `again`. Raises AnswerError if that cannot be read either."""
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


def filled_parts(template: str, **values: str) -> list[str]:
    """The template cut at its own marks; a mark inside a value stays text."""
    return [fill(part, **values) for part in template.split(IMAGE_MARK)]


def message_of(parts: Sequence[str], pictures: Sequence[Picture]) -> Message:
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
