"""`train finish`, `train merge` and `train publish`: what is done with the result of a training."""

from __future__ import annotations

import shlex
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from ...backend.core.errors import InterleaveError, SettingsError, TrainingError
from ...training.trainer.gguf import GgufSettings
from ..settings import with_settings
from ..shared_options import Download, Model, checkpoint_of, log


def finish(
    *,
    out: Annotated[Path, typer.Argument(help="Output folder of the training.", exists=True, file_okay=False)],
) -> None:
    """End a training early and keep what it has learned.

    A running training ends after its current step (GRPO: rollout), saves a checkpoint and makes it
    OUT/final, through the gate as usual. One that does not run does this from its newest checkpoint, without
    further steps, when its command is run again.
    """
    from ...training.trainer.ending import STAGES, Ending, is_in_use
    from ...training.trainer.resume import newest_checkpoint

    folder = next((out / name for name in STAGES if (out / name / "training.json").is_file()), out)
    if not (folder / "training.json").is_file():
        raise TrainingError(f"{str(out)!r} does not contain a training.", "Give the --out of a training.")
    if is_in_use(folder):
        Ending(folder).ask()
        log("the training ends after its current step and makes its newest checkpoint the result")
        return
    # If a stage of own-critic was given, the result is next to it.
    places = [out, folder, *([folder.resolve().parent] if folder.name in STAGES else [])]
    done = [place / "final" for place in places if (place / "final").is_dir()]
    if done:
        log(f"this training is finished\ncheckpoint: {done[0]}")
        return
    if newest_checkpoint(folder / "steps") is None:
        raise TrainingError(
            f"The training in {str(folder)!r} does not run and does not have a complete checkpoint.",
            "Run its command again; there is nothing to keep yet.",
        )
    Ending(folder).ask()
    log("run the training's command again: it makes no further step, and its newest checkpoint is the result")


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
        _merged(base, adapter, out)
        return
    from ...backend.core.prompts.trained_with import trained_with
    from ...training.trainer.gguf import Conversion, check_answers

    folder = out.with_name(f"{out.name}-gguf")
    conversion = Conversion.prepared(gguf, base, folder)
    record = trained_with(base) if adapter is None else trained_with(adapter).over(trained_with(base))
    made = base if adapter is None else _merged(base, adapter, out)
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


def _merged(base: Path, adapter: Path, out: Path) -> Path:
    from ...training.trainer.saving import merge

    made = merge(base, adapter, out)
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
