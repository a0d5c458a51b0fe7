"""`train finish`: ends a training early and keeps its result."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from ...backend.errors import TrainingError
from ...backend.shown_text import one_line
from ..options.training import log

if TYPE_CHECKING:
    from ...training.trainer.ending import Ending, StartedWith

OWN_CRITIC = "own-critic"


class RecordedGroup(TyperGroup):
    """Group whose commands know their arguments, which a training stores to be finished later."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command of these arguments."""
        from ...training.trainer.ending import started_with

        found = super().resolve_command(ctx, args)
        token = started_with.set(tuple(args))
        ctx.call_on_close(lambda: started_with.reset(token))
        return found


def command(
    context: typer.Context,
    *,
    out: Annotated[Path, typer.Argument(help="Output folder of the training.", exists=True, file_okay=False)],
    trust_command: Annotated[
        bool,
        typer.Option(
            "--trust-command",
            help="Also run the recorded command of a copied or downloaded folder. Such a command can start "
            "programs and send data, so read it first.",
        ),
    ] = False,
) -> None:
    """End a training early and keep what it has learned.

    A running training ends after its current step (GRPO: rollout), saves a checkpoint and makes it
    OUT/final, through the gate as usual. One that does not run is finished here from its newest checkpoint,
    by running its recorded command again.
    """
    from ...training.trainer.ending import STAGES, Ending, is_in_use, started
    from ...training.trainer.resume import newest_checkpoint

    folder = next((out / name for name in STAGES if (out / name / "training.json").is_file()), out)
    if not (folder / "training.json").is_file():
        raise TrainingError(f"{str(out)!r} does not contain a training.", "Give the --out of a training.")
    ending = Ending(folder)
    if is_in_use(folder):
        ending.ask()
        log("the training ends after its current step and makes its newest checkpoint the result")
        return
    command = started(folder)
    places = [out, folder]
    if command is not None and command.command[0] == OWN_CRITIC:
        # A stage of own-critic was given: the result is next to it.
        places.append(folder.resolve().parent)
    done = [place / "final" for place in places if (place / "final").is_dir()]
    if done:
        log(f"this training is finished\ncheckpoint: {done[0]}")
        return
    if newest_checkpoint(folder / "steps") is None:
        raise TrainingError(
            f"The training in {str(folder)!r} does not run and does not have a complete checkpoint.",
            "Run its command again; there is nothing to keep yet.",
        )
    if command is None:
        raise TrainingError(
            f"The command that started the training in {str(folder)!r} is not known: it was started from "
            "Python or by an earlier version.",
            "Start it again, and call train finish while it runs.",
        )
    _check_command(folder, command, trust_command)
    _finish(context, out, ending, command)


def _check_command(folder: Path, command: StartedWith, trusted: bool) -> None:
    """Check that the recorded command may run.

    Raises:
        TrainingError: It was recorded in another folder, perhaps by another person, and is not trusted.
    """
    if not trusted and not command.is_of(folder):
        raise TrainingError(
            f"{str(folder)!r} is a copy, so its recorded command may come from another person: "
            f"{_shown(command)} (in {command.folder!r}).",
            "Read the command, then add --trust-command to run it.",
        )


def _shown(command: StartedWith) -> str:
    return one_line(f"train {shlex.join(command.command)}")


def _finish(context: typer.Context, out: Path, ending: Ending, command: StartedWith) -> None:
    """Run the training's command again: it makes no further step."""
    assert context.parent is not None
    whole = out.resolve()
    # The stages of own-critic are folders in its own.
    if command.command[0] == OWN_CRITIC and whole == ending.path.parent.resolve():
        whole = whole.parent
    log(f"finishing {whole} with the newest checkpoint: {_shown(command)} (in {command.folder!r})")
    ending.ask()
    group = context.parent.command
    try:
        with _in_folder(command.folder):
            code = group.main([*command.command, "--out", str(whole)], standalone_mode=False)
    except BaseException:
        ending.withdraw()
        raise
    if code:
        raise typer.Exit(code)


@contextmanager
def _in_folder(folder: str) -> Iterator[None]:
    before = os.getcwd()
    try:
        os.chdir(folder)
    except OSError as error:
        raise TrainingError(
            f"Cannot enter the folder {folder!r}, in which the training was started ({error.strerror}).",
            "Restore it: the paths of the training's data are relative to it.",
        ) from error
    try:
        yield
    finally:
        os.chdir(before)
