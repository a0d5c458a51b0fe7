"""The story check: all images of a finished story on one sheet, judged together by any chat model.

The critic compares an image with the one before it, so it does not see what was lost three steps earlier. Any
chat model that sees images may be the story checker, also the critic's. It answers once per story. A reply
that cannot be used is asked for once more; the second error is raised. A finding is never guessed.

The loop then reopens the first step whose image does not fit. One step is reopened at a time: the steps after
it are generated from its new image, so findings about them are out of date, and the story is checked again. A
reopened step gets as many attempts as any step, which the critic judges. The request is in choices.json and
the check in story_checks.json, so a run that was stopped anywhere continues there.
"""

from __future__ import annotations

import hashlib
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from collections.abc import Generator as EventStream
from typing import Annotated

from PIL import Image, ImageDraw, ImageFont
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from ..core.answers.answer_models import check_text, unfit
from ..core.answers.reading import answers_in, only_value
from ..core.answers.reply_text import split_reply
from ..core.errors import AnswerError, ChatError, SettingsError
from ..core.pictures import Picture
from ..core.prompts.prompt_set import TEMPLATES, read_template
from ..core.seams.adoption import adopt
from ..core.seams.chat_model import ChatModel, Message, ReplySettings
from ..core.types import (
    MAX_FINDINGS,
    MAX_TEXT,
    FindingKind,
    Plan,
    RedrawRequest,
    Request,
    StepResult,
    StoryCheck,
    StoryFinding,
    Trajectory,
)
from ..story.agents.asking import filled_parts, message_of
from ..story.agents.text_writers import Writer
from ..story.journal.store import RunStore, StoryKey
from ..story.loop.events import Event, StoryChecked
from ..story.loop.policy import prompt_with_problems, step_to_reopen
from ..story.outcomes import is_complete

MAX_REOPENED = 20
FEWEST_PAGES = 2
"""Images that can be compared."""
TEMPLATE = TEMPLATES / "story_check" / "story_check.txt"
KEYS = ("findings",)
MAX_PROBLEM = 500
"""Maximum length of a problem in characters, since it is added to a prompt."""
AGAIN = (
    "\n\nYour last answer could not be used: {problem} Answer once more from the beginning, with "
    '<think>your reasoning</think> and then <answer>{{"findings": [{{"step_number": 1, "kind": "state", '
    '"problem": "..."}}]}}</answer>.'
)
MAX_AREA = 2_097_152
"""Maximum area of a sheet in pixels; the checker's default limit of an image."""
MAX_CELL = 768
"""Maximum of an image's longer side in pixels."""
LABEL, GAP = 0.125, 0.03
"""Height of the number above an image, and space between images, as parts of the image's longer side."""
PAPER, INK = (255, 255, 255), (0, 0, 0)


class StoryCheckerLike(ABC):
    """Finds images that do not fit their story (see `StoryChecker`)."""

    @property
    @abstractmethod
    def identity(self) -> str:
        """Model, template and all settings that affect its replies; part of the cache key."""

    @abstractmethod
    def check(self, request: Request, pages: Sequence[StepResult]) -> tuple[StoryFinding, ...]:
        """Return the images that do not fit the story, in the order of the steps.

        Args:
            request: The request.
            pages: The steps that have an image, in order.

        Raises:
            AnswerError: The replies cannot be used.
            ChatError: The backend failed.
            SettingsError: The prompts are too long for a message.
            Cancelled: The run was cancelled.
        """


class StoryReview:
    """Reopens up to `most` steps of a story (`loop.collaborators.ReviewsStory`).

    Steps that an earlier run in the same folder reopened are counted too, as long as the plan tells the same
    story: the same texts in the same steps.

    Args:
        checker: The story checker.
        most: Maximum number of steps that are reopened.
        before_check: Called before the checker is asked.
    """

    def __init__(
        self,
        checker: StoryCheckerLike,
        most: int,
        before_check: Callable[[], None] = lambda: None,
    ) -> None:
        if not 1 <= most <= MAX_REOPENED:
            raise SettingsError(f"A story check can reopen 1 to {MAX_REOPENED} steps, not {most}.")
        self._checker, self._most, self._before_check = checker, most, before_check

    def __call__(
        self, store: RunStore, request: Request, plan: Plan, results: Sequence[StepResult], deadline: float
    ) -> EventStream[Event, None, int | None]:
        """Check the story, and request another attempt at the first step whose image does not fit.

        An incomplete story is not checked: its images are not final, and what is missing would fail again.
        If the checker's reply cannot be used, or its backend fails, the story stays as it is and the check
        has a warning. After `deadline` no step is reopened, since the steps after it could not follow.

        Returns:
            The index of the result whose step was reopened, if one was.

        Raises:
            Cancelled: The run was cancelled.
        """
        pages = [result for result in results if result.image]
        if len(pages) < FEWEST_PAGES or not is_complete(
            Trajectory(request=request, plan=plan, results=tuple(results))
        ):
            return None
        story = _story_of(request, pages)
        asked = [store.choices().requests(page.step, plan.style).values() for page in pages]
        requests = [one for some in asked for one in some if one.story == story]
        if len(requests) >= self._most:
            return None
        check, reused = self._checked(store, request, pages)
        abouts = [one.about for one in requests]
        in_time = time.monotonic() < deadline
        reopened = step_to_reopen(pages, check, abouts) if in_time else None
        check = check.model_copy(update={"reopened": reopened.step.number if reopened else None})
        if reopened is not None or not reused:
            store.keep_story_check(check)
        yield StoryChecked(check, reused)
        if reopened is None:
            return None
        store.request_redraw(reopened.step.number, _request_of(reopened, check, plan, story))
        return results.index(reopened)

    def _checked(
        self, store: RunStore, request: Request, pages: Sequence[StepResult]
    ) -> tuple[StoryCheck, bool]:
        """Return the check of these images, and whether it was cached."""
        images = {page.step.number: _digest_of(page) for page in pages}
        key = StoryKey(
            checker=self._checker.identity,
            request=request.text,
            pages=tuple((page.step.number, text_of(page), images[page.step.number]) for page in pages),
        ).digest
        known = next((one for one in store.story_checks() if one.key == key and not one.warning), None)
        if known is not None:
            return known, True
        check = StoryCheck(key=key, checker=self._checker.identity, images=images)
        self._before_check()
        try:
            update: dict[str, object] = {"findings": self._checker.check(request, pages)}
        except (AnswerError, ChatError, SettingsError) as error:
            update = {"warning": str(error)[:MAX_TEXT]}
        return check.model_copy(update=update), False


def _story_of(request: Request, pages: Sequence[StepResult]) -> str:
    """Return a digest of what a story tells, whatever its images are."""
    told = tuple((page.step.number, text_of(page), "0" * 40) for page in pages)
    return StoryKey(checker="", request=request.text, pages=told).digest


def _digest_of(page: StepResult) -> str:
    assert page.image, "only steps with an image are checked"
    return page.image.digest


def _request_of(page: StepResult, check: StoryCheck, plan: Plan, story: str) -> RedrawRequest:
    planned = next(step.prompt for step in plan.steps if step.number == page.step.number)
    assert planned, "a step with an image has a prompt"
    return RedrawRequest(
        by="story check",
        planned=planned,
        prompt=prompt_with_problems(page, check),
        about=_digest_of(page),
        story=story,
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


class StoryChecker(Writer, StoryCheckerLike):
    """Checks stories. Its arguments are those of `Writer`.

    Raises:
        SettingsError: The model cannot see images, or cannot read a sheet of several.
    """

    reader = "the story checker"
    max_tokens = 4096

    def __init__(
        self, chat: ChatModel, settings: ReplySettings | None = None, staying: Sequence[object] = ()
    ) -> None:
        chat = adopt(chat, ChatModel)
        if not chat.sees_images:
            raise SettingsError(
                "The story checker cannot see images: its model has no vision projector (mmproj file) next "
                "to its .gguf file.",
                "Put the mmproj file of the same model into its folder, or choose another story checker.",
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


def story_sheet(pages: Sequence[tuple[int, Picture]], area: int = MAX_AREA) -> Picture:
    """Return one RGB image of all pages.

    Args:
        pages: Step numbers and images, in order; at least one.
        area: Maximum area of the sheet in pixels.
    """
    width = min(1.0, max(page.size[0] / page.size[1] for _, page in pages))
    height = min(1.0, max(page.size[1] / page.size[0] for _, page in pages))
    columns = min(len(pages), math.ceil(math.sqrt(len(pages) * height / width)))
    rows = math.ceil(len(pages) / columns)
    units = columns * (width + GAP) * (rows * (height + LABEL) + GAP)
    cell = min(MAX_CELL, math.sqrt(area / units))
    label, gap = int(cell * LABEL), int(cell * GAP)
    box = max(1, int(cell * width)), max(1, int(cell * height))
    across, down = box[0] + gap, box[1] + label
    sheet = Image.new("RGB", (columns * across, rows * down + gap), PAPER)
    canvas = ImageDraw.Draw(sheet)
    font = ImageFont.load_default(max(8, label - gap))
    for index, (number, page) in enumerate(pages):
        left, top = index % columns * across, index // columns * down
        canvas.text((left + across // 2, top), str(number), fill=INK, font=font, anchor="ma")
        shown = page.image.convert("RGB")
        scale = min(box[0] / shown.width, box[1] / shown.height)
        size = max(1, int(shown.width * scale)), max(1, int(shown.height * scale))
        shown = shown.resize(size, Image.Resampling.LANCZOS)
        sheet.paste(shown, (left + (across - shown.width) // 2, top + label))
    return Picture(sheet)
