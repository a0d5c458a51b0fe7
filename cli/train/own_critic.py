"""`train own-critic`: retrains a critic on your own runs and feedback in one command."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from ...backend.core.errors import SettingsError
from ...training.from_runs.settings import RunsData
from ...training.gate.gate_rows import GateSettings
from ...training.stages.own_critic import Rehearsal, ReinforcementStage
from ...training.stages.sft import SftTraining
from ..models import ServiceOptions
from ..settings import Settings, unknown, with_settings
from ..shared_options import (
    Download,
    DryRun,
    Images,
    Model,
    Out,
    Runs,
    Score,
    SkipBad,
    existing_file,
    log,
    oracle_of,
    refused,
    start_of,
    trained,
)
from .grpo import RewarderOptions

HeldOut = Annotated[
    Path | None,
    existing_file(
        "Held-out rows for the regression gate (another critic_sft.json): the new critic must judge them as "
        "well as the old one."
    ),
]
Force = Annotated[
    bool,
    typer.Option("--force", help="Publish the critic even if the regression gate rejects it."),
]


def reinforcement_of(recipe: str) -> ReinforcementStage:
    """Open the reinforcement stage that the `critic-grpo` section of a recipe describes.

    Raises:
        SettingsError: A key is unknown or missing, or a value is not valid.
    """
    from ...backend.models.generators import open_generator
    from ...backend.models.scorers import open_scorer
    from ...training.recipes.recipe import read_recipe
    from ...training.reward.critic_reward import RewardSettings, RewardSetup
    from ...training.reward.redrawer import DrawingSettings
    from ...training.stages.grpo_settings import GrpoTraining
    from ...training.trainer.model_loading import check_options

    values = read_recipe(recipe, "critic-grpo")
    for name in ("devices", "model"):  # the model is the critic that was just fine-tuned
        values.pop(name, None)
    try:
        generator, scorer = str(values.pop("generator")), str(values.pop("scorer"))
    except KeyError as error:
        raise SettingsError(
            f"Recipe {recipe!r}: the critic-grpo section does not set {error}.", "Set it in the recipe."
        ) from error

    known = Settings(
        {
            "settings": GrpoTraining,
            "reward": RewardSettings,
            "drawing": DrawingSettings,
            "services": ServiceOptions,
            "rewarders": RewarderOptions,
        }
    )
    given = {}
    for key, value in values.items():
        setting = known.find(key)
        if setting is None:
            raise unknown(recipe, "critic-grpo", key, known)
        given[f"Recipe {recipe!r}, critic-grpo, {key}"] = setting, value
    models: dict[str, Any] = known.validated(given)
    settings, reward, drawing, services, rewarders = models.values()
    check_options(settings)  # before the fine-tuning, which takes hours
    opened = open_generator(generator, **rewarders.of("generator"), **services.given)
    setup = RewardSetup(opened, open_scorer(scorer, **rewarders.of("judge")), reward, drawing)
    return ReinforcementStage(settings, setup)


@partial(with_settings, without=("seed",))
def command(
    *,
    runs: Runs,
    model: Model,
    download: Download = False,
    out: Out,
    old: Annotated[
        Path | None,
        existing_file("Earlier training rows (critic_sft.json) to mix in, which prevents forgetting."),
    ] = None,
    held_out: HeldOut = None,
    images: Images = None,
    scorer: Score = None,
    grpo: Annotated[
        str | None,
        typer.Option(
            help="Recipe whose critic-grpo section adds a reinforcement stage. Its scorer also scores the "
            "runs, unless --scorer names another one. Default: none."
        ),
    ] = None,
    skip_bad: SkipBad = False,
    dry_run: DryRun = False,
    force: Force = False,
    data: RunsData,
    settings: SftTraining,
    rehearsal: Rehearsal,
    gate: GateSettings,
) -> None:
    """Retrain a critic on your own runs and feedback.

    The stages are: rows from runs, fine-tuning together with old rows, the regression gate, and
    reinforcement learning with --grpo. Load the published critic from OUT/final. If it is worse on held-out
    rows than allowed, it is not published and the exit code is 3. Keep the critic's prompt set: in the tiny
    world, 640 rows in a shorter one (prompts use) left 0.47 to 0.58 right verdicts of 0.82.
    """
    from ...backend.models.scorers import open_scorer
    from ...training.gate.regression_gate import GateRefused
    from ...training.stages.own_critic import (
        OwnCriticAgents,
        OwnCriticData,
        OwnCriticSettings,
        train_own_critic,
    )

    critic, settings = start_of(model, download, settings)
    reinforcement = reinforcement_of(grpo) if grpo else None
    scores = open_scorer(scorer) if scorer else reinforcement.reward.scorer if reinforcement else None
    agents = OwnCriticAgents(scores, oracle_of(data.reasoning), reinforcement)
    given = OwnCriticData(runs, old, held_out, images, skip_bad)
    stages = OwnCriticSettings(data, settings, rehearsal, gate, force)
    try:
        trained(dry_run, lambda: train_own_critic(critic, given, out, stages, agents, log))
    except GateRefused as error:
        raise refused(error) from error
