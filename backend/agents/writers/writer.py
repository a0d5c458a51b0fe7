"""Base of the agents that write one text with any chat model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, TypeVar

from ...answers.grammar import GrammarName
from ...chat.abilities import OnDevice
from ...chat.protocol import ChatModel, Message, Reply, ReplySettings
from ...errors import AnswerError
from ..asking import own_answer, sampled_again

Written = TypeVar("Written")


class Writer:
    """Asks a chat model for one text. By default it decodes greedily.

    Args:
        chat: The chat model.
        settings: Decoding settings of the replies.
        staying: Chat models whose weights stay in VRAM. If they are not this chat model's, it is offloaded
            after its reply, so that the image model has room. The list may be filled later.
    """

    max_tokens: ClassVar[int]
    """Default token limit of a reply."""
    second_grammar: ClassVar[GrammarName | None] = None
    """Grammar of the second reply, for backends that can constrain it."""

    def __init__(
        self, chat: ChatModel, settings: ReplySettings | None = None, staying: Sequence[object] = ()
    ) -> None:
        self.chat = chat
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
        if not isinstance(self.chat, OnDevice):
            return
        weights = self.chat.weights
        if not any(isinstance(one, OnDevice) and one.weights is weights for one in self._staying):
            self.chat.offload()


def _whole(reply: Reply) -> str:
    if reply.finish == "length":
        raise AnswerError(f"It was cut off after {reply.tokens} tokens.")
    return reply.whole
