"""`train finish`, `train merge` and `train publish`: what is done with the result of a training."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from ...backend.core.errors import InterleaveError, SettingsError, TrainingError
from ...backend.core.shown_text import one_line
from ...training.trainer.gguf import GgufSettings
from ..settings import with_settings
from ..shared_options import Download, Model, checkpoint_of, log

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


def finish(
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


class MergeFormat(str, Enum):
    """Format of a merged checkpoint."""

    safetensors = "safetensors"
    gguf = "gguf"


@with_settings
def merge(
    *,
    model: Model,
    adapter: Annotated[
        Path | None,
        typer.Option(
            help="LoRA adapter of a training (folder). Without one, --to gguf converts --model as it is.",
            exists=True,
            file_okay=False,
        ),
    ] = None,
    out: Annotated[
        Path,
        typer.Option(help="New folder for the merged checkpoint. With gguf, OUT-gguf gets the GGUF files."),
    ],
    download: Download = False,
    shard: Annotated[str, typer.Option(help="Maximum size of a weight file, such as 4GB.")] = "4GB",
    to: Annotated[
        MergeFormat,
        typer.Option(
            help="With gguf, also convert the checkpoint with llama.cpp's converter, and check that it "
            "answers like the safetensors."
        ),
    ] = MergeFormat.safetensors,
    gguf: GgufSettings,
) -> None:
    """Merge a LoRA adapter into its base model.

    The result is a safetensors checkpoint with its processor and prompt set. With --to gguf, it is also
    converted to a model and projector that llama.cpp runs.
    """
    base = checkpoint_of(model, download)
    if to is MergeFormat.safetensors:
        if adapter is None:
            raise SettingsError(
                "Nothing to merge: there is no --adapter.", "Name one, or convert with --to gguf."
            )
        if gguf != GgufSettings():
            raise SettingsError("The options of a conversion need --to gguf.", "Add it.")
        _merged(base, adapter, out, shard)
        return
    from ...backend.core.prompts.trained_with import trained_with
    from ...training.trainer.gguf import Conversion, check_answers

    folder = out.with_name(f"{out.name}-gguf")
    conversion = Conversion.prepared(gguf, base, folder)
    record = trained_with(base) if adapter is None else trained_with(adapter).over(trained_with(base))
    made = base if adapter is None else _merged(base, adapter, out, shard)
    try:
        files = conversion.run(made, folder, log)
    except InterleaveError as error:
        if made is not base:
            again = shlex.join(["--model", str(made), "--to", "gguf", "--out", str(out)])
            error.hint += f" The merged checkpoint is complete; convert it with train merge {again}."
        raise
    log(f"agents: {', '.join(f'llamacpp:{file}' for file in files)}")
    if gguf.check:
        check_answers(made, files, record, gguf, log)


def _merged(base: Path, adapter: Path, out: Path, shard: str) -> Path:
    from ...training.trainer.saving import merge

    made = merge(base, adapter, out, shard)
    log(f"checkpoint: {made}")
    return made


def publish(
    *,
    folder: Annotated[
        Path,
        typer.Argument(
            help="Output folder of a training, or a checkpoint in it.", exists=True, file_okay=False
        ),
    ],
    repo: Annotated[str, typer.Option(help="Repository of the hub, such as YOUR-NAME/my-critic.")],
    license: Annotated[
        str | None,
        typer.Option(
            help="License, as an identifier of the Hugging Face Hub such as apache-2.0. Default: that of the "
            "base model, if its folder states it."
        ),
    ] = None,
    without_gate: Annotated[
        bool,
        typer.Option(
            "--without-gate",
            help="Also upload a critic that was not measured by the regression gate or did not pass it.",
        ),
    ] = False,
    public: Annotated[
        bool,
        typer.Option("--public", help="Create a public repository. Default: private, to read it first."),
    ] = False,
) -> None:
    """Upload a checkpoint to the Hugging Face Hub: its own files and a model card, without local paths.

    Log in with `hf auth login` before.
    """
    from ...training.trainer.model_card import publish

    typer.echo(f"uploaded: {publish(folder, repo, license, without_gate, public)}")
