"""Trajectories of thousands of prompts: what is to do, who does it, what came of it.

Decisions. Nothing is remembered beside the folders: a prompt is done if its record is there, so any call goes
on where any other ended, whatever killed it. Which shard, generator and seed a prompt gets depends on its id
alone. A teacher or a generator that is down would fail thousands of prompts in minutes, so many failures in a
row end the call; they are tried again when somebody asks for it.
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
OUTAGE = 20
"""Failures in a row, of different prompts, that are taken for an outage."""
OUTAGE_PLACES = {"planner", "critic", "generator", "folder", "worker"}
SHOWN_EVERY = 10.0
"""Seconds between two lines of progress."""
Log = Callable[[str], None]


class PromptSource(Protocol):
    """Where prompts come from."""

    def read(self) -> tuple[list[Prompt], list[RowProblem]]:
        """The prompts, and what is wrong with others. Raises SettingsError."""
        ...


@dataclass(frozen=True)
class PromptFile:
    """Where the prompts are, and where their images are looked for besides."""

    path: Path
    images: Path | None = None
    guard: Path | None = None
    """Index of benchmarks, of which nothing is carried out."""

    def read(self) -> tuple[list[Prompt], list[RowProblem]]:
        """The prompts, and what is wrong with other rows. Raises SettingsError."""
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
    """What a call came to; `stopped`: why it ended before the last prompt."""

    totals: Totals
    ledger: list[Usage]
    stopped: str = ""
    left_out: int = 0


@dataclass(frozen=True)
class Trajectories:
    """Makes trajectories in the folder `out`, with these models, side by side as `executor` does it; `shared`
    with other processes that are given the same prompts and folder."""

    out: Path
    teachers: OpenTeachers
    options: TrajectoryOptions
    executor: Executor
    prices: Prices = field(default_factory=dict)
    settings: RunSettings | None = None
    log: Log = print
    shared: bool = False

    def make(self, prompts: PromptSource) -> TrajectoriesReport:
        """Carry out what is not done yet. Raises SettingsError or JournalError for a prompt file or folder
        that cannot be used, and what opening the models raises."""
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
                reason = f"another process is at {elsewhere} of them"
        except KeyboardInterrupt:
            reason = "interrupted"
        made_of = TrajectoriesReport(Totals(), [], reason or stop.reason(), len(problems))
        return self._conclude(shard, mine, failed, made_of)

    def _cancel_token(self, mine: Sequence[Prompt]) -> LocalCancelToken:
        seconds = None if self.options.stop_after is None else seconds_of(self.options.stop_after)
        budget, spent = self.options.budget, 0.0
        if budget is not None:
            if not self.prices:
                raise SettingsError(
                    "A budget needs the prices that it is reckoned with.", "Give --prices FILE."
                )
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
        """Carry out what is to do; returns how many prompts another process is at."""
        if not todo:
            return 0
        settings = self.settings or self.options.run_settings()
        job = TrajectoryJob(self.out, self.teachers, settings, self.prices, self.shared)
        rows = {one.row.id: one.row for one in todo}
        in_a_row, elsewhere, shown = 0, 0, time.monotonic()
        for done in self.executor.map(job, todo, lambda one: one.row.id, stop):
            lost = noted(rows[done.key], "failed", done.lost, where="worker")
            outcome = done.result or lost
            if outcome.state == "stopped":
                elsewhere += outcome.where == ELSEWHERE
                if outcome.where == DISK:
                    stop.stop(f"no room left. {outcome.reason}")
                continue
            made[outcome.id] = outcome
            if outcome.state == "failed":
                failed.add(outcome)
                self.log(f"{outcome.id}: failed at {outcome.where}: {outcome.reason}")
                in_a_row += outcome.where in OUTAGE_PLACES
            else:
                in_a_row = 0
            if in_a_row >= OUTAGE:
                stop.stop(f"{OUTAGE} prompts in a row failed; --retry-failed tries them again")
            if time.monotonic() - shown >= SHOWN_EVERY:
                shown = time.monotonic()
                self.log(f"{len(made)}/{len(todo)} carried out")
        if len(made) < len(todo):
            stop.stop("stopped")
        return elsewhere

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
            self.log(f"\nStopped: {made.stopped}. What was finished is kept; the same command goes on.")
        return made

    def _outcome(self, prompt: Prompt) -> PromptOutcome | None:
        """What became of a prompt that is done; also of one that the published side made."""
        folder = self.out / prompt.row.folder
        if not is_done(folder):
            return None
        found = read_sample(folder)
        if found is not None:
            return found
        try:
            return outcome_of(prompt.row, "", load_trajectory(folder))
        except JournalError:
            return noted(prompt.row, "given up", "a record that was made elsewhere")


def _take_folder(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(
            f"{str(out)!r} cannot be a folder ({error.strerror or error}).", "Give another --out."
        ) from error
