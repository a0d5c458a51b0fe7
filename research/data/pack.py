"""Packs folders of rows for sharing: as Parquet shards with a dataset card.

A row and the bytes of its images are packed as they are on disk, so that unpacking gives what was packed.
The result appears only when complete, and replaces nothing. What is not known is stated as not known on the
card.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from ...backend.core.errors import JournalError, PictureError, SettingsError
from ...backend.core.files.atomic import writing_folder
from ...backend.core.files.bounded_reader import read_bytes
from ...backend.core.files.image_places import ImagePlaces
from ...backend.core.machine.libraries import require
from ...backend.core.pictures import MAX_BYTES, Picture
from ...backend.core.shown_text import one_line
from ...backend.core.types.values import DIRECT
from ...backend.story.journal.journal import Journal
from ...training.from_runs.run_folders import find_runs
from ...training.rows.rl import WHITE_PAGE, CriticRlRow
from ...training.rows.values import SHOWN_PROBLEMS, RowProblem, kind_of, read_values

IMAGE_FIELDS = ("origin_image_path", "edited_image_path")
CARD, DATA = "README.md", "data"
HELD_OUT = "_held_out"
NO_ROWS = {"report", "failed", "ledger"}
SHARD_BYTES = 512 * 1024 * 1024
TERMS = "check this service's terms: they may restrict training on its outputs"
GAPS = (
    "- Verdicts and reasoning are the teacher's; corrections are in the rows and in the filter's report.",
    "- The rows were not compared with any benchmark.",
    "- The images were not checked for faces, trademarks or styles of real people.",
)
HINT = "See docs/reference/file-formats.md."


class CardData(BaseModel):
    """Texts of the dataset card."""

    model_config = ConfigDict(extra="forbid")

    title: str = Field(
        default="Interleaved stories",
        max_length=200,
        description="Title of the card.",
        json_schema_extra=DIRECT,
    )
    license: str = Field(
        default="unknown",
        max_length=100,
        description="License of the whole dataset.",
        json_schema_extra=DIRECT,
    )


@dataclass(frozen=True)
class PackedRow:
    """A row as it is in its file, and the bytes of its images in order."""

    row: dict[str, Any]
    images: tuple[bytes, ...]

    def line(self) -> str:
        """Return the row as JSON."""
        return json.dumps(self.row, ensure_ascii=False, sort_keys=True)


@dataclass(frozen=True)
class RowFile:
    """A file of rows; its name determines its set and split. `is_rl` files are for GRPO of the critic."""

    path: Path
    name: str
    split: str
    is_rl: bool

    @classmethod
    def at(cls, path: Path) -> RowFile:
        """Return the file at a path.

        Raises:
            SettingsError: It cannot be read.
        """
        split = "test" if path.stem.endswith(HELD_OUT) else "train"
        _, first = next(read_values(path), ("", None))
        return cls(path, path.stem.removesuffix(HELD_OUT), split, kind_of(first) == CriticRlRow.stage)

    def rows(self, gone: list[str]) -> Iterator[PackedRow]:
        """Yield the rows; those with a missing or damaged image are added to `gone`.

        Raises:
            SettingsError: A row cannot be read.
        """
        places = ImagePlaces(self.path.parent, SettingsError)
        for number, (_, row) in enumerate(read_values(self.path)):
            place = f"{self.path.name}, row {number}"
            if isinstance(row, RowProblem):
                raise SettingsError(f"{place}: {row.reason}", "Fix the row, or remove it.")
            if not isinstance(row, dict):
                raise SettingsError(f"{place} is not a JSON object.", HINT)
            names = [row.get(field) for field in IMAGE_FIELDS] if self.is_rl else row.get("images", [])
            if not isinstance(names, list):
                raise SettingsError(f"{place}: images is not a list.", HINT)
            white = WHITE_PAGE.search if self.is_rl else lambda name: None
            given = [name for name in names if isinstance(name, str) and not white(name)]
            try:
                images = tuple(_image(name, places) for name in given)
                # A damaged image is found here, and not by the reader of the packed data.
                for image in images:
                    Picture.from_bytes(image)
            except (PictureError, SettingsError) as error:
                gone.append(f"{place}: {error.message}")
                continue
            yield PackedRow(row, images)


def _image(name: str, places: ImagePlaces) -> bytes:
    file = places.find(name)
    if file is None:
        raise PictureError(f"The image {name!r} does not exist.")
    return read_bytes(file, MAX_BYTES, PictureError, "Image")


def row_files(folders: Sequence[Path]) -> list[RowFile]:
    """Return the row files in folders.

    Raises:
        SettingsError: A folder has none, or two files have the same name, apart from its ending.
    """
    found: dict[str, Path] = {}
    for folder in folders:
        paths = sorted([*folder.glob("*.json"), *folder.glob("*.jsonl")]) if folder.is_dir() else []
        paths = [path for path in paths if path.stem.partition(".")[0] not in NO_ROWS]
        if not paths:
            raise SettingsError(f"{str(folder)!r} has no row files.", "Give the --out of another stage.")
        for path in paths:
            if (other := found.setdefault(path.stem, path)) != path:
                raise SettingsError(
                    f"{str(other)!r} and {str(path)!r} have the same name.", "Pack them separately."
                )
    return [RowFile.at(path) for path in found.values()]


def write_parquet(file: RowFile, rows: Iterable[PackedRow], folder: Path, size: int = SHARD_BYTES) -> int:
    """Write rows as `NAME-SPLIT-00000.parquet` and following, with the images inside; returns their number.

    The row as JSON is stored next to the columns, for exact comparison.

    Raises:
        SettingsError: A value does not have the type of its column.
    """
    require("datasets")
    import pyarrow
    from datasets import Features, Image, List, Value
    from pyarrow import parquet

    text, number = Value("string"), Value("float64")
    verdict = {"success": Value("bool"), "semantics": number, "quality": number}
    rl = {"origin_prompt": text, "rewritten_prompt": text, "evaluation": verdict}
    columns = rl if file.is_rl else {"messages": List({"role": text, "content": text})}
    schema = Features({**columns, "images": List(Image()), "row": text}).arrow_schema
    count = 0
    for place, shard in enumerate(_cut(rows, size)):
        count += len(shard)
        listed = [
            # Arrow leaves out the keys of a row that have no column.
            {**one.row, "images": [{"bytes": image} for image in one.images], "row": one.line()}
            for one in shard
        ]
        try:
            table = pyarrow.Table.from_pylist(listed, schema=schema)
        except (pyarrow.ArrowException, TypeError, ValueError, OverflowError) as error:
            reason = f"A row of {file.path.name} has a wrong value: {one_line(str(error))[:200]}."
            raise SettingsError(reason, "Fix the row.") from error
        if table.column(0).null_count:
            raise SettingsError(f"A row of {file.path.name} lacks {schema.names[0]}.", "Fix the row.")
        path = folder / f"{file.name}-{file.split}-{place:05}.parquet"
        parquet.write_table(table, path, row_group_size=100)
    return count


def _cut(rows: Iterable[PackedRow], most: int) -> Iterator[list[PackedRow]]:
    """Yield the rows in shards of at most this many bytes, with at least one row each."""
    shard: list[PackedRow] = []
    size = 0
    for row in rows:
        more = sum(map(len, row.images)) + len(row.line())
        if shard and size + more > most:
            yield shard
            shard, size = [], 0
        shard.append(row)
        size += more
    if shard:
        yield shard


@dataclass(frozen=True)
class Packing:
    """How folders are packed.

    Attributes:
        about: Texts of the card.
        runs: Runs that the rows were created from, for model names.
        skip_bad: Whether rows with a missing image are left out instead of raising an error.
        log: Called with every line of progress.
    """

    about: CardData
    runs: Sequence[Path] = ()
    skip_bad: bool = False
    log: Callable[[str], None] = print

    def pack(self, folders: Sequence[Path], out: Path) -> dict[str, dict[str, int]]:
        """Pack the rows of `folders` into the new folder `out`.

        Returns:
            Number of rows by set and split.

        Raises:
            SettingsError: `out` exists, or a file cannot be used.
        """
        if out.exists():
            raise SettingsError(f"{str(out)!r} already exists.", "Give another --out.")
        files = row_files(folders)
        runs = sorted(find_runs(self.runs), key=lambda run: run[1]) if self.runs else []
        counts: dict[str, dict[str, int]] = {}
        patterns: dict[str, list[dict[str, str]]] = {}
        gone: list[str] = []
        with writing_folder(out, SettingsError, "Packed folder") as temporary:
            (temporary / DATA).mkdir()
            for file in files:
                count = write_parquet(file, file.rows(gone), temporary / DATA)
                pattern = f"{DATA}/{file.name}-{file.split}-*.parquet"
                self.log(f"{file.path.name}: {count} rows")
                counts.setdefault(file.name, {})[file.split] = count
                if count:
                    patterns.setdefault(file.name, []).append({"split": file.split, "path": pattern})
            self._check(gone)
            if not patterns:
                raise SettingsError("No rows are left to pack.", "The lines above give the reasons.")
            missing = [f"- {len(gone)} rows with missing images are not included."] if gone else []
            lines = ["## Models", "", *_makers(runs), "", "## Known gaps", "", *missing, *GAPS]
            (temporary / CARD).write_text(self._card(counts, patterns, lines), encoding="utf-8")
        return counts

    def _check(self, gone: Sequence[str]) -> None:
        """Log the rows with missing images, and raise an error unless they may be left out."""
        for line in gone[:SHOWN_PROBLEMS]:
            self.log(f"left out: {line}")
        if gone and not self.skip_bad:
            reason = f"{len(gone)} rows have missing or damaged images; the first: {gone[0]}"
            raise SettingsError(reason, "Create these rows again, or leave them out with --skip-bad.")

    def _card(
        self,
        counts: dict[str, dict[str, int]],
        patterns: dict[str, list[dict[str, str]]],
        lines: Sequence[str],
    ) -> str:
        from huggingface_hub import DatasetCardData

        configs = [{"config_name": name, "data_files": files} for name, files in patterns.items()]
        head = DatasetCardData(license=self.about.license, configs=configs).to_yaml()
        rows = [
            f"| {name} | {split} | {count} |"
            for name, splits in counts.items()
            for split, count in splits.items()
        ]
        table = ["| set | split | rows |", "|---|---|---|", *rows]
        body = "\n".join([f"# {self.about.title}", "", *table, "", *lines])
        return f"---\n{head}\n---\n\n{body}\n"


def _makers(runs: Sequence[tuple[Path, str]]) -> list[str]:
    """Return the lines of the card about the models of runs."""
    makers: dict[str, set[str]] = {"planner": set(), "critic": set(), "generator": set()}
    for folder, _ in runs:
        try:
            identities = Journal(folder).record().identities
        except JournalError:
            continue
        for role, names in makers.items():
            # What follows is the prompt set and sampling, which are not part of the model's name.
            names.add(one_line(str(getattr(identities, role)).partition("|")[0])[:160])
    lines = []
    for role, names in makers.items():
        terms = "" if role == "generator" else f" ({TERMS})"
        lines += [f"- {role}: {name}{terms}" for name in sorted(names - {""})] or [f"- {role}: not known"]
    return lines
