"""Estimates a benchmark before its first image: plans, images, verdicts, calls of the judge, and cost.

The number of steps comes from real plans: up to 20 items, spread evenly over the remaining ones, are planned
first. These plans are stored in the items' own runs, which continue from them, so no work is repeated. The
minimum is one attempt per step, the maximum is all attempts of every step; once items are finished, their
mean is the expected number. Values that were not measured are left empty.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from ...backend.errors import JournalError
from ...backend.files.bounded_reader import read_bytes_if_any
from ...backend.journal.records.run_files import PLAN
from ...backend.types import Plan, RunSettings
from ...training.data.executors import Executor, LocalCancelToken
from ...training.data.trajectories.outcomes import PromptOutcome, read_sample
from ...training.data.trajectories.prompt_rows import Prompt
from ...training.data.trajectories.unit import PLANNED, OpenTeachers, TrajectoryJob, is_done
from ...training.data.trajectories.usage import LEDGER, Price, Prices, Role, Usage, read_ledger, summed

PLANS = 20
MAX_PLAN = 16 * 1024 * 1024
MEASURED = 400
"""Maximum number of finished items that are read to measure the cost of an item."""


@dataclass(frozen=True)
class Amount:
    """Remaining number of plans, images or verdicts.

    Attributes:
        what: Name of the thing that is counted.
        least: Minimum.
        likely: Expected number according to finished items; `None` if there are none.
        most: Maximum.
        seconds: Time of one; `None` if not measured.
        money: Price of one; `None` if it has no price or was not measured.
        money_most: Upper bound of the price, if `money` was not measured.
    """

    what: str
    least: float
    likely: float | None
    most: float
    seconds: float | None = None
    money: float | None = None
    money_most: float | None = None


@dataclass(frozen=True)
class Estimate:
    """Remaining work of a benchmark.

    Attributes:
        items: Number of items.
        done: Number of finished items.
        plans: Number of plans that `steps` is based on.
        steps: Mean number of images per item.
        unplanned: Number of items whose planning failed.
        max_attempts: Attempts per step.
        spent: Cost so far, according to the ledgers.
        amounts: Remaining plans, images and verdicts.
    """

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
        """Number of unfinished items."""
        return self.items - self.done


@dataclass(frozen=True)
class Estimator:
    """Estimates from the runs below `folder`.

    Attributes:
        folder: Folder of the runs.
        settings: Settings of the runs.
        models: Names of planner, critic (absent: none) and generator, as in the price list.
        prices: The price list.
        longest_verdict: Maximum input and output tokens of a verdict.
    """

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
        """Plan a sample of the unfinished items, if they have no plans yet.

        Returns:
            The number of items whose planning failed. Errors of opening the models pass through.
        """
        todo = [one for one in prompts if not is_done(self.folder / one.row.folder)]
        missing = [one for one in _spread(todo, PLANS) if self._steps(one) is None]
        if not missing:
            return 0
        log(f"Planning {len(missing)} items for the estimate. Their runs will reuse these plans.")
        job = TrajectoryJob(self.folder, teachers, self.settings, self.prices, shared=True, plans_only=True)
        made = list(executor.map(job, missing, lambda one: one.row.id, LocalCancelToken()))
        return sum(one.result is None or one.result.where != PLANNED for one in made)

    def estimate(self, prompts: Sequence[Prompt], unplanned: int = 0) -> Estimate:
        """Estimate the remaining work from the folder. Started items count as not done.

        Raises:
            JournalError: If a run is damaged.
        """
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
        """Return the number of steps with an image in an item's plan; `None` if it has no plan."""
        found = read_bytes_if_any(self.folder / prompt.row.folder / PLAN, MAX_PLAN, JournalError, "Plan")
        if found is None:
            return None
        try:
            plan = Plan.model_validate_json(found)
        except ValidationError as error:
            raise JournalError(
                f"The plan {str(self.folder / prompt.row.folder / PLAN)!r} is damaged.",
                "Delete its folder to plan the item again.",
            ) from error
        return sum(bool(step.prompt) for step in plan.steps)

    def _outcome(self, prompt: Prompt) -> PromptOutcome | None:
        return read_sample(self.folder / prompt.row.folder)


def _price_of(price: Price, tokens_in: int, tokens_out: int) -> float:
    return price.of(Usage(role="critic", model="", tokens_in=tokens_in, tokens_out=tokens_out))


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _spread(ones: Sequence[Prompt], most: int) -> list[Prompt]:
    """Return at most `most` evenly spaced items: data is sorted by category."""
    if len(ones) <= most:
        return list(ones)
    return [ones[at * len(ones) // most] for at in range(most)]


def as_lines(found: Estimate, judge_calls: int) -> list[str]:
    """Format the estimate as a summary and a table.

    Args:
        found: The estimate.
        judge_calls: Calls of the official evaluator's judge for these items.
    """
    of = f"{found.plans} plans" if found.plans != 1 else "one plan"
    lines = [
        f"{found.items} items, {found.done} done. Based on {of}: {found.steps:.2f} images per item, "
        f"up to {found.max_attempts} attempts each",
        "",
        "| remaining | minimum | expected | maximum | model time | cost |",
        "|---" * 6 + "|",
        *map(_row, found.amounts),
        f"| judge calls of the evaluator, later | {judge_calls} | | {judge_calls} | | |",
    ]
    if found.unplanned:
        lines.insert(1, f"items that could not be planned: {found.unplanned}; the run will try again")
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
    """Return minimum and maximum."""
    price = one.money or 0.0
    return one.least * price, one.most * (one.money_most or price)


def _total(found: Estimate) -> str:
    priced = [_money(one) for one in found.amounts if one.money is not None]
    if not priced:
        return ""
    least, most = (found.spent + sum(values) for values in zip(*priced, strict=True))
    return f"total cost: {_range(f'{least:.2f}', f'{most:.2f}')}, of which {found.spent:.2f} is already spent"


def _range(least: str, most: str) -> str:
    return least if least == most else f"{least} to {most}"


def _hours(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
