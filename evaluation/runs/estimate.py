"""What a benchmark will take, before its first image: plans, images, verdicts, the judge's calls, and money
where prices are known.

Decisions. Steps are taken from plans and not guessed: up to 20 items, spread evenly over what is to do, are
planned first. These plans lie in the items' own runs, which go on from them, so nothing is asked twice. The
fewest draws are one a step, the most are all attempts of every step; once items are finished their mean
stands between. What was not measured has no figure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from ...backend.errors import JournalError
from ...backend.files.bounded_reader import read_bytes_if_any
from ...backend.journal.files import PLAN
from ...backend.types import Plan, RunSettings
from ...training.data.executors import Executor, LocalCancelToken
from ...training.data.trajectories.outcomes import PromptOutcome, read_sample
from ...training.data.trajectories.prompt_rows import Prompt
from ...training.data.trajectories.unit import PLANNED, OpenTeachers, TrajectoryJob, is_done
from ...training.data.trajectories.usage import LEDGER, Price, Prices, Role, Usage, read_ledger, summed

PLANS = 20
MAX_PLAN = 16 * 1024 * 1024
MEASURED = 400
"""Finished items, at most, that are read for what an item takes."""


@dataclass(frozen=True)
class Amount:
    """How many of a thing are still to be made: at least, as finished items lead to expect (None: there are
    none), and at most; seconds of one (None: not measured); and money of one, None where it has no price or
    was not measured: then `money_most` may bound it."""

    what: str
    least: float
    likely: float | None
    most: float
    seconds: float | None = None
    money: float | None = None
    money_most: float | None = None


@dataclass(frozen=True)
class Estimate:
    """What is to come for `items` items, of which `done` are finished. `steps` an item are drawn by `plans`
    plans; `unplanned` items could not be planned. `spent` is what the ledgers say."""

    items: int
    done: int
    plans: int
    steps: float
    unplanned: int
    max_attempts: int
    spent: float
    amounts: tuple[Amount, ...]

    @property
    def to_do(self) -> int:
        return self.items - self.done


@dataclass(frozen=True)
class Estimator:
    """Looks at the runs below `folder`. `models` are the names of who plans, judges (none: nobody) and draws,
    as the price list has them; `longest_verdict` are the tokens in and out that a verdict takes at most."""

    folder: Path
    settings: RunSettings
    models: Mapping[Role, str]
    prices: Prices = field(default_factory=dict)
    longest_verdict: tuple[int, int] = (0, 0)

    def plan(
        self,
        prompts: Sequence[Prompt],
        teachers: OpenTeachers,
        executor: Executor,
        log: Callable[[str], None],
    ) -> int:
        """Plan some of the items that are to do, unless they have plans; returns how many could not be
        planned. Raises what opening the models raises."""
        todo = [one for one in prompts if not is_done(self.folder / one.row.folder)]
        missing = [one for one in _spread(todo, PLANS) if self._steps(one) is None]
        if not missing:
            return 0
        log(f"planning {len(missing)} items for the estimate; their runs go on from these plans")
        job = TrajectoryJob(self.folder, teachers, self.settings, self.prices, shared=True, plans_only=True)
        made = list(executor.map(job, missing, lambda one: one.row.id, LocalCancelToken()))
        return sum(one.result is None or one.result.where != PLANNED for one in made)

    def estimate(self, prompts: Sequence[Prompt], unplanned: int = 0) -> Estimate:
        """From what lies in the folder; items that were begun count whole. Raises JournalError for a run that
        is damaged."""
        done = [one for one in prompts if is_done(self.folder / one.row.folder)]
        names = {one.row.id for one in done}
        todo = [one for one in prompts if one.row.id not in names]
        planned = [steps for one in todo if (steps := self._steps(one)) is not None]
        looked_at = _spread(done, MEASURED)
        finished = [found for one in looked_at if (found := self._outcome(one)) is not None]
        known = [*planned, *(one.drawn_steps for one in finished)]
        mean = sum(known) / len(known) if known else 0.0
        steps = sum(planned) + mean * (len(todo) - len(planned))
        spent: dict[Role, Usage] = {
            one.role: one
            for one in summed(
                usage for one in prompts for usage in read_ledger(self.folder / one.row.folder / LEDGER)
            )
        }
        unasked = len(todo) - len(planned)
        amounts = [self._amount("plans", "planner", (unasked, None, unasked), spent)]
        amounts.append(self._amount("images", "generator", self._draws(steps, finished), spent))
        if "critic" in self.models and self.settings.max_attempts > 1:
            amounts.append(self._amount("verdicts", "critic", self._verdicts(steps, finished), spent))
        return Estimate(
            items=len(prompts),
            done=len(done),
            plans=len(known),
            steps=mean,
            unplanned=unplanned,
            max_attempts=self.settings.max_attempts,
            spent=sum(one.cost for one in spent.values()),
            amounts=tuple(amounts),
        )

    def _draws(self, steps: float, finished: Sequence[PromptOutcome]) -> tuple[float, float | None, float]:
        likely = _ratio(sum(one.draws for one in finished), sum(one.drawn_steps for one in finished))
        return steps, likely and likely * steps, steps * self.settings.max_attempts

    def _verdicts(self, steps: float, finished: Sequence[PromptOutcome]) -> tuple[float, float | None, float]:
        judged = sum(one.right + one.wrong + one.unread for one in finished)
        likely = _ratio(judged, sum(one.drawn_steps for one in finished))
        most = self.settings.max_attempts - (not self.settings.judge_last)
        return steps, likely and likely * steps, steps * most

    def _amount(
        self,
        what: str,
        role: Role,
        number: tuple[float, float | None, float],
        spent: Mapping[Role, Usage],
    ) -> Amount:
        used, price = spent.get(role), self.prices.get(self.models[role])
        money = most = None
        if price is not None and role == "generator":
            money = price.image
        elif price is not None and used is not None and used.calls:
            money = price.of(used) / used.calls
        elif price is not None and role == "critic":
            money, most = 0.0, _price_of(price, *self.longest_verdict)
        seconds = used.seconds / used.calls if used and used.calls else None
        return Amount(what, *number, seconds, money, most)

    def _steps(self, prompt: Prompt) -> int | None:
        """Drawn steps of the plan that an item has."""
        found = read_bytes_if_any(self.folder / prompt.row.folder / PLAN, MAX_PLAN, JournalError, "Plan")
        if found is None:
            return None
        try:
            plan = Plan.model_validate_json(found)
        except ValidationError as error:
            raise JournalError(
                f"{str(self.folder / prompt.row.folder / PLAN)!r} is damaged.", "Delete its folder."
            ) from error
        return sum(bool(step.prompt) for step in plan.steps)

    def _outcome(self, prompt: Prompt) -> PromptOutcome | None:
        return read_sample(self.folder / prompt.row.folder)


def _price_of(price: Price, tokens_in: int, tokens_out: int) -> float:
    return price.of(Usage(role="critic", model="", tokens_in=tokens_in, tokens_out=tokens_out))


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _spread(ones: Sequence[Prompt], most: int) -> list[Prompt]:
    """So many at most, at equal distances: data is sorted by category."""
    if len(ones) <= most:
        return list(ones)
    return [ones[at * len(ones) // most] for at in range(most)]


def as_lines(found: Estimate, judge_calls: int) -> list[str]:
    """A head and a table; `judge_calls` are those of the benchmark's own evaluator for these items."""
    of = f"{found.plans} plans" if found.plans != 1 else "one plan"
    lines = [
        f"{found.items} items, {found.done} done; by {of} {found.steps:.2f} images an item, "
        f"each drawn up to {found.max_attempts} times",
        "",
        "| still to do | at least | as so far | at most | model time | money |",
        "|---" * 6 + "|",
        *map(_row, found.amounts),
        f"| calls of the evaluator's judge, later | {judge_calls} | | {judge_calls} | | |",
    ]
    if found.unplanned:
        lines.insert(1, f"items that could not be planned: {found.unplanned}; the run tries them again")
    total = _total(found)
    if total:
        lines += ["", total]
    return lines


def _row(one: Amount) -> str:
    likely = "" if one.likely is None else f"{one.likely:.0f}"
    numbers = (one.least, one.most) if one.likely is None else (one.likely,) * 2
    time = "" if one.seconds is None else _range(*(_hours(one.seconds * number) for number in numbers))
    money = "" if one.money is None else _range(*(f"{value:.2f}" for value in _money(one)))
    return f"| {one.what} | {one.least:.0f} | {likely} | {one.most:.0f} | {time} | {money} |"


def _money(one: Amount) -> tuple[float, float]:
    """At least and at most."""
    price = one.money or 0.0
    return one.least * price, one.most * (one.money_most or price)


def _total(found: Estimate) -> str:
    priced = [_money(one) for one in found.amounts if one.money is not None]
    if not priced:
        return ""
    least, most = (found.spent + sum(values) for values in zip(*priced, strict=True))
    return f"money in all: {_range(f'{least:.2f}', f'{most:.2f}')}, of which {found.spent:.2f} is spent"


def _range(least: str, most: str) -> str:
    return least if least == most else f"{least} to {most}"


def _hours(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
