"""A folder of rows, packed to be shared: shards, and a card that says what they are.

Decision: it appears whole, and replaces nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ....backend.errors import JournalError, SettingsError
from ....backend.files.atomic import writing_folder
from ....backend.journal.journal import Journal
from ...runs.run_folders import find_runs
from .card import CARD, CardData, card, check_sources
from .row_files import RowFile, row_files
from .shards import Form, write_parquet, write_tars

DATA = "data"
LONGEST_NAME = 160


@dataclass(frozen=True)
class Packing:
    """How a folder is packed: `runs` are those that the rows were made of, for the makers' names; `sources`
    are NAME=LICENCE of outside sets."""

    form: Form
    about: CardData
    runs: Sequence[Path] = ()
    sources: Sequence[str] = ()
    guard_report: Path | None = None
    log: Callable[[str], None] = field(default=print)

    def pack(self, folder: Path, out: Path) -> dict[str, dict[str, int]]:
        """Pack the rows of `folder` into the new folder `out`; returns rows by set and split. Raises
        SettingsError."""
        if out.exists():
            raise SettingsError(f"{str(out)!r} is there already.", "Give another --out.")
        sources, files = check_sources(self.sources), row_files(folder)
        counts: dict[str, dict[str, int]] = defaultdict(dict)
        patterns: dict[str, dict[str, str]] = defaultdict(dict)
        ending = "tar" if self.form == "webdataset" else "parquet"
        with writing_folder(out, SettingsError, "Packed folder") as temporary:
            (temporary / DATA).mkdir()
            for file in files:
                counts[file.name][file.split] = self._write(file, temporary / DATA)
                patterns[file.name][file.split] = f"{DATA}/{file.name}-{file.split}-*.{ending}"
                self.log(f"{file.path.name}: {counts[file.name][file.split]} rows")
            text = card(self.about, counts, patterns, self._makers(), sources, self.guard_report)
            (temporary / CARD).write_text(text, encoding="utf-8")
        return counts

    def _write(self, file: RowFile, folder: Path) -> int:
        write = write_tars if self.form == "webdataset" else write_parquet
        write(file, folder)
        return sum(1 for _ in file.rows())

    def _makers(self) -> dict[str, list[str]]:
        makers: dict[str, set[str]] = {"planner": set(), "critic": set(), "generator": set()}
        for folder, _ in find_runs(self.runs) if self.runs else []:
            try:
                identities = Journal(folder).record().identities
            except JournalError:
                continue
            for role, names in makers.items():
                # What follows is wording and sampling, which nobody knows a model by.
                names.add(str(getattr(identities, role)).partition("|")[0][:LONGEST_NAME])
        return {role: sorted(names - {""}) for role, names in makers.items()}
