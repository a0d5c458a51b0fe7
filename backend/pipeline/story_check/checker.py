"""Story checker: asks a chat model which images of a finished story do not fit the others.

The critic compares an image with the one before it, so it does not see what was lost three steps earlier. Any
chat model that sees images may be the story checker, also the critic's. It answers once per story, about one
sheet of all images. A reply that cannot be used is asked for once more; the second error is raised. A finding
is never guessed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from ...agents.messages import filled_parts, message_of
from ...agents.writers.writer import Writer
from ...answers.agent_texts import check_text
from ...answers.answer_models import unfit
from ...answers.reading import answers_in, only_value
from ...answers.reply_text import split_reply
from ...chat.abilities import MayCheckStories, MaySee
from ...chat.protocol import ChatModel, Message, ReplySettings
from ...errors import AnswerError, SettingsError
from ...prompts import TEMPLATES
from ...prompts.enhancer import read_template
from ...types import MAX_FINDINGS, FindingKind, Request, StepResult, StoryFinding
from .sheet import MAX_AREA, story_sheet

TEMPLATE = TEMPLATES / "story_check" / "story_check.txt"
KEYS = ("findings",)
MAX_PROBLEM = 500
"""Maximum length of a problem in characters, since it is added to a prompt."""
AGAIN = (
    "\n\nYour last answer could not be used: {problem} Answer once more from the beginning, with "
    '<think>your reasoning</think> and then <answer>{{"findings": [{{"step_number": 1, "kind": "state", '
    '"problem": "..."}}]}}</answer>.'
)


class _Answer(BaseModel):
    model_config = ConfigDict(extra="ignore")


class _Finding(_Answer):
    step_number: int
    kind: Annotated[FindingKind, BeforeValidator(lambda one: one.lower() if isinstance(one, str) else one)]
    problem: Annotated[
        str,
        BeforeValidator(lambda one: " ".join(one.split()) if isinstance(one, str) else one),
        Field(min_length=1, max_length=MAX_PROBLEM),
    ]


class _Findings(_Answer):
    findings: Annotated[list[_Finding], Field(max_length=MAX_FINDINGS)]


class StoryChecker(Writer):
    """Checks stories. Its arguments are those of `Writer`.

    Raises:
        SettingsError: The model cannot see images, or cannot read a sheet of several.
    """

    max_tokens = 4096

    def __init__(
        self, chat: ChatModel, settings: ReplySettings | None = None, staying: Sequence[object] = ()
    ) -> None:
        if isinstance(chat, MaySee) and not chat.sees_images:
            raise SettingsError(
                "The story checker cannot see images: its model has no vision projector (mmproj file) next "
                "to its .gguf file.",
                "Put the mmproj file of the same model into its folder, or choose another story checker.",
            )
        if isinstance(chat, MayCheckStories) and not chat.checks_stories:
            raise SettingsError(
                "The tiny world's agents cannot check stories: they read single small images.",
                "Choose another story checker.",
            )
        given = settings or ReplySettings()
        if "max_pixels" not in given.model_fields_set:
            given = given.model_copy(update={"max_pixels": MAX_AREA})
        super().__init__(chat, given, staying)
        self._template = read_template(TEMPLATE)

    @property
    def identity(self) -> str:
        """Everything that affects a reply, as a cache key."""
        template = hashlib.blake2b(self._template.encode(), digest_size=8).hexdigest()
        return f"{self.chat.identity}|prompts={template}|{self.settings.key()}"

    def check(self, request: Request, pages: Sequence[StepResult]) -> tuple[StoryFinding, ...]:
        """Return the images that do not fit the story, in the order of the steps.

        Args:
            request: The request.
            pages: The steps that have an image, in order.

        Raises:
            AnswerError: The second reply cannot be used either.
            ChatError: The backend failed.
            SettingsError: The prompts are too long for a message.
            Cancelled: The run was cancelled.
        """
        numbers = [page.step.number for page in pages]
        return self.written(
            [self._question(request, pages)],
            lambda reply: read_findings(reply, numbers),
            AGAIN,
            self._template,
        )

    def _question(self, request: Request, pages: Sequence[StepResult]) -> Message:
        steps = "\n".join(f"{page.step.number}. {text_of(page)}" for page in pages)
        shown = [(page.step.number, page.image) for page in pages if page.image]
        parts = filled_parts(self._template, request=request.text, steps=steps)
        return message_of(parts, (story_sheet(shown, self.settings.max_pixels),))


def text_of(page: StepResult) -> str:
    """Return the texts of a step as the story checker reads them, in one line."""
    texts = (page.step.prompt, page.step.auxiliary_text)
    return " ".join(" ".join(one.split()) for one in texts if one)


def read_findings(text: str, numbers: Sequence[int]) -> tuple[StoryFinding, ...]:
    """Return the findings in a reply, in the order of the steps.

    Args:
        text: The reply.
        numbers: Numbers of the steps on the sheet.

    Raises:
        AnswerError: The reply does not contain findings, contains several different ones, is cut off, or
            names a step that is not on the sheet.
    """
    found, _ = answers_in(split_reply(text), KEYS)
    if not found:
        raise AnswerError("The reply does not contain findings.", text or "(empty)")
    if any(one.open_string or one.open_depth for one in found):
        raise AnswerError("The findings are cut off.", found[-1].raw[-200:])
    values = [only_value(one, KEYS) for one in found]
    if any([*one.values()] != [*values[0].values()] for one in values):
        raise AnswerError("The reply contains several different answers.", text)
    try:
        answer = _Findings.model_validate({KEYS[0]: next(iter(values[0].values()))})
    except ValidationError as error:
        raise unfit("answer", error, found[0]) from error
    for one in answer.findings:
        check_text("problem", one.problem)
        if one.step_number not in numbers:
            raise AnswerError(f"Step {one.step_number} is not on the sheet.", found[0].raw)
    findings = (
        StoryFinding(step=one.step_number, kind=one.kind, problem=one.problem) for one in answer.findings
    )
    return tuple(sorted(dict.fromkeys(findings), key=lambda one: one.step))
