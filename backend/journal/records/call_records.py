"""The records of the models' calls in a run folder, one file per call, named by its key.

Records name their images by digest. The images are in `pictures/`, and each is read once.
"""

from __future__ import annotations

from typing import TypeVar

from ...errors import JournalError
from ...pictures import Picture
from ...types import Plan
from .calls import DrawKey, DrawRecord, JudgeKey, JudgementRecord
from .run_files import ATTEMPTS, PICTURES, TRAJECTORY, VERDICTS, RunFiles

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
