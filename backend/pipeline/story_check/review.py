"""Checks a finished story in the loop, and reopens the first step whose image does not fit.

One step is reopened at a time: the steps after it are generated from its new image, so findings about them
are out of date, and the story is checked again. A reopened step gets as many attempts as any step, which the
critic judges. The request is in choices.json and the check in story_checks.json, so a run that was stopped
anywhere continues there.
"""

from __future__ import annotations

import time
from collections.abc import Generator as EventStream
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from ...cast import followed_by
from ...errors import AnswerError, ChatError, SettingsError
from ...journal.picks import RedrawRequest
from ...journal.store import RunStore, StoryKey
from ...loop.events import Event, StoryChecked
from ...report.completeness import is_complete
from ...types import (
    MAX_TEXT,
    Plan,
    Request,
    StepResult,
    StopReason,
    StoryCheck,
    StoryFinding,
    Trajectory,
)
from .checker import text_of

MAX_REOPENED = 20
FEWEST_PAGES = 2
"""Images that can be compared."""


@runtime_checkable
class StoryCheckerLike(Protocol):
    """The story checker (see `checker.StoryChecker`). Its identity includes the template."""

    @property
    def identity(self) -> str:
        """Model and all settings that affect its replies; part of the cache key."""
        ...

    def check(self, request: Request, pages: Sequence[StepResult]) -> tuple[StoryFinding, ...]:
        """Return the images that do not fit the story.

        Raises:
            AnswerError: The replies cannot be used.
            ChatError: The backend failed.
            Cancelled: The run was cancelled.
        """
        ...


class StoryReview:
    """Reopens up to `most` steps of a story (`loop.protocols.StoryReviewer`).

    Steps that an earlier run in the same folder reopened are counted too, as long as the plan tells the same
    story: the same texts in the same steps.
    """

    def __init__(self, checker: StoryCheckerLike, most: int) -> None:
        if not 1 <= most <= MAX_REOPENED:
            raise SettingsError(f"A story check can reopen 1 to {MAX_REOPENED} steps, not {most}.")
        self._checker, self._most = checker, most

    def review(
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
        requests = [one for page in pages for one in store.redraws(page.step).values() if one.story == story]
        if len(requests) >= self._most:
            return None
        check, reused = self._checked(store, request, pages)
        abouts = [one.about for one in requests]
        in_time = time.monotonic() < deadline
        wrong = [page for page in pages if in_time and _can_be_reopened(page, check)]
        # An image whose new attempt was rejected has its next turn after the others.
        reopened = min(wrong, key=lambda page: abouts.count(_digest_of(page)), default=None)
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


def _can_be_reopened(page: StepResult, check: StoryCheck) -> bool:
    """Return whether a finding is about this image, and the user did not choose it."""
    redraw = page.attempts[page.chosen or 0].redraw
    by_user = page.stop_reason is StopReason.picked or (redraw is not None and redraw.by == "user")
    found = any(one.step == page.step.number for one in check.findings)
    return found and not by_user and len(_prompt_of(page, check)) <= MAX_TEXT


def _prompt_of(page: StepResult, check: StoryCheck) -> str:
    """Return the prompt of a step followed by what the check says about its image."""
    problems = dict.fromkeys(one.problem for one in check.findings if one.step == page.step.number)
    return followed_by(page.step.prompt or "", " ".join(problems))


def _request_of(page: StepResult, check: StoryCheck, plan: Plan, story: str) -> RedrawRequest:
    planned = next(step.prompt for step in plan.steps if step.number == page.step.number)
    assert planned, "a step with an image has a prompt"
    return RedrawRequest(
        by="story check",
        planned=planned,
        prompt=_prompt_of(page, check),
        about=_digest_of(page),
        story=story,
    )
