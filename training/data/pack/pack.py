"""Packs folders of rows for sharing: as shards or as the published tree, with a dataset card.

The result appears only when complete, and replaces nothing. With a guard every row is checked once more,
since it may come from a stage without one; what is left out is listed on the card.
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
    """How folders are packed.

    Attributes:
        form: Form of the packed data.
        about: Texts of the card.
        runs: Runs that the rows were created from, for model names and trajectories of a published tree.
        sources: NAME=LICENSE of outside sets.
        guard_report: Report of `data guard check`.
        guard: Index of benchmarks, whose content is left out.
        prefix: Prefix of the paths in a published tree.
        log: Called with every line of progress.
    """

    form: Form
    about: CardData
    runs: Sequence[Path] = ()
    sources: Sequence[str] = ()
    guard_report: Path | None = None
    guard: Path | None = None
    prefix: str = ""
    skip_bad: bool = False
    """Leave out rows with a missing image instead of raising an error."""
    log: Callable[[str], None] = field(default=print)

    def pack(self, folders: Sequence[Path], out: Path) -> dict[str, dict[str, int]]:
        """Pack the rows of `folders` into the new folder `out`.

        Returns:
            Number of rows by set and split.

        Raises:
            SettingsError: `out` exists, the settings contradict each other, or a file cannot be used.
            PictureError: An image is missing or damaged.
        """
        if out.exists():
            raise SettingsError(f"{str(out)!r} already exists.", "Give another --out.")
        if self.form == "published" and not self.runs:
            raise SettingsError(
                "The published form needs trajectories.", "Give their run folders with --runs."
            )
        if self.prefix and self.form != "published":
            raise SettingsError(
                "--prefix is only for the published form.", "Omit it, or set --form published."
            )
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
                raise SettingsError("No rows are left to pack.", "The lines above give the reasons.")
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
        """Log the rows with missing images, and raise an error unless they may be left out."""
        for line in gone[:SHOWN_PROBLEMS]:
            self.log(f"left out: {line}")
        if len(gone) > SHOWN_PROBLEMS:
            self.log(f"... and {len(gone) - SHOWN_PROBLEMS} more")
        if gone and not self.skip_bad:
            raise SettingsError(
                f"{len(gone)} rows have missing or damaged images; the first: {gone[0]}",
                "Create these rows again, or leave them out with --skip-bad.",
            )
        contents.without_images = len(gone)

    def _count(self, file: RowFile, count: int, contents: CardContents) -> None:
        contents.counts[file.name][file.split] = count
        self.log(f"{file.path.name}: {count} rows")


class _Counted:
    """Yields the rows of a file that are in no benchmark, and counts them in `count`.

    If images `are_read` (for a guard or a tree), a row with an unreadable one is skipped and added to `gone`.
    """

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
            # What follows is the prompt set and sampling, which are not part of the model's name.
            names.add(one_line(str(getattr(identities, role)).partition("|")[0])[:MAX_NAME])
    return {role: sorted(names - {""}) for role, names in makers.items()}


def _screened(folder: Path) -> Screened | None:
    """Return what a guard left out when the rows of a folder were created, from that stage's report."""
    path = folder / REPORT
    if not path.is_file():
        return None
    report = read_json(path, SettingsError, "Report", MAX_REPORT)
    try:
        found = report.get("guard") if isinstance(report, dict) else None
        return None if found is None else Screened.model_validate(found)
    except ValidationError as error:
        raise SettingsError(f"Report {str(path)!r} is damaged.", "Create the rows again.") from error
