"""The models of many trajectories, from the options of a command: opened where the work is done.

Decision: what travels to a worker are the options alone, and a worker opens the models from them as `run`
does. A model is known to ledger and price list by the name that was typed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...backend.agents.plan_constraints import PlanConstraints
from ...backend.errors import SettingsError
from ...backend.shown_text import shown_text
from ..open_models import NONE, CriticOptions, GeneratorOptions, LocalOptions, Opener, PlannerOptions

if TYPE_CHECKING:
    from ...backend.types import RunSettings
    from ...training.data.executors import Executor
    from ...training.data.trajectories.engine import TrajectoriesReport
    from ...training.data.trajectories.unit import Teachers

INTERRUPTED = "interrupted"
Parallel = Annotated[
    int, typer.Option(min=1, max=1024, help="Trajectories at a time; with --ray, of each worker.")
]
RayAddress = Annotated[
    str | None,
    typer.Option("--ray", help="Work on Ray: local starts it here, auto or HOST:PORT is a running cluster."),
]
Workers = Annotated[
    int, typer.Option(min=1, max=10_000, help="With --ray: processes, each with the models of its own.")
]
RunsAtATime = Annotated[
    int, typer.Option("--parallel", min=1, max=1024, help="Runs at a time; with --ray, of each worker.")
]
ImagesAtATime = Annotated[
    int,
    typer.Option("--parallel", min=1, max=1024, help="Images scored at a time; with --ray, by each worker."),
]
RowWorkers = Annotated[int, typer.Option("--workers", min=1, max=10_000, help="With --ray: processes.")]


@dataclass(frozen=True)
class TeacherOptions:
    """Opens the models when called; can be pickled."""

    planner: PlannerOptions
    constraints: PlanConstraints
    critic: CriticOptions
    generators: tuple[GeneratorOptions, ...]
    local: LocalOptions

    def __call__(self) -> Teachers:
        """Raises SettingsError, ChatError or GeneratorError."""
        from ...training.data.trajectories.unit import Teachers

        opener = Opener(self.local)
        planner, critic = opener.planner(self.planner), opener.critic(self.critic)
        generators = [(one.generator, opener.generator(one)) for one in self.generators]
        opener.finish()
        return Teachers(
            planner=(self.planner.planner, planner),
            critic=critic and (self.critic.critic, critic),
            generators=tuple(generators),
            constraints=self.constraints,
        )

    @property
    def names(self) -> list[str]:
        """The models as ledger and price list name them."""
        critic = [] if self.critic.critic == NONE else [self.critic.critic]
        return [self.planner.planner, *critic, *(one.generator for one in self.generators)]


def each_generator(names: Sequence[str], options: GeneratorOptions) -> tuple[GeneratorOptions, ...]:
    """The options for every generator that is named; raises SettingsError for one that is named twice."""
    if len(set(names)) < len(names):
        raise SettingsError("A generator is named twice.", "Name each --generator once.")
    return tuple(options.model_copy(update={"generator": name}) for name in names)


def run_requests(
    requests: Path, out: Path, teachers: TeacherOptions, settings: RunSettings, parallel: int
) -> int:
    """Carry out a file of requests with the settings of `run`; returns the exit code. Raises as
    Trajectories.make does."""
    from ...training.data.trajectories.engine import PromptFile, Trajectories
    from ...training.data.trajectories.options import TrajectoryOptions

    made = Trajectories(
        out,
        teachers,
        TrajectoryOptions(retry_failed=True),
        open_executor(parallel, None, 1),
        settings=settings,
        log=lambda line: typer.echo(shown_text(line)),
    ).make(PromptFile(requests))
    return exit_code(made)


def exit_code(made: TrajectoriesReport) -> int:
    """0 if every step of every prompt was accepted, 130 after Ctrl-C, else 3."""
    if made.stopped == INTERRUPTED:
        return 130
    return 0 if made.totals.whole == made.totals.prompts else 3


def open_executor_for(runs: Sequence[Path], parallel: int, ray: str | None, workers: int) -> Executor:
    """As `open_executor`, for runs that the workers read. Raises SettingsError for a story in one file, which
    is unpacked on this machine alone."""
    if ray is not None and any(run.is_file() for run in runs):
        raise SettingsError("Other machines cannot read a story in one file.", "Leave out --ray.")
    return open_executor(parallel, ray, workers)


def open_executor(parallel: int, ray: str | None, workers: int) -> Executor:
    """Threads of this process, or Ray."""
    if ray is None:
        from ...training.data.executors.threads import ThreadExecutor

        return ThreadExecutor(parallel)
    from ...training.data.executors.ray_actors import RayExecutor

    return RayExecutor(workers, parallel, ray)
