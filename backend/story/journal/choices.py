"""The user's decisions about a run, in `choices.json`: picked and requested attempts, skipped steps.

An attempt is named by the digest of its image, which is also the name of its file in `pictures/`. So a pick
is valid as long as the step has an attempt with that image, whatever was queued, added or renumbered in the
meantime. A pick that does not fit is ignored instead of naming another image. Picking reads and rewrites the
file under a lock, so concurrent picks are not lost. Write the file by hand, with `pick` or in the live view:

    {"steps": {"2": "<digest>"}}

A requested attempt is only data too: the loop checks before every generator call, and the next run in the
folder generates what was requested after a run. The request names a prompt and not the image that it
replaces, so it stays valid if earlier steps are generated again. Since the newest decision of the user
counts, it removes the step's pick, in the same write. The story check requests its attempts there too. So are
the steps that the user skipped, and the digest of the plan that the user approved. A file without any of
these is written in the old form. To approve a step is to pick its image. What a time-out let pass is stored
separately, since no person decided it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field

from ...core.errors import JournalError, RunMissing, SettingsError
from ...core.files.lock import SystemLock
from ...core.pictures import DIGEST, Picture
from ...core.types import MAX_BATCH, MAX_TEXT, Choices, Plan, RedrawRequest, Several, Step
from ...core.types.trajectory import MAX_CHOICES, MAX_REDRAWS
from .run_files import ATTEMPTS, PICTURES, PLAN, RUN, RunFiles

CHOICES = "choices.json"
LOCK = "choices.lock"
WAIT_SECONDS = 30.0
HINT = "Correct the file, or delete it to leave every choice to the critic."


def read_choices(folder: str | Path) -> Choices:
    """Return the user's choices in a run folder; empty if there are none.

    Raises:
        JournalError: The file is damaged.
    """
    return choices_in(RunFiles(folder))


def choices_in(files: RunFiles) -> Choices:
    """Return the user's choices, as `read_choices`, for files that are already open."""
    return files.read_model(Choices, CHOICES, hint=HINT, context={"pictures": files.picture}) or Choices()


def plan_in(files: RunFiles) -> Plan | None:
    """Return the plan of a run; `None` if it is not written yet.

    Raises:
        JournalError: The plan is damaged.
    """
    hint = "Correct the file, or delete it to plan again."
    plan = files.read_model(Plan, PLAN, hint=hint, context={"pictures": files.read_picture})
    return plan and plan.resolved


def planned_step(files: RunFiles, number: int) -> Step:
    """Return a step of a run's plan. It has a prompt.

    Raises:
        JournalError: The plan does not have the step, or the step is text-only.
    """
    plan = plan_in(files)
    steps = {step.number: step for step in plan.steps if step.prompt} if plan else {}
    if number not in steps:
        known = ", ".join(str(one) for one in steps) or "none"
        raise JournalError(
            f"Step {number} of the run in {str(files.folder)!r} does not exist or is text only.",
            f"Choose a step with an image: {known}.",
        )
    return steps[number]


def pick(folder: str | Path, step: int, picture: str | None, known: str | None = None) -> Choices:
    """Pick an image as a step's result, or leave the step to the critic again.

    The next run in the folder uses it: later steps are generated from it, earlier steps are reused.

    Args:
        folder: The run folder.
        step: Number of the step.
        picture: Digest of the image; `None` removes the pick.
        known: As in `change_choices`.

    Returns:
        The choices after the change.

    Raises:
        JournalError: The folder does not have the image, the plan does not have the step, or as
            `change_choices`.
        SettingsError: As `change_choices`.
    """
    files = RunFiles(folder)
    if picture is not None and not (
        DIGEST.match(picture) and files.path(PICTURES, f"{picture}.png").is_file()
    ):
        raise JournalError(
            f"Image {picture[:60]!r} is not in {str(files.folder / PICTURES)!r}.",
            "Pick one of the step's images.",
        )

    def picked(before: Choices) -> Choices:
        # A pick of a step that is no longer in the plan can be removed.
        if picture is not None or step not in before.steps:
            planned_step(files, step)
        return before.about(step) if picture is None else before.about(step, steps=picture)

    return change_choices(files, picked, known)


def skip_step(folder: str | Path, step: int, known: str | None = None) -> Choices:
    """Skip a step: it has no image, and later steps edit the image before it.

    A later pick or requested attempt of the step replaces this decision, as it replaces a pick. Errors are
    those of `pick`.
    """
    files = RunFiles(folder)
    planned = planned_step(files, step).prompt or ""
    return change_choices(files, lambda before: before.about(step, skips=planned), known)


def approve_plan(folder: str | Path, digest: str, known: str | None = None) -> Choices:
    """Approve the planner's plan with this digest (see `plan_digest`). Another plan is not approved.

    Errors are those of `change_choices`.
    """
    return change_choices(
        RunFiles(folder), lambda before: before.about(0).model_copy(update={"plan": digest}), known
    )


def let_pass(folder: str | Path, step: int, digest: str, known: str | None = None) -> Choices:
    """Let a step with this image pass without a decision of the user; step 0: the plan with this digest.

    Errors are those of `change_choices`.
    """
    return change_choices(RunFiles(folder), lambda before: before.about(step, timed=digest), known)


def with_request(choices: Choices, step: int, request: RedrawRequest) -> Choices:
    """Return the choices with one more requested attempt at a step.

    Since the newest decision of the user counts, a request of the user removes the step's pick. A request of
    the story check does not.

    Raises:
        JournalError: The step or the file has too many requests.
    """
    redraws = dict(choices.redraws)
    redraws[step] = (*redraws.get(step, ()), request)
    if len(redraws[step]) > MAX_REDRAWS or len(redraws) > MAX_CHOICES:
        raise JournalError(
            f"Step {step} has {MAX_REDRAWS} requested attempts, which is the maximum.",
            f"Remove some of them in {CHOICES} in the run folder.",
        )
    decided = choices.about(step) if request.by == "user" else choices
    return decided.model_copy(update={"redraws": redraws})


def add_request(files: RunFiles, step: int, request: RedrawRequest, known: str | None = None) -> Choices:
    """Store one more requested attempt at a step, and return the choices.

    Errors are those of `with_request` and `change_choices`.
    """
    return change_choices(files, lambda before: with_request(before, step, request), known)


def change_choices(
    files: RunFiles, change: Callable[[Choices], Choices], known: str | None = None
) -> Choices:
    """Change a run's choices.json under a lock, and return the choices.

    Args:
        files: The run folder.
        change: Returns the new choices, given the present ones.
        known: Digest of the choices that the decision is based on. Default: any.

    Raises:
        JournalError: choices.json is damaged or full, or other programs hold its lock all the time.
        SettingsError: The choices are no longer those of `known`.
    """
    busy = JournalError(
        f"{str(files.path(CHOICES))!r} is locked: other programs are changing it.", "Try again."
    )
    with SystemLock(files.path(LOCK)).held(busy, WAIT_SECONDS):
        before = choices_in(files)
        if known not in (None, before.digest):
            raise SettingsError(
                f"Another decision about the run in {str(files.folder)!r} was stored first. Nothing changed.",
                "Run the same command again to see what it waits for now.",
            )
        choices = change(before)
        if max(len(choices.steps), len(choices.skips), len(choices.timed)) > MAX_CHOICES:
            raise JournalError(
                f"{str(files.path(CHOICES))!r} has {MAX_CHOICES} choices, which is the maximum.",
                "Remove some of them.",
            )
        files.write_model(choices, CHOICES)
    return choices


Name = Annotated[str, Field(max_length=64)]


def ask_redraw(
    folder: str | Path,
    step: int,
    prompt: str | None = None,
    picture: str | None = None,
    known: str | None = None,
    mask: Picture | None = None,
    caption: str | None = None,
) -> Choices:
    """Request one more attempt at a step of a run, with another seed.

    Args:
        folder: The run folder.
        step: Number of the step.
        prompt: The prompt to use. Default: the prompt of `picture`.
        picture: Digest of an image whose prompt is used. Default: the step's own prompt.
        known: As in `change_choices`.
        mask: White where `picture` may change; the rest of it stays.
        caption: Replaces the caption of the step if the attempt is the result and the plan's caption stays.

    Returns:
        The choices after the change.

    Raises:
        JournalError: The folder does not contain a run, its plan does not have the step, the prompt is too
            long, the mask is empty or has no image, or choices.json is damaged, full, or changed by other
            programs all the time.
    """
    files = RunFiles(folder)
    if not files.path(RUN).is_file():
        raise RunMissing(f"{str(folder)!r} does not contain a run.", "Give a run folder.")
    as_planned = planned_step(files, step)
    planned = as_planned.prompt or ""
    drawn_with = (prompt or "").strip() or (_prompt_of(files, picture) if picture else planned)
    if len(drawn_with) > MAX_TEXT:
        raise JournalError(
            f"The prompt has {len(drawn_with)} characters; the maximum is {MAX_TEXT}.", "Shorten it."
        )
    if mask:
        if not picture or not mask.image.getbbox():
            raise JournalError("Nothing is painted.", "Paint the area of an image that may change.")
        files.write_picture(mask)
    request = RedrawRequest(
        planned=planned,
        prompt=drawn_with,
        about=picture if mask else None,
        mask=mask,
        caption=caption,
        captioned=(as_planned.auxiliary_text or "") if caption else None,
    )
    return add_request(files, step, request, known)


def newest_redraws(folder: str | Path) -> dict[int, int]:
    """Return the number of the user's newest valid request at each step of a run, except those with a mask.

    Whether these are valid is known only in a run, which generates the image that they are about.

    Raises:
        JournalError: A file of the run is damaged.
    """
    choices = read_choices(folder)
    plan = plan_in(RunFiles(folder)) if choices.redraws else None
    newest: dict[int, int] = {}
    for step in plan.steps if plan else ():
        for number, request in choices.requests(step).items():
            if request.by == "user" and not request.mask:
                newest[step.number] = number
    return newest


class _Key(BaseModel):
    prompt: Annotated[str, Field(max_length=MAX_TEXT)]


class _Drawn(BaseModel):
    """The fields of a generator call's record that are read; its images are not opened."""

    key: _Key
    image: Name | None = None
    more: Several[Name] = Field(default=(), max_length=MAX_BATCH)


def _prompt_of(files: RunFiles, picture: str) -> str:
    """Return the prompt with which the image was generated."""
    folder = files.path(ATTEMPTS)
    if DIGEST.match(picture) and folder.is_dir():
        for path in sorted(folder.glob("*.json")):
            hint = "Delete it and run again to generate its image again."
            drawn = files.read_model(_Drawn, ATTEMPTS, path.name, hint=hint)
            if drawn is not None and picture in (drawn.image, *drawn.more):
                return drawn.key.prompt
    raise JournalError(
        f"Image {picture[:60]!r} was not generated in {str(files.folder)!r}.",
        "Choose one of the step's images.",
    )
