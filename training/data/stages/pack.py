"""Packs folders of rows for sharing: as Parquet or tar shards or as the published tree, with a dataset card.

A row and the bytes of its images are packed as they are on disk, so that unpacking gives what was packed.
The result appears only when complete, and replaces nothing. With a guard every row is checked once more,
since it may come from a stage without one. What is not known is stated as not known on the card. A source
whose license forbids derivatives is refused, since rows are derivatives; one that forbids commercial use
marks the whole dataset.
"""

from __future__ import annotations

import io
import json
import re
import tarfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ....backend.errors import JournalError, PictureError, SettingsError
from ....backend.files.atomic import writing_folder
from ....backend.files.bounded_reader import read_bytes, read_json
from ....backend.files.image_places import ImagePlaces
from ....backend.journal.journal import Journal
from ....backend.loop.replay import load_trajectory
from ....backend.machine.libraries import require
from ....backend.pictures import MAX_BYTES, Picture
from ....backend.shown_text import one_line
from ..decontamination.data_files import parts_of
from ..decontamination.guard import Guard, Screened, open_guard
from ..from_runs.run_folders import find_runs
from ..rows.data_folder import REPORT
from ..rows.rl import WHITE_PAGE, CriticRlRow
from ..rows.values import SHOWN_PROBLEMS, RowProblem, kind_of, read_values
from .published_tree import IMAGE_FIELDS, TREE, PublishedTree

Form = Literal["hf", "webdataset", "published"]
CARD, DATA = "README.md", "data"
HELD_OUT = "_held_out"
NO_ROWS = {"report", "failed", "ledger"}
SHARD_BYTES = 512 * 1024 * 1024
SHARD_ROWS = 1000
"""Rows of a tar shard."""
NO_DERIVATIVES = re.compile(r"(?:^|[-_ ])nd(?:[-_ ]|$)|no[- ]?deriv", re.IGNORECASE)
NON_COMMERCIAL = re.compile(r"(?:^|[-_ ])nc(?:[-_ ]|$)|non[- ]?commercial|research[- ]only", re.IGNORECASE)
TERMS = "check this service's terms: they may restrict training on its outputs"
GAPS = """
## Known gaps

- Verdicts and reasoning are the teacher's; corrections by a judge or a person are in the rows and in the
filter's report. - The images were not checked for faces, trademarks or styles of real people.
"""
HINT = "See docs/reference/file-formats.md."


class CardData(BaseModel):
    """Texts of the dataset card."""

    model_config = ConfigDict(extra="forbid")

    title: str = Field(default="Interleaved stories", max_length=200, description="Title of the card.")
    license: str = Field(default="unknown", max_length=100, description="License of the whole dataset.")


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

    def rows(self, guard: Guard, gone: list[str]) -> Iterator[PackedRow]:
        """Yield the rows that are in no benchmark; those with a missing or damaged image are added to `gone`.

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
            given = [name for name in names if isinstance(name, str) and not WHITE_PAGE.search(name)]
            try:
                images = tuple(_image(name, places) for name in given)
                # A damaged image is found here, and not by the reader of the packed data.
                pictures = [Picture.from_bytes(image) for image in images]
            except (PictureError, SettingsError) as error:
                gone.append(f"{place}: {error.message}")
                continue
            parts = parts_of(row)
            if not guard.finds(place, parts.texts, pictures, parts.ids):
                yield PackedRow(row, images)


def _image(name: str, places: ImagePlaces) -> bytes:
    file = places.find(name)
    if file is None:
        raise PictureError(f"The image {name!r} does not exist.")
    return read_bytes(file, MAX_BYTES, PictureError, "Image")


def row_files(folders: Sequence[Path]) -> list[RowFile]:
    """Return the row files in folders.

    Raises:
        SettingsError: A folder has none, or two folders have files with the same name.
    """
    found: dict[str, Path] = {}
    for folder in folders:
        paths = sorted([*folder.glob("*.json"), *folder.glob("*.jsonl")]) if folder.is_dir() else []
        paths = [path for path in paths if path.stem.partition(".")[0] not in NO_ROWS]
        if not paths:
            raise SettingsError(
                f"{str(folder)!r} does not contain row files.", "Give the --out folder of another stage."
            )
        for path in paths:
            if found.setdefault(path.name, path) != path:
                raise SettingsError(
                    f"{str(found[path.name])!r} and {str(path)!r} have the same name.",
                    "Pack them separately.",
                )
    return [RowFile.at(path) for path in found.values()]


def write_parquet(
    file: RowFile, rows: Iterable[PackedRow], folder: Path, size: int = SHARD_BYTES
) -> list[Path]:
    """Write rows as `NAME-SPLIT-00000.parquet` and following, with the images inside.

    The row as JSON is stored next to the columns, for exact comparison.

    Raises:
        SettingsError: A value does not have the type of its column.
    """
    require("datasets")
    import pyarrow
    from datasets import Features, Image, List, Value
    from pyarrow import parquet

    text = Value("string")
    verdict = {"success": Value("bool"), "semantics": Value("float64"), "quality": Value("float64")}
    rl = {"origin_prompt": text, "rewritten_prompt": text, "evaluation": verdict}
    columns = rl if file.is_rl else {"messages": List({"role": text, "content": text})}
    features = Features({**columns, "images": List(Image()), "row": text})
    paths = []
    for shard in _cut(rows, size, None):
        path = folder / f"{file.name}-{file.split}-{len(paths):05}.parquet"
        try:
            listed = [
                {
                    **_only(packed.row, columns),
                    "images": [{"bytes": image, "path": None} for image in packed.images],
                    "row": packed.line(),
                }
                for packed in shard
            ]
            table = pyarrow.Table.from_pylist(listed, schema=features.arrow_schema)
        except (
            pyarrow.ArrowException,
            KeyError,
            TypeError,
            ValueError,
            OverflowError,
            AttributeError,
        ) as error:
            raise SettingsError(
                f"A row of {file.path.name} has a wrong or missing value: {one_line(str(error))[:200]}.",
                "Fix the row.",
            ) from error
        parquet.write_table(table, path, row_group_size=100)
        paths.append(path)
    return paths


def _only(row: dict[str, Any], columns: dict[str, Any]) -> dict[str, Any]:
    """Return the values of the columns, without other keys at any level."""
    found: dict[str, Any] = {}
    for name, kind in columns.items():
        value: Any = row.get(name) if name == "rewritten_prompt" else row[name]
        if isinstance(kind, dict):
            value = {key: value[key] for key in kind}
        elif name == "messages":
            value = [{key: turn[key] for key in ("role", "content")} for turn in value]
        found[name] = value
    return found


def write_tars(file: RowFile, rows: Iterable[PackedRow], folder: Path, size: int = SHARD_ROWS) -> list[Path]:
    """Write rows as `NAME-SPLIT-00000.tar` and following, as KEY.json, KEY.0.png, KEY.1.png.

    A shard has no dates and owners: the same rows give the same bytes.

    Raises:
        SettingsError: A text is not valid.
    """
    paths: list[Path] = []
    for shard in _cut(rows, None, size):
        path = folder / f"{file.name}-{file.split}-{len(paths):05}.tar"
        with tarfile.open(path, "w") as tar:
            for number, packed in enumerate(shard, len(paths) * size):
                try:
                    members = [("json", packed.line().encode())]
                except UnicodeEncodeError as error:
                    raise SettingsError(
                        f"A row of {file.path.name} contains a lone surrogate.", "Remove the character."
                    ) from error
                members += [(f"{place}.png", image) for place, image in enumerate(packed.images)]
                for ending, content in members:
                    info = tarfile.TarInfo(f"{number:09}.{ending}")
                    info.size = len(content)
                    tar.addfile(info, io.BytesIO(content))
        paths.append(path)
    return paths


def _cut(
    rows: Iterable[PackedRow], most_bytes: int | None, most_rows: int | None
) -> Iterator[list[PackedRow]]:
    """Yield the rows in shards of at most this many bytes and rows, with at least one row each."""
    shard: list[PackedRow] = []
    size = 0
    for row in rows:
        more = sum(map(len, row.images)) + len(row.line())
        if shard and (len(shard) == most_rows or (most_bytes is not None and size + more > most_bytes)):
            yield shard
            shard, size = [], 0
        shard.append(row)
        size += more
    if shard:
        yield shard


def _by_set() -> defaultdict[str, dict[str, Any]]:
    return defaultdict(dict)


@dataclass
class _Packed:
    """What is on the card: rows and file patterns by set and split, and what was left out."""

    counts: dict[str, dict[str, int]] = field(default_factory=_by_set)
    patterns: dict[str, dict[str, str]] = field(default_factory=_by_set)
    gone: list[str] = field(default_factory=list)
    trajectories: int | None = None

    def add(self, file: RowFile, count: int, pattern: str) -> None:
        self.counts[file.name][file.split] = count
        if count:
            self.patterns[file.name][file.split] = pattern


@dataclass(frozen=True)
class Packing:
    """How folders are packed.

    Attributes:
        form: Form of the packed data.
        about: Texts of the card.
        runs: Runs that the rows were created from, for model names and trajectories of a published tree.
        sources: NAME=LICENSE of outside sets.
        guard: Index of benchmarks, whose content is left out.
        skip_bad: Whether rows with a missing image are left out instead of raising an error.
        log: Called with every line of progress.
    """

    form: Form
    about: CardData
    runs: Sequence[Path] = ()
    sources: Sequence[str] = ()
    guard: Path | None = None
    skip_bad: bool = False
    log: Callable[[str], None] = field(default=print)

    def pack(self, folders: Sequence[Path], out: Path) -> dict[str, dict[str, int]]:
        """Pack the rows of `folders` into the new folder `out`.

        Returns:
            Number of rows by set and split.

        Raises:
            SettingsError: `out` exists, the settings contradict each other, or a file cannot be used.
        """
        if out.exists():
            raise SettingsError(f"{str(out)!r} already exists.", "Give another --out.")
        if self.form == "published" and not self.runs:
            raise SettingsError(
                "The published form needs trajectories.", "Give their run folders with --runs."
            )
        sources, files = self._licensed(), row_files(folders)
        runs = sorted(find_runs(self.runs), key=lambda run: run[1]) if self.runs else []
        packed = _Packed()
        with (
            open_guard(self.guard) as guard,
            writing_folder(out, SettingsError, "Packed folder") as temporary,
        ):
            if self.form == "published":
                self._write_tree(files, runs, temporary, guard, packed)
            else:
                (temporary / DATA).mkdir()
                ending, write = (
                    ("tar", write_tars) if self.form == "webdataset" else ("parquet", write_parquet)
                )
                for file in files:
                    rows = _Counted(file.rows(guard, packed.gone))
                    write(file, rows, temporary / DATA)
                    packed.add(file, rows.count, f"{DATA}/{file.name}-{file.split}-*.{ending}")
            self._check(packed)
            lines = [
                "## Sources",
                "",
                *sources,
                "",
                "## Contamination",
                "",
                *_screened(folders, guard.screened()),
            ]
            text = self._card(packed, _makers(runs), lines)
            (temporary / CARD).write_text(text, encoding="utf-8")
        return packed.counts

    def _licensed(self) -> list[str]:
        """Return the lines of the card about the sources."""
        lines = []
        for source in self.sources:
            name, _, licence = (part.strip() for part in source.partition("="))
            if not name or not licence or NO_DERIVATIVES.search(licence):
                raise SettingsError(
                    f"{source!r} is not NAME=LICENSE, or its license forbids derivatives (training rows).",
                    "Write for example CoMM=cc-by-4.0, or leave this source out.",
                )
            restricted = " **non-commercial, and therefore this dataset too**"
            lines.append(f"- {name}: {licence}{restricted if NON_COMMERCIAL.search(licence) else ''}")
        return lines or ["No outside sources are named."]

    def _write_tree(
        self,
        files: Sequence[RowFile],
        runs: Sequence[tuple[Path, str]],
        out: Path,
        guard: Guard,
        packed: _Packed,
    ) -> None:
        tree, packed.trajectories = PublishedTree(out), 0
        for folder, name in runs:
            try:
                trajectory = load_trajectory(folder)
            except (JournalError, PictureError) as error:
                self.log(f"left out: {name}: {error}")
                continue
            if not guard.finds_trajectory(name, trajectory):
                tree.add_trajectory(name.rpartition("/")[2], trajectory)
                packed.trajectories += 1
        for file in files:
            rows = _Counted(file.rows(guard, packed.gone))
            tree.add_rows(file.path.name, ((one.row, one.images) for one in rows), file.is_rl)
            packed.add(file, rows.count, f"{TREE}/{file.path.name}")

    def _check(self, packed: _Packed) -> None:
        """Log the rows with missing images, and raise an error unless they may be left out."""
        for line in packed.gone[:SHOWN_PROBLEMS]:
            self.log(f"left out: {line}")
        if packed.gone and not self.skip_bad:
            raise SettingsError(
                f"{len(packed.gone)} rows have missing or damaged images; the first: {packed.gone[0]}",
                "Create these rows again, or leave them out with --skip-bad.",
            )
        for name, splits in packed.counts.items():
            for split, count in splits.items():
                self.log(f"{name}, {split}: {count} rows")
        if not any(sum(splits.values()) for splits in packed.counts.values()):
            raise SettingsError("No rows are left to pack.", "The lines above give the reasons.")

    def _card(self, packed: _Packed, makers: dict[str, list[str]], lines: Sequence[str]) -> str:
        from huggingface_hub import DatasetCardData

        configs = [
            {
                "config_name": name,
                "data_files": [{"split": split, "path": path} for split, path in splits.items()],
            }
            for name, splits in packed.patterns.items()
        ]
        head = DatasetCardData(license=self.about.license, configs=configs).to_yaml()
        rows = [
            f"| {name} | {split} | {count} |"
            for name, splits in packed.counts.items()
            for split, count in splits.items()
        ]
        table = ["| set | split | rows |", "|---|---|---|", *rows]
        if packed.trajectories is not None:
            table += ["", f"{packed.trajectories} trajectories, each in a folder with its record and images."]
        models = ["", "## Models", ""]
        for role, names in makers.items():
            terms = "" if role == "generator" else f" ({TERMS})"
            models += [f"- {role}: {name}{terms}" for name in names] or [f"- {role}: not known"]
        gaps = f"- {len(packed.gone)} rows with missing images are not included.\n" if packed.gone else ""
        body = "\n".join([f"# {self.about.title}", "", *table, *models, "", *lines])
        return f"---\n{head}\n---\n\n{body}\n{GAPS}{gaps}"


class _Counted:
    """Iterates over rows, and counts them in `count`."""

    def __init__(self, rows: Iterable[PackedRow]) -> None:
        self._rows, self.count = rows, 0

    def __iter__(self) -> Iterator[PackedRow]:
        for row in self._rows:
            self.count += 1
            yield row


def _makers(runs: Sequence[tuple[Path, str]]) -> dict[str, list[str]]:
    """Return the names of the models of runs by role."""
    makers: dict[str, set[str]] = {"planner": set(), "critic": set(), "generator": set()}
    for folder, _ in runs:
        try:
            identities = Journal(folder).record().identities
        except JournalError:
            continue
        for role, names in makers.items():
            # What follows is the prompt set and sampling, which are not part of the model's name.
            names.add(one_line(str(getattr(identities, role)).partition("|")[0])[:160])
    return {role: sorted(names - {""}) for role, names in makers.items()}


def _screened(folders: Sequence[Path], now: Screened | None) -> list[str]:
    """Return the lines of the card about what guards left out, now and when the rows were created."""
    lines = []
    for folder in folders:
        path = folder / REPORT
        report = read_json(path, SettingsError, "Report") if path.is_file() else None
        try:
            found = report.get("guard") if isinstance(report, dict) else None
            if found is not None:
                screened = Screened.model_validate(found)
                lines.append(f"- when `{one_line(folder.name)}` was created: {one_line(screened.as_line())}")
        except ValidationError as error:
            raise SettingsError(f"Report {str(path)!r} is damaged.", "Create the rows again.") from error
    if now:
        lines.append(f"- when it was packed, for every row: {one_line(now.as_line())}")
        lines += [f"  - {one_line(f'{where}: {found}')}" for where, found in list(now.found.items())[:50]]
    return lines or ["Not checked against any benchmark."]
