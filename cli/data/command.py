"""`data`: makes training data from runs, feedback and benchmarks, and from the tiny world."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...backend.shown_text import shown_text
from ...training.data.from_runs.settings import RunsData
from ..options.models import with_model_options
from ..options.runs import Runs, Score, SkipBadRuns, oracle_of
from ..options.training import PageRows, PageSeed, PagesOf, checkpoint_of
from . import filter as filtering
from . import guard, pack, planner_rl, planner_rows, prompts, sequences, tinyworld, trajectories
from .feedback import command as feedback

if TYPE_CHECKING:
    from ...backend.prompts import PromptSet

app = typer.Typer(
    no_args_is_help=True, add_completion=False, help="Make training data, from requests to packed datasets."
)


@app.callback()
def data() -> None:
    """Make training data, from requests to packed datasets."""


def prompt_set_for(model: str | None, download: bool) -> PromptSet:
    """Return the prompt set of the critic to train: its checkpoint's, otherwise the built-in one."""
    from ...backend.prompts import default_prompt_set, prompt_set_of

    found = prompt_set_of(checkpoint_of(model, download)) if model else None
    return found or default_prompt_set()


@app.command("from-runs")
@with_model_options
def from_runs(
    *,
    runs: Runs,
    out: Annotated[
        Path, typer.Option(help="Output folder for critic_sft.json, critic_rl.jsonl, images and report.")
    ],
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "--init",
            help="Checkpoint of the critic to train, for its prompt set. Default: the built-in prompt set.",
        ),
    ] = None,
    download: Annotated[
        bool, typer.Option("--download", help="Download the hub id if it is not in the local cache.")
    ] = False,
    scorer: Score = None,
    skip_bad: SkipBadRuns = False,
    guard: Annotated[
        Path | None, typer.Option(help="Benchmark index (`data guard`). Matching items are left out.")
    ] = None,
    settings: RunsData,
) -> None:
    """Make rows for critic-sft and critic-grpo from runs and feedback (accept, reject, better prompt)."""
    from ...backend.scorers import open_scorer
    from ...training.data.from_runs.convert import RunConverter

    converter = RunConverter(
        settings,
        prompt_set_for(model, download),
        open_scorer(scorer) if scorer else None,
        oracle_of(settings.reasoning),
        skip_bad,
        lambda line: typer.echo(shown_text(line)),
        guard=guard,
    )
    made = converter.convert(runs, out)
    typer.echo(f"\ndata: {', '.join(str(path) for path in (made.sft, made.rl, made.held_out) if path)}")


app.command("feedback")(feedback)
app.command("prompts")(prompts.command)
app.add_typer(guard.app, name="guard")
app.command("trajectories")(trajectories.command)
app.command("filter")(filtering.command)
app.command("planner-rows")(planner_rows.command)
app.command("planner-rl")(planner_rl.command)
app.command("sequences")(sequences.command)
app.command("pack")(pack.command)
app.command("inspect")(pack.inspect)
app.command("tinyworld-prompts")(tinyworld.prompts)
app.command("tinyworld-planner")(tinyworld.planner)
app.command("tinyworld-planner-rl")(planner_rl.tinyworld)


@app.command("tinyworld-critic")
def tinyworld_critic(
    *,
    out: Annotated[Path, typer.Option(help="Output folder for critic_sft.json and its pages.")],
    rows: PageRows = 2000,
    generator: PagesOf = None,
    seed: PageSeed = 0,
) -> None:
    """Generate tiny-world critic rows to mix into training, which prevents forgetting."""
    from ...tinyworld.lab.data.critic_rows import make_mistakes
    from ...tinyworld.runtime import checkpoint
    from ...tinyworld.runtime.generator import load_pipeline
    from ...training.data.from_runs.convert import SFT_FILE
    from ...training.data.rows.sft import write_rows
    from ...training.trainer.report.progress_line import TimeLeft

    pipeline = load_pipeline(generator or checkpoint("generator"))
    made = make_mistakes(out, pipeline, rows, OLD_SEED + seed, TimeLeft("rows", typer.echo))
    write_rows(out / SFT_FILE, made)
    typer.echo(f"data: {out / SFT_FILE}")


OLD_SEED = 40_000
"""First seed; far from the seeds that the built-in critic was trained on."""
