"""Scores an edit by asking any chat model four questions, two at a time (VIEScore, arXiv 2312.14867).

Decision: semantics is the lower of "was it done" and "was nothing else changed", quality the lower of
"natural" and "free of defects" (FORMATS: rewards), so that a good half cannot hide a bad one. Scores that
cannot be read are asked for once more and are then an error, never a middle value.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from ..answers.reply_text import split_reply
from ..chat import ChatModel, Message, ReplySettings, open_chat
from ..errors import AnswerError, ScorerError
from ..pictures import Picture
from ..types import Score

FORM = """
Think first, as briefly as you can, then answer with the two numbers in this form and nothing after it:
<think>your reasoning</think>
<answer>[first number, second number]</answer>"""

SEMANTICS = """You score an edited image. The first image is the one before, the second is the one after. \
If the first is plain white, nothing was there before and the second was drawn from words alone.

What was to be done:
{instruction}

Give two numbers from 0 to 10.
First: how far was it done? 0: nothing of it can be seen. 5: about half, or plainly wrong in a part. 10: \
all of it, in the right place, number, colour and manner.
Second: how well was everything else kept? 0: the image is another one. 5: several things that were not to \
change have changed. 10: nothing has changed that was not to; with a white first image: nothing is there \
that was not asked for.
"""

QUALITY = """You score the quality of an image, whatever it shows.

Give two numbers from 0 to 10.
First: how natural is it? 0: nothing fits together (light, shadows, size, perspective, style), or it could \
not be so (things float, cut through one another, stand without support, water and smoke that do not flow). \
5: a part of it looks out of place. 10: it looks all of one piece.
Second: how free of defects is it? 0: full of them (broken or doubled shapes, bodies that are not built so: \
too many or missing limbs and fingers, joints bent the wrong way, melted faces; blur, noise, seams, ruined \
text). 5: some that one sees at once. 10: none.
"""

NUMBER = r"(\d{1,3}(?:\.\d{1,6})?)(?:\s*/\s*10)?"
PAIR = re.compile(rf"[\[(]\s*{NUMBER}\s*[,;]\s*{NUMBER}\s*[\])]")
BARE_PAIR = re.compile(rf"{NUMBER}(?:\s*[,;]\s*|\s+){NUMBER}\s*\.?")


JUDGING = ReplySettings(max_tokens=1024)
"""How a judge answers if nothing else is said: greedily."""


class ChatJudge:
    """A scorer over a chat model. `settings` default to greedy decoding of at most 1024 tokens."""

    def __init__(self, chat: ChatModel, settings: ReplySettings | None = None) -> None:
        self.chat = chat
        self.settings = settings or JUDGING

    @property
    def identity(self) -> str:
        return identity_of(self.chat.identity, self.settings)

    def score(self, before: Picture | None, after: Picture, instruction: str) -> Score:
        """Semantics and quality, 0..10 each, from two replies; raises ScorerError, ChatError, Cancelled."""
        done, kept, natural, free = self.numbers(before, after, instruction)
        return Score(semantics=min(done, kept), quality=min(natural, free))

    def numbers(
        self, before: Picture | None, after: Picture, instruction: str, repeat: int = 0
    ) -> tuple[float, float, float, float]:
        """The four numbers as they were answered: done, all else kept, natural, free of defects. Each
        `repeat` above 0 is an answer of its own, drawn with that seed. Raises as `score` does."""
        settings = self.settings.seeded(repeat)
        # The instruction is put in last, so that nothing in it is taken for a slot.
        question = SEMANTICS.replace("{instruction}", instruction, 1)
        semantics = self._ask(question, (before or Picture.white(after.size), after), settings)
        return *semantics, *self._ask(QUALITY, (after,), settings)

    def _ask(
        self, question: str, pictures: Sequence[Picture], settings: ReplySettings
    ) -> tuple[float, float]:
        message = Message(role="user", content=(*pictures, question + FORM))
        reply = self.chat.reply([message], settings)
        try:
            return read_scores(reply.whole)
        except AnswerError as error:
            reason = (
                f"Your answer could not be read. {error.message} Answer with <answer>[number, "
                "number]</answer>."
            )
        retry = [
            message,
            Message(role="assistant", content=(reply.text,)),
            Message(role="user", content=(reason,)),
        ]
        reply = self.chat.reply(retry, settings.drawn())
        try:
            return read_scores(reply.whole)
        except AnswerError as error:
            raise ScorerError(f"The judge's scores cannot be read. {error}") from error


def identity_of(chat: str, settings: ReplySettings) -> str:
    """The identity of a judge over the chat model of this identity."""
    wording = hashlib.blake2b((SEMANTICS + QUALITY + FORM).encode(), digest_size=8).hexdigest()
    return f"judge:{chat}|questions={wording}|{settings.key()}"


def read_scores(text: str) -> tuple[float, float]:
    """The pair of scores (0..10 each) in a judge's reply: `[8, 7]` wherever it stands outside the reasoning,
    also as `8/10` or within JSON. Raises AnswerError if there is none, several that differ, or one out of
    range."""
    places = split_reply(text).places
    pairs = {
        (float(first), float(second)) for place in places for first, second in PAIR.findall(place.content)
    }
    if not pairs:
        bare = [match for place in places if (match := BARE_PAIR.fullmatch(place.content.strip()))]
        pairs = {(float(match.group(1)), float(match.group(2))) for match in bare}
    if len(pairs) != 1:
        found = "no pair of scores" if not pairs else f"{len(pairs)} different pairs of scores"
        raise AnswerError(f"There is {found} in the reply.", text or "(empty)")
    scores = pairs.pop()
    if max(scores) > 10:
        raise AnswerError("A score is above 10.", f"{scores[0]:g}, {scores[1]:g}")
    return scores


def open(
    argument: str,
    *,
    adapter: str | None = None,
    dtype: str | None = None,
    device: str | None = None,
    quantization: str | None = None,
    download: bool | None = None,
) -> ChatJudge:
    """A judge over the chat backend that `argument` names (such as `openai:MODEL@URL`); options are the
    backend's."""
    chat = open_chat(
        argument,
        adapter=adapter,
        dtype=dtype,
        device=device,
        quantization=quantization,
        download=download or None,
    )
    return ChatJudge(chat)
