"""Prompt enhancer: rewrites the prompt of a step for the image model.

It reads the prompt alone, without the images, so an enhanced prompt can be cached by its prompt. An enhancer
needs no checkpoint of its own: any chat model does, with the template of the image model's maker or ours.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...answers.other_tags import OTHER_TAG, OtherTags
from ...answers.reply_text import TAG, tag_name
from ...chat.protocol import ChatModel, Message, ReplySettings
from ...errors import AnswerError
from ...prompts.enhancer import SLOT, EnhancerPrompts, enhancer_prompts
from ...types import Enhancement
from ..messages import bounded
from .writer import Writer

READER, HINT = "the prompt enhancer", "Shorten the prompt or the enhancer's template."
MAX_ENHANCED = 20_000
"""Maximum length of an enhanced prompt in characters."""
AGAIN = "\n\nYour last answer could not be used: {problem} Answer once more, with the new text alone."
UNUSABLE = (
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
            return Enhancement(prompt=self.written(messages, read_prompt, AGAIN, template))
        except AnswerError as error:
            return Enhancement(prompt=prompt, warning=UNUSABLE.format(problem=error.problem))


def _messages(template: str, prompt: str) -> list[Message]:
    if SLOT in template:
        messages = [Message(role="user", content=(bounded(template.replace(SLOT, prompt), READER, HINT),))]
    else:
        system = Message(role="system", content=(bounded(template, READER, HINT),))
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
