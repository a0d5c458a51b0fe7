"""Resumes the run in a folder with the request and settings of run.json, and reports changed settings.

run.json records the request, the settings of the loop and the identities of the models, but not the model
options. A run without a request therefore only continues with models whose identities are the recorded ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....backend.agents.plan_constraints import PlanConstraints, constraints_in
from ....backend.errors import SettingsError
from ....backend.journal.journal import Journal
from ....backend.journal.run_files import RUN
from ....backend.loop.loop import GIVEN
from ....backend.shown_text import one_line
from ....backend.types import Identities, Request, RunSettings
from ...progress import JsonLines, Lines

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ....backend.agents.critic import Critic
    from ....backend.agents.planner import Planner
    from ....backend.generators.generator import Generator
    from ....backend.scorers import Scorer

SHOWN = 100
"""Characters of a model's identity in an error."""


@dataclass(frozen=True)
class Before:
    """The last run in a folder, as run.json records it.

    Attributes:
        request: The request with its images.
        settings: Settings of the loop.
        constraints: Constraints on the plan.
        identities: Identities of the models.
        named: Roles ("planner", "critic", "generator") whose models the command line names.
    """

    folder: Path
    request: Request
    settings: RunSettings
    constraints: PlanConstraints
    identities: Identities
    named: frozenset[str] = frozenset()

    def check_models(
        self,
        planner: Planner | None,
        critic: Critic | None,
        generator: Generator | None,
        scorer: Scorer | None = None,
    ) -> None:
        """Check that the default models are those of the last run, and that its scorer is used again.

        Raises:
            SettingsError: The last run used another model, and the command line names none for its role.
        """
        if self.identities.scorer and scorer is None:
            raise SettingsError(
                f"Cannot resume {str(self.folder)!r} without a scorer: the last run used "
                f"{one_line(self.identities.scorer)[:SHOWN]!r}.",
                "Add --scorer, as in the first command, or another scorer.",
            )
        opened = {"planner": planner, "critic": critic, "generator": generator}
        for role, model in opened.items():
            recorded = getattr(self.identities, role)
            if role in self.named or model is None or recorded in ("", GIVEN):
                continue
            if recorded != model.identity and not recorded.startswith(f"{model.identity}|{{"):
                shown = one_line(recorded)
                shown = shown if len(shown) <= SHOWN else f"{shown[:SHOWN]}..."
                raise SettingsError(
                    f"Cannot resume {str(self.folder)!r} with the default {role}: "
                    f"the last run used another one ({shown}).",
                    f"Add --{role} and the other model options of the first command.",
                )


def last_run(folder: Path, typed: Collection[str], roles: Mapping[str, Collection[str]]) -> Before:
    """Read the run in a folder.

    Args:
        folder: Run folder.
        typed: Names of the options that are on the command line.
        roles: Option names of each model role.

    Raises:
        SettingsError: The folder does not contain a run.
        JournalError: run.json or an image of the request cannot be read.
    """
    if not (folder / RUN).is_file():
        raise SettingsError(
            f"No request is given, and {str(folder)!r} does not contain a run to resume.",
            "Give a request, --requests FILE, or the --out folder of a run.",
        )
    journal = Journal(folder)
    record = journal.record()
    return Before(
        folder,
        journal.request(),
        record.settings,
        constraints_in(record.identities.planner),
        record.identities,
        frozenset(role for role, names in roles.items() if not set(names).isdisjoint(typed)),
    )


def show_changes(view: Lines | JsonLines, folder: Path, settings: RunSettings) -> None:
    """Print which settings differ from those of the last run in the folder, if there was one.

    Raises:
        JournalError: run.json cannot be read.
    """
    if not (folder / RUN).is_file():
        return
    before = Journal(folder).record().settings
    changed = {
        name: (getattr(before, name), getattr(settings, name))
        for name in RunSettings.model_fields
        if getattr(before, name) != getattr(settings, name)
    }
    if settings.most_images is None:  # recorded as the number that the generator supports
        changed.pop("most_images", None)
    if not changed:
        return
    if isinstance(view, JsonLines):
        values = {name: {"before": old, "now": new} for name, (old, new) in changed.items()}
        view.object("settings_changed", settings=values)
        return
    named = ", ".join(
        f"--{name.replace('_', '-')} {_shown(new)} (was {_shown(old)})"
        for name, (old, new) in changed.items()
    )
    unjudged = (
        " A single attempt is not judged." if "max_attempts" in changed and settings.max_attempts == 1 else ""
    )
    view.say(
        f"Changed since the last run: {named}.{unjudged} The result follows the new settings and reuses "
        f"cached "
        "images and verdicts; the earlier settings give the earlier result again.",
        "yellow",
    )


def _shown(value: Any) -> str:
    return "not set" if value is None else str(value)
