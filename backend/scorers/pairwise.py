"""Compares two images at a time, in both orders, since models prefer an image for its position.

Comparing is easier for a model than rating. A comparison counts only if both orders agree; otherwise it is a
draw. Images of one step are compared with each other (`score_together`), and the score is the share of
comparisons that an image wins. A single image can only be compared with its source image.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations

from ..answers.reply_text import split_reply
from ..chat import ChatModel, ReplySettings, open_chat
from ..errors import AnswerError, ScorerError
from ..pictures import Picture
from ..types import Score
from .judge import ask_twice
from .judge_prompts import SLOT, digest_of

SETTINGS = ReplySettings(max_tokens=1024)
MAX_TOGETHER = 16
"""Maximum number of images that are compared with each other; 16 are 240 replies."""
QUESTION = """You compare two results of the same instruction for an image. {images}

Instruction:
{instruction}

Which result is better? First compare how completely and correctly each follows the instruction. If the \
source image is shown, what the instruction does not mention must be preserved. Then compare how natural and \
free of artifacts they are. Do not prefer an image for its position.

Think briefly, then answer in this format and write nothing after:
<think>your reasoning</think>
<answer>first</answer>, <answer>second</answer> or <answer>equal</answer>"""
WITH_SOURCE = (
    "The first image is the source image. The second image is the first result, the third image the \
second result."
)
WITHOUT = "The first image is the first result, and the second image is the second result."
RETRY = "Your answer could not be read. {reason} Answer with <answer>first</answer>, <answer>second</answer> \
or <answer>equal</answer>."
WORD = re.compile(r"\W*(first|second|equal)\W*", re.IGNORECASE)
SHARES = {"first": 1.0, "second": 0.0, "equal": 0.5}


class PairwiseJudge:
    """A scorer that compares images with a chat model.

    Args:
        chat: The model.
        settings: Decoding settings.
    """

    def __init__(self, chat: ChatModel, settings: ReplySettings = SETTINGS) -> None:
        self.chat, self.settings = chat, settings
        self.disagreements = 0
        """Comparisons in which the two orders contradicted each other."""
        self.comparisons = 0

    @property
    def identity(self) -> str:
        """Identity of the model, the prompts and the decoding settings."""
        prompts = digest_of("\0".join((QUESTION, WITH_SOURCE, WITHOUT, RETRY)))
        return f"pairwise:{self.chat.identity}|prompts={prompts}|{self.settings.key()}"

    def compare(self, before: Picture | None, one: Picture, other: Picture, instruction: str) -> float:
        """Compare two images in both orders.

        Args:
            before: Source image of both. None if they were generated from text alone.
            one: An image.
            other: Another one.
            instruction: Original prompt of the step.

        Returns:
            1 if `one` is better, 0 if `other` is, 0.5 if they are equal or the two orders contradict each
            other. One order that says equal leaves 0.75 or 0.25.

        Raises:
            ScorerError: A reply cannot be read.
            ChatError: The model failed.
            Cancelled: The user stopped the run.
        """
        if one == other:
            return 0.5
        forth = self._ask(before, one, other, instruction)
        back = 1 - self._ask(before, other, one, instruction)
        self.comparisons += 1
        self.disagreements += abs(forth - back) == 1
        return (forth + back) / 2

    def score_together(
        self, before: Picture | None, afters: Sequence[Picture], instruction: str
    ) -> list[Score]:
        """Compare each image with each other one; the score is the share that it wins, times 10.

        Raises:
            ScorerError: A reply cannot be read, or there are too many images.
            ChatError: The model failed.
            Cancelled: The user stopped the run.
        """
        if len(afters) > MAX_TOGETHER:
            raise ScorerError(
                f"{len(afters)} images are too many to compare with each other (maximum {MAX_TOGETHER}).",
                "Use a scorer that rates single images.",
            )
        if len(afters) == 1:
            return [self.score(before, afters[0], instruction)]
        won = [0.0] * len(afters)
        for first, second in combinations(range(len(afters)), 2):
            share = self.compare(before, afters[first], afters[second], instruction)
            won[first] += share
            won[second] += 1 - share
        shares = [10 * one / (len(afters) - 1) for one in won]
        return [Score(semantics=share, quality=share) for share in shares]

    def score(self, before: Picture | None, after: Picture, instruction: str) -> Score:
        """Compare an image with its source image.

        Args:
            before: Source image.
            after: Image to score.
            instruction: Original prompt of the step.

        Returns:
            10 if the image follows the instruction better than the source image does, 5 if neither does
            clearly, 0 if the source image does; both parts are equal.

        Raises:
            ScorerError: There is no source image, or a reply cannot be read.
            ChatError: The model failed.
            Cancelled: The user stopped the run.
        """
        if before is None:
            raise ScorerError(
                "A pairwise judge cannot score a single image that was generated from text.",
                "Use it to keep the best attempt, or combine steps with a source image only.",
            )
        share = 10 * self.compare(before, after, before, instruction)
        return Score(semantics=share, quality=share)

    def _ask(self, before: Picture | None, first: Picture, second: Picture, instruction: str) -> float:
        images = (first, second) if before is None else (before, first, second)
        shown = QUESTION.replace("{images}", WITHOUT if before is None else WITH_SOURCE, 1)
        content = (*images, shown.replace(SLOT, instruction, 1))
        return ask_twice(self.chat, content, self.settings, read_comparison, RETRY, "The comparison")


def read_comparison(text: str) -> float:
    """Return 1 for first, 0 for second, 0.5 for equal.

    Raises:
        AnswerError: The reply contains no such answer, or several different ones.
    """
    words = [WORD.fullmatch(place.content) for place in split_reply(text).places]
    found = {word.group(1).lower() for word in words if word}
    if len(found) != 1:
        raise AnswerError(f"The reply contains {len(found)} different comparisons.", text or "(empty)")
    return SHARES[found.pop()]


def open(
    argument: str,
    *,
    adapter: str | None = None,
    dtype: str | None = None,
    device: str | None = None,
    quantization: str | None = None,
    download: bool | None = None,
) -> PairwiseJudge:
    """Open a pairwise judge.

    Args:
        argument: Chat backend, such as `openai:MODEL@URL`.
        adapter: Option of the backend: folder of a LoRA adapter.
        dtype: Option of the backend.
        device: Option of the backend.
        quantization: Option of the backend.
        download: Option of the backend: whether a hub id may be downloaded.

    Raises:
        SettingsError: The backend is unknown, or an option is not supported.
        ChatError: The model cannot be loaded.
    """
    chat = open_chat(
        argument,
        adapter=adapter,
        dtype=dtype,
        device=device,
        quantization=quantization,
        download=download or None,
    )
    return PairwiseJudge(chat)
