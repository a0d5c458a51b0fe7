"""Measures a custom critic end to end: shifted generator, runs, simulated feedback, training, figures.

The user is the exact scorer, which writes the browser's feedback file: it accepts or rejects every image that
it can judge, and writes a better prompt for rejected ones. Runs use training requests. Figures use requests
that were not trained on, with new images and seeds. Both critics run the same stories, so the comparison is
paired. The old world is measured too, because a critic that learned the shift and forgot the rest is no
improvement.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from pydantic import BaseModel, Field

from ....backend.agents.critic import Critic
from ....backend.chat import open_chat
from ....backend.errors import TrainingError
from ....backend.files.atomic import write_text
from ....training.data.from_runs.convert import SFT_FILE
from ....training.data.from_runs.settings import RunsData
from ....training.data.rows.row_sets import RowSet
from ....training.data.rows.sft import write_rows
from ....training.gate.gate_rows import GateSettings
from ....training.gate.gate_rule import measured
from ....training.gate.regression_gate import answers_of
from ....training.own_critic.own_critic import (
    OwnCriticAgents,
    OwnCriticData,
    OwnCriticSettings,
    train_own_critic,
)
from ....training.own_critic.rehearsal import Rehearsal
from ....training.sft.train import SftTraining
from ....training.statistics.intervals import Share, share, sign_test
from ...runtime import checkpoint
from ...runtime.generator import TinyWorldGenerator
from ...runtime.reading import UNREADABLE
from ..data.critic_rows import ImageFolder, judge_row, make_mistakes
from ..data.oracle_critic import OracleCritic
from ..runs.stories import StoryOutcome, StoryRuns, run_stories
from ..world.judged_images import DrawnImage, balanced
from ..world.requests import random_story
from .annotations import AnnotatedRuns, annotated_runs
from .shifted_generator import SHIFTED, shifted_generator

OLD_SEED = 50_000
PAGES_SEED = 2_000_000
GATE = GateSettings(gate_tokens=320, gate_batch=50)
"""Limits for the answers of the tiny critic, with room for the longest."""
Log = Callable[[str], None]


class ShowSettings(BaseModel):
    """Settings of `evaluate own-critic`."""

    runs: int = Field(default=200, ge=2, description="Runs that the simulated user annotates.")
    attempts: int = Field(default=3, ge=2, description="Attempts per step, in runs and in measured stories.")
    old_rows: int = Field(
        default=1600, ge=10, description="Rows from the unshifted world, to mix in and to hold out."
    )
    stories: int = Field(default=60, ge=2, description="New stories that both critics run in each world.")
    pages: int = Field(default=400, ge=10, description="New images that both critics judge in each world.")
    shifted: float = Field(
        default=SHIFTED, ge=0, le=1, description="Probability that the shifted generator cuts off an object."
    )
    epochs: float = Field(default=3.0, gt=0, description="Epochs.")
    rate: float = Field(default=3e-4, gt=0, description="Peak learning rate.")
    seed: int = Field(default=0, ge=0, description="Seed of runs, images, stories and training.")


class WorldMeasure(BaseModel):
    """Performance of a critic in one world: verdicts on images and on damaged (cut) ones, whole stories."""

    accuracy: Share
    right_accepted: Share
    wrong_refused: Share
    shifted_refused: Share = Field(serialization_alias="torn_refused")
    stories: Share
    steps: Share
    draws_a_step: float


class CriticComparison(BaseModel):
    """Both critics in one world.

    `won` and `lost` count stories that only the new or only the old one completed.
    """

    before: WorldMeasure
    after: WorldMeasure
    won: int
    lost: int
    chance: float


class ShowReport(BaseModel):
    """Content of own_critic.json."""

    settings: ShowSettings
    words: int
    overruled: int
    rows: int
    seconds: dict[str, float]
    core_seconds: dict[str, float]
    new: CriticComparison
    old: CriticComparison


def show(out: Path, settings: ShowSettings, log: Log = print) -> ShowReport:
    """Run all steps below `out`, continuing a stopped run, and write own_critic.json and own_critic.md."""
    from ...runtime.generator import open as open_world

    seconds: dict[str, float] = {}
    core_seconds: dict[str, float] = {}
    began, worked = time.monotonic(), time.process_time()

    def lap(name: str) -> None:
        nonlocal began, worked
        seconds[name], began = time.monotonic() - began, time.monotonic()
        core_seconds[name], worked = time.process_time() - worked, time.process_time()

    plain = open_world("")
    shifted = shifted_generator(plain, settings.shifted)
    annotations = annotated_runs(
        out / "runs", shifted, AnnotatedRuns(settings.runs, settings.attempts, settings.seed), log
    )
    lap("runs and annotations")
    old = old_rows(out / "old", plain, settings.old_rows, OLD_SEED + settings.seed)
    lap("old rows")
    first = checkpoint("critic")
    final = train_own_critic(
        first,
        OwnCriticData([out / "runs"], old),
        out / "critic",
        OwnCriticSettings(
            data=RunsData(reasoning="tinyworld", held_out_runs=0.1),
            sft=training_of(settings),
            rehearsal=Rehearsal(),
            gate=GATE,
        ),
        OwnCriticAgents(oracle=OracleCritic()),
        log,
    )
    lap("own-critic")
    worlds = [
        _compared(name, out, world, (first, final), settings, log)
        for name, world in (("new", shifted), ("old", plain))
    ]
    lap("figures")
    from ....training.data.from_runs.report import REPORT_JSON, RunsReport

    data = RunsReport.model_validate_json((out / "critic" / "data" / REPORT_JSON).read_text(encoding="utf-8"))
    report = ShowReport(
        settings=settings,
        words=annotations,
        overruled=data.files[SFT_FILE].overruled,
        rows=data.files[SFT_FILE].rows,
        seconds=seconds,
        core_seconds=core_seconds,
        new=worlds[0],
        old=worlds[1],
    )
    write_text(
        out / "own_critic.json",
        report.model_dump_json(indent=1, by_alias=True) + "\n",
        TrainingError,
        "Report",
    )
    write_text(out / "own_critic.md", "\n".join(as_lines(report)) + "\n", TrainingError, "Report")
    return report


def old_rows(folder: Path, world: TinyWorldGenerator, count: int, seed: int) -> Path:
    """Return a file of `count` rows with the generator's own images below `folder`; it is created once."""
    path = folder / SFT_FILE
    if not path.exists():
        write_rows(path, make_mistakes(folder, world.pipeline, count, seed))
    return path


def judged_rows(
    world: TinyWorldGenerator, folder: Path, count: int, seed: int
) -> tuple[RowSet, list[DrawnImage]]:
    """Return rows about `count` new images, half of them correct, and these images."""
    drawn, images = balanced(world.pipeline, count, seed), ImageFolder(folder / "pages")
    return RowSet([judge_row(page, images) for page in drawn], folder), drawn


def training_of(settings: ShowSettings) -> SftTraining:
    """Return the critic's fine-tuning settings: the recipe `tiny`, in bf16."""
    return SftTraining(
        num_train_epochs=settings.epochs,
        per_device_train_batch_size=32,
        learning_rate=settings.rate,
        warmup_steps=0.05,
        weight_decay=0.01,
        adam_beta2=0.98,
        freeze_vision=False,
        max_length=1024,
        image_pixels=9216,
        device="cpu",
        bf16=True,
        save_dtype="float16",
        save_steps=100,
        tensorboard=False,
        seed=settings.seed,
    )


def _compared(
    name: str,
    out: Path,
    world: TinyWorldGenerator,
    critics: tuple[Path, Path],
    settings: ShowSettings,
    log: Log,
) -> CriticComparison:
    rows, pages = judged_rows(world, out / f"pages_{name}", settings.pages, PAGES_SEED + settings.seed)
    rng = Random(f"own critic evaluate/{settings.seed}")
    stories = [random_story(rng, "evaluate") for _ in range(settings.stories)]
    found: list[WorldMeasure] = []
    hits: list[list[bool]] = []
    for critic in critics:
        judge = Critic(open_chat(f"transformers:{critic}", device="cpu", dtype="float32"))
        log(f"{name} world: {settings.pages} images and {settings.stories} stories with {critic}")
        plans = [story.plan for story in stories]
        runs = StoryRuns([settings.attempts])
        outcomes = run_stories(stories, plans, world, judge, runs, log)[settings.attempts]
        found.append(_world(critic, rows, pages, outcomes))
        hits.append([one.right for one in outcomes])
    pairs = list(zip(*hits, strict=True))
    won, lost = pairs.count((False, True)), pairs.count((True, False))
    return CriticComparison(before=found[0], after=found[1], won=won, lost=lost, chance=sign_test(won, lost))


def _world(critic: Path, rows: RowSet, pages: list[DrawnImage], stories: list[StoryOutcome]) -> WorldMeasure:
    verdicts = measured(answers_of(critic, None, rows, GATE, "cpu"), [page.success for page in pages])
    shifted = [hit for hit, page in zip(verdicts.hits, pages, strict=True) if UNREADABLE in page.seen.cells]
    steps = [right for one in stories for right in one.steps]
    return WorldMeasure(
        accuracy=verdicts.accuracy,
        right_accepted=verdicts.true_recall,
        wrong_refused=verdicts.false_recall,
        shifted_refused=share(shifted),
        stories=share([one.right for one in stories]),
        steps=share(steps),
        draws_a_step=sum(one.draws for one in stories) / max(1, len(steps)),
    )


def as_lines(report: ShowReport) -> list[str]:
    """Format the figures as Markdown tables."""
    lines = [
        (
            f"{report.settings.runs} runs, {report.words} annotations, "
            f"{report.rows} rows, of which {report.overruled} overrule the critic"
        ),
        "",
        "| 95 % intervals | shifted, before | shifted, after | old world, before | old world, after |",
        "|---|---|---|---|---|",
    ]
    names = (
        ("accuracy", "correct verdicts on images"),
        ("right_accepted", "correct images accepted"),
        ("wrong_refused", "wrong images rejected"),
        ("shifted_refused", "cut or unreadable images rejected"),
        ("stories", f"correct stories, {report.settings.attempts} attempts"),
        ("steps", f"correct steps, {report.settings.attempts} attempts"),
    )
    four = (report.new.before, report.new.after, report.old.before, report.old.after)
    for name, title in names:
        lines.append(f"| {title} | {' | '.join(str(getattr(world, name)) for world in four)} |")
    lines.append(f"| images per step | {' | '.join(f'{world.draws_a_step:.2f}' for world in four)} |")
    for name, pair in (("shifted", report.new), ("old world", report.old)):
        lines += [
            "",
            f"{name}: {pair.won} stories correct only after, {pair.lost} only before (p = {pair.chance:.3g})",
        ]
    total, worked = (sum(spent.values()) / 60 for spent in (report.seconds, report.core_seconds))
    parts = ", ".join(f"{name} {seconds / 60:.1f}" for name, seconds in report.core_seconds.items())
    return [*lines, "", f"{worked:.1f} minutes of one core ({parts}), {total:.1f} minutes of wall-clock time"]
