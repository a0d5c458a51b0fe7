"""The models of commands that carry out many requests, opened by each worker.

Only the options are sent to a worker, which opens the models as `run` does.
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
from ..open_models import Opener
from .model_options import NONE, CriticOptions, GeneratorOptions, LocalOptions, PlannerOptions
from .panels import PARALLEL

if TYPE_CHECKING:
    from ...backend.types import RunSettings
    from ...training.data.trajectories.engine import Teachers, TrajectoriesReport
    from ...training.data.trajectories.executors import Executor

INTERRUPTED = "interrupted"
Parallel = Annotated[
    int,
    typer.Option(
        min=1, max=1024, help="Requests at the same time. With --ray: per worker.", rich_help_panel=PARALLEL
    ),
]
RayAddress = Annotated[
    str | None,
    typer.Option(
        "--ray",
        help="Work on Ray: local starts it here; auto or HOST:PORT uses a running cluster.",
        rich_help_panel=PARALLEL,
    ),
]
Workers = Annotated[
    int,
    typer.Option(
        min=1,
        max=10_000,
        help="With --ray: number of workers. Each loads its own models.",
        rich_help_panel=PARALLEL,
    ),
]
ImagesAtATime = Annotated[
    int,
    typer.Option(
        "--parallel",
        min=1,
        max=1024,
        help="Images scored at the same time.",
        rich_help_panel=PARALLEL,
    ),
]


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
            SettingsError: An option is not valid.
            ChatError: An agent cannot be loaded or reached.
            GeneratorError: A generator cannot be loaded or reached.
        """
        from ...training.data.trajectories.engine import Teachers

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


def run_requests(
    requests: Path, out: Path, teachers: TeacherOptions, settings: RunSettings, parallel: int
) -> int:
    """Carry out a file of requests with the settings of `run` and return the exit code.

    Raises:
        InterleaveError: As `Trajectories.make` does.
    """
    from ...training.data.trajectories.engine import Trajectories, TrajectoryOptions
    from ...training.data.trajectories.prompt_rows import PromptFile
    from .image_cost import say_cost

    say_cost(teachers.generators[0].generator, settings, teachers.critic.critic != NONE)
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
    """Return 0 if every step of every request was accepted, 130 after Ctrl-C, otherwise 3."""
    if made.stopped == INTERRUPTED:
        return 130
    return 0 if made.totals.whole == made.totals.prompts else 3


def open_executor(parallel: int, ray: str | None, workers: int) -> Executor:
    """Return an executor: threads of this process, or Ray."""
    from ...training.data.trajectories.executors import RayExecutor, ThreadExecutor

    return ThreadExecutor(parallel) if ray is None else RayExecutor(workers, parallel, ray)
