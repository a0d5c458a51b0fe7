"""A run's folder: cache, resume and training data in one, written as the run goes.

Decision: the folder is a memory (store.py) whose records are files named by their keys, so continuing after
a kill, a cancel or an edit is nothing but running again: what is found is not made again. A finished run adds
`trajectory.json`; an unfinished one is read by replaying the loop over its records up to the first that is
missing.

    run.json                 format, version, request, settings, identities, the plan as its planner wrote it
                             (digest)
    plan.json                the plan; edit it and run again, and it is used as edited (delete it to plan
                             anew); images that steps name lie beside it, those that were read in pictures/
    attempts/<key>.json      one draw: generator, prompt, seed, source, image (and `more` of a batch) or
                             error, seconds
    verdicts/<key>.json      one judgement: critic, images, prompts, verdict or error, seconds
    pictures/<digest>.png    the pixels, lossless
    choices.json             which attempt a person picked as a step's result (picks.py), and which further
                             ones were asked for (redraws.py)
    planning/<key>.json      the parts of a long plan while others are not written yet (plan_parts.py)
    in-use.lock, in-use.txt  there while a run writes into the folder (lock.py)
    trajectory.json          the whole run, once it ended
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from ..errors import JournalError
from ..files.atomic import is_left_over
from ..files.step_images import with_step_images
from ..pictures import Picture
from ..types import (
    FORMAT_VERSION,
    Identities,
    Plan,
    Request,
    RunSettings,
    Step,
    Text,
    Trajectory,
)
from .archive import run_files
from .files import PICTURES, PLAN
from .lock import NAME as LOCK
from .lock import NOTE, FolderLock
from .picks import choices_in, fitting
from .run_record import Planned, RequestRecord, RunRecord
from .store import DrawKey, DrawRecord, JudgeKey, JudgementRecord, PlanKey

RUN, TRAJECTORY = "run.json", "trajectory.json"
ATTEMPTS, VERDICTS = "attempts", "verdicts"
EXPORTED = "images"
"""Where exports into the run's own folder put their pictures."""
SYSTEM_FILES = {".DS_Store", "Thumbs.db", "desktop.ini"}

Keyed = TypeVar("Keyed", DrawRecord, JudgementRecord)


class _Header(BaseModel):
    """What is read of a file before anything else in it is believed."""

    format: Text = ""
    version: int = 0


class _MissingPicture(JournalError):
    """A record names a picture that is not in the folder."""


class Journal:
    """The memory of a run in a folder; see store.RunStore for its methods. One process at a time may run in
    it. A story in one file (archive.py) is read likewise, and nothing is written into it."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._files = run_files(folder)
        self._lock = FolderLock(self.folder)
        self._pictures: dict[str, Picture] = {}

    def check(self, request: Request) -> None:
        """Raise JournalError if the folder is foreign, damaged, too new or of another request; writes
        nothing.

        `begin` checks this too; who has models to load first can ask before that.
        """
        try:
            found = {path.name: path for path in self.folder.iterdir()}
            entries = found.keys() - SYSTEM_FILES - {LOCK, NOTE}
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._unusable(error) from error
        if RUN in entries:
            before = self.record().request
            if before != _request_record(request):
                raise JournalError(
                    f"{str(self.folder)!r} holds the run of another request ({_short(before.text)!r}).",
                    "Choose another folder, or move this one away.",
                )
        elif not all(is_left_over(found[name]) for name in entries):
            raise JournalError(
                f"{str(self.folder)!r} is not empty and holds no run.",
                "Choose another folder, or move this one away.",
            )

    def begin(self, request: Request, settings: RunSettings, identities: Identities) -> None:
        """Take the folder; raises JournalError as `check` does, or if another process is using it."""
        self.check(request)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._unusable(error) from error
        self._lock.take()
        try:
            self.check(request)
            self._files.sweep(ATTEMPTS, VERDICTS, PICTURES, EXPORTED)
            planned = self.record().planned if (self.folder / RUN).exists() else None
            record = RunRecord(
                request=_request_record(request), settings=settings, identities=identities, planned=planned
            )
            self._files.write_model(record, RUN)
            for image in request.images:
                self._keep_picture(image)
        except BaseException:
            self._lock.release()
            raise

    def end(self) -> None:
        self._lock.release()

    def written_plan(self) -> Plan | None:
        record = self._found_record()
        if record is None:
            return None
        plan, planned = self._read_plan(), record.planned
        return None if plan is None or (planned and planned.digest == _digest(plan)) else plan

    def prompt_sets(self) -> frozenset[str]:
        record = self._found_record()
        return frozenset(record.identities.prompt_set.split("+")) if record else frozenset()

    def plan(self, key: PlanKey) -> Plan | None:
        planned = self.record().planned
        return self._read_plan() if planned and planned.key == key.digest else None

    def keep_plan(self, plan: Plan, key: PlanKey | None) -> None:
        self._files.remove(TRAJECTORY)
        self._keep_pictures_of(plan)
        record = self.record()
        if key is None:
            self._files.write_model(plan, PLAN)
            self._files.write_model(record.model_copy(update={"planned": None}), RUN)
            return
        # In this order no planner's old plan ever looks like a person's edit, wherever a kill falls.
        self._files.remove(PLAN)
        planned = Planned(key=key.digest, digest=_digest(plan))
        self._files.write_model(record.model_copy(update={"planned": planned}), RUN)
        self._files.write_model(plan, PLAN)

    def drawn(self, key: DrawKey) -> DrawRecord | None:
        drawn = self.draw_record(key)
        return drawn if drawn and drawn.image else None

    def draw_record(self, key: DrawKey) -> DrawRecord | None:
        """The record of a draw, also of a failed one; None if there is none or its picture was deleted."""
        try:
            return self._read_keyed(DrawRecord, key, ATTEMPTS)
        except _MissingPicture:
            return None

    def keep_drawn(self, drawn: DrawRecord) -> None:
        self._files.remove(TRAJECTORY)
        for image in drawn.images:
            self._keep_picture(image)
        self._files.write_model(drawn, ATTEMPTS, f"{drawn.key.digest}.json")

    def judged(self, key: JudgeKey) -> JudgementRecord | None:
        judged = self.judge_record(key)
        return judged if judged and judged.verdict else None

    def judge_record(self, key: JudgeKey) -> JudgementRecord | None:
        """The record of a judgement, also of a failed one."""
        return self._read_keyed(JudgementRecord, key, VERDICTS)

    def keep_judged(self, judged: JudgementRecord) -> None:
        self._files.remove(TRAJECTORY)
        self._files.write_model(judged, VERDICTS, f"{judged.key.digest}.json")

    def user_selected(self, step: int) -> str | None:
        return choices_in(self._files).steps.get(step)

    def redraws(self, step: Step) -> dict[int, str]:
        choices = choices_in(self._files)
        if step.number not in choices.redraws:
            return {}
        plan = self._read_plan()
        return fitting(choices, step, plan.style if plan else "")

    def finish(self, trajectory: Trajectory) -> None:
        # Those of a plan that a person wrote into the folder are not kept yet.
        self._keep_pictures_of(trajectory.plan)
        self._files.write_model(trajectory, TRAJECTORY)

    def record(self) -> RunRecord:
        """The content of run.json; raises JournalError if the folder holds no run, a damaged or a newer
        one."""
        record = self._found_record()
        if record is None:
            raise JournalError(f"{str(self.folder)!r} holds no run.", "Give the folder of a run.")
        return record

    def request(self) -> Request:
        """The request with its pictures; raises JournalError if one is missing."""
        record = self.record().request
        return Request(text=record.text, images=tuple(self._picture(digest) for digest in record.images))

    def trajectory(self) -> Trajectory | None:
        """What trajectory.json holds, None while the run has not ended; raises JournalError."""
        self._check_version(TRAJECTORY)
        hint = "Delete it: a run is also read from its records."
        return self._files.read_model(Trajectory, TRAJECTORY, hint=hint, context={"pictures": self._picture})

    def _found_record(self) -> RunRecord | None:
        self._check_version(RUN)
        return self._files.read_model(RunRecord, RUN, hint="Choose another folder, or restore the file.")

    def _unusable(self, error: OSError) -> JournalError:
        reason = error.strerror or str(error)
        return JournalError(f"{str(self.folder)!r} cannot be a run's folder ({reason}).", "Give another one.")

    def _check_version(self, name: str) -> None:
        header = self._files.read_model(_Header, name, hint="It is damaged or belongs to another program.")
        if header is not None and header.version > FORMAT_VERSION:
            raise JournalError(
                f"{str(self.folder / name)!r} was written by a newer version (format {header.version}; "
                f"this one reads up to {FORMAT_VERSION}).",
                "Update interleave-thinker.",
            )

    def _read_plan(self) -> Plan | None:
        hint = "Correct it there, or delete the file to have the plan made anew."
        plan = self._files.read_model(Plan, PLAN, hint=hint, context={"pictures": self._picture})
        return plan and with_step_images(plan, self.folder)

    def _read_keyed(self, model: type[Keyed], key: DrawKey | JudgeKey, folder: str) -> Keyed | None:
        name = f"{key.digest}.json"
        hint = "Delete it and run again; what it recorded is then made again."
        found = self._files.read_model(model, folder, name, hint=hint, context={"pictures": self._picture})
        if found is not None and found.key != key:
            raise JournalError(
                f"{str(self.folder / folder / name)!r} records something else than its name says.", hint
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
                    f"Picture {digest!r} is not in {str(self.folder / PICTURES)!r}.",
                    "Run the same command again; what is missing is drawn again.",
                )
            self._pictures[digest] = picture
        return self._pictures[digest]


def _request_record(request: Request) -> RequestRecord:
    return RequestRecord(text=request.text, images=tuple(image.digest for image in request.images))


def _digest(plan: Plan) -> str:
    return hashlib.blake2b(plan.model_dump_json().encode(), digest_size=20).hexdigest()


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."
