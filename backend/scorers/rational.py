"""RationalRewards (arXiv 2604.11626): a chat model that justifies and rates up to four aspects, 1 to 4 each.

Semantics is the lowest of text faithfulness, image faithfulness and, if the prompt asks for lettering, text
rendering; quality is the physical and visual quality. The published evaluation adds the aspects and uses 2.5
for one that is missing. Here a missing one is an error, and the lowest counts, as for the other judges.
"""

from __future__ import annotations

import re

from ..answers.reply_text import split_reply
from ..chat import ChatModel, ReplySettings, open_chat
from ..errors import AnswerError
from ..pictures import Picture
from ..types import Score
from .judge import ask_twice
from .judge_prompts import digest_of
from .reward_prompts import RATIONAL_PARTS, import_rational, rational_prompt

SETTINGS = ReplySettings(max_tokens=4096)
LOW, HIGH = 1.0, 4.0
SCORE = re.compile(r"##\s{0,8}Score\s{0,8}:[\s\[*]{0,20}(N/?A|\d{1,6}(?:\.\d{1,6})?)", re.IGNORECASE)
RETRY = "Your answer could not be read. {reason} Answer again in the requested format, with every score."


class RationalRewards:
    """Scores images with RationalRewards-8B-Edit or -T2I.

    Args:
        chat: The model.
        edit_prompt: Prompt for edits, with two image marks and `{request}`. Default: this package's own.
        settings: Decoding settings.
    """

    def __init__(
        self, chat: ChatModel, edit_prompt: str | None = None, settings: ReplySettings = SETTINGS
    ) -> None:
        self.chat, self.settings = chat, settings
        self.prompts = {True: edit_prompt or rational_prompt(True), False: rational_prompt(False)}

    @property
    def identity(self) -> str:
        """Identity of the model, the prompts and the decoding settings."""
        prompts = digest_of("\0".join([*self.prompts.values(), RETRY]))
        return f"rationalrewards:{self.chat.identity}|prompts={prompts}|{self.settings.key()}"

    def score(self, before: Picture | None, after: Picture, instruction: str) -> Score:
        """Score an image in one reply.

        Args:
            before: Source image. None asks about one image, without image faithfulness.
            after: Image to score.
            instruction: Original prompt of the step.

        Returns:
            Semantics and quality, 0..10 each.

        Raises:
            ScorerError: The scores cannot be read.
            ChatError: The model failed.
            Cancelled: The user stopped the run.
        """
        followed, preserved, natural, _ = self.numbers(before, after, instruction)
        return Score(semantics=min(followed, preserved), quality=natural)

    def numbers(
        self, before: Picture | None, after: Picture, instruction: str, repeat: int = 0
    ) -> tuple[float, float, float, float]:
        """Return two values of semantics and two equal ones of quality, 0..10 each.

        The first is the lower of text faithfulness and text rendering, the second image faithfulness.
        Arguments and errors are those of `score`; values of `repeat` above 0 sample independent replies.
        """
        edit = before is not None
        images = (before, after) if before is not None else (after,)
        found = ask_twice(
            self.chat,
            _filled(self.prompts[edit], instruction, images),
            self.settings.seeded(repeat),
            lambda text: read_rational(text, edit),
            RETRY,
            "The scores of RationalRewards",
        )
        texts = [found["Text Faithfulness"], found["Text Rendering"]]
        followed = min(one for one in texts if one is not None)
        preserved, natural = found["Image Faithfulness"], found["Physical and Visual Quality"]
        assert natural is not None, "read_rational returns no answer without it"
        return followed, followed if preserved is None else preserved, natural, natural


def read_rational(text: str, edit: bool) -> dict[str, float | None]:
    """Return the rated aspects of an answer by heading, 0..10 each.

    `None` for lettering that is not requested, and for image faithfulness without a source image.

    Raises:
        AnswerError: An aspect is missing, rated twice, or out of range.
    """
    body = "\n".join(place.content for place in split_reply(text).places)
    # The headings can also be in the analysis before and in the summary after the judgement.
    body = body.rpartition("Detailed Judgement")[2].partition("# Summary")[0]
    parts = [one for one in RATIONAL_PARTS if edit or one != "Image Faithfulness"]
    starts = [_heading(body, number, part) for number, part in enumerate(parts, 1)]
    found: dict[str, float | None] = dict.fromkeys(RATIONAL_PARTS)
    for part, start, end in zip(parts, starts, [*starts[1:], len(body)], strict=True):
        scores = SCORE.findall(body[start:end]) if start < end else []
        if len(scores) != 1:
            raise AnswerError(f"{part!r} has {len(scores)} scores instead of one.", body[start:end])
        if scores[0].upper().startswith("N"):
            if part != "Text Rendering":
                raise AnswerError(f"{part!r} is not rated.", body[start:end])
            continue
        value = float(scores[0])
        if not LOW <= value <= HIGH:
            raise AnswerError(f"The score of {part!r} is not from 1 to 4.", scores[0])
        found[part] = (value - LOW) / (HIGH - LOW) * 10
    return found


def _heading(body: str, number: int, part: str) -> int:
    """Return where the text below the heading of a part begins."""
    found = re.search(rf"{number}\.[\s*]{{0,20}}{re.escape(part)}", body)
    if found is None:
        raise AnswerError(f"The reply does not rate {part!r}.", body or "(empty)")
    return found.end()


def _filled(prompt: str, instruction: str, images: tuple[Picture, ...]) -> tuple[str | Picture, ...]:
    """Return the content of a message: the images at their marks, the instruction in its slot."""
    content: list[str | Picture] = []
    # Split first, so that an image mark or a slot in the instruction stays text.
    for number, piece in enumerate(prompt.split("<image>")):
        content.append(piece.replace("{request}", instruction, 1))
        content += [images[number]] if number < len(images) else []
    return tuple(one for one in content if one != "")


def open(
    argument: str,
    *,
    prompts: str | None = None,
    dtype: str | None = None,
    device: str | None = None,
    quantization: str | None = None,
    download: bool | None = None,
) -> RationalRewards:
    """Open RationalRewards.

    Args:
        argument: Chat backend, such as `openai:MODEL@URL` or `transformers:FOLDER`.
        prompts: Checkout of its repository, whose prompt for edits is used. Default: this package's own.
        dtype: Option of the backend.
        device: Option of the backend.
        quantization: Option of the backend.
        download: Option of the backend: whether a hub id may be downloaded.

    Raises:
        SettingsError: The backend is unknown, an option is not supported, or the checkout has no prompt.
        ChatError: The model cannot be loaded.
    """
    chat = open_chat(
        argument, dtype=dtype, device=device, quantization=quantization, download=download or None
    )
    return RationalRewards(chat, import_rational(prompts) if prompts else None)
