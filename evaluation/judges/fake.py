"""A judge without a model, for testing a setup: it answers every question in the requested format.

`fake:RATE` answers that share of questions positively, and the same question always the same way.
`fake:FILE.json` contains known answers, so that figures can be compared with exact ones, and fails for a
question that the file does not cover. Neither looks at an image beyond its mean color. Answer formats are in
fake_forms.py.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from ...backend.chat.protocol import Message, Reply, ReplySettings
from ...backend.errors import ChatError, SettingsError
from ...backend.files.bounded_reader import read_bytes
from ...backend.pictures import Picture
from ...backend.prompts import PromptSet
from .fake_forms import FakeQuestion, answer_to

MAX_FILE = 64 * 1024 * 1024
NEAR = 6
"""Tolerance of a mean color, in steps of 255. JPEG compression changes it by two or three."""

Decide = Callable[[FakeQuestion], bool]


class KnownAnswer(BaseModel):
    """A known answer and the questions that it applies to.

    Attributes:
        met: Whether the answer is positive.
        text: Text that the question contains.
        about: Text that the single criterion contains (a line of a checklist, a rubric).
        pictures: Number of images in the question.
        color: Mean color of the last image (red, green, blue; 0 to 255).
    """

    model_config = ConfigDict(extra="forbid")

    met: bool
    text: str = ""
    about: str = ""
    pictures: int | None = None
    color: tuple[int, int, int] | None = None


KNOWN = TypeAdapter(list[KnownAnswer])


@dataclass(frozen=True)
class FakeChat:
    """A chat backend that decides with `decide` and answers in the format of the question."""

    name: str
    decide: Decide

    @property
    def identity(self) -> str:
        """Identifier of the judge."""
        return f"fake:{self.name}"

    @property
    def prompt_set(self) -> PromptSet | None:
        """No prompt set."""
        return None

    def reply(
        self,
        messages: Sequence[Message],
        settings: ReplySettings,
        on_token: Callable[[str], None] | None = None,
    ) -> Reply:
        """Return the answer.

        Raises:
            ChatError: If the answer is not known.
        """
        parts = [part for message in messages for part in message.content]
        text = "\n".join(part for part in parts if isinstance(part, str))
        pictures = tuple(part for part in parts if isinstance(part, Picture))
        answer = answer_to(FakeQuestion(text, pictures, str(settings.seed)), self.decide)
        return Reply(text=answer, tokens=len(answer.split()))


def open_fake(argument: str) -> FakeChat:
    """Open a fake judge.

    Args:
        argument: A rate from 0 to 1, or a JSON file of known answers.

    Raises:
        SettingsError: If it is neither.
    """
    try:
        rate = float(argument)
    except ValueError:
        return _knowing(Path(argument))
    if not 0 <= rate <= 1:
        raise SettingsError(f"The rate {argument!r} is not between 0 and 1.", "Use for example fake:0.7.")
    return FakeChat(f"{rate:g}", lambda question: drawn(question) < rate)


def drawn(question: FakeQuestion) -> float:
    """Return a number from 0 to 1 that depends only on the question."""
    digest = hashlib.blake2b(digest_size=8)
    for part in (question.text, question.about, question.seed, *(one.digest for one in question.pictures)):
        digest.update(f"{len(part)}:{part}".encode("utf-8", "replace"))
    return int.from_bytes(digest.digest(), "big") / 2**64


def _knowing(path: Path) -> FakeChat:
    content = read_bytes(path, MAX_FILE, SettingsError, "Known answers")
    try:
        known = KNOWN.validate_json(content)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = ".".join(map(str, fault["loc"])) or "file"
        raise SettingsError(
            f"{str(path)!r} is not a valid list of known answers ({where}: {fault['msg']}).",
            "Fix the file, or use fake:RATE with a number from 0 to 1.",
        ) from error

    def decide(question: FakeQuestion) -> bool:
        for one in known:
            if _fits(one, question):
                return one.met
        raise ChatError(
            "The file of known answers does not cover the question "
            f"{(question.about or question.text)[-100:]!r}."
        )

    return FakeChat(hashlib.blake2b(content, digest_size=8).hexdigest(), decide)


def _fits(known: KnownAnswer, question: FakeQuestion) -> bool:
    if known.text not in question.text or known.about not in (question.about or question.text):
        return False
    if known.pictures is not None and known.pictures != len(question.pictures):
        return False
    return known.color is None or (
        bool(question.pictures) and math.dist(known.color, mean_color(question.pictures[-1])) <= NEAR
    )


def mean_color(picture: Picture) -> tuple[int, int, int]:
    """Return the mean red, green and blue of all pixels, each 0 to 255."""
    red, green, blue = picture.image.resize((1, 1), Image.Resampling.BOX).split()
    return red.getextrema()[0], green.getextrema()[0], blue.getextrema()[0]  # type: ignore[return-value]
