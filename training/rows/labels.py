"""Labelled pairs as rows of a critic: images before and after, prompts, and whether each image is right.

A row asks the question of the critic to train, with its prompt set. A refined prompt that is missing is not
learned, as in rows from runs. Rows whose images have equal pixels, directly or through other rows, stay
together, so no image of a held-out row is trained on. A label that is neither yes nor no is an error with its
line, since a guessed label would teach the opposite.

EditJudge-Bench is read in the layout that its own evaluation code describes.
"""

from __future__ import annotations

import csv
import hashlib
import io
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from ...backend.core.errors import AnswerError, PictureError, SettingsError
from ...backend.core.files.bounded_reader import first_characters, opened, read_import
from ...backend.core.files.image_places import ImagePlaces
from ...backend.core.machine.libraries import require
from ...backend.core.pictures import Picture
from ...backend.core.prompts.prompt_set import PromptSet
from ...backend.core.types import Text, Verdict
from ...backend.core.types.values import option, setting
from ...backend.output.sft_rows import SftRow, critic_row
from .rl import CriticRlRow, Evaluation, write_rl_rows
from .sft import write_rows
from .values import (
    LABELS,
    PARQUET,
    TABLES,
    DataFolder,
    RowProblem,
    check_place,
    data_folder,
    kind_of,
    read_values,
    show_problems,
)

SFT, RL = ("critic_sft.json", "critic_sft_held_out.json"), ("critic_rl.jsonl", "critic_rl_held_out.jsonl")
"""Files of rows to train on, and of those that are held out."""
MAX_TABLE = 256 * 1024**2
SEPARATORS = ",;\t|"
YES_NO = {"true": True, "yes": True, "1": True, "ok": True, "false": False, "no": False, "0": False}
REQUIRED = ("before", "after", "prompt", "ok")
BENCHMARK, MAX_BENCHMARK = "benchmark.parquet", 512 * 1024**2
Log = Callable[[str], None]


class LabelSettings(BaseModel):
    """Names of the columns, and the split."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    before: str = option(
        "Column with the path of the image before; empty for an image made from text.", "before"
    )
    after: str = option("Column with the path of the image to judge.", "after")
    prompt: str = option("Column with the prompt of the edit.", "prompt")
    ok: str = option("Column with the label: true, yes, ok or 1 for a right image; false, no or 0.", "ok")
    reason: str = option("Column with the reason of the label, which the critic learns to give.", "reason")
    refined: str = option("Column with a better prompt for a wrong image.", "refined")
    kind: str = option("Column with the kind of edit, for `evaluate critic`.", "kind")
    semantics: str = setting("Column with the score for following the prompt, 0 to 10.", "semantics")
    quality: str = setting("Column with the score for the quality of the image, 0 to 10.", "quality")
    held_out_share: float = option("Share of the rows that are held out.", 0.2, ge=0, lt=1)
    seed: int = setting("Random seed of the split.", 0, ge=0)

    @property
    def columns(self) -> dict[str, str]:
        """Column of each field."""
        return {name: getattr(self, name) for name in LabelledPair.model_fields}


def _yes_or_no(value: Any) -> Any:
    found = YES_NO.get(str(value).strip().casefold())
    if found is None:
        raise ValueError(f"{str(value)[:80]!r} is not one of {', '.join(YES_NO)}")
    return found


def _text(value: Any) -> Any:
    return "" if value is None else value


Score = Annotated[
    float | None, Field(ge=0, le=10), BeforeValidator(lambda value: None if value == "" else value)
]
Cell = Annotated[Text, BeforeValidator(_text)]


class LabelledPair(BaseModel):
    """An image with its source, its prompt, and whether it is right."""

    model_config = ConfigDict(str_strip_whitespace=True, allow_inf_nan=False)

    before: Annotated[str, Field(max_length=4096), BeforeValidator(_text)]
    after: str = Field(min_length=1, max_length=4096)
    prompt: Text = Field(min_length=1)
    ok: Annotated[bool, BeforeValidator(_yes_or_no)]
    reason: Cell = ""
    refined: Cell = ""
    kind: Annotated[str, Field(max_length=200), BeforeValidator(_text)] = ""
    semantics: Score = None
    quality: Score = None


class LabelsReport(BaseModel):
    """Content of report.json: rows by split, label and kind."""

    source: str
    prompt_set: str
    rows: dict[str, dict[str, int]]
    kinds: dict[str, int]
    without_reason: int
    without_score: int
    left_out: list[str]


class _Row(NamedTuple):
    """A pair as rows of both kinds; images are known by their digests."""

    sft: SftRow
    rl: CriticRlRow
    digests: tuple[str, ...]
    has_reason: bool


class LabelSource(NamedTuple):
    """A CSV or JSON file or the folder of EditJudge-Bench, and a second folder to look for its images in."""

    path: Path
    images: Path | None = None


def import_labels(
    source: LabelSource,
    out: Path,
    prompt_set: PromptSet,
    settings: LabelSettings,
    skip_bad: bool = False,
    log: Log = print,
) -> LabelsReport:
    """Write rows for SFT and GRPO, and held-out ones, into the folder `out`.

    Args:
        source: The labelled pairs.
        out: Folder of the rows.
        prompt_set: Prompt set of the critic to train.
        settings: Columns and split.
        skip_bad: Whether to leave out rows that cannot be used instead of raising an error.
        log: Called with every line of progress.

    Raises:
        SettingsError: A column is missing, a row cannot be used, or no rows can be held out.
    """
    path, images = source
    check_place(out, {*SFT, *RL})
    problems: list[RowProblem] = []
    with data_folder(out, {*SFT, *RL}) as folder:
        pairs = _Pairs(path, images, folder, prompt_set)
        rows: list[_Row] = []
        for place, pair in labelled_pairs(path, settings):
            found = pair if isinstance(pair, RowProblem) else pairs.row(place, pair)
            if isinstance(found, _Row):
                rows.append(found)
            elif found is not None:
                problems.append(found)
                if not skip_bad:
                    hint = "Fix the row, or leave out such rows with --skip-bad."
                    raise SettingsError(f"{path.name}, {found}", hint)
        show_problems(problems, len(rows), log)
        if not rows:
            raise SettingsError(f"{str(path)!r} does not contain a usable row.", "Fix its rows.")
        held = held_out_of([row.digests for row in rows], settings.held_out_share, settings.seed)
        splits = [
            [row for place, row in enumerate(rows) if (place in held) is away] for away in (False, True)
        ]
        for some, sft, rl in zip(splits, SFT, RL, strict=True):
            if some:
                write_rows(folder.path / sft, [row.sft for row in some])
                write_rl_rows(folder.path / rl, [row.rl for row in some])
        report = _report(path, prompt_set, splits, problems)
        folder.report(report)
    return report


class _Pairs:
    """Makes rows of pairs. Images are copied into the folder of the rows, each once."""

    def __init__(self, path: Path, images: Path | None, folder: DataFolder, prompt_set: PromptSet) -> None:
        self._base = path if path.is_dir() else path.parent
        self._places = ImagePlaces(self._base, SettingsError, images)
        self._folder, self._prompt_set = folder, prompt_set
        self._known: dict[str, tuple[str, str, tuple[int, int]]] = {}
        self._labels: dict[tuple[str, str, str], tuple[str, bool]] = {}

    def row(self, place: str, pair: LabelledPair) -> _Row | RowProblem | None:
        """Return the rows of a pair, its problem, or None if it repeats an earlier row."""
        try:
            after, digest, size = self._kept(pair.after)
            # A white image stands for none, and would put all rows from text into one group.
            before, source, _ = self._kept(pair.before) if pair.before else (None, "", size)
            white = before or self._folder.keep(Picture.white(size))
            said = Verdict(success=pair.ok, refined_prompt=pair.refined or pair.prompt, reasoning=pair.reason)
            learned = pair.ok or bool(pair.refined)
            sft = critic_row(self._prompt_set, (pair.prompt, pair.prompt), said, (white, after), learned)
            rl = CriticRlRow(
                origin_prompt=pair.prompt,
                origin_image_path=before,
                edited_image_path=after,
                evaluation=Evaluation(success=pair.ok, semantics=pair.semantics, quality=pair.quality),
            )
        except (AnswerError, PictureError, SettingsError) as error:
            return RowProblem(place, "row", str(error))
        except ValidationError as error:
            return RowProblem.of(place, error)
        first, label = self._labels.setdefault((source, digest, pair.prompt), (place, pair.ok))
        if first != place:
            return None if label == pair.ok else RowProblem(place, "ok", f"it contradicts {first}")
        sft = sft.model_copy(update={"kind": pair.kind})
        # Two white images are a group of their own, since white is never what rows share.
        return _Row(sft, rl, tuple(filter(None, (source, digest))) or (place,), bool(pair.reason))

    def _kept(self, name: str) -> tuple[str, str, tuple[int, int]]:
        """Return the path of an image in the folder of the rows, its digest and its size."""
        if name not in self._known:
            file = self._places.find(name)
            if file is None:
                reason = f"The image {name!r} was not found below {str(self._base)!r}."
                raise SettingsError(reason, "Correct the path, or name another folder with --images.")
            picture = Picture.open(file)
            kept = self._folder.copy(file, picture.digest, file.suffix.lower())
            self._known[name] = kept, "" if picture.is_white else picture.digest, picture.size
        return self._known[name]


def labelled_pairs(path: Path, settings: LabelSettings) -> Iterator[tuple[str, LabelledPair | RowProblem]]:
    """Yield (place, pair or its problem) of a file of labels.

    Raises:
        SettingsError: The file cannot be read, or lacks a column.
    """
    for place, item in _editjudge(path) if path.is_dir() else _records(path, settings):
        if isinstance(item, RowProblem):
            yield place, item
            continue
        columns = {name: name for name in LabelledPair.model_fields} if path.is_dir() else settings.columns
        given = {name: item[column] for name, column in columns.items() if column in item}
        try:
            yield place, LabelledPair.model_validate(given)
        except ValidationError as error:
            yield place, RowProblem.of(place, error)


def _records(path: Path, settings: LabelSettings) -> Iterator[tuple[str, Mapping[str, Any] | RowProblem]]:
    with opened(path, SettingsError, "File of labels") as file:
        start = first_characters(file)
    if not start.startswith((b"[", b"{", PARQUET)):
        yield from _table(path, settings)
        return
    for place, item in read_values(path):
        if not isinstance(item, dict | RowProblem):
            item = RowProblem(place, "row", "it is not a JSON object")
        yield place, item


def _table(path: Path, settings: LabelSettings) -> Iterator[tuple[str, Mapping[str, Any] | RowProblem]]:
    text = read_import(path, MAX_TABLE, SettingsError, "File of labels").text
    head = text.partition("\n")[0]
    separator = max(SEPARATORS, key=head.count)
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    try:
        reader.fieldnames = names = [name.strip() for name in reader.fieldnames or ()]
        columns = settings.columns.items()
        wanted = {name: column for name, column in columns if name in REQUIRED or column != name}
        if missing := [name for name, column in wanted.items() if column not in names]:
            lacks, options = (wanted[name] for name in missing), (f"--{name} COLUMN" for name in missing)
            shown = ", ".join(repr(name[:40]) for name in names[:20])
            reason = f"{str(path)!r} has no column {', '.join(lacks)}; it has {shown}."
            raise SettingsError(reason, f"Name the columns with {', '.join(options)}.")
        for row in reader:
            place = f"line {reader.line_num}"
            more = (
                RowProblem(place, "row", "it has more cells than there are columns") if None in row else None
            )
            yield place, more or {name: cell or "" for name, cell in row.items()}
    except csv.Error as error:
        reason = f"{path.name} is not CSV after line {reader.line_num}: {error}."
        raise SettingsError(reason, "Fix the line.") from error


def _editjudge(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the pairs of EditJudge-Bench: each with its right instruction, and with the wrong ones."""
    require("pyarrow")
    from pyarrow import ArrowException, parquet

    path, names = (
        folder / BENCHMARK,
        ("sample_id", "instruction_pos", "instruction_neg_list", "instruction_neg_types"),
    )
    try:
        with opened(path, SettingsError, "EditJudge-Bench") as file:
            rows = parquet.read_table(file, columns=list(names)).to_pylist()
    except (ArrowException, ValueError) as error:
        reason = f"{str(path)!r} is not in the layout of EditJudge-Bench ({error})."
        raise SettingsError(reason, "See docs/reference/file-formats.md, Labelled pairs.") from error
    for number, row in enumerate(rows):
        sample, right, wrong, kinds = (row[name] for name in names)
        images = {name: f"images/{sample}/{name}.jpg" for name in ("before", "after")}
        yield f"row {number}", {**images, "prompt": right, "ok": True, "kind": "right instruction"}
        for at, (text, kind) in enumerate(zip_longest(wrong or (), kinds or (), fillvalue="")):
            yield f"row {number}, wrong {at}", {**images, "prompt": text, "ok": False, "kind": kind}


def held_out_of(images: Sequence[Sequence[str]], share: float, seed: int) -> set[int]:
    """Return the places of the rows that are held out, given the digests of the images of each row.

    Rows that share an image are one group. Groups are taken in the order of a hash of images and seed.

    Raises:
        SettingsError: Every group has more rows than are to be held out.
    """
    group: dict[str, str] = {}

    def root(image: str) -> str:
        while group.setdefault(image, image) != image:
            group[image] = image = group[group[image]]
        return image

    for digests in images:
        for digest in digests:
            group[root(digest)] = root(digests[0])
    members: dict[str, list[int]] = {}
    for place, digests in enumerate(images):
        members.setdefault(root(digests[0]), []).append(place)
    named = {min(one for place in places for one in images[place]): places for places in members.values()}
    order = sorted(named, key=lambda name: hashlib.blake2b(f"{seed}\0{name}".encode()).digest())
    wanted, held = round(share * len(images)), set[int]()
    for name in order:
        if len(held) + len(named[name]) <= wanted:
            held.update(named[name])
    if wanted and not held:
        raise SettingsError(
            f"No rows can be held out: the smallest of {len(named)} groups that share no image has "
            f"{min(map(len, named.values()))} of {len(images)} rows.",
            "Add pairs of other images, or hold out none with --held-out-share 0.",
        )
    return held


def _report(
    path: Path, prompt_set: PromptSet, splits: Sequence[Sequence[_Row]], problems: Sequence[RowProblem]
) -> LabelsReport:
    rows = [row for some in splits for row in some]
    right = [sum(row.rl.evaluation.success for row in some) for some in splits]
    return LabelsReport(
        source=path.name,
        prompt_set=prompt_set.digest,
        rows={
            name: {"rows": len(some), "right": yes, "wrong": len(some) - yes}
            for name, some, yes in zip(SFT, splits, right, strict=True)
        },
        kinds=dict(Counter(row.sft.kind for row in rows if row.sft.kind)),
        without_reason=sum(not row.has_reason for row in rows),
        without_score=sum(row.rl.evaluation.score is None for row in rows),
        left_out=[str(problem) for problem in problems],
    )


def as_lines(report: LabelsReport) -> list[str]:
    """Return the report as lines of Markdown."""
    lines = ["| file | rows | right | wrong |", "|---|---|---|---|"]
    lines += [f"| {name} | {' | '.join(map(str, found.values()))} |" for name, found in report.rows.items()]
    notes = {
        "have no reason, so they teach a verdict without one.": report.without_reason,
        "have no scores: in critic-grpo its --scorer scores their images.": report.without_score,
    }
    lines += [f"{count} rows {note}" for note, count in notes.items() if count]
    if 0 in report.rows[SFT[0]].values():
        lines.append("WARNING: the rows to train on are all right or all wrong: a critic learns one answer.")
    return lines


def is_labels(path: Path) -> bool:
    """Return whether a file or folder has labelled pairs and not rows.

    Raises:
        SettingsError: It cannot be read.
    """
    if path.is_dir() or path.suffix.lower() in TABLES:
        return True
    return kind_of(next(read_values(path), ("", None))[1]) == LABELS
