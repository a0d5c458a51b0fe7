"""`train`: supervised fine-tuning and reinforcement learning of planners and critics."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from ...training.gate.gate_rows import GateSettings
from ...training.stages.sft import SftTraining
from ..settings import with_settings
from ..shared_options import (
    Download,
    DryRun,
    Images,
    Model,
    Out,
    SkipBad,
    existing_file,
    log,
    refused,
    start_of,
    trained,
)
from .grpo import critic_grpo, planner_grpo
from .own_critic import Force, HeldOut
from .own_critic import command as own_critic
from .results import finish, merge, publish

if TYPE_CHECKING:
    from ...training.rows.sft import Role, RowSet

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Train planners and critics.",
)

Data = Annotated[Path, existing_file("Data file: JSON list or JSONL with messages and images.")]


class SftFiles(NamedTuple):
    """The data options of a fine-tuning, the role of the agent, and whether it is a dry run."""

    data: Path
    images: Path | None
    skip_bad: bool
    role: Role
    dry_run: bool


def _fine_tune(
    folder: Path,
    files: SftFiles,
    out: Path,
    settings: SftTraining,
    asked: RowSet | None = None,
    measured: RowSet | None = None,
) -> Path:
    """Fine-tune the checkpoint in `folder`.

    `asked` are the rows of the regression gate, `measured` those whose loss is measured.
    """
    from ...training.gate.gate_rows import refuse_trained
    from ...training.rows.sft import read_row_set, show_balance
    from ...training.stages.own_critic import TRAINED
    from ...training.stages.sft import FINAL, SftData, train

    found = read_row_set(files.data, files.role, files.skip_bad, log, files.images)
    for held_out in (asked, measured):
        if held_out is not None:
            refuse_trained(held_out, found)
    if files.role == "critic":
        show_balance(found.rows, log)
    name = FINAL if asked is None else TRAINED
    data = SftData(found, files.skip_bad, name, measured, files.role)
    prompts = settings.prompt_set(folder)
    return trained(files.dry_run, lambda: train(folder, data, out, settings, prompts, log))


@app.command("planner-sft")
@with_settings
def planner_sft(
    *,
    model: Model,
    download: Download = False,
    data: Data,
    images: Images = None,
    out: Out,
    skip_bad: SkipBad = False,
    dry_run: DryRun = False,
    held_out: Annotated[
        Path | None,
        existing_file(
            "Held-out rows (another planner_sft.json): the loss of --loss-rows of them is measured. Default: "
            "rows of --data."
        ),
    ] = None,
    settings: SftTraining,
) -> None:
    """Fine-tune a planner (SFT) on planner_sft.json."""
    from ...training.rows.sft import read_row_set

    folder, settings = start_of(model, download, settings)
    measured = None if held_out is None else read_row_set(held_out, "planner", skip_bad, log, images)
    files = SftFiles(data, images, skip_bad, "planner", dry_run)
    _fine_tune(folder, files, out, settings, measured=measured)


@app.command("critic-sft")
@with_settings
def critic_sft(
    *,
    model: Model,
    download: Download = False,
    data: Data,
    images: Images = None,
    out: Out,
    skip_bad: SkipBad = False,
    dry_run: DryRun = False,
    held_out: HeldOut = None,
    force: Force = False,
    settings: SftTraining,
    gate: GateSettings,
) -> None:
    """Fine-tune a critic (SFT) on critic_sft.json.

    With --held-out, the regression gate compares it with the old critic. It is published as OUT/final only
    if it is not worse than allowed; otherwise the exit code is 3.
    """
    from ...training.gate.gate_rows import askable, examination
    from ...training.gate.regression_gate import GateRefused, RegressionGate, enforce, publish
    from ...training.rows.lengths import TokenLimit
    from ...training.rows.sft import read_row_set
    from ...training.stages.sft import FINAL

    before, settings = start_of(model, download, settings)
    files = SftFiles(data, images, skip_bad, "critic", dry_run)
    if held_out is None:
        _fine_tune(before, files, out, settings)
        return
    given = read_row_set(held_out, "critic", skip_bad, log, images)
    limit = TokenLimit(settings.max_length, "--max-length", skip_bad)
    asked = examination(askable(given, before, limit, settings.image_pixels, log), gate)
    made, examiner = _fine_tune(before, files, out, settings, asked), RegressionGate(gate, settings, log)
    if dry_run:
        log(examiner.estimate(before))
    if dry_run or os.environ.get("RANK", "0") != "0":  # only the first process runs the gate and publishes
        return
    result = examiner.check(before, made, asked, out)
    try:
        enforce(result, made, force, log)
    except GateRefused as error:
        raise refused(error) from error
    log(f"checkpoint: {publish(made, out / FINAL, result)}")


app.command("own-critic")(own_critic)
app.command("planner-grpo")(planner_grpo)
app.command("critic-grpo")(critic_grpo)
app.command("finish")(finish)
app.command("publish")(publish)
app.command("merge")(merge)
