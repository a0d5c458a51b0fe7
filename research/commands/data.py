"""`data`: makes training data from runs and feedback, as the published pipeline, and from the tiny world."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ...backend.core.errors import SettingsError, first_fault
from ...backend.core.shown_text import shown_text
from ...cli.settings import with_settings
from ...cli.shared_options import (
    SCORERS,
    ImagesAtATime,
    PageRows,
    PageSeed,
    PagesOf,
    Runs,
    Score,
    SkipBadRuns,
    checkpoint_of,
    oracle_of,
)
from ...training.from_runs.settings import FilterData, RunsData
from . import published

if TYPE_CHECKING:
    from ...training.from_runs.convert import MadeData

HELP = "Make training data, from requests to packed datasets."
OLD_SEED = 40_000
"""First seed of tiny-world rows; far from the seeds that the built-in critic was trained on."""
app = typer.Typer(no_args_is_help=True, add_completion=False, help=HELP)
Out = Annotated[
    Path, typer.Option(help="Output folder for critic_sft.json, critic_rl.jsonl, images, report.")
]
WorldRows = Annotated[int, typer.Option(min=1, max=1_000_000, help="Number of requests, all different.")]
WorldSeed = Annotated[int, typer.Option(min=0, help="Random seed of the requests.")]
WorldSplit = Annotated[
    Literal["train", "evaluate"],
    typer.Option(help="Training requests (train) or held-out requests (evaluate)."),
]
WorldOut = Annotated[Path, typer.Option(help="Output folder for the file and the images of its requests.")]


@app.callback()
def data() -> None:
    """Make training data, from requests to packed datasets."""


def say(line: str) -> None:
    """Print a line of progress."""
    typer.echo(shown_text(line))


def _say_files(made: MadeData) -> None:
    typer.echo(f"\ndata: {', '.join(str(path) for path in (made.sft, made.rl, made.held_out) if path)}")


@app.command("from-runs")
@with_settings
def from_runs(
    *,
    runs: Runs,
    out: Out,
    model: Annotated[
        str | None,
        typer.Option("--model", "--init", help="Checkpoint of the critic to train, for its prompt set."),
    ] = None,
    download: Annotated[
        bool, typer.Option("--download", help="Download the hub id if it is not in the local cache.")
    ] = False,
    scorer: Score = None,
    skip_bad: SkipBadRuns = False,
    settings: RunsData,
) -> None:
    """Make rows for critic-sft and critic-grpo from runs and feedback (accept, reject, better prompt)."""
    from ...backend.core.prompts.prompt_set import default_prompt_set, prompt_set_of
    from ...backend.models.scorers import open_scorer
    from ...training.from_runs.convert import RunConverter

    found = prompt_set_of(checkpoint_of(model, download)) if model else None
    converter = RunConverter(
        settings,
        found or default_prompt_set(),
        open_scorer(scorer) if scorer else None,
        oracle_of(settings.reasoning),
        skip_bad,
        say,
    )
    _say_files(converter.convert(runs, out))


@app.command("filter")
@with_settings
def filter_runs(
    *,
    runs: published.RunFolders,
    out: Out,
    prompts: Annotated[
        str | None,
        typer.Option(
            "--critic-prompts", help=f"Prompt set of the critic to train: {published.PromptSetName}critic."
        ),
    ] = None,
    scorer: Annotated[
        str | None, typer.Option(help=f"Scorer of the images: {SCORERS}. Without it, no RL rows are made.")
    ] = None,
    skip_bad: SkipBadRuns = False,
    guard: published.GuardIndex = None,
    parallel: ImagesAtATime = 1,
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
    from ..data.decontamination.guard import open_guard

    judge = (
        RepeatedScorer(open_scorer(scorer), settings.score_repeats, settings.match_size) if scorer else None
    )
    prompt_set = prompts_in(prompts) or default_prompt_set()
    with open_guard(guard) as opened:
        guarding = (opened.finds_trajectory, opened.screened)
        converter = RunConverter(
            settings, prompt_set, judge or None, None, skip_bad, say, *guarding, parallel=parallel
        )
        _say_files(converter.convert(runs, out))


@app.command("feedback")
def feedback(
    *,
    run: Annotated[Path, typer.Argument(help="The --out folder of a run.", exists=True, file_okay=False)],
    step: Annotated[int, typer.Option(min=1, help="Number of the step in the plan.")],
    attempt: Annotated[int, typer.Option(min=1, help="Number of the attempt, counted from 1.")],
    accept: Annotated[bool, typer.Option("--accept", help="The image matches its prompt.")] = False,
    reject: Annotated[bool, typer.Option("--reject", help="The image does not match its prompt.")] = False,
    better: Annotated[str, typer.Option(help="A better prompt for the image. It rejects the image.")] = "",
    note: Annotated[
        str, typer.Option(help="Reason of the verdict. A critic learns it as its reasoning.")
    ] = "",
    true: Annotated[
        list[str] | None, typer.Option(help="Text of an item of the checklist that is true; repeatable.")
    ] = None,
    false: Annotated[
        list[str] | None,
        typer.Option(help="Text of an item that is not true; repeatable. It rejects the image."),
    ] = None,
    take_back: Annotated[
        bool, typer.Option("--take-back", help="Remove the feedback on this attempt.")
    ] = False,
) -> None:
    """Record your verdict on one attempt of a run, as training data for a critic.

    It is stored in feedback.jsonl in the run folder. If an attempt has several verdicts, the last one counts.
    """
    from pydantic import ValidationError

    from ...backend.output.feedback.log import FEEDBACK, Feedback, ItemFeedback, record_feedback

    better, note = better.strip(), note.strip()
    given = [accept, reject or bool(better), take_back]
    has_items = bool(true or false)
    if sum(given) > 1 or not (any(given) or has_items):
        raise SettingsError(
            "`data feedback` needs exactly one verdict.",
            "Give --accept, --reject (with --better PROMPT if you know one), --true, --false or --take-back.",
        )
    if take_back and (note or has_items):
        with_it = "--note" if note else "--true and --false"
        raise SettingsError(f"{with_it} cannot be combined with --take-back.", "Remove one of them.")
    try:
        items = tuple(
            ItemFeedback(text=text, true=is_true)
            for texts, is_true in ((true, True), (false, False))
            for text in texts or ()
        )
        annotation = Feedback(
            step=step,
            attempt=attempt - 1,
            accepted=accept if accept or reject or better else None,
            better_prompt=better or None,
            note=note or None,
            items=items or None,
        )
    except ValidationError as error:
        raise SettingsError(f"The feedback is not valid{first_fault(error)}") from error
    record_feedback(run, annotation)
    typer.echo(f"Saved to {run / FEEDBACK}.")


published.add_to(app)


@app.command("tinyworld-prompts")
def tinyworld_prompts(
    *, out: WorldOut, rows: WorldRows = 400, seed: WorldSeed = 0, split: WorldSplit = "train"
) -> None:
    """Make requests that the tiny world's planner understands."""
    from ..tinyworld.data.planner_rows import make_prompts

    typer.echo(f"prompts: {make_prompts(out, rows, seed, split)}")


@app.command("tinyworld-planner")
def tinyworld_planner(*, out: WorldOut, rows: WorldRows = 2000, seed: WorldSeed = 0) -> None:
    """Make rows like those that the tiny world's planner was trained on."""
    from ...training.rows.sft import write_rows
    from ..tinyworld.data.planner_rows import make

    write_rows(out / "planner_sft.json", make(out, rows, seed))
    typer.echo(f"data: {out / 'planner_sft.json'}")


@app.command("tinyworld-planner-rl")
def tinyworld_planner_rl(
    *,
    out: WorldOut,
    rows: WorldRows = 500,
    least: Annotated[int, typer.Option(min=1, max=20, help="Least number of steps of a story.")] = 1,
    most: Annotated[int, typer.Option(min=1, max=20, help="Greatest number of steps of a story.")] = 6,
    wording: Annotated[
        Literal["usual", "other"],
        typer.Option(help="Phrases that the built-in planner was trained on (usual), or others."),
    ] = "usual",
    seed: WorldSeed = 0,
    split: WorldSplit = "train",
) -> None:
    """Make planner-grpo rows of the tiny world: requests with exact plans, which need no judge."""
    from ..tinyworld.data.planner_rl import StoryKind, make_planner_rl

    typer.echo(f"data: {make_planner_rl(out, rows, seed, StoryKind(least, most, wording), split)}")


@app.command("tinyworld-critic")
def tinyworld_critic(
    *, out: WorldOut, rows: PageRows = 2000, generator: PagesOf = None, seed: PageSeed = 0
) -> None:
    """Generate tiny-world critic rows to mix into training, which prevents forgetting."""
    from ...tinyworld.runtime import checkpoint
    from ...tinyworld.runtime.generator import load_pipeline
    from ...training.from_runs.convert import SFT_FILE
    from ...training.rows.sft import write_rows
    from ...training.trainer.progress import TimeLeft
    from ..tinyworld.data.critic_rows import make_mistakes

    pipeline = load_pipeline(generator or checkpoint("generator"))
    made = make_mistakes(out, pipeline, rows, OLD_SEED + seed, TimeLeft("rows", typer.echo))
    write_rows(out / SFT_FILE, made)
    typer.echo(f"data: {out / SFT_FILE}")
