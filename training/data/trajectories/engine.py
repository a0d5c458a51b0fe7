"""Creates trajectories from thousands of prompts: what to do, which worker does it, and the results.

The only state is in the folders: a prompt is done if its record exists, so any call resumes where another one
ended. The shard, generator and seed of a prompt depend only on its id. An unavailable teacher or generator
would fail thousands of prompts in minutes, so a series of failures ends the call; they can be retried on
request.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ....backend.errors import JournalError, SettingsError
from ....backend.files.atomic import write_text
from ....backend.loop.replay import load_trajectory
from ....backend.pictures import Picture
from ....backend.types import RunSettings
from ..decontamination.index import optional_guard
from ..executors import Executor, LocalCancelToken
from ..rows.sft import RowProblem
from .options import TrajectoryOptions, seconds_of
from .outcomes import FAILED, FailedList, PromptOutcome, noted, outcome_of, read_sample
from .prompt_rows import Prompt, Shard, of_shard, read_prompts
from .table import Totals, as_lines, totals_of
from .unit import DISK, ELSEWHERE, OpenTeachers, TrajectoryJob, is_done
from .usage import LEDGER, Prices, Usage, read_ledger, summed, write_ledger

REPORT = "report{}.json"
LOOKED_EVERY = 0.2
OUTAGE = 20
"""Consecutive failures, of different prompts, that count as an outage."""
OUTAGE_PLACES = {"planner", "critic", "generator", "folder", "worker"}
SHOWN_EVERY = 10.0
"""Seconds between two lines of progress."""
VISIBLE = 90.0
"""Seconds until a file of another machine is visible here; NFS caches that a file is absent for a minute."""
Log = Callable[[str], None]


class PromptSource(Protocol):
    """Source of prompts."""

    def read(self) -> tuple[list[Prompt], list[RowProblem]]:
        """Return the prompts, and the problems of other rows.

        Raises:
            SettingsError: The source cannot be read.
        """
        ...


@dataclass(frozen=True)
class PromptFile:
    """A prompt file, and an additional folder of images."""

    path: Path
    images: Path | None = None
    guard: Path | None = None
    """Index of benchmarks, whose content is left out."""

    def read(self) -> tuple[list[Prompt], list[RowProblem]]:
        """Return the prompts, and the problems of other rows.

        Raises:
            SettingsError: The file cannot be read.
        """
        prompts, problems = read_prompts(self.path, self.images)
        if self.guard is None:
            return prompts, problems
        clean: list[Prompt] = []
        with optional_guard(self.guard) as guard:
            assert guard is not None
            for prompt in prompts:
                found = guard.finding(prompt.row.user_input, map(Picture.open, prompt.images))
                if found is None:
                    clean.append(prompt)
                else:
                    problems.append(RowProblem(prompt.row.id, "guard", f"it is in {found.benchmark}"))
        return clean, problems


@dataclass
class TrajectoriesReport:
    """Result of a call; `stopped` is the reason if it ended before the last prompt."""

    totals: Totals
    ledger: list[Usage]
    stopped: str = ""
    left_out: int = 0


@dataclass(frozen=True)
class Trajectories:
    """Creates trajectories in the folder `out` with these models.

    `executor` runs them in parallel. With `shared`, other processes may work on the same prompts and folder.
    """

    out: Path
    teachers: OpenTeachers
    options: TrajectoryOptions
    executor: Executor
    prices: Prices = field(default_factory=dict)
    settings: RunSettings | None = None
    log: Log = print
    shared: bool = False

    def make(self, prompts: PromptSource) -> TrajectoriesReport:
        """Create the trajectories that are not done yet.

        Raises:
            SettingsError: A prompt file or folder cannot be used.
            JournalError: A run folder cannot be used.
            InterleaveError: A model cannot be opened.
        """
        shard = Shard.read(self.options.shard)
        rows, problems = prompts.read()
        mine = of_shard(rows, shard, self.options.limit)
        for problem in problems[:OUTAGE]:
            self.log(f"left out: {problem}")
        if len(problems) > OUTAGE:
            self.log(f"... and {len(problems) - OUTAGE} more")
        _take_folder(self.out)
        failed = FailedList(self.out / FAILED.format(shard.suffix))
        done = {one.row.id for one in mine if is_done(self.out / one.row.folder)}
        again = self.options.retry_failed
        todo = [one for one in mine if one.row.id not in done and (again or one.row.id not in failed.by_id)]
        self.log(f"{len(mine)} prompts: {len(done)} done, {len(todo)} to do")
        stop = self._cancel_token(mine)
        made: dict[str, PromptOutcome] = {}
        reason = ""
        try:
            elsewhere = self._carry_out(todo, stop, failed, made)
            if len(made) + elsewhere == len(todo) and elsewhere:
                reason = f"another process is working on {elsewhere} of them"
        except KeyboardInterrupt:
            reason = "interrupted"
        made_of = TrajectoriesReport(Totals(), [], reason or stop.reason(), len(problems))
        return self._conclude(shard, mine, failed, made_of)

    def _cancel_token(self, mine: Sequence[Prompt]) -> LocalCancelToken:
        seconds = None if self.options.stop_after is None else seconds_of(self.options.stop_after)
        budget, spent = self.options.budget, 0.0
        if budget is not None:
            if not self.prices:
                raise SettingsError("--budget needs prices.", "Set them with --prices FILE.")
            folders = (self.out / one.row.folder for one in mine)
            spent = sum(usage.cost for folder in folders for usage in read_ledger(folder / LEDGER))
        return LocalCancelToken(seconds, budget, spent)

    def _carry_out(
        self,
        todo: Sequence[Prompt],
        stop: LocalCancelToken,
        failed: FailedList,
        made: dict[str, PromptOutcome],
    ) -> int:
        """Run the remaining prompts; returns how many of them another process is working on."""
        if not todo:
            return 0
        settings = self.settings or self.options.run_settings()
        job = TrajectoryJob(self.out, self.teachers, settings, self.prices, self.shared)
        rows = {one.row.id: one.row for one in todo}
        in_a_row, elsewhere, shown, visible = 0, 0, time.monotonic(), False
        for done in self.executor.map(job, todo, lambda one: one.row.id, stop):
            lost = noted(rows[done.key], "failed", done.lost, where="worker")
            outcome = done.result or lost
            if outcome.state == "stopped":
                elsewhere += outcome.where == ELSEWHERE
                if outcome.where == DISK:
                    stop.stop(f"the disk is full. {outcome.reason}")
                continue
            if outcome.is_done and not visible:
                self._check_shared(outcome)
                visible = True
            made[outcome.id] = outcome
            if outcome.state == "failed":
                failed.add(outcome)
                self.log(f"{outcome.id}: failed at {outcome.where}: {outcome.reason}")
                in_a_row += outcome.where in OUTAGE_PLACES
            else:
                in_a_row = 0
            if in_a_row >= OUTAGE:
                stop.stop(f"{OUTAGE} consecutive prompts failed; use --retry-failed to try them again")
            if time.monotonic() - shown >= SHOWN_EVERY:
                shown = time.monotonic()
                self.log(f"{len(made)}/{len(todo)} prompts finished")
        if len(made) < len(todo):
            stop.stop("stopped")
        return elsewhere

    def _check_shared(self, outcome: PromptOutcome) -> None:
        """Wait until the first finished trajectory is visible here.

        Raises:
            SettingsError: It is not. The workers write to another disk.
        """
        end = time.monotonic() + VISIBLE
        while not is_done(self.out / outcome.folder):
            if time.monotonic() > end:
                raise SettingsError(
                    f"A worker finished {outcome.id}, but its files are not in {str(self.out)!r} here.",
                    "Give an --out on a disk that all machines share, as an absolute path.",
                )
            time.sleep(LOOKED_EVERY)

    def _conclude(
        self, shard: Shard, mine: Sequence[Prompt], failed: FailedList, made: TrajectoriesReport
    ) -> TrajectoriesReport:
        outcomes = {one.row.id: found for one in mine if (found := self._outcome(one)) is not None}
        failed.close(outcomes)
        ids = {one.row.id for one in mine}
        broken = [one for name, one in failed.by_id.items() if name in ids]
        made.totals = totals_of(len(mine), [*outcomes.values(), *broken])
        made.ledger = summed(
            usage for one in mine for usage in read_ledger(self.out / one.row.folder / LEDGER)
        )
        if made.totals.to_do == 0:
            made.stopped = ""
        write_ledger(self.out / f"ledger{shard.suffix}.jsonl", made.ledger)
        report = made.totals.model_dump_json(indent=1) + "\n"
        write_text(self.out / REPORT.format(shard.suffix), report, JournalError, "Report")
        for line in ["", *as_lines(made.totals, made.ledger)]:
            self.log(line)
        if made.stopped:
            self.log(
                f"\nStopped: {made.stopped}. Finished trajectories are kept; run the same command again "
                "to resume."
            )
        return made

    def _outcome(self, prompt: Prompt) -> PromptOutcome | None:
        """Return the outcome of a finished prompt, including one created by the published scripts."""
        folder = self.out / prompt.row.folder
        if not is_done(folder):
            return None
        found = read_sample(folder)
        if found is not None:
            return found
        try:
            return outcome_of(prompt.row, "", load_trajectory(folder))
        except JournalError:
            return noted(prompt.row, "given up", "record from another program")


def _take_folder(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(
            f"Cannot create the folder {str(out)!r}: {error.strerror or error}.", "Give another --out."
        ) from error
