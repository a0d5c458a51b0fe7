"""`evaluate`: measures a critic. Plug-ins add the measurements of the training stages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from ..backend.core.errors import SettingsError
from .models import CriticOptions, LocalOptions, Opener
from .settings import with_settings
from .shared_options import Images, Parallel, SkipBad

if TYPE_CHECKING:
    from ..backend.story.agents.critic import Critic
    from ..training.rows.sft import RowSet

OF_MODEL: dict[str, Any] = {"adapter": None, "prompts": None}
"""Settings of --critic that belong to its model, and not to --baseline."""
app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Measure a critic: verdicts on labelled rows, checklist, calibration.",
)


def _log(line: str) -> None:
    typer.echo(line, err=True)


@app.command("calibration")
def calibration(
    runs: Annotated[
        list[Path], typer.Argument(help="Run folders with people's verdicts, or folders of such folders.")
    ],
    save: Annotated[
        Path | None,
        typer.Option(
            "--save",
            help="Folder of the critic's checkpoint or adapter. The calibration is stored in its agent card, "
            "if it certainly helps.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the cross-validation.")] = 0,
) -> None:
    """Calibrate a critic's P(success) on people's verdicts, so that 0.8 means 80 %.

    The exit code is 3 if the calibration does not certainly help. It is then not stored.
    """
    from ..training.gate.calibration import calibrate, judged_by_people, store_calibration

    found = calibrate(judged_by_people(runs), seed)
    typer.echo(f"{found.calibration.images} images with a person's verdict")
    typer.echo(f"calibration error: {found.before:.3f}, calibrated {found.after:.3f}")
    typer.echo(f"squared error falls by {found.gain}")
    for probability in (0.5, 0.9, 0.99, 0.999):
        typer.echo(f"P(success) {probability} becomes {found.calibration.apply(probability):.2f}")
    if not found.helps:
        typer.echo("The calibration does not certainly help, and is not stored.")
        raise typer.Exit(3)
    if save is not None:
        store_calibration(save, found.calibration)
        typer.echo(f"Saved in {save}.")


class _Rows(NamedTuple):
    """The rows to judge. Labelled pairs become rows with the prompt set of each critic."""

    data: Path
    images: Path | None
    skip_bad: bool

    def of(self, critic: Critic, scratch: Path) -> RowSet:
        """Return the rows for a critic that teach a verdict.

        Raises:
            SettingsError: A row cannot be used, or none teaches a verdict.
        """
        from ..training.rows.labels import SFT, LabelSettings, LabelSource, import_labels, is_labels
        from ..training.rows.sft import RowSet, read_row_set, truth_of

        data, images = self.data, self.images
        if is_labels(data):
            whole = LabelSettings(held_out_share=0)
            import_labels(LabelSource(data, images), scratch, critic.prompt_set, whole, self.skip_bad, _log)
            data, images = scratch / SFT[0], None
        found = read_row_set(data, "critic", self.skip_bad, _log, images)
        rows = [row for row in found.rows if truth_of(row) is not None]
        if not rows:
            raise SettingsError(f"No row of {str(data)!r} teaches a verdict.", "Give rows for a critic.")
        return RowSet(rows, found.folder)


def _on_rows(
    critics: Sequence[CriticOptions], local: LocalOptions, given: _Rows, out: Path | None, parallel: int
) -> None:
    """Print the measures of one critic, or of two, the second compared with the first."""
    from tempfile import TemporaryDirectory

    from ..training.gate.gate_rows import GateSettings
    from ..training.gate.measures import MEASURES, JudgedRows, answers_of, kind_lines, write_page
    from ..training.gate.regression_gate import as_lines, compare
    from ..training.trainer.progress import TimeLeft

    opener = Opener(local)
    opened = [(options, _opened(opener, options)) for options in critics]
    opener.finish()
    with TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        judged = []
        for number, (options, critic) in enumerate(opened):
            name = " with ".join(filter(None, (options.critic, options.adapter)))
            rows = given.of(critic, Path(scratch) / str(number))
            answers = answers_of(critic, rows, parallel, TimeLeft(f"answers of {name}", _log), _log)
            judged.append(JudgedRows(name, rows, answers))
            critic.chat.offload()
        first, last, what = judged[0], judged[-1], f"{len(judged[0].answers)} rows"
        if first is not last:
            lines = [f"before: {first.critic}", f"after: {last.critic}"]
            lines += as_lines(compare(first.measured, last.measured, GateSettings()), what)
        else:
            lines = [f"| {what} | {last.critic} |", "|---|---|"]
            lines += [f"| {title} | {last.measured.shown(name)} |" for name, title in MEASURES.items()]
        lines += kind_lines(judged)
        for line in lines:
            typer.echo(line)
        if out is not None:
            typer.echo(f"page: {write_page(out, judged, lines)}")


def _opened(opener: Opener, options: CriticOptions) -> Critic:
    critic = opener.critic(options)
    if critic is None:
        raise SettingsError("`evaluate critic` needs a critic, but --critic is none.", "Name a critic.")
    return critic


@app.command("critic")
@with_settings
def critic(
    judging: CriticOptions,
    local: LocalOptions,
    runs: Annotated[
        list[Path] | None,
        typer.Option(
            "--runs",
            help="Folder of runs of this critic with people's verdicts on items; repeat for several.",
        ),
    ] = None,
    made: Annotated[
        int, typer.Option(min=0, help="Made items of each of the kinds count, color, place and text.")
    ] = 60,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the made items.")] = 0,
    save: Annotated[
        bool,
        typer.Option("--save", help="Store the result in the critic's agent card. Runs then apply it."),
    ] = False,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Measure its verdicts instead: rows of critic_sft.json, labelled pairs (CSV, JSON), or the "
            "folder of EditJudge-Bench.",
            exists=True,
        ),
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(help="With --data: critic to compare with, such as the one before training.")
    ] = None,
    images: Images = None,
    out: Annotated[
        Path | None,
        typer.Option(help="With --data: folder for a page of ten verdicts with images."),
    ] = None,
    parallel: Parallel = 1,
    skip_bad: SkipBad = False,
) -> None:
    """Measure which kinds of questions of a checklist a critic can answer, or its verdicts with --data.

    A kind in which it is not better than chance never rejects an image once the result is saved.
    """
    if data is not None:
        names = [
            judging,
            *([judging.model_copy(update={"critic": baseline, **OF_MODEL})] if baseline else []),
        ]
        _on_rows(names[::-1], local, _Rows(data, images, skip_bad), out, parallel)
        return
    if baseline or out:
        raise SettingsError("--baseline and --out need rows to judge.", "Add --data FILE.")
    from ..training.gate.reliability import (
        answered_items,
        as_lines,
        made_items,
        measure_reliability,
        store_reliability,
    )

    asked = made_items(made, seed)
    if not asked and not runs:
        raise SettingsError("Nothing to ask about was given.", "Give --runs, or --made above 0.")
    opener = Opener(local)
    critic = _opened(opener, judging)
    opener.finish()
    folder = critic.chat.trained.folder if critic.chat.trained else None
    if save and folder is None:
        raise SettingsError(
            "--save needs a critic with a folder of its own, such as transformers:FOLDER.",
            "Omit --save; the table is printed.",
        )

    recorded = answered_items(runs, critic.chat.identity.partition("|")[0], _log) if runs else []
    found = measure_reliability(critic.check, asked, recorded, _log)
    for line in as_lines(found):
        typer.echo(line)
    if save and folder is not None:
        store_reliability(folder, found)
        typer.echo(f"Saved in {folder}.")
