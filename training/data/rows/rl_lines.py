"""Reads and writes data files of GRPO, one row per line, and opens every image once.

A problem is reported with the row's line, field and reason, in the same way for all kinds of rows.
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
    """A row of GRPO training. Unknown keys are ignored."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    stage: ClassVar[str]
    """Command of `train` that uses such rows."""
    _place: str = PrivateAttr("")

    def __eq__(self, other: object) -> bool:
        """Compare the content, regardless of where it was read."""
        return type(other) is type(self) and self.__dict__ == other.__dict__

    @property
    def place(self) -> str:
        """Where the row was read, such as "line 3"; empty if it was created in memory."""
        return self._place

    def at(self: Row, place: str) -> Row:
        """Set the place where the row was read, which copies keep and files lack; returns the row."""
        self._place = place
        return self

    @property
    def image_paths(self) -> Mapping[str, str]:
        """Image paths by their field in messages, without an entry for a missing image."""
        raise NotImplementedError

    def with_paths(self: Row, paths: Mapping[str, str]) -> Row:
        """Return the row with these paths instead of `image_paths`."""
        return self.model_copy(update=dict(paths))

    def moved(self: Row, folder: Path) -> Row:
        """Return the row with image paths made absolute from `folder`."""
        paths = {field: str((folder / name).resolve()) for field, name in self.image_paths.items()}
        return self.with_paths(paths)

    def line(self) -> str:
        """Return the row as one line of JSON."""
        return self.model_dump_json(exclude_none=True)


Row = TypeVar("Row", bound=RlRow)


def read_rl_lines(
    path: Path, kind: type[Row], skip_bad: bool = False, images: Path | None = None
) -> tuple[list[Row], list[RowProblem]]:
    """Read a data file, and open every image once.

    Image paths stay relative to the file. Images that were found in `images` by the end of their path get
    absolute ones.

    Returns:
        (rows, problems of the other rows).

    Raises:
        SettingsError: A row is invalid and `skip_bad` is false (it names line, field and reason), or none can
            be used.
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
            raise SettingsError(f"{path.name}, {row}", "Fix the row, or leave out such rows with --skip-bad.")
        problems.append(row)
    if not rows:
        raise SettingsError(
            f"Data file {str(path)!r} does not contain a usable row.",
            "Fix its rows; see docs/reference/file-formats.md.",
        )
    return rows, problems


def _row(kind: type[Row], place: str, item: Any) -> Row | RowProblem:
    try:
        return kind.model_validate(item).at(place)
    except ValidationError as error:
        return RowProblem.of(place, error)


def write_rl_lines(path: Path, rows: Sequence[RlRow]) -> None:
    """Write a data file, one row per line.

    Raises:
        SettingsError: The file cannot be written.
    """
    write_text(path, "\n".join(row.line() for row in rows) + "\n", SettingsError, "Data file")
