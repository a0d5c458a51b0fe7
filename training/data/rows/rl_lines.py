"""Data files of reinforcement, one row a line, whatever a row holds: read with every image opened once, and
written whole.

Decision: what is wrong with a row is reported with its line, its field and the reason; rows of a critic and
of a planner are read by the same few lines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, PrivateAttr, ValidationError

from ....backend.errors import SettingsError
from ....backend.files.atomic import write_text
from .row_kinds import refuse_other_kind
from .sft import find_images
from .values import RowProblem, read_values


class RlRow(BaseModel):
    """A row of reinforcement. Unknown keys are ignored."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    stage: ClassVar[str]
    """Command of `train` that takes such rows."""
    _place: str = PrivateAttr("")

    def __eq__(self, other: object) -> bool:
        """The same content, wherever it was read."""
        return type(other) is type(self) and self.__dict__ == other.__dict__

    @property
    def place(self) -> str:
        """Where the row was read, such as "line 3"; empty for one that was made."""
        return self._place

    def at(self: Row, place: str) -> Row:
        """This row, with the place where it was read; it stays with copies and is never written."""
        self._place = place
        return self

    @property
    def image_paths(self) -> Mapping[str, str]:
        """The paths by what they are called in messages; no entry where there is no image."""
        raise NotImplementedError

    def with_paths(self: Row, paths: Mapping[str, str]) -> Row:
        """The row with these paths in place of `image_paths`."""
        return self.model_copy(update=dict(paths))

    def moved(self: Row, folder: Path) -> Row:
        """The row with its image paths made absolute from `folder`."""
        paths = {field: str((folder / name).resolve()) for field, name in self.image_paths.items()}
        return self.with_paths(paths)

    def line(self) -> str:
        """The row as one line of JSON."""
        return self.model_dump_json(exclude_none=True)


Row = TypeVar("Row", bound=RlRow)


def read_rl_lines(
    path: Path, kind: type[Row], skip_bad: bool = False, images: Path | None = None
) -> tuple[list[Row], list[RowProblem]]:
    """The rows of a file, every image opened once; and what was wrong with the others. Image paths are
    relative to the file, and absolute for images that were found below `images` by the end of their path.

    Raises SettingsError naming line, field and reason of the first bad row unless `skip_bad`.
    """
    parsed: list[tuple[str, Row | RowProblem]] = []
    for place, item in read_values(path):
        if not parsed:
            refuse_other_kind(path, item, kind.stage)
        parsed.append((place, item if isinstance(item, RowProblem) else _row(kind, place, item)))
    read = [row for _, row in parsed if not isinstance(row, RowProblem)]
    names = {name for row in read for name in row.image_paths.values()}
    found, damaged = find_images(sorted(names), path.parent, images)
    rows: list[Row] = []
    problems: list[RowProblem] = []
    for place, row in parsed:
        if not isinstance(row, RowProblem):
            bad = next((field for field, name in row.image_paths.items() if name in damaged), None)
            if bad is None:
                rows.append(row.with_paths({field: found[name] for field, name in row.image_paths.items()}))
                continue
            row = RowProblem(place, bad, damaged[row.image_paths[bad]])
        if not skip_bad:
            raise SettingsError(f"{path.name}, {row}", "Mend it, or leave such rows out: --skip-bad.")
        problems.append(row)
    if not rows:
        raise SettingsError(
            f"Data file {str(path)!r} holds no row that can be used.", "See docs/reference/file-formats.md."
        )
    return rows, problems


def _row(kind: type[Row], place: str, item: Any) -> Row | RowProblem:
    try:
        return kind.model_validate(item).at(place)
    except ValidationError as error:
        return RowProblem.of(place, error)


def write_rl_lines(path: Path, rows: Sequence[RlRow]) -> None:
    """Write a data file, one row a line, whole or not at all; raises SettingsError if it cannot be
    written."""
    write_text(path, "\n".join(row.line() for row in rows) + "\n", SettingsError, "Data file")
