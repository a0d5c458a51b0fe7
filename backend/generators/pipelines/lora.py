"""Applies a LoRA to a diffusers pipeline as an untrusted file: safetensors only, and never without effect.

diffusers loads the weights of a file that it recognizes, and only logs if there are none. The adapter is
therefore checked after loading. A LoRA for another model is an error, not an unchanged image.
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
"""Metadata key under which diffusers stores peft's configuration."""


def lay_over(pipeline: Any, file: Path, scale: float) -> str:
    """Apply a LoRA in a safetensors file to a pipeline.

    Args:
        pipeline: Loaded pipeline.
        file: LoRA file.
        scale: Strength of the LoRA.

    Returns:
        Content digest and scale, for the identity.

    Raises:
        SettingsError: The file is not a LoRA, does not fit the pipeline, or the pipeline does not support
            LoRAs.
    """
    name = type(pipeline).__name__
    if not hasattr(pipeline, "load_lora_weights"):
        raise SettingsError(f"{name} does not support LoRAs.", "Omit lora.")
    file = file.expanduser()
    if file.suffix != SUFFIX or not file.is_file():
        raise SettingsError(
            f"{str(file)[:300]!r} is not a LoRA: expected a {SUFFIX} file.", "Give the path of the LoRA file."
        )
    try:
        import peft  # noqa: F401 - diffusers applies LoRAs with it
    except ImportError as error:
        raise SettingsError(f"A LoRA needs peft ({error}).", "Run: pip install peft") from error
    digest = file_digest(file)
    _check_metadata(file)
    with boundary(GeneratorError, f"Applying {file.name!r} to {name}"):
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
    """Check the patterns of the adapter's configuration in the file's header, which a library will match.

    Raises:
        SettingsError: A pattern could take very long, or the header is unreadable.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="np") as weights:
            found = (weights.metadata() or {}).get(METADATA)
    except (SafetensorError, OSError) as error:
        raise SettingsError(f"Cannot read {file.name!r} ({error}).", "Download the file again.") from error
    if found is not None:
        where = f"The header of {file.name!r}"
        check_patterns(parse_json(found, SettingsError, where), SettingsError, where)


def _foreign(file: Path, name: str, error: Exception | None = None) -> SettingsError:
    reason = f" ({str(error).splitlines()[0][:200]})" if error and str(error) else ""
    return SettingsError(
        f"Nothing in {file.name!r} fits {name}{reason}.", "Check that the LoRA was made for this model."
    )
