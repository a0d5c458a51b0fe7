"""Folders of rows, packed to be shared: shards or the published tree, and a card that says what they are.

Decision: it appears whole, and replaces nothing. With a guard every row is held against it once more, since a
row may come from a stage that had none; what it leaves out stands on the card.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from ....backend.errors import JournalError, PictureError, SettingsError
from ....backend.files.atomic import writing_folder
from ....backend.files.bounded_reader import read_json
from ....backend.journal.journal import Journal
from ....backend.loop.replay import load_trajectory
from ....backend.pictures import Picture
from ....backend.shown_text import one_line
from ..decontamination.checking import row_parts
from ..decontamination.screening import Screened, Screening
from ..from_runs.run_folders import find_runs
from ..rows.sft import SHOWN_PROBLEMS
from .card import CARD, MAX_REPORT, CardContents, CardData, card, check_sources
from .published import TREE, PublishedTree
from .row_files import PackedRow, RowFile, files_of_folders
from .shards import Form, write_parquet, write_tars

DATA = "data"
REPORT = "report.json"
MAX_NAME = 160


@dataclass(frozen=True)
class Packing:
    """How folders are packed: `runs` are those that the rows were made of, for the makers' names, and for the
    trajectories of a published tree, whose paths begin with `prefix`; `sources` are NAME=LICENCE of outside
    sets; `guard` is an index of benchmarks, of which nothing is packed."""

    form: Form
    about: CardData
    runs: Sequence[Path] = ()
    sources: Sequence[str] = ()
    guard_report: Path | None = None
    guard: Path | None = None
    prefix: str = ""
    skip_bad: bool = False
    """Leave out rows with an image that is not there, which is an error otherwise."""
    log: Callable[[str], None] = field(default=print)

    def pack(self, folders: Sequence[Path], out: Path) -> dict[str, dict[str, int]]:
        """Pack the rows of `folders` into the new folder `out`; returns rows by set and split. Raises
        SettingsError, and PictureError for an image that is gone or damaged."""
        if out.exists():
            raise SettingsError(f"{str(out)!r} is there already.", "Give another --out.")
        if self.form == "published" and not self.runs:
            raise SettingsError("A published tree is one of trajectories.", "Give their folders: --runs.")
        if self.prefix and self.form != "published":
            raise SettingsError("Only a published tree has paths to put a prefix before.")
        contents = CardContents(sources=check_sources(self.sources), guard_report=self.guard_report)
        files, runs = files_of_folders(folders), find_runs(self.runs) if self.runs else []
        contents.earlier = {str(folder.name): found for folder in folders if (found := _screened(folder))}
        with (
            Screening.opened(self.guard) as screening,
            writing_folder(out, SettingsError, "Packed folder") as temporary,
        ):
            if self.form == "published":
                self._write_tree(files, runs, temporary, contents, screening)
            else:
                self._write_shards(files, temporary, contents, screening)
            contents.makers, contents.screened = _makers(runs), screening.report()
            if contents.screened:
                self.log(f"Rows {contents.screened.as_line()}.")
            if not any(sum(splits.values()) for splits in contents.counts.values()):
                raise SettingsError("No row is left to pack.", "The lines above say why.")
            (temporary / CARD).write_text(card(self.about, contents), encoding="utf-8")
        return contents.counts

    def _write_shards(
        self, files: Sequence[RowFile], out: Path, contents: CardContents, screening: Screening
    ) -> None:
        (out / DATA).mkdir()
        write = write_tars if self.form == "webdataset" else write_parquet
        ending = "tar" if self.form == "webdataset" else "parquet"
        gone: list[str] = []
        for file in files:
            rows = _Counted(file, screening, gone)
            if write(file, out / DATA, rows):
                contents.data_files[file.name][file.split] = f"{DATA}/{file.name}-{file.split}-*.{ending}"
            self._count(file, rows.count, contents)
        self._check(gone, contents)

    def _write_tree(
        self,
        files: Sequence[RowFile],
        runs: Sequence[tuple[Path, str]],
        out: Path,
        contents: CardContents,
        screening: Screening,
    ) -> None:
        tree = PublishedTree(out, self.prefix)
        for folder, name in sorted(runs, key=lambda item: item[1]):
            try:
                trajectory = load_trajectory(folder)
            except (JournalError, PictureError) as error:
                contents.damaged += 1
                self.log(f"left out: {name}: {error}")
                continue
            if not screening.finds_trajectory(name, trajectory):
                tree.add_trajectory(name.rpartition("/")[2], trajectory)
                contents.trajectories += 1
        self.log(f"{contents.trajectories} trajectories")
        gone: list[str] = []
        for file in files:
            rows = _Counted(file, screening, gone, are_read=True)
            tree.add_rows(file, rows)
            contents.data_files[file.name][file.split] = f"{TREE}/{file.path.name}"
            self._count(file, rows.count, contents)
        self._check(gone, contents)

    def _check(self, gone: list[str], contents: CardContents) -> None:
        """Name the rows whose images are gone, and refuse them unless they may be left out."""
        for line in gone[:SHOWN_PROBLEMS]:
            self.log(f"left out: {line}")
        if len(gone) > SHOWN_PROBLEMS:
            self.log(f"... and {len(gone) - SHOWN_PROBLEMS} more")
        if gone and not self.skip_bad:
            raise SettingsError(
                f"{len(gone)} rows have images that are missing or damaged, the first: {gone[0]}",
                "Make these rows again, or leave them out: --skip-bad.",
            )
        contents.without_images = len(gone)

    def _count(self, file: RowFile, count: int, contents: CardContents) -> None:
        contents.counts[file.name][file.split] = count
        self.log(f"{file.path.name}: {count} rows")


class _Counted:
    """The rows of a file that are in no benchmark, one at a time; `count` of those that were given. Where
    images `are_read` (for a guard or a tree), a row with one that cannot be is passed over and noted in
    `gone`."""

    def __init__(self, file: RowFile, screening: Screening, gone: list[str], are_read: bool = False) -> None:
        self._file, self._screening, self._gone = file, screening, gone
        self._are_read = are_read or screening.guard is not None
        self.count = 0

    def __iter__(self) -> Iterator[PackedRow]:
        for packed in self._file.rows(self._gone):
            place = f"{self._file.path.name}, row {packed.number}"
            if self._are_read:
                try:
                    pictures = [Picture.from_bytes(image) for image in packed.images]
                except PictureError as error:
                    self._gone.append(f"{place}: {error.message}")
                    continue
                texts, _, ids = row_parts(packed.row)
                if self._screening.finds(place, texts, pictures, ids):
                    continue
            self.count += 1
            yield packed


def _makers(runs: Sequence[tuple[Path, str]]) -> dict[str, list[str]]:
    makers: dict[str, set[str]] = {"planner": set(), "critic": set(), "generator": set()}
    for folder, _ in runs:
        try:
            identities = Journal(folder).record().identities
        except JournalError:
            continue
        for role, names in makers.items():
            # What follows is wording and sampling, which nobody knows a model by.
            names.add(one_line(str(getattr(identities, role)).partition("|")[0])[:MAX_NAME])
    return {role: sorted(names - {""}) for role, names in makers.items()}


def _screened(folder: Path) -> Screened | None:
    """What a guard left out when the rows of a folder were made, as that stage's report says."""
    path = folder / REPORT
    if not path.is_file():
        return None
    report = read_json(path, SettingsError, "Report", MAX_REPORT)
    try:
        found = report.get("guard") if isinstance(report, dict) else None
        return None if found is None else Screened.model_validate(found)
    except ValidationError as error:
        raise SettingsError(f"Report {str(path)!r} is damaged.", "Make the rows again.") from error
