"""`feedback notes`: chooses corrections from your feedback that a critic reads before every image."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...backend.errors import SettingsError
from ...training.own_critic.notes.settings import NotesSettings
from ..open_models import Opener
from ..options.model_options import CriticOptions, LocalOptions
from ..options.models import with_model_options
from ..options.runs import Runs, SkipBadRuns
from ..options.training import log, refused

app = typer.Typer(
    no_args_is_help=True, add_completion=False, help="Use your feedback on images without training."
)


@app.callback()
def feedback() -> None:
    """Use your feedback on images without training."""


@app.command("notes")
@with_model_options
def notes(
    *,
    runs: Runs,
    judging: CriticOptions,
    local: LocalOptions,
    out: Annotated[
        Path, typer.Option(help="Output folder of the notes and the report. Use the same folder to resume.")
    ],
    skip_bad: SkipBadRuns = False,
    settings: NotesSettings,
) -> None:
    """Choose corrections from your feedback as notes that the critic reads before every image.

    Notes are chosen on half of the runs and measured on the other half. If the critic does not judge these
    images better with them, no notes are written and the exit code is 3.
    """
    from ...training.own_critic.notes.cases import cases_of
    from ...training.own_critic.notes.make import NotesRefused, make_notes

    if judging.critic_notes is not None:
        raise SettingsError("`feedback notes` makes new notes.", "Remove --critic-notes.")
    opener = Opener(local)
    critic = opener.critic(judging)
    opener.finish()
    if critic is None:
        raise SettingsError("`feedback notes` needs a critic, but --critic is none.", "Name a critic.")
    cases = cases_of(runs, critic.prompt_set_digest, skip_bad, log)
    try:
        make_notes(cases, critic, out, settings, log)
    except NotesRefused as error:
        raise refused(error) from error
