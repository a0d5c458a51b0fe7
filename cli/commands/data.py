"""`data`: makes training data from runs, feedback and labelled pairs. Plug-ins add the published stages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...backend.core.errors import SettingsError, first_fault
from ...backend.core.shown_text import shown_text
from ...training.from_runs.settings import RunsData
from ...training.rows.labels import LabelSettings
from ..settings import with_settings
from ..shared_options import Download, Images, Runs, Score, SkipBad, checkpoint_of, oracle_of

if TYPE_CHECKING:
    from ...backend.core.prompts.prompt_set import PromptSet

HELP = "Make training data from runs, feedback and labelled pairs."
app = typer.Typer(no_args_is_help=True, add_completion=False, help=HELP)
Out = Annotated[
    Path, typer.Option(help="Output folder for critic_sft.json, critic_rl.jsonl, images, report.")
]
Critic = Annotated[
    str | None,
    typer.Option("--model", "--init", help="Checkpoint of the critic to train, for its prompt set."),
]


def say(line: str) -> None:
    """Print a line of progress."""
    typer.echo(shown_text(line))


def _prompt_set(model: str | None, download: bool) -> PromptSet:
    from ...backend.core.prompts.prompt_set import default_prompt_set, prompt_set_of

    found = prompt_set_of(checkpoint_of(model, download)) if model else None
    return found or default_prompt_set()


@app.command("import")
@with_settings
def import_labels(
    *,
    labels: Annotated[
        Path,
        typer.Argument(
            help="CSV or JSON file with a labelled pair in each row, or the folder of EditJudge-Bench.",
            exists=True,
        ),
    ],
    out: Out,
    model: Critic = None,
    download: Download = False,
    images: Images = None,
    skip_bad: SkipBad = False,
    settings: LabelSettings,
) -> None:
    """Make rows for critic-sft and critic-grpo from labelled pairs, and held-out rows that share no image."""
    from ...training.rows.labels import LabelSource, as_lines, import_labels

    source, prompts = LabelSource(labels, images), _prompt_set(model, download)
    report = import_labels(source, out, prompts, settings, skip_bad, say)
    for line in as_lines(report):
        say(line)
    typer.echo(f"\ndata: {out}")


@app.command("from-runs")
@with_settings
def from_runs(
    *,
    runs: Runs,
    out: Out,
    model: Critic = None,
    download: Download = False,
    scorer: Score = None,
    skip_bad: SkipBad = False,
    settings: RunsData,
) -> None:
    """Make rows for critic-sft and critic-grpo from runs and feedback (accept, reject, better prompt)."""
    from ...backend.models.scorers import open_scorer
    from ...training.from_runs.convert import RunConverter

    converter = RunConverter(
        settings,
        _prompt_set(model, download),
        open_scorer(scorer) if scorer else None,
        oracle_of(settings.reasoning),
        skip_bad,
        say,
    )
    made = converter.convert(runs, out)
    typer.echo(f"\ndata: {', '.join(str(path) for path in (made.sft, made.rl, made.held_out) if path)}")


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

    from ...backend.output.feedback_log import FEEDBACK, Feedback, ItemFeedback, record_feedback

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
