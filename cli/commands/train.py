"""`train`: fine-tuning of any planner or critic, and reinforcement learning of both."""

from __future__ import annotations

import os
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from ...backend.errors import SettingsError
from ...training.evaluation.gate_rows import GateSettings
from ...training.grpo.settings import GrpoTraining
from ...training.reward.critic_reward import RewardSettings
from ...training.reward.redraws.drawing_settings import DrawingSettings
from ...training.sft.train import SftTraining
from ..config_option import Config, check_recipe
from ..model_options import with_model_options
from ..service_options import RewarderOptions, ServiceOptions
from .stages.dpo import critic as critic_dpo
from .stages.dpo import planner as planner_dpo
from .stages.options import Download, Images, Model, Out, SkipBad, checkpoint_of, log
from .stages.planner_grpo import command as planner_grpo
from .stages.tinyworld import TINYWORLD
from .train_own_critic import Force, HeldOut, refused
from .train_own_critic import command as own_critic

if TYPE_CHECKING:
    from ...training.rows.row_sets import RowSet

app = typer.Typer(
    no_args_is_help=True, add_completion=False, help="Train planner, critic and the tiny world's models."
)

Data = Annotated[
    Path, typer.Option(help="Data file: a JSON list of messages and images.", exists=True, dir_okay=False)
]
RlData = Annotated[Path, typer.Option(help="Data file: critic_rl.jsonl.", exists=True, dir_okay=False)]


class MergeFormat(str, Enum):
    """What a merged checkpoint is to become."""

    safetensors = "safetensors"
    gguf = "gguf"


class SftFiles(NamedTuple):
    """The data of a fine-tuning as the command names it; `verdicts`: whether their balance is shown."""

    data: Path
    images: Path | None
    skip_bad: bool
    verdicts: bool


class Checked(NamedTuple):
    """Held-out rows of a fine-tuning: those that a gate asks about, or those whose loss is measured."""

    asked: RowSet | None = None
    measured: RowSet | None = None


def _fine_tune(
    model: str, download: bool, files: SftFiles, out: Path, settings: SftTraining, checked: Checked
) -> Path:
    from ...backend.prompts import prompt_set_of
    from ...training.evaluation.gate_rows import refuse_trained
    from ...training.rows.row_sets import RowSet
    from ...training.rows.sft import check_rows, show_balance, show_problems
    from ...training.runs.own_critic import TRAINED
    from ...training.sft.data import FINAL, SftData
    from ...training.sft.train import train
    from ...training.trainer.policy import check_options

    check_options(settings)
    rows, problems = check_rows(files.data, files.skip_bad, files.images)
    show_problems(problems, len(rows), log)
    found = RowSet(rows, files.data.parent)
    for held_out in (checked.asked, checked.measured):
        if held_out is not None:
            refuse_trained(held_out, found)
    if files.verdicts:
        show_balance(rows, log)
    folder = checkpoint_of(model, download)
    name = FINAL if checked.asked is None else TRAINED
    data = SftData(found, checked.asked or checked.measured, files.skip_bad, name, checked.measured)
    made = train(folder, data, out, settings, prompt_set_of(folder), log)
    log(f"checkpoint: {made}")
    return made


@app.command("planner-sft")
@with_model_options
def planner_sft(
    *,
    config: Config = None,
    model: Model,
    download: Download = False,
    data: Data,
    images: Images = None,
    out: Out,
    skip_bad: SkipBad = False,
    held_out: Annotated[
        Path | None,
        typer.Option(
            help="Rows that are not trained on, another planner_sft.json: their answers are shown, and the "
            "loss of --loss-rows of them is measured. Empty: a few of --data.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    settings: SftTraining,
) -> None:
    """Fine-tune a planner on planner_sft.json."""
    from ...training.rows.row_sets import read_row_set

    measured = None if held_out is None else read_row_set(held_out, skip_bad, log, images)
    files = SftFiles(data, images, skip_bad, verdicts=False)
    _fine_tune(model, download, files, out, settings, Checked(measured=measured))


@app.command("critic-sft")
@with_model_options
def critic_sft(
    *,
    config: Config = None,
    model: Model,
    download: Download = False,
    data: Data,
    images: Images = None,
    out: Out,
    skip_bad: SkipBad = False,
    held_out: HeldOut = None,
    force: Force = False,
    settings: SftTraining,
    gate: GateSettings,
) -> None:
    """Fine-tune a critic on critic_sft.json; with --held-out, it becomes OUT/final only if it is not worse
    than before."""
    files = SftFiles(data, images, skip_bad, verdicts=True)
    if held_out is None:
        _fine_tune(model, download, files, out, settings, Checked())
        return
    from ...training.evaluation.gate_rows import askable, examination
    from ...training.evaluation.regression_gate import GateRefused, RegressionGate, enforce, publish
    from ...training.rows.lengths import TokenLimit
    from ...training.rows.row_sets import read_row_set
    from ...training.sft.data import FINAL
    from ...training.trainer.policy import check_options

    check_options(settings)
    before = checkpoint_of(model, download)
    given = read_row_set(held_out, skip_bad, log, images)
    limit = TokenLimit(settings.cutoff, "--cutoff", skip_bad)
    asked = examination(askable(given, before, limit, settings.image_pixels, log), gate)
    made = _fine_tune(model, download, files, out, settings, Checked(asked))
    if os.environ.get("RANK", "0") != "0":  # the first process asks and publishes
        return
    result = RegressionGate(gate, settings.device, log).check(before, made, asked, out)
    try:
        enforce(result, made, force, log)
    except GateRefused as error:
        raise refused(error) from error
    log(f"checkpoint: {publish(made, out / FINAL)}")


app.command("own-critic")(own_critic)
app.command("critic-dpo")(critic_dpo)
app.command("planner-dpo")(planner_dpo)
app.command("planner-grpo")(planner_grpo)


@app.command("critic-grpo")
@with_model_options
def critic_grpo(
    *,
    config: Config = None,
    model: Model,
    download: Download = False,
    data: RlData,
    held_out: Annotated[
        Path | None,
        typer.Option(
            help="Rows to check on, another critic_rl.jsonl; empty: the last ones of --data.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    images: Images = None,
    generator: Annotated[str, typer.Option(help="Who redraws: NAME or NAME:ARGUMENT, as in `run`.")],
    scorer: Annotated[
        str,
        typer.Option(
            help="Who scores: tinyworld, judge:CHAT, or judge:base (the model under the adapter that is "
            "trained: no second copy)."
        ),
    ],
    cache: Annotated[
        Path | None,
        typer.Option(help="File of drawn and scored images, to be shared by runs; empty: within --out."),
    ] = None,
    out: Out,
    skip_bad: SkipBad = False,
    settings: GrpoTraining,
    reward: RewardSettings,
    drawing: DrawingSettings,
    rewarders: RewarderOptions,
    services: ServiceOptions,
) -> None:
    """Train a critic by reinforcement on critic_rl.jsonl: its refined prompts are drawn and scored."""
    from ...backend.generators import open_generator
    from ...backend.scorers import open_scorer
    from ...training.grpo.critic_task import CriticTask
    from ...training.grpo.settings import check_rows_of, split_held_out
    from ...training.grpo.train import RlData, train
    from ...training.reward.base_judge import NAME, BaseJudge
    from ...training.reward.critic_reward import RewardSetup
    from ...training.rows.rl import other_sources, read_rl_rows
    from ...training.rows.sft import show_problems
    from ...training.trainer.policy import check_options

    check_options(settings)
    if drawing.take_turns and settings.vllm != "off":
        raise SettingsError("--take-turns leaves no card to vLLM.", "Give --vllm off, or leave it out.")
    rows, problems = read_rl_rows(data, skip_bad, images)
    show_problems(problems, len(rows), log)
    if held_out is not None:
        checked, problems = read_rl_rows(held_out, skip_bad, images)
        show_problems(problems, len(checked), log)
        held = [row.moved(held_out.parent) for row in check_rows_of(checked, settings)]
        asked_about = {row.edited_image_path for row in held}
        rows = [row for row in rows if row.moved(data.parent).edited_image_path not in asked_about]
    else:
        rows, held = split_held_out(rows, settings)
    right = sum(row.evaluation.success for row in rows)
    log(
        f"{len(rows)} rows, {right} of right images and {len(rows) - right} of wrong ones; {len(held)} "
        "held out"
    )
    folder = checkpoint_of(model, download)
    redraws = open_generator(generator, **rewarders.generator, **services.given)
    scores = BaseJudge(folder, settings) if scorer == NAME else open_scorer(scorer, **rewarders.judge)
    for warning in other_sources([*rows, *held], redraws.identity, scores.identity):
        log(warning)
    made = train(
        folder,
        RlData(rows, held, data.parent, skip_bad),
        out,
        settings,
        CriticTask(RewardSetup(redraws, scores, reward, drawing, cache)),
        log,
    )
    log(f"checkpoint: {made}")


@app.command("merge")
def merge_command(
    *,
    model: Model,
    adapter: Annotated[
        Path, typer.Option(help="LoRA folder that a training made.", exists=True, file_okay=False)
    ],
    out: Annotated[Path, typer.Option(help="Folder of the merged checkpoint, which must not exist.")],
    download: Download = False,
    shard: Annotated[str, typer.Option(help="Largest weight file, such as 4GB.")] = "4GB",
    to: Annotated[
        MergeFormat, typer.Option(help="gguf: say, too, how llama.cpp makes its file of the checkpoint.")
    ] = MergeFormat.safetensors,
) -> None:
    """Merge a LoRA adapter into its base: a checkpoint in safetensors, with processor and prompt set."""
    from ...training.trainer.merge import merge
    from ...training.trainer.to_gguf import conversion

    made = merge(checkpoint_of(model, download), adapter, out, shard)
    typer.echo(f"checkpoint: {made}")
    if to is MergeFormat.gguf:
        for line in conversion(made):
            typer.echo(line)


@app.command("doctor")
def doctor_command(
    context: typer.Context,
    *,
    config: Annotated[
        str | None, typer.Option(help="A recipe to reckon; empty: all that are shipped.")
    ] = None,
    devices: Annotated[
        int | None, typer.Option(min=1, help="GPUs to reckon with; empty: the recipe's, or those here.")
    ] = None,
    weights: Annotated[bool, typer.Option("--weights", help="List the weights that train.")] = False,
) -> None:
    """Show what this machine can train: libraries, memory, and what the recipes need."""
    from ...training.recipes.estimates.doctor import lines

    if config is not None:
        check_recipe(context, config)
    for line in lines(config, devices, weights):
        typer.echo(line)


for name, tinyworld_command in TINYWORLD.items():
    app.command(name)(tinyworld_command)
