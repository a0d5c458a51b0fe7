"""`train critic-dpo` and `train planner-dpo`: preference training (DPO) on pairs of answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from ...backend.errors import SettingsError
from ...training.dpo.settings import DpoTraining, PlannerDpoTraining
from ..options.config import Config
from ..options.models import with_model_options
from ..options.training import (
    Download,
    DryRun,
    Images,
    Model,
    Out,
    SkipBad,
    checkpoint_of,
    dry_run_if,
    existing_file,
    log,
)
from .planner_grpo import opened_judge

if TYPE_CHECKING:
    from ...training.data.rows.preference import Pair
    from ...training.data.rows.sft import RowProblem
    from ...training.gate.monitored_run import TrainingData

    Read = Callable[[Path, bool, Path | None], tuple[list[Pair], list[RowProblem]]]

HeldOut = Annotated[
    Path | None,
    existing_file("Held-out pairs, in a file of the same kind. Default: up to a fifth of --data."),
]


class PairFiles(NamedTuple):
    """The data options of a preference training."""

    data: Path
    held_out: Path | None
    images: Path | None
    skip_bad: bool


@with_model_options
def critic(
    *,
    config: Config = None,
    model: Model,
    download: Download = False,
    data: Annotated[Path, existing_file("Data file: critic_pairs.jsonl.")],
    held_out: HeldOut = None,
    images: Images = None,
    out: Out,
    skip_bad: SkipBad = False,
    dry_run: DryRun = False,
    settings: DpoTraining,
) -> None:
    """Train a critic on preference pairs (critic_pairs.jsonl).

    DPO is a cheap stage before critic-grpo.
    """
    from ...training.data.rows.preference import read_critic_pairs
    from ...training.dpo.task import CriticPairs
    from ...training.dpo.train import train
    from ...training.trainer.model_loading import check_options

    check_options(settings)
    pairs = _read(PairFiles(data, held_out, images, skip_bad), read_critic_pairs, settings)
    right = sum(row.truth for row in pairs.rows)
    log(f"{right} pairs about correct images and {len(pairs.rows) - right} about wrong ones")
    with dry_run_if(dry_run):
        made = train(checkpoint_of(model, download), pairs, out, settings, CriticPairs(), log)
    if not dry_run:
        log(f"checkpoint: {made}")


@with_model_options
def planner(
    *,
    config: Config = None,
    model: Model,
    download: Download = False,
    data: Annotated[Path, existing_file("Data file: planner_pairs.jsonl.")],
    held_out: HeldOut = None,
    images: Images = None,
    judge: Annotated[
        str | None,
        typer.Option(
            help="Judge of the plans for held-out requests: tinyworld, or a chat model such as "
            "openai:MODEL@URL. "
            "Default: only their format is checked."
        ),
    ] = None,
    out: Out,
    skip_bad: SkipBad = False,
    dry_run: DryRun = False,
    settings: PlannerDpoTraining,
) -> None:
    """Train a planner on preference pairs (planner_pairs.jsonl).

    DPO is a cheap stage before planner-grpo.
    """
    from ...training.data.rows.preference import read_planner_pairs
    from ...training.dpo.task import PlannerPairs
    from ...training.dpo.train import train
    from ...training.trainer.model_loading import check_options

    check_options(settings)
    pairs = _read(PairFiles(data, held_out, images, skip_bad), read_planner_pairs, settings)
    task = PlannerPairs(pairs.images, opened_judge(judge) if judge else None)
    with dry_run_if(dry_run):
        made = train(checkpoint_of(model, download), pairs, out, settings, task, log)
    if not dry_run:
        log(f"checkpoint: {made}")


def _read(files: PairFiles, read: Read[Pair], settings: DpoTraining) -> TrainingData[Pair]:
    """Return the training pairs and the held-out pairs, which are about other images or requests.

    Raises:
        SettingsError: A file cannot be read, or all pairs are held out.
    """
    from ...training.data.rows.sft import show_problems
    from ...training.dpo.settings import split_pairs
    from ...training.gate.monitored_run import TrainingData

    rows, problems = read(files.data, files.skip_bad, files.images)
    show_problems(problems, len(rows), log)
    held: Sequence[Pair]
    if files.held_out is None:
        rows, held = split_pairs(rows, settings.check_rows)
    else:
        checked, problems = read(files.held_out, files.skip_bad, files.images)
        show_problems(problems, len(checked), log)
        held = [row.moved(files.held_out.parent) for row in checked[: settings.check_rows]]
        subjects = {row.subject for row in held}
        rows = [row for row in rows if row.moved(files.data.parent).subject not in subjects]
    if not rows:
        raise SettingsError(
            "All pairs are held out, so none is left to train on.", "Give other --held-out pairs."
        )
    log(f"{len(rows)} pairs; {len(held)} held out")
    return TrainingData(rows, held, files.data.parent, files.skip_bad)
