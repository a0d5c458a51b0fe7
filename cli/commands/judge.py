"""`interleave-thinker judge`: the critic's word on one pair of images."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...backend.errors import SettingsError
from ...backend.pipeline.request import read_picture, read_text
from ...backend.report.reasoning import reasoning_shown
from ..open_models import NONE, CriticOptions, LocalOptions, Opener
from ..options.models import with_model_options
from ..progress import Lines


@with_model_options
def command(
    before: Annotated[str, typer.Argument(help="Image before the edit, or `none` for a drawing from text.")],
    after: Annotated[Path, typer.Argument(help="Image to judge.")],
    instruction: Annotated[str, typer.Argument(help="The prompt that the image should fulfil.")],
    judging: CriticOptions,
    local: LocalOptions,
    prompt_used: Annotated[
        str | None,
        typer.Option("--prompt-used", help="The prompt it was drawn with, if that is another one."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdict as one JSON object.")] = False,
) -> None:
    """Ask the critic whether an image fulfils an instruction. Exit code 0 yes, 3 no, 1 not understood."""
    first = None if before == NONE else read_picture(Path(before))
    second = read_picture(after)
    asked = read_text("The instruction", instruction)
    used = asked if prompt_used is None else read_text("--prompt-used", prompt_used)
    opener = Opener(local)
    critic = opener.critic(judging)
    opener.finish()
    if critic is None:
        raise SettingsError("--critic none cannot judge.", "Name a critic.")
    verdict = critic.judge(first, second, asked, used)
    if as_json:
        print(verdict.model_dump_json())
    else:
        view = Lines()
        word = {True: "right", False: "not right", None: "the critic was not understood"}[verdict.success]
        known = "" if verdict.probability is None else f", P(success) {verdict.probability:.3f}"
        view.say(f"Verdict: {word}{known}", "bold")
        if verdict.reasoning:
            view.say(reasoning_shown(verdict))
        if verdict.success is not True and verdict.refined_prompt:
            view.say(f"Draw next: {verdict.refined_prompt}")
    raise typer.Exit({True: 0, False: 3, None: 1}[verdict.success])
