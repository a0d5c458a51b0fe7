"""Options of commands that carry out many requests: the models of a worker, and where workers run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from ...backend.core.errors import SettingsError
from ...backend.story.agents.plan_constraints import PlanConstraints
from ...cli.models import CriticOptions, GeneratorOptions, LocalOptions, Opener, PlannerOptions
from ..data.trajectories.engine import Teachers, TrajectoriesReport
from ..data.trajectories.executors import Executor, RayExecutor, ThreadExecutor

RayAddress = Annotated[
    str | None,
    typer.Option(
        "--ray", help="Work on Ray: local starts it here; auto or HOST:PORT uses a running cluster."
    ),
]
Workers = Annotated[
    int,
    typer.Option(
        "--workers", min=1, max=10_000, help="With --ray: number of workers. Each loads its own models."
    ),
]


INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class TeacherOptions:
    """The model options of a worker. Calling them opens the models; they can be pickled."""

    planner: PlannerOptions
    constraints: PlanConstraints
    critic: CriticOptions
    generators: tuple[GeneratorOptions, ...]
    local: LocalOptions

    def __call__(self) -> Teachers:
        """Open the models.

        Raises:
            InterleaveError: As `Opener` does.
        """
        opener = Opener(self.local)
        planner, critic = opener.planner(self.planner), opener.critic(self.critic)
        generators = [(one.generator, opener.generator(one)) for one in self.generators]
        opener.finish()
        return Teachers(
            planner=planner,
            critic=critic,
            generators=tuple(generators),
            constraints=self.constraints,
        )


def each_generator(names: Sequence[str], options: GeneratorOptions) -> tuple[GeneratorOptions, ...]:
    """Return the options of each named generator.

    Raises:
        SettingsError: A generator is named twice.
    """
    if len(set(names)) < len(names):
        raise SettingsError("The same --generator is given twice.", "Give each generator once.")
    return tuple(options.model_copy(update={"generator": name}) for name in names)


def exit_code(made: TrajectoriesReport) -> int:
    """Return 0 if every step of every request was accepted, 130 after Ctrl-C, otherwise 3."""
    if made.stopped == INTERRUPTED:
        return 130
    return 0 if made.totals.whole == made.totals.prompts else 3


def open_executor(parallel: int, ray: str | None, workers: int) -> Executor:
    """Return an executor: threads of this process, or Ray."""
    return ThreadExecutor(parallel) if ray is None else RayExecutor(workers, parallel, ray)
