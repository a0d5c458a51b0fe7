"""A run folder: cache, resume and training data in one, written while the run progresses.

The folder is a store (store.py) whose records are files named by their keys. So resuming after a kill, a
cancel or an edit means running again: everything that is found is reused. A finished run adds
`trajectory.json`. An unfinished run is read by replaying the loop over its records up to the first missing
one.

    run.json                 format, version, request, settings, identities, digest of the planner's plan
    plan.json                the plan. Edit it and run again to use the edited plan; delete it to plan again.
                             Images that steps name are next to it; once read, they are in pictures/
    attempts/<key>.json      one generator call: generator, prompt, seed, source, image (and `more` of a
                             batch) or error, seconds
    verdicts/<key>.json      one judgement: critic, images, prompts, verdict or error, seconds
    pictures/<digest>.png    the pixels, lossless
    clips/                   clips between the images (clips.py)
    choices.json             the attempts that the user picked, and the further attempts that the
                             user or the story check requested; skipped steps, the approved plan,
                             what a time-out let pass
    story_checks.json        what the story checks found, if there were any
    waiting.json             what a paused run waits for (waiting.py)
    planning/<key>.json      finished parts of a long plan until the plan is complete
    planning/plan-<key>.json plans of the node Planner, before Edit Plan changed them
    in-use.lock, in-use.txt  exist while a run writes into the folder
    trajectory.json          the whole run except its clips, once it has ended
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from ...core.errors import JournalError, RunMissing
from ...core.files.atomic import is_left_over
from ...core.files.bounded_reader import read_text
from ...core.files.image_places import with_step_images
from ...core.files.lock import SystemLock
from ...core.pictures import Picture
from ...core.types import (
    Choices,
    Identities,
    Plan,
    RedrawRequest,
    Request,
    RunSettings,
    Spent,
    StoryCheck,
    Trajectory,
)
from ...core.types.clip import Clip
from ..clips import clip_pairs, with_clips
from .archive import run_files
from .choices import add_request, choices_in
from .clips import CLIPS, clips_in, keep_clip
from .run_files import (
    ATTEMPTS,
    CHECKS,
    FOLDER,
    PICTURES,
    PLAN,
    RUN,
    TRAJECTORY,
    VERDICTS,
    Planned,
    RunFiles,
    RunRecord,
    StoryChecks,
    plan_digest,
    request_record,
)
from .store import DrawKey, DrawRecord, JudgeKey, JudgementRecord, PlanKey, RunStore, with_check
from .waiting import Waiting, keep_waiting

NAME = "in-use.lock"
NOTE = "in-use.txt"
MAX_NOTE = 1000


class FolderLock:
    """The lock of a run folder: `take` before writing, `release` after."""

    def __init__(self, folder: Path) -> None:
        self._files = RunFiles(folder)
        self._lock: SystemLock | None = None

    def take(self) -> None:
        """Take the lock.

        Raises:
            JournalError: Another run has the lock. The message names its process.
        """
        lock = SystemLock(self._files.path(NAME))
        if not lock.take():
            raise JournalError(
                f"Another run is using {str(self._files.folder)!r}{self._whose()}.",
                "Wait until it has ended, or choose another folder.",
            )
        self._lock = lock
        try:
            self._files.write(f"{_this_process()}\n".encode(), NOTE)
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Release the lock. Does nothing if it is not held."""
        lock, self._lock = self._lock, None
        if lock is None:
            return
        try:
            # In a folder that was deleted, or on a disk that was removed, there is no note to delete.
            with suppress(JournalError):
                self._files.remove(NOTE)
        finally:
            lock.release()

    def _whose(self) -> str:
        with suppress(JournalError):
            words = read_text(self._files.path(NOTE), MAX_NOTE, JournalError, "Note").split()
            owner = "".join(one for one in " ".join(words) if one.isprintable())
            return f" ({owner[:200]})" if owner else ""
        return ""


def _this_process() -> str:
    return f"process {os.getpid()} on {platform.node()}, since {time.strftime('%Y-%m-%d %H:%M:%S')}"


Keyed = TypeVar("Keyed", DrawRecord, JudgementRecord)


class _MissingPicture(JournalError):
    """A record names an image that is not in the folder."""


class CallRecords:
    """Reads and writes the records of a folder, with their images."""

    def __init__(self, files: RunFiles) -> None:
        self.folder = files.folder
        self._files = files
        self._pictures: dict[str, Picture] = {}

    def drawn(self, key: DrawKey) -> DrawRecord | None:
        """Return the cached images of a generator call; a failed call is not returned."""
        drawn = self.draw_record(key)
        return drawn if drawn and drawn.image else None

    def draw_record(self, key: DrawKey) -> DrawRecord | None:
        """Return the record of a generator call, also of a failed one.

        `None` if it does not exist, or if its image was deleted.
        """
        try:
            return self._read_keyed(DrawRecord, key, ATTEMPTS)
        except _MissingPicture:
            return None

    def keep_drawn(self, drawn: DrawRecord) -> None:
        """Write the record of a generator call and its images."""
        self._files.remove(TRAJECTORY)
        for image in (*drawn.images, drawn.draft):
            if image is not None:
                self._keep_picture(image)
        self._files.write_model(drawn, ATTEMPTS, f"{drawn.key.digest}.json")

    def judged(self, key: JudgeKey) -> JudgementRecord | None:
        """Return the cached verdict or score; a failed judgement is not returned."""
        judged = self.judge_record(key)
        return judged if judged and judged.succeeded else None

    def judge_record(self, key: JudgeKey) -> JudgementRecord | None:
        """Return the record of a judgement, also of a failed one."""
        return self._read_keyed(JudgementRecord, key, VERDICTS)

    def keep_judged(self, judged: JudgementRecord) -> None:
        """Write the record of a judgement."""
        self._files.remove(TRAJECTORY)
        self._files.write_model(judged, VERDICTS, f"{judged.key.digest}.json")

    def _read_keyed(self, model: type[Keyed], key: DrawKey | JudgeKey, folder: str) -> Keyed | None:
        name = f"{key.digest}.json"
        hint = "Delete it and run again; its result is then made again."
        found = self._files.read_model(model, folder, name, hint=hint, context={"pictures": self._picture})
        if found is not None and found.key != key:
            raise JournalError(
                f"{str(self.folder / folder / name)!r} does not match its name: it is another record.", hint
            )
        return found

    def _keep_pictures_of(self, plan: Plan) -> None:
        for picture in plan.pictures:
            self._keep_picture(picture)

    def _keep_picture(self, picture: Picture) -> None:
        self._files.write_picture(picture)
        self._pictures[picture.digest] = picture

    def _picture(self, digest: str) -> Picture:
        if digest not in self._pictures:
            picture = self._files.read_picture(digest)
            if picture is None:
                raise _MissingPicture(
                    f"Image {digest!r} is not in {str(self.folder / PICTURES)!r}.",
                    "Run the same command again to generate what is missing.",
                )
            self._pictures[digest] = picture
        return self._pictures[digest]


EXPORTED = "images"
"""Folder for the images of exports into the run folder."""
SYSTEM_FILES = {".DS_Store", "Thumbs.db", "desktop.ini"}


class Journal(CallRecords, RunStore):
    """The records of a run in a folder; see `store.RunStore` for its methods.

    One process at a time may use the folder. A story in one file (archive.py) can be read, but not written.
    """

    def __init__(self, folder: str | Path) -> None:
        super().__init__(run_files(folder))
        self._lock = FolderLock(self.folder)

    def check(self, request: Request) -> None:
        """Check that this request can run in the folder. Writes nothing.

        `begin` checks this too. Call it earlier to fail before models are loaded.

        Raises:
            JournalError: The folder contains other files or the run of another request, or it is damaged or
                from a newer version.
        """
        try:
            found = {path.name: path for path in self.folder.iterdir()}
            entries = found.keys() - SYSTEM_FILES - {NAME, NOTE, FOLDER}
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._unusable(error) from error
        if RUN in entries:
            before = self.record().request
            if before != request_record(request):
                raise JournalError(
                    f"{str(self.folder)!r} contains the run of another request ({before.shown!r}).",
                    "Choose another folder, or move this one.",
                )
        elif not all(is_left_over(found[name]) for name in entries):
            raise JournalError(
                f"{str(self.folder)!r} is not empty and does not contain a run.",
                "Choose another folder, or move this one.",
            )

    def begin(self, request: Request, settings: RunSettings, identities: Identities) -> None:
        """Lock the folder and start or resume a run in it.

        Raises:
            JournalError: As in `check`, or another process is using the folder.
        """
        self.check(request)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._unusable(error) from error
        self._lock.take()
        try:
            self.check(request)
            self._files.sweep(ATTEMPTS, VERDICTS, PICTURES, CLIPS, EXPORTED)
            planned = self.record().planned if (self.folder / RUN).exists() else None
            record = RunRecord(
                request=request_record(request), settings=settings, identities=identities, planned=planned
            )
            self._files.write_model(record, RUN)
            for image in request.images:
                self._keep_picture(image)
        except BaseException:
            self._lock.release()
            raise

    def end(self) -> None:
        """Unlock the folder."""
        self._lock.release()

    def keep_settings(self, settings: RunSettings) -> None:
        """Write the settings of the run after its plan has completed them."""
        self._files.write_model(self.record().model_copy(update={"settings": settings}), RUN)

    def written_plan(self) -> Plan | None:
        """Return the plan that the user wrote into the folder, if there is one."""
        record = self._found_record()
        if record is None:
            return None
        plan, planned = self._read_plan(), record.planned
        return None if plan is None or (planned and planned.digest == plan_digest(plan)) else plan

    def plan(self, key: PlanKey) -> Plan | None:
        """Return the cached plan of this planner and request."""
        planned = self.record().planned
        return self._read_plan() if planned and planned.key == key.digest else None

    def keep_plan(self, plan: Plan, key: PlanKey | None, spent: Spent | None = None) -> None:
        """Write the plan; without `key` it is the user's plan."""
        self._files.remove(TRAJECTORY)
        self._keep_pictures_of(plan)
        record = self.record()
        if key is None:
            self._files.write_model(plan, PLAN)
            self._files.write_model(record.model_copy(update={"planned": None}), RUN)
            return
        if spent is None:
            spent = self.planning() if record.planned and record.planned.key == key.digest else Spent()
        planned = Planned(key=key.digest, digest=plan_digest(plan), spent=spent)
        if planned != record.planned:
            # In this order a planner's plan never looks like the user's edit, whenever the process is killed.
            self._files.remove(PLAN)
            self._files.write_model(record.model_copy(update={"planned": planned}), RUN)
        self._files.write_model(plan, PLAN)

    def planning(self) -> Spent:
        """Return what the planner needed for the plan."""
        planned = self.record().planned
        return planned.spent if planned else Spent()

    def choices(self) -> Choices:
        """Return what the user and the story check decided so far."""
        return choices_in(self._files)

    def request_redraw(self, step: int, request: RedrawRequest) -> None:
        """Request one more attempt at a step."""
        self._files.remove(TRAJECTORY)
        add_request(self._files, step, request)

    def story_checks(self) -> tuple[StoryCheck, ...]:
        """Return the story checks of this run, oldest first."""
        hint = "Delete it; the story is then checked again."
        found = self._files.read_model(StoryChecks, CHECKS, hint=hint)
        return found.checks if found else ()

    def keep_story_check(self, check: StoryCheck) -> None:
        """Store a story check. It replaces one with the same key."""
        self._files.remove(TRAJECTORY)
        self._files.write_model(StoryChecks(checks=with_check(self.story_checks(), check)), CHECKS)

    def keep_waiting(self, waiting: Waiting | None) -> Waiting | None:
        """Store what the run waits for, or remove what it waited for."""
        return keep_waiting(self._files, waiting)

    def with_clips(self, trajectory: Trajectory) -> Trajectory:
        """Return a trajectory with the clips in this folder that belong to it."""
        return with_clips(trajectory, clips_in(self._files, clip_pairs(trajectory)))

    def keep_clip(self, clip: Clip) -> Clip:
        """Write a clip, and return it with its movie on disk. The caller holds the lock (`writing`)."""
        return keep_clip(self._files, clip)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Lock the folder of a run that is not being generated.

        Raises:
            JournalError: The folder does not contain a run, or another process is using it.
        """
        self.record()
        self._lock.take()
        try:
            self._files.sweep(CLIPS)
            yield
        finally:
            self._lock.release()

    def finish(self, trajectory: Trajectory) -> None:
        """Write the trajectory of a run that has ended. Its clips have their own records."""
        # The images of a plan that the user wrote into the folder are not stored yet.
        self._keep_pictures_of(trajectory.plan)
        self._files.write_model(trajectory.model_copy(update={"clips": ()}), TRAJECTORY)

    def record(self) -> RunRecord:
        """Return the content of run.json.

        Raises:
            JournalError: The folder does not contain a run, or the run is damaged or from a newer version.
        """
        record = self._found_record()
        if record is None:
            raise RunMissing(f"{str(self.folder)!r} does not contain a run.", "Give a run folder.")
        return record

    def request(self) -> Request:
        """Return the request with its images.

        Raises:
            JournalError: An image is missing.
        """
        record = self.record().request
        return Request(text=record.text, images=tuple(self._picture(digest) for digest in record.images))

    def trajectory(self) -> Trajectory | None:
        """Return trajectory.json with the run's clips and choices; `None` if the run has not ended.

        Raises:
            JournalError: The file is damaged or from a newer version.
        """
        self._files.check_version(TRAJECTORY)
        hint = "Delete it: the run is then read from its records."
        found = self._files.read_model(Trajectory, TRAJECTORY, hint=hint, context={"pictures": self._picture})
        return found and self.with_clips(found.model_copy(update={"choices": self.choices()}))

    def _found_record(self) -> RunRecord | None:
        self._files.check_version(RUN)
        hint = "Choose another folder, or restore the file."
        return self._files.read_model(RunRecord, RUN, hint=hint)

    def _unusable(self, error: OSError) -> JournalError:
        reason = error.strerror or str(error)
        return JournalError(
            f"Cannot use {str(self.folder)!r} as a run folder ({reason}).", "Choose another folder."
        )

    def _read_plan(self) -> Plan | None:
        hint = "Correct the file, or delete it to plan again."
        plan = self._files.read_model(Plan, PLAN, hint=hint, context={"pictures": self._picture})
        return plan and with_step_images(plan, self.folder)
