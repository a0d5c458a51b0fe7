"""Stages of the published data: requests, trajectories, planner rows, sequences."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...backend.core.errors import SettingsError
from ...backend.core.shown_text import one_line, shown_text
from ...backend.story.agents.plan_constraints import PlanConstraints
from ...cli.models import TINY_WORLD, CriticOptions, DrawingOptions, GeneratorOptions, LocalOptions
from ...cli.models import PlannerOptions as Planning
from ...cli.settings import with_settings
from ...cli.shared_options import SCORERS, Parallel, SkipBad
from ...training.from_runs.settings import FilterData
from ..data.planner_rows import PlannerRowsData
from ..data.prompts.generate import PROMPTS, PromptsData
from ..data.trajectories import TrajectoryOptions
from .teacher_options import TeacherOptions, each_generator, exit_code

RunFolders = Annotated[list[Path], typer.Argument(help="Run folders, or published folders with records.")]
PromptRows = Annotated[Path, typer.Argument(help="Requests as JSONL, such as those of `data prompts`.")]
ImagesIn = Annotated[Path | None, typer.Option("--images", help="Second folder with the images.")]
PromptSetName = "folder of a checkpoint or a prompt set, or tinyworld:"
Limit = Annotated[int | None, typer.Option(min=1, help="Maximum number of requests.")]


def say(line: str) -> None:
    """Print a line of progress."""
    typer.echo(shown_text(line))


@with_settings
def filter_runs(
    *,
    runs: RunFolders,
    out: Annotated[
        Path, typer.Option(help="Output folder for critic_sft.json, critic_rl.jsonl, images, report.")
    ],
    prompts: Annotated[
        str | None,
        typer.Option("--critic-prompts", help=f"Prompt set of the critic to train: {PromptSetName}critic."),
    ] = None,
    scorer: Annotated[
        str | None, typer.Option(help=f"Scorer of the images: {SCORERS}. Without it, no RL rows are made.")
    ] = None,
    skip_bad: SkipBad = False,
    parallel: Parallel = 1,
    settings: FilterData,
) -> None:
    """Filter trajectories into rows for critic-sft and critic-grpo.

    Keep those that improved, truncate each at its best image, and balance the verdicts.
    """
    from ...backend.core.prompts.prompt_set import default_prompt_set
    from ...backend.models.scorers import open_scorer
    from ...cli.models import prompts_in
    from ...training.from_runs.convert import RunConverter
    from ...training.from_runs.scoring import RepeatedScorer

    judge = (
        RepeatedScorer(open_scorer(scorer), settings.score_repeats, settings.match_size) if scorer else None
    )
    prompt_set = prompts_in(prompts) or default_prompt_set()
    converter = RunConverter(settings, prompt_set, judge, None, skip_bad, say, parallel)
    made = converter.convert(runs, out)
    typer.echo(f"\ndata: {', '.join(str(path) for path in (made.sft, made.rl, made.held_out) if path)}")


@with_settings
def prompts(
    *,
    out: Annotated[Path, typer.Option(help=f"Output folder for {PROMPTS} and its report.")],
    category: Annotated[
        list[str] | None,
        typer.Option(help="Weight of a category, such as cooking=3. 0 leaves it out."),
    ] = None,
    settings: PromptsData,
) -> None:
    """Make requests from a taxonomy, word lists and templates.

    The same seed gives the same requests. No request occurs twice.
    """
    from ..data.prompts.generate import write_prompts

    weights = dict(_weight(given) for given in category or ())
    made = write_prompts(settings, weights, out)
    for name, count in made["by_category"].items():
        typer.echo(one_line(f"{name}: {count}"))
    if made["exhausted"]:
        typer.echo(one_line(f"no more requests possible in: {', '.join(made['exhausted'])}"))
    typer.echo(f"{made['rows']} of {settings.count} requests: {out / PROMPTS}")


def _weight(given: str) -> tuple[str, float]:
    name, _, number = given.partition("=")
    try:
        weight = float(number)
    except ValueError:
        weight = -1.0
    if not 0.0 <= weight <= 1000.0:
        raise SettingsError(
            f"--category {one_line(given)[:60]!r} is not NAME=WEIGHT.", "Give a weight from 0 to 1000."
        )
    return name, weight


@with_settings
def trajectories(
    *,
    prompts: PromptRows,
    out: Annotated[Path, typer.Option(help="Folder for the run folders. Use an existing one to resume.")],
    images: ImagesIn = None,
    generator: Annotated[
        list[str] | None,
        typer.Option(help="Image model, such as http:URL. Repeat to distribute the requests by id."),
    ] = None,
    parallel: Parallel = 1,
    limit: Limit = None,
    settings: TrajectoryOptions,
    planning: Planning,
    judging: CriticOptions,
    drawing: DrawingOptions,
    local: LocalOptions,
) -> None:
    """Plan, generate, judge and refine every request of a file: trajectories of a teacher, as training data.

    Each request has its own run folder. Run the same command again to resume at the last attempt.
    """
    from ..data.trajectories import PromptFile, Trajectories

    generators = each_generator(generator or [TINY_WORLD], GeneratorOptions(**drawing.model_dump()))
    teachers = TeacherOptions(planning, PlanConstraints(), judging, generators, local)
    engine = Trajectories(out, teachers, settings, parallel, log=say)
    raise typer.Exit(exit_code(engine.make(PromptFile(prompts, images, limit))))


@with_settings
def planner_rows(
    *,
    runs: Annotated[list[Path] | None, typer.Argument(help="Run folders, or published folders.")] = None,
    out: Annotated[Path, typer.Option(help="Output folder of planner_sft.json, its images and a report.")],
    prompts: Annotated[
        str | None,
        typer.Option(
            "--planner-prompts", help=f"Prompt set of the planner to train: {PromptSetName}planner."
        ),
    ] = None,
    comm: Annotated[Path | None, typer.Option(help="CoMM: train_data.pth next to its images.")] = None,
    settings: PlannerRowsData,
) -> None:
    """Make rows for planner-sft from trajectories.

    They are complete plans, continuations, descriptions and plans with a given number of steps.
    """
    from ...backend.core.prompts.prompt_set import default_prompt_set
    from ...cli.models import prompts_in
    from ..data.planner_rows import FILES, make_planner_rows

    if not runs and comm is None:
        raise SettingsError("`data planner-rows` needs runs or --comm.", "Give run folders.")
    prompt_set = prompts_in(prompts) or default_prompt_set()
    make_planner_rows(runs or [], out, prompt_set, settings, comm, say)
    typer.echo(f"\ndata: {out / FILES[0]}")


def planner_rl(
    *,
    prompts: PromptRows,
    out: Annotated[Path, typer.Option(help="Output folder of planner_rl.jsonl, its images and a report.")],
    teacher: Annotated[str, typer.Option(help="Chat model that writes the checklists; it is cached.")],
    images: ImagesIn = None,
    limit: Limit = None,
    parallel: Annotated[int, typer.Option(min=1, max=256, help="Questions at the same time.")] = 8,
) -> None:
    """Make rows for planner-grpo: a chat model writes a checklist for every request.

    Run the same command again to resume.
    """
    from ...backend.models.chat import open_chat
    from ..data.planner_rl import FILES, make_planner_rl
    from ..data.trajectories import PromptFile

    make_planner_rl(PromptFile(prompts, images, limit), open_chat(teacher), out, parallel, say)
    typer.echo(f"data: {shown_text(str(out / FILES[0]))}")


def sequences(
    *,
    runs: RunFolders,
    out: Annotated[Path, typer.Option(help="Output folder of the sequences, their images and a report.")],
) -> None:
    """Write accepted trajectories as interleaved sequences.

    Easy sequences have the final images only, hard ones all attempts with their critiques.
    """
    from ..data.sequences import make_sequences

    counts = make_sequences(runs, out, say)
    typer.echo(f"\ndata: {', '.join(str(out / name) for name in counts)}")
