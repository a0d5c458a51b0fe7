"""`train merge`: a LoRA adapter becomes a checkpoint of its own, in safetensors and, if wanted, in GGUF."""

from __future__ import annotations

import shlex
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from ...backend.errors import InterleaveError, SettingsError
from ...training.trainer.gguf import GgufSettings
from ..options.models import with_model_options
from ..options.training import Download, Model, checkpoint_of, log


class MergeFormat(str, Enum):
    """Format of a merged checkpoint."""

    safetensors = "safetensors"
    gguf = "gguf"


@with_model_options
def command(
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
    from ...backend.prompts.trained_with import trained_with
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
