"""Opens a diffusers pipeline from a local folder or the hub's cache, as a generator.

Everything that affects the image apart from prompt, source image and seed is fixed here and part of the
generator's identity: the pipeline class, the digest of its weights, the edit mode, the kind of device, and
the options as used (not as given).
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from ....core.errors import GeneratorError, SettingsError, boundary
from ....core.machine.environment import device_named, has_bfloat16
from ....core.pictures import Picture
from ....core.types.values import bounded_identity, read_options
from ...checkpoints.checkpoint import loading
from .folder import (
    HUB_ID,
    INDEX,
    check_library,
    content_digest,
    find_folder,
    not_cached,
    pipeline_class,
    read_index,
)
from .generator import DiffusersGenerator, lay_over, lora_in
from .kinds import PipelineOptions, pair_pipelines

OPTIONS = PipelineOptions
"""`open` accepts the fields of this class as options."""


def check(argument: str, *, download: bool = False, lora: str | None = None, mask: str | None = None) -> None:
    """Check that the folder and the files exist, before diffusers is imported. Errors are those of `open`."""
    from huggingface_hub import try_to_load_from_cache

    if HUB_ID.match(argument) and not Path(argument).is_dir():
        if not download and not isinstance(try_to_load_from_cache(argument, INDEX), str):
            raise not_cached(argument)
    else:
        read_index(find_folder(argument, download))
    for name, path in (("LoRA file", lora), ("mask", mask)):
        if path is not None and not Path(path).is_file():
            raise SettingsError(f"The {name} {path!r} does not exist.", "Give an existing file.")


def open(argument: str, **given: Any) -> DiffusersGenerator:
    """Load a local pipeline folder or a cached hub id.

    Args:
        argument: Folder or hub id.
        **given: Options, see PipelineOptions.

    Raises:
        SettingsError: The folder or an option is invalid.
        GeneratorError: Loading failed.
    """
    options = read_options("Generator 'diffusers'", PipelineOptions, given)
    folder, name = found_pipeline(argument, options.download)
    device = device_named(options.device)
    dtype = choose_dtype(options.dtype, device)
    pipeline = load_pipeline(folder, "DiffusionPipeline", dtype, device)
    pair = pair_pipelines(pipeline, options.edit)
    options.check_with(pair)
    lora = None if options.lora is None else lay_over(pipeline, Path(options.lora), options.lora_scale)
    mask = Picture.open(Path(options.mask)) if isinstance(options.mask, str) else options.mask
    if options.steps is None and pair.kind.distilled_steps and pipeline.config.get("is_distilled"):
        options = options.model_copy(update={"steps": pair.kind.distilled_steps})
    if options.negative is None and (options.guidance is None or options.guidance > 1):
        options = options.model_copy(update={"negative": pair.kind.negative})
    named = {
        "steps": options.steps,
        "guidance": options.guidance,
        "size": options.size,
        "negative": options.negative,
        "dtype": dtype,
        "lora": lora,
        "mask": mask.digest if mask else None,
    }
    if pair.kind.edit == "img2img":
        named["strength"] = options.strength
    said = " ".join(f"{key}={value!r}" for key, value in named.items() if value is not None)
    made_of = f"{name} {content_digest(folder)} edit={pair.kind.edit} device={device.split(':')[0]} {said}"
    generator = DiffusersGenerator(pair, bounded_identity(f"diffusers {made_of}"), options, folder, mask)
    if options.lora_folder is not None:
        generator.loras.where = repr(options.lora_folder)
        generator.loras.find = partial(lora_in, Path(options.lora_folder))
    return generator


def found_pipeline(argument: str, download: bool) -> tuple[Path, str]:
    """Return the folder of a pipeline, and the name of its class.

    Args:
        argument: Folder or hub id.
        download: Whether a hub id may be downloaded.

    Raises:
        SettingsError: diffusers is missing or too old, or the folder is invalid.
    """
    try:
        import diffusers  # noqa: F401 - whether it can be imported
    except ImportError as error:
        raise SettingsError(
            f"diffusers cannot be imported ({error}).", "Run: pip install diffusers"
        ) from error
    check_library()
    folder = find_folder(argument, download)
    return folder, pipeline_class(folder)


def load_pipeline(folder: Path, name: str, dtype: str, device: str) -> Any:
    """Load a pipeline folder.

    Args:
        folder: A folder that `found_pipeline` returned.
        name: Class of diffusers to load it with; `DiffusionPipeline` for the one in its index.
        dtype: Name of a dtype of torch.
        device: Name of a device.

    Raises:
        GeneratorError: Loading failed.
    """
    import diffusers
    import torch

    # diffusers 0.42 renamed the argument and warns about the old name.
    renamed = tuple(int(part) for part in diffusers.__version__.split(".")[:2]) >= (0, 42)
    numbers = {"dtype" if renamed else "torch_dtype": getattr(torch, dtype)}
    with loading(), boundary(GeneratorError, f"Loading {name} from {str(folder)!r}"):
        return (
            getattr(diffusers, name)
            .from_pretrained(
                folder, use_safetensors=True, local_files_only=True, trust_remote_code=False, **numbers
            )
            .to(device)
        )


def choose_dtype(dtype: str, device: str) -> str:
    """Return the name of the dtype for a device. "auto" is bfloat16 or float16, and float32 on the CPU."""
    if dtype != "auto":
        return dtype
    if device.startswith("cpu"):
        return "float32"
    return "bfloat16" if has_bfloat16(device) else "float16"
