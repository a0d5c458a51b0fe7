"""Shared code of planner and critic: building the message from a template and images, and the second attempt.

If a reply cannot be used, the model is asked once more, with the reason. Small models copy what they see:
with their first reply in the conversation they often repeat it letter for letter. So an agent with the pack's
own prompt set sees its question again with the reason, without the reply and without placeholders. An agent
with a prompt set of its own also sees its reply, since its results were measured so. Doing this in one place
treats both agents alike, and lets their identities contain everything that affects a reply.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Generic, Literal, TypeVar

from ...core.answers.grammar import GrammarName
from ...core.answers.reply_text import split_reply
from ...core.errors import AnswerError, ChatError, SettingsError
from ...core.pictures import Picture
from ...core.prompts.agent_card import Role
from ...core.prompts.prompt_set import PromptSet, default_prompt_set, fill
from ...core.prompts.trained_with import TrainedWith, say_once
from ...core.seams.adoption import adopt
from ...core.seams.chat_model import ChatModel, Message, Reply, ReplySettings
from ...core.types import MAX_TEXT, UnusedSetting
from .copies import check_copies

if TYPE_CHECKING:
    from typing_extensions import Self


IMAGE_MARK = "<image>"
"""Place of an image in a template or a request."""


def filled_parts(template: str, **values: str) -> list[str]:
    """Return the filled template, split at its own image marks. A mark inside a value stays text."""
    return [fill(part, **values) for part in template.split(IMAGE_MARK)]


def message_of(parts: Sequence[str], pictures: Sequence[Picture]) -> Message:
    """Return a message with images between the parts, or with all images before a single part.

    Raises:
        SettingsError: A text is too long.
    """
    if len(parts) == 1:
        return _question((*pictures, parts[0]))
    content: list[str | Picture] = []
    for index, part in enumerate(parts):
        if part:
            content.append(part)
        if index < len(pictures):
            content.append(pictures[index])
    return _question(tuple(content))


def bounded(text: str, reader: str, hint: str) -> str:
    """Return a text of a message to `reader`, such as "the prompt enhancer".

    Raises:
        ChatError: It is too long.
    """
    if len(text) > MAX_TEXT:
        raise ChatError(f"The message to {reader} is longer than {MAX_TEXT} characters.", hint)
    return text


def _question(content: tuple[str | Picture, ...]) -> Message:
    if any(isinstance(part, str) and len(part) > MAX_TEXT for part in content):
        raise SettingsError(
            f"The message to the agent is longer than {MAX_TEXT} characters.",
            "Shorten the request or the prompt.",
        )
    return Message(role="user", content=content)


MAX_CUT_OFF = 2_000
"""Maximum length, in characters, of a cut-off reply that is shown to the model again.

The rest would use up the context that its second answer needs."""
MAX_SEED = 2**53
UNREADABLE = "Your answer could not be read."
AGAIN = (
    "\n\nYour last answer to this request could not be used: {problem} Answer once more from the beginning, "
    "in exactly the form that is described above, with your own texts for this request. Keep it short."
)
"""What is added to a question for the second attempt."""
LONGER = "Allow longer replies: increase 'max_tokens' at the agent's node, or --{}-max-tokens."
ROLES: dict[GrammarName, Role] = {"plan": "planner", "verdict": "critic"}
"""Role of the agent per answer, as the prefix of its command-line options."""

OTHER_SIZE = (
    "{name} was trained with images of up to {trained:,} pixels, but max_pixels is set to {given:,}."
    " Its answers may be worse. To keep the size of the training, set max_pixels to {trained}."
)
ConstrainedDecoding = Literal["never", "retry", "always"]
"""When replies are decoded under the grammar of their answer, if the backend supports it.

`retry` constrains only the second attempt, so a reply that can be parsed is never changed and costs no mask.
"""

LIMIT_BEFORE = 2048
"""Token limit in the cache key if none is set. It was the default once; old runs can be resumed with it."""

Answer = TypeVar("Answer")
OnToken = Callable[[str], None]


@dataclass(frozen=True)
class AnswerForm(Generic[Answer]):
    """How one kind of answer is parsed, its format as it is shown to the model, and its grammar.

    `template` is the prompt template of the question.
    """

    read: Callable[[str], Answer]
    grammar: str
    name: GrammarName
    template: str = ""

    def asked_with(self, template: str) -> AnswerForm[Answer]:
        """Return this form for a question that was made from a template."""
        return replace(self, template=template)

    def answer(self, reply: str, question: Message) -> Answer:
        """Return the answer in a reply to a question.

        Raises:
            AnswerError: The reply cannot be parsed, or it repeats the template.
        """
        return own_answer(self.read, reply, self.template, [question])


def own_answer(
    read: Callable[[str], Answer], reply: str, template: str, messages: Sequence[Message]
) -> Answer:
    """Return what `read` finds in a reply, unless it repeats the template of the question.

    Raises:
        AnswerError: The reply cannot be parsed, or it repeats the template.
    """
    answer = read(reply)
    asked = " ".join(part for one in messages for part in one.content if isinstance(part, str))
    check_copies(answer, split_reply(reply).reasoning, template, asked)
    return answer


class Agent:
    """A chat model with its prompt set: the given one, else the checkpoint's, else the pack's own."""

    answers: ClassVar[GrammarName]
    defaults: ClassVar[ReplySettings] = ReplySettings()

    def __init__(
        self,
        chat: ChatModel,
        prompt_set: PromptSet | None = None,
        settings: ReplySettings | None = None,
        constrained_decoding: ConstrainedDecoding = "retry",
    ) -> None:
        chat = adopt(chat, ChatModel)
        if self.answers == "verdict" and not chat.sees_images:
            raise SettingsError(
                "The critic cannot judge images: its model has no vision projector (mmproj file) next to its "
                ".gguf file.",
                "Put the mmproj file of the same model into its folder, or choose another critic.",
            )
        self.chat = chat
        own = prompt_set or chat.prompt_set
        self._has_own_prompt_set = own is not None
        self.prompt_set = own or default_prompt_set()
        self.constrained_decoding: ConstrainedDecoding = constrained_decoding
        self.settings = settings or self.defaults
        trained = chat.trained
        if trained is not None:
            trained.check_role(ROLES[self.answers])
            warning = trained.warning
            # A node may have chosen another prompt set for this chat.
            as_stored = prompt_set is None and chat.prompt_set == trained.prompt_set
            if warning is not None and as_stored:
                say_once(chat, warning)
            self.settings = sized_for(chat, trained, self.settings)
        self.settings = self.settings.model_copy(update={"role": ROLES[self.answers]})
        if constrained_decoding == "always":
            self.settings = self.settings.model_copy(update={"grammar": self.answers})

    @property
    def has_own_prompt_set(self) -> bool:
        """Whether the prompt set is its checkpoint's, or was given, and not the pack's own."""
        return self._has_own_prompt_set

    @property
    def prompt_set_digest(self) -> str:
        """Digest of the prompt set."""
        return self.prompt_set.digest

    @property
    def unused_settings(self) -> tuple[UnusedSetting, ...]:
        """Settings that were requested and that the backend does not support."""
        if self.constrained_decoding != "always":
            return ()  # the backend is not asked: it would warn of a library that may never be needed
        return () if self._constrains else ("constrained_decoding",)

    @property
    def _constrains(self) -> bool:
        return self.chat.constrains_replies

    @property
    def _constrains_second(self) -> bool:
        """Whether a second reply is constrained to the grammar of its answer."""
        return self.constrained_decoding != "never" and self._constrains

    @property
    def identity(self) -> str:
        """Everything that affects a reply, as a cache key."""
        given = json.loads(self.settings.key())
        if self.settings.grammar is None:
            # Keys from before this setting do not contain it.
            del given["grammar"]
        # A limit that is set comes last, so that an explicit 2048 differs from the former default.
        limit = given.pop("max_tokens")
        given = {"max_tokens": LIMIT_BEFORE, **given} if limit is None else {**given, "max_tokens": limit}
        prompts = f"prompts={self.prompt_set.digest}"
        return f"{self.chat.identity}|{prompts}|{json.dumps(given, separators=(',', ':'))}"

    def read_reply(
        self,
        reply: Reply,
        message: Message,
        settings: ReplySettings,
        form: AnswerForm[Answer],
        on_token: OnToken | None = None,
    ) -> tuple[Answer, Reply]:
        """Parse a reply. If that fails, ask the model once more (`ask_again`).

        Args:
            reply: The reply.
            message: The message that it answers.
            settings: The settings of the reply.
            form: The expected answer.
            on_token: Called with each new piece of text.

        Returns:
            The answer, and the reply that contains it.

        Raises:
            AnswerError: The second reply cannot be parsed either.
            ChatError: The backend failed.
            Cancelled: The run was cancelled.
        """
        try:
            return form.answer(reply.whole, message), reply
        except AnswerError as error:
            problem = self._explained(error, reply)
        reply = self.ask_again(message, reply, problem, settings, form, on_token)
        try:
            return form.answer(reply.whole, message), reply
        except AnswerError as error:
            raise self._explained(error, reply) from error

    def ask_again(
        self,
        message: Message,
        reply: Reply,
        problem: AnswerError,
        settings: ReplySettings,
        form: AnswerForm[Answer],
        on_token: OnToken | None = None,
    ) -> Reply:
        """Return a second reply to a message.

        Args:
            message: The message.
            reply: The first reply, which cannot be used.
            problem: Why.
            settings: The settings of the first reply.
            form: The expected answer.
            on_token: Called with each new piece of text.

        Raises:
            ChatError: The backend failed.
            Cancelled: The run was cancelled.
        """
        if self._has_own_prompt_set:
            limit = MAX_CUT_OFF if reply.finish == "length" else MAX_TEXT
            again = [
                message,
                Message(role="assistant", content=(reply.text[:limit],)),
                Message(
                    role="user", content=(f"{UNREADABLE} {problem.message} {form.grammar} Keep it short.",)
                ),
            ]
        else:
            # The quote of the reply would be copied too.
            reason = AGAIN.format(problem=problem.problem)
            again = [message.model_copy(update={"content": (*message.content, reason)})]
        settings = self._for_second(settings)
        if self.constrained_decoding != "never":
            settings = settings.model_copy(update={"grammar": form.name})
        return self.chat.reply(again, settings, on_token)

    def for_second_answer(self) -> Self:
        """Return this agent for another answer to a request whose first answer is valid but unsuitable.

        Its replies are sampled. An agent with a prompt set of its own stays as it is.
        """
        if self._has_own_prompt_set:
            return self
        agent = copy(self)
        agent.settings = self._for_second(self.settings)
        return agent

    def _for_second(self, settings: ReplySettings) -> ReplySettings:
        """Return settings for a second attempt: sampled, since greedy decoding might repeat the first."""
        return settings.drawn() if self._has_own_prompt_set else sampled_again(settings)

    def _explained(self, error: AnswerError, reply: Reply) -> AnswerError:
        if reply.finish != "length":
            return error
        cut_off = f"The reply was cut off after {reply.tokens} tokens. "
        problem = AnswerError(f"{cut_off}{error.message}")
        problem.quote, problem.hint = error.quote, LONGER.format(ROLES[self.answers])
        problem.problem = f"{cut_off}{error.problem}"
        return problem


def sampled_again(settings: ReplySettings) -> ReplySettings:
    """Return settings for a second reply: sampled, with the next seed.

    With the same seed, sampling a similar question tends to give the same text.
    """
    sampled = settings.drawn()
    return sampled.model_copy(update={"seed": (sampled.seed + 1) % MAX_SEED})


def sized_for(chat: ChatModel, trained: TrainedWith, settings: ReplySettings) -> ReplySettings:
    """Return the settings with the image size that the agent was trained with.

    If the user set another size, keep it and log a warning once.
    """
    pixels, given = trained.image_pixels, settings.max_pixels
    if pixels is None or pixels == given:
        return settings
    if "max_pixels" not in settings.model_fields_set:
        return settings.model_copy(update={"max_pixels": pixels})
    say_once(chat, OTHER_SIZE.format(name=trained.name, trained=pixels, given=given))
    return settings
