"""A LoRA laid over a diffusers pipeline, as a foreign file: safetensors only, and never silently without
effect.

Decision: diffusers loads what it recognises of a file and only logs that nothing was. So the adapter is
looked for afterwards; a LoRA of another model is an error, not an unchanged picture.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...checkpoints.patterns import check_patterns
from ...errors import GeneratorError, SettingsError, boundary
from ...files.bounded_reader import parse_json
from .folder import file_digest

ADAPTER = "lora"
SUFFIX = ".safetensors"
METADATA = "lora_adapter_metadata"
"""Where diffusers keeps peft's configuration."""


def lay_over(pipeline: Any, file: Path, scale: float) -> str:
    """Lay the LoRA in a safetensors file over the pipeline, `scale` times as strong; answers its content and
    scale for the identity.

    Raises SettingsError for another kind of file, one that does not fit the pipeline, or a pipeline that
    takes none.
    """
    name = type(pipeline).__name__
    if not hasattr(pipeline, "load_lora_weights"):
        raise SettingsError(f"{name} takes no LoRA.", "Leave out lora.")
    file = file.expanduser()
    if file.suffix != SUFFIX or not file.is_file():
        raise SettingsError(
            f"{str(file)[:300]!r} is no LoRA: a file *{SUFFIX} is wanted.", "Give the LoRA's own file."
        )
    try:
        import peft  # noqa: F401 - diffusers lays LoRAs with it
    except ImportError as error:
        raise SettingsError(f"A LoRA needs peft ({error}).", "pip install peft") from error
    digest = file_digest(file)
    _check_metadata(file)
    with boundary(GeneratorError, f"Laying {file.name!r} over {name}"):
        try:
            pipeline.load_lora_weights(
                str(file.parent),
                weight_name=file.name,
                adapter_name=ADAPTER,
                use_safetensors=True,
                local_files_only=True,
            )
        except (ValueError, KeyError) as error:
            raise _foreign(file, name, error) from error
        found = {adapter for part in pipeline.get_list_adapters().values() for adapter in part}
        if ADAPTER not in found:
            raise _foreign(file, name)
        pipeline.set_adapters([ADAPTER], [scale])
    return f"{digest}*{scale:g}"


def _check_metadata(file: Path) -> None:
    """Raise SettingsError if the adapter's configuration in the file's header has patterns that could keep
    the library busy for ever."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="np") as weights:
            found = (weights.metadata() or {}).get(METADATA)
    except (SafetensorError, OSError) as error:
        raise SettingsError(f"{file.name!r} cannot be read ({error}).", "Get the file again.") from error
    if found is not None:
        where = f"The header of {file.name!r}"
        check_patterns(parse_json(found, SettingsError, where), SettingsError, where)


def _foreign(file: Path, name: str, error: Exception | None = None) -> SettingsError:
    reason = f" ({str(error).splitlines()[0][:200]})" if error and str(error) else ""
    return SettingsError(
        f"Nothing in {file.name!r} fits {name}{reason}.", "Is it a LoRA for this very model?"
    )
