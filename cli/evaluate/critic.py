"""`evaluate critic`: measures which kinds of questions a critic can answer, and stores the result."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...backend.errors import SettingsError
from ..open_models import Opener
from ..options.model_options import CriticOptions, LocalOptions
from ..options.models import with_model_options


@with_model_options
def command(
    judging: CriticOptions,
    local: LocalOptions,
    items: Annotated[
        list[Path] | None,
        typer.Option("--items", help="JSON file with items whose truth is known; repeat for several."),
    ] = None,
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
) -> None:
    """Measure which kinds of questions of a checklist a critic can answer.

    A kind in which it is not better than chance never rejects an image once the result is saved.
    """
    from ...training.gate.reliability import (
        answered_items,
        as_lines,
        made_items,
        measure_reliability,
        read_labeled,
        store_reliability,
    )

    asked = [one for path in items or () for one in read_labeled(path)] + made_items(made, seed)
    if not asked and not runs:
        raise SettingsError("Nothing to ask about was given.", "Give --items, --runs, or --made above 0.")
    opener = Opener(local)
    critic = opener.critic(judging)
    opener.finish()
    if critic is None:
        raise SettingsError("`evaluate critic` needs a critic, but --critic is none.", "Name a critic.")
    folder = critic.chat.trained.folder if critic.chat.trained else None
    if save and folder is None:
        raise SettingsError(
            "--save needs a critic with a folder of its own, such as transformers:FOLDER.",
            "Omit --save; the table is printed.",
        )

    def log(line: str) -> None:
        typer.echo(line, err=True)

    recorded = answered_items(runs, critic.chat.identity.partition("|")[0], log) if runs else []
    found = measure_reliability(critic.check, asked, recorded, log)
    for line in as_lines(found):
        typer.echo(line)
    if save and folder is not None:
        store_reliability(folder, found)
        typer.echo(f"Saved in {folder}.")
