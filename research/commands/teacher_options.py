"""The models of commands that carry out many requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...backend.core.errors import SettingsError
from ...backend.story.agents.plan_constraints import PlanConstraints
from ...cli.models import CriticOptions, GeneratorOptions, LocalOptions, Opener, PlannerOptions
from ..data.trajectories import Teachers, TrajectoriesReport

INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class TeacherOptions:
    """The model options of a command. Calling them opens the models."""

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
