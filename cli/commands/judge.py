"""`interleave-thinker judge`: prints the critic's verdict on one image."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...backend.errors import SettingsError
from ...backend.pipeline.prepared import read_picture, read_text
from ...backend.report.run_report import reasoning_shown
from ..open_models import Opener
from ..options.model_options import NONE, CriticOptions, LocalOptions
from ..options.models import with_model_options
from ..progress import Lines, verdict_text


@with_model_options
def command(
    before: Annotated[
        str, typer.Argument(help="Image before the edit, or `none` if the image was generated from text.")
    ],
    after: Annotated[Path, typer.Argument(help="Image to judge.")],
    instruction: Annotated[str, typer.Argument(help="Prompt that the image has to match.")],
    judging: CriticOptions,
    local: LocalOptions,
    prompt_used: Annotated[
        str | None,
        typer.Option("--prompt-used", help="Prompt that the image was generated with. Default: INSTRUCTION."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdict as JSON.")] = False,
) -> None:
    """Ask the critic whether an image matches an instruction.

    The exit code is 0 if the critic accepts the image, 3 if it rejects it and 1 if its reply cannot be
    parsed.
    """
    first = None if before == NONE else read_picture(Path(before))
    second = read_picture(after)
    original = read_text("The instruction", instruction)
    used = original if prompt_used is None else read_text("--prompt-used", prompt_used)
    opener = Opener(local)
    critic = opener.critic(judging)
    opener.finish()
    if critic is None:
        raise SettingsError("`judge` needs a critic, but --critic is none.", "Name a critic.")
    verdict = critic.judge(first, second, original, used)
    if as_json:
        print(verdict.model_dump_json())
    else:
        view = Lines()
        view.say(f"Verdict: {verdict_text(verdict)}", "bold")
        if verdict.reasoning:
            view.say(reasoning_shown(verdict))
        if verdict.success is not True and verdict.refined_prompt:
            view.say(f"Refined prompt: {verdict.refined_prompt}")
    raise typer.Exit({True: 0, False: 3, None: 1}[verdict.success])
