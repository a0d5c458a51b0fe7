"""Scores an edited image with a chat model that answers four questions, two at a time.

The method is VIEScore (arXiv 2312.14867). Semantics is the lower of "instruction followed" and "everything
else preserved", and quality the lower of "natural" and "free of artifacts" (see
`docs/reference/file-formats.md`), so that a good half cannot hide a bad one. Scores that cannot be read are
requested once more. If that fails too, it is an error, never a middle value.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from typing import TypeVar

from typing_extensions import Unpack

from ..core.answers.reply_text import split_reply
from ..core.errors import AnswerError, ScorerError
from ..core.pictures import Picture
from ..core.seams.scorer import Scorer
from ..core.types import Score
from .chat import BackendOptions, ChatModel, Message, ReplySettings, open_chat

Answer = TypeVar("Answer")

NUMBER = r"(\d{1,3}(?:\.\d{1,6})?)(?:\s*/\s*10)?"
PAIR = re.compile(rf"[\[(]\s*{NUMBER}\s*[,;]\s*{NUMBER}\s*[\])]")
BARE_PAIR = re.compile(rf"{NUMBER}(?:\s*[,;]\s*|\s+){NUMBER}\s*\.?")


SLOT = "{instruction}"
REASON = "{reason}"
SEMANTICS = """You are evaluating an edited image. The first image is the image before the edit, and the \
second image is the result. If the first image is plain white, nothing existed before the edit, and the \
second image was generated from the instruction alone.

Instruction:
{instruction}

Rate two aspects, each with a number from 0 to 10.
First number: how well does the second image follow the instruction? 0: nothing of the instruction was \
followed. 5: about half of it was followed, or a part of it is clearly wrong. 10: it was followed \
completely, with the correct position, number, color and style.
Second number: how well was everything else preserved? 0: it is a different image. 5: several things \
changed that the instruction did not ask to change. 10: only what the instruction asked for has changed. If \
the first image is plain white, 10 means that the image contains nothing that the instruction did not ask \
for.
"""
QUALITY = """You are evaluating the quality of an image, regardless of its content.

Rate two aspects, each with a number from 0 to 10.
First number: how natural does the image look? 0: its elements do not fit together (lighting, shadows, size, \
perspective, style), or it is physically implausible (objects that float, intersect each other or stand \
without support, water or smoke that does not flow). 5: a part of it looks out of place. 10: it looks \
natural and consistent.
Second number: how free of artifacts is the image? 0: it is full of artifacts (broken or duplicated shapes; \
wrong anatomy, such as extra or missing limbs and fingers, joints bent the wrong way or distorted faces; \
blur, noise, seams or garbled text). 5: it has some artifacts that are noticeable at once. 10: it has no \
artifacts.
"""
FORM = """
Think first, as briefly as possible. Then answer with the two numbers in this format and write nothing after:
<think>your reasoning</think>
<answer>[first number, second number]</answer>"""
"""Answer format, appended to both questions."""
RETRY = """Your answer could not be read. {reason} Answer again with two numbers in this format:
<answer>[first number, second number]</answer>"""
_TEXTS = (SEMANTICS + QUALITY + FORM + RETRY).encode()
PROMPTS = f"prompts=2:{hashlib.blake2b(_TEXTS, digest_size=8).hexdigest()}"
"""Part of the identity of a judge, to which stored scores refer: changed texts need a new number."""

JUDGING = ReplySettings(max_tokens=1024)
"""Default decoding of a judge: greedy, at most 1024 tokens."""


class ChatJudge(Scorer):
    """A scorer that asks a chat model.

    Args:
        chat: The model.
        settings: Decoding settings. Default: `JUDGING`.
    """

    repeats = True

    def __init__(self, chat: ChatModel, settings: ReplySettings | None = None) -> None:
        self.chat = chat
        self.settings = settings or JUDGING

    @property
    def identity(self) -> str:
        """Identity of the model, the prompts and the decoding settings."""
        return identity_of(self.chat.identity, self.settings)

    def score(self, before: Picture | None, after: Picture, instruction: str) -> Score:
        """Score an image in two replies.

        Args:
            before: Source image. None if the image was generated from text alone; the model then sees a white
                image of the same size.
            after: Image to score.
            instruction: Original prompt of the step.

        Returns:
            Semantics and quality, 0..10 each.

        Raises:
            ScorerError: The scores cannot be read.
            ChatError: The model failed.
            Cancelled: The user stopped the run.
        """
        followed, preserved, natural, clean = self.numbers(before, after, instruction)
        return Score(semantics=min(followed, preserved), quality=min(natural, clean))

    def numbers(
        self, before: Picture | None, after: Picture, instruction: str, repeat: int = 0
    ) -> tuple[float, float, float, float]:
        """Return the four numbers of the replies, 0..10 each.

        Args:
            before: As for `score`.
            after: As for `score`.
            instruction: As for `score`.
            repeat: Values above 0 sample independent replies with that seed.

        Returns:
            Instruction followed, everything else preserved, natural, free of artifacts.

        Raises:
            ScorerError: The scores cannot be read.
            ChatError: The model failed.
            Cancelled: The user stopped the run.
        """
        settings = self.settings.seeded(repeat)
        images = (before or Picture.white(after.size), after)
        # Replaced once, so that a slot in the instruction itself is not filled.
        semantics = self._ask(SEMANTICS.replace(SLOT, instruction, 1), images, settings)
        return *semantics, *self._ask(QUALITY, (after,), settings)

    def _ask(self, prompt: str, images: Sequence[Picture], settings: ReplySettings) -> tuple[float, float]:
        content = (*images, prompt + FORM)
        return ask_twice(self.chat, content, settings, read_scores, RETRY, "The judge's scores")


def ask_twice(
    chat: ChatModel,
    content: Sequence[str | Picture],
    settings: ReplySettings,
    read: Callable[[str], Answer],
    retry: str,
    what: str,
) -> Answer:
    """Return the answer to a question. If the reply cannot be read, the model is asked once more.

    Args:
        chat: The model.
        content: The question with its images.
        settings: Decoding settings. The second reply is always sampled.
        read: Reads a reply. It raises AnswerError if it cannot.
        retry: Question after a reply that cannot be read; contains REASON.
        what: What is read, for the error, such as "The judge's scores".

    Raises:
        ScorerError: The second reply cannot be read either.
        ChatError: The model failed.
        Cancelled: The user stopped the run.
    """
    question = Message(role="user", content=tuple(content))
    reply = chat.reply([question], settings)
    try:
        return read(reply.whole)
    except AnswerError as error:
        reason = error.message
    again = [
        question,
        Message(role="assistant", content=(reply.text,)),
        Message(role="user", content=(retry.replace(REASON, reason, 1),)),
    ]
    try:
        return read(chat.reply(again, settings.drawn()).whole)
    except AnswerError as error:
        raise ScorerError(f"{what} cannot be read. {error}") from error


def identity_of(chat: str, settings: ReplySettings) -> str:
    """Return the identity of a judge with a chat model of this identity."""
    return f"judge:{chat}|{PROMPTS}|{settings.key()}"


def read_scores(text: str) -> tuple[float, float]:
    """Return the pair of scores in a judge's reply, 0..10 each.

    A pair looks like `[8, 7]`, anywhere outside the reasoning, also as `8/10` or inside JSON.

    Raises:
        AnswerError: The reply contains no pair, several different pairs, or a score out of range.
    """
    places = split_reply(text).places
    pairs = {
        (float(first), float(second)) for place in places for first, second in PAIR.findall(place.content)
    }
    if not pairs:
        bare = [match for place in places if (match := BARE_PAIR.fullmatch(place.content.strip()))]
        pairs = {(float(match.group(1)), float(match.group(2))) for match in bare}
    if len(pairs) != 1:
        found = "no pair of scores" if not pairs else f"{len(pairs)} different pairs of scores"
        raise AnswerError(f"The reply contains {found}.", text or "(empty)")
    scores = pairs.pop()
    if max(scores) > 10:
        raise AnswerError("A score is above 10.", f"{scores[0]:g}, {scores[1]:g}")
    return scores


OPTIONS = BackendOptions
"""Options that `open` accepts."""


def open(argument: str, **options: Unpack[BackendOptions]) -> ChatJudge:
    """Open a judge.

    Args:
        argument: Chat backend, such as `openai:MODEL@URL`.
        options: Options of the backend.

    Raises:
        SettingsError: The backend is unknown, or an option is not supported.
        ChatError: The model cannot be loaded.
    """
    return ChatJudge(open_chat(argument, **{**options, "download": options.get("download") or None}))
