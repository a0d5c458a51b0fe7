"""Finds checkpoint folders, checks them before any weight is read, identifies and loads them.

Folders that would fail deep inside a loader, or load something unsafe, are rejected here with a clear
message: missing folder, no safetensors, pickles, another architecture, shards of another trainer. The digest
covers contents, so a checkpoint that was trained further under the same name has another digest.

Qwen3-VL is the tested family. Others are used as soon as the installed library supports them, and are labeled
untested; the rules for folders are the same. Lists of folders use the configuration alone, because they are
made at every start. The library initializes missing weights at random and continues, so all models are loaded
here, where missing weights are an error.
"""

from __future__ import annotations

import gc
import hashlib
import os
import re
import shlex
import sys
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...core.errors import ChatError, InterleaveError, ModelMissing, boundary
from ...core.files import bounded_reader
from ...core.files.bounded_reader import opened
from ...core.machine.counters import count
from ...core.machine.environment import device_named
from .adapter_files import check_fields
from .model_folder import MAX_NUMBER, check_files, check_safetensors, check_weights, numbers_of

HASHED_WHOLE = 64 * 1024 * 1024
SAMPLES = 64
SAMPLE_BYTES = 64 * 1024
TESTED = ("qwen3_vl", "qwen3_vl_moe")
"""Families that the engine supports, as named by `model_type` in config.json."""
WRITERS = ("ForConditionalGeneration", "ForCausalLM", "ForImageTextToText")
"""Parts of the names of model classes that generate text."""
MERGE = 2
"""llama.cpp's Qwen3-VL always joins blocks of 2 by 2 patches, and does not read the number from the file."""
VERL_SHARD = "model_world_size_*_rank_*.pt"
ZERO = "DeepSpeed ZeRO"
FOREIGN = (
    (
        "verl or EasyR1",
        (VERL_SHARD, f"actor/{VERL_SHARD}", f"global_step_*/actor/{VERL_SHARD}"),
        "python -m verl.model_merger merge --backend fsdp --local_dir {} --target_dir {}",
    ),
    (
        ZERO,
        ("zero_to_fp32.py", "global_step*/*mp_rank_*", "*mp_rank_*"),
        "python -m deepspeed.utils.zero_to_fp32 {} {} --safe_serialization",
    ),
    ("FSDP", ("*.distcp", "pytorch_model_fsdp_*/*.distcp"), "accelerate merge-weights {} {}"),
)
"""Checkpoints of other trainers: name, patterns of their files, and the command that converts them."""
COPY = "then copy the base model's other files (*.json, *.jinja, *.txt) next to the weights"
LOCAL: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
_READING = threading.RLock()
WANTED_FILES = ("*.safetensors", "*.json", "*.jinja", "*.txt")
AGENT_CARD = "agent.json"
"""File that the digest leaves out, see prompts/agent_card.py."""
MODEL_CARD = "model_card.json"
"""Facts of the model card (training/trainer/model_card.py), which the digest leaves out as well."""
MAX_LEAST_PIXELS = 1024 * 1024
MAX_JSON = 64 * 1024 * 1024
PLAIN_STARTS = (True, False, None, "gaussian", "orthogonal")
ALLOW_DOWNLOAD = "allow the download (command line: --download; Python: download=True)"
HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


@contextmanager
def loading() -> Iterator[None]:
    """Load one model at a time, and count the seconds that it takes."""
    began = time.monotonic()
    with _READING:
        yield
    count(loading_seconds=time.monotonic() - began)


def files_digest(paths: Iterable[Path], names: bool = True) -> str:
    """Return 16 hex digits over the contents of files.

    Args:
        paths: Files, in the order in which they are hashed.
        names: Whether file names are hashed too.

    Raises:
        ChatError: A file cannot be read.
    """
    digest = hashlib.blake2b(digest_size=8)
    for path in paths:
        add_content(digest, path, path.name if names else "", HASHED_WHOLE, skip=8)
    return digest.hexdigest()


def add_content(
    digest: hashlib.blake2b,
    path: Path,
    name: str,
    whole: int,
    skip: int = 0,
    kind: type[InterleaveError] = ChatError,
) -> None:
    """Add a weight file to a digest: its name, its size and its content.

    Larger files are sampled: their header (all tensor names, dtypes and shapes) and evenly spaced blocks,
    which any training changes.

    Args:
        digest: The digest.
        path: The file.
        name: Its name in the digest.
        whole: Maximum bytes of a file or a header that is hashed completely.
        skip: Bytes at the beginning of a sampled file that are left out.
        kind: Class of the error of a file that cannot be read.
    """
    with opened(path, kind) as file:
        size = os.fstat(file.fileno()).st_size
        digest.update(f"{name}\0{size}\0".encode())
        if size <= whole:
            digest.update(file.read(whole))
            return
        length = 8 + int.from_bytes(file.read(8), "little")
        file.seek(skip)
        digest.update(file.read(min(length - skip, whole)))
        for sample in range(SAMPLES):
            file.seek(sample * max(0, size - SAMPLE_BYTES) // (SAMPLES - 1))
            digest.update(file.read(SAMPLE_BYTES))


def is_tested(family: object) -> bool:
    """Return whether this package's engine and tests cover the family."""
    return family in TESTED


def looks_like_an_agent(config: object) -> bool:
    """Return whether a config.json describes a model that reads images and writes text.

    The check is fast. It does not guarantee that the model can be loaded.
    """
    if not isinstance(config, Mapping):
        return False
    if str(config.get("model_type", "")).startswith(TESTED[0]):
        return True
    classes = config.get("architectures")
    named = classes if isinstance(classes, list) else []
    writes = any(part in str(name) for name in named[:4] for part in WRITERS)
    return writes and isinstance(config.get("vision_config"), Mapping)


def check_family(family: Any, where: str) -> None:
    """Check that the installed transformers library supports a family.

    Args:
        family: Family, as in `model_type`.
        where: Name of the checkpoint for error messages.

    Raises:
        ChatError: The library does not support it.
    """
    if is_tested(family):
        return
    from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES

    if family not in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES:
        raise ChatError(
            f"{where} is a {str(family)[:60]!r} checkpoint, which the installed transformers library does "
            "not support "
            f"as a vision-language model. Recommended: {TESTED[0]}.",
            "Update transformers, or run the model with a server (openai:MODEL@URL) or llamacpp:FILE.",
        )


def joined_patches(config: Mapping[str, Any]) -> int:
    """Return how many patches in a row and column a model joins, 2 if its configuration does not say it."""
    vision = config.get("vision_config")
    return vision.get("spatial_merge_size", MERGE) if isinstance(vision, dict) else MERGE


def runs_in_llamacpp(config: Mapping[str, Any]) -> bool:
    """Return whether llama.cpp computes the same result as transformers for a model's configuration."""
    return not str(config.get("model_type")).startswith("qwen3_vl") or joined_patches(config) == MERGE


def refuse_foreign(folder: Path) -> None:
    """Reject checkpoint folders of verl, EasyR1, DeepSpeed ZeRO and FSDP, whose weights are in shards.

    Raises:
        ChatError: The folder is one of these; the hint is the command that converts it.
    """
    if not folder.is_dir() or any(folder.glob("*.safetensors")):
        return
    for name, patterns, command in FOREIGN:
        shard = next((path for pattern in patterns for path in sorted(folder.glob(pattern))), None)
        if shard is not None:
            place = shlex.quote(str(folder if name == ZERO else shard.parent))
            raise ChatError(
                f"{str(folder)!r} is a {name} checkpoint: its weights are in shards ({shard.name!r}).",
                f"Convert it: {command.format(place, shlex.quote(f'{folder}-whole'))}, {COPY}.",
            )


def load_whole(folder: Path, **options: Any) -> Any:
    """Load the model of a folder that `check_checkpoint` has accepted.

    Args:
        folder: Checkpoint folder.
        **options: Options of `from_pretrained`, such as `dtype`.

    Returns:
        The transformers model.

    Raises:
        ChatError: Weights are missing or have other sizes, or the folder cannot be read.
    """
    from transformers import AutoModelForImageTextToText

    if "transformers.trainer" in sys.modules or device_named("auto") != "cpu":
        gc.collect()  # Trainers and models that are not used any more have reference cycles.
    with boundary(ChatError, f"Checkpoint {str(folder)!r}"), without_progress_bars():
        loaded: Any = AutoModelForImageTextToText.from_pretrained(
            str(folder), use_safetensors=True, output_loading_info=True, **LOCAL, **options
        )
        model, loading = loaded
    check_missing(folder, loading.get("missing_keys") or ())
    return model


def check_missing(folder: Path, missing: Collection[str]) -> None:
    """Raise ChatError if weights are missing in a checkpoint."""
    if missing:
        raise ChatError(
            f"Checkpoint {str(folder)!r} lacks {len(missing)} weights, such as {min(missing)!r}.",
            "Download the folder again, or export it again from the program that made it.",
        )


@contextmanager
def without_progress_bars() -> Iterator[None]:
    """Hide the library's progress bars, because this package shows its own progress."""
    from transformers.utils import logging as library

    shown = library.is_progress_bar_enabled()
    library.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            library.enable_progress_bar()


def find_checkpoint(argument: str, download: bool = False, untested: bool = False) -> Path:
    """Return the folder of a checkpoint.

    Args:
        argument: A local folder, or a hub id that is in the cache.
        download: Whether to download a hub id that is not in the cache.
        untested: Whether to accept any model family that the library can read, instead of Qwen3-VL only.

    Raises:
        ChatError: The checkpoint is missing, or is not a supported checkpoint in safetensors.
    """
    folder = path_of(argument)
    if not folder.is_dir():
        if not HUB_ID.fullmatch(argument) or folder.exists():
            raise ModelMissing(
                f"Cannot find the checkpoint folder {argument!r}.",
                "Give an existing folder, or a hub id such as OWNER/MODEL.",
            )
        folder = _from_hub(argument, download)
    check_checkpoint(folder, untested)
    return folder.resolve()


def check_checkpoint(folder: Path, untested: bool = False) -> None:
    """Check a checkpoint folder before any library opens it.

    The folder must contain a Qwen3-VL checkpoint in safetensors, without code, whose configuration fits its
    weights.

    Args:
        folder: Checkpoint folder.
        untested: Whether to accept other model families too.

    Raises:
        ChatError: The folder fails a check.
    """
    refuse_foreign(folder)
    family = _family(folder)
    if untested:
        check_family(family, repr(str(folder)))
    elif not is_tested(family):
        raise ChatError(
            f"{str(folder)!r} is a {family!r} checkpoint, but only {', '.join(TESTED)} is supported here.",
            "Checkpoints of other families can plan, judge and be trained, but not be used for this.",
        )
    _check_weights(folder)
    check_files(folder, ChatError)
    check_weights(folder, ChatError)
    _check_pixels(folder)


def path_of(argument: str) -> Path:
    """Return the path that the user wrote, with `~` expanded.

    Raises:
        ChatError: The text cannot be a path.
    """
    try:
        path = Path(argument).expanduser()
        path.exists()
    except (OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ChatError(f"{argument[:100]!r} is not a valid path ({reason}).") from error
    return path


def check_adapter(folder: Path) -> None:
    """Check that a folder contains a LoRA adapter in safetensors.

    Raises:
        ChatError: The folder is missing or fails a check.
    """
    if not folder.is_dir():
        raise ModelMissing(
            f"Cannot find the adapter folder {str(folder)!r}.", "Give the folder with adapter_config.json."
        )
    refuse_foreign(folder)
    if not (folder / "adapter_config.json").is_file():
        whole = (folder / "config.json").is_file()
        raise ChatError(
            f"{str(folder)!r} is not an adapter: it has no adapter_config.json.",
            "It is a full checkpoint: give it as the model itself, without an adapter."
            if whole
            else "Give the folder with adapter_config.json and adapter_model.safetensors.",
        )
    check_files(folder, ChatError)
    config = read_json(folder / "adapter_config.json")
    if config.get("peft_type") != "LORA":
        raise ChatError(
            f"The adapter in {str(folder)!r} has the peft_type {config.get('peft_type')!r}; only 'LORA' is "
            "supported."
        )
    # These options change the base model's own weights when loaded, and other chats share them.
    if config.get("bias", "none") != "none" or config.get("init_lora_weights", True) not in PLAIN_STARTS:
        raise ChatError(
            f"The adapter in {str(folder)!r} changes the base model's own weights.",
            "Save it as a plain LoRA (bias 'none'), or merge it into a new checkpoint.",
        )
    check_fields(config, folder)
    if (folder / "adapter_model.safetensors").is_file():
        check_safetensors(folder / "adapter_model.safetensors")
    else:
        raise ChatError(
            f"The adapter folder {str(folder)!r} has no adapter_model.safetensors.",
            "Other formats can run code when loaded; save the adapter as safetensors.",
        )


def checkpoint_digest(folder: Path) -> str:
    """Return 16 hex digits over names and contents of the weight, configuration and tokenizer files."""
    found = {path for pattern in WANTED_FILES for path in folder.glob(pattern)}
    return files_digest(sorted(path for path in found if path.name not in (AGENT_CARD, MODEL_CARD)))


def read_json(path: Path) -> dict[str, Any]:
    """Return a JSON object from a checkpoint folder.

    Raises:
        ChatError: The file cannot be read or does not contain an object; the message names it.
    """
    value = bounded_reader.read_json(path, ChatError, limit=MAX_JSON)
    if not isinstance(value, dict):
        raise ChatError(f"{str(path)!r} is not a JSON object.")
    return value


def _family(folder: Path) -> object:
    if not (folder / "config.json").is_file():
        hint = ""
        if (folder / "adapter_config.json").is_file():
            hint = "It is an adapter: give the base model here, and this folder as adapter (critic.adapter)."
        raise ChatError(f"{str(folder)!r} is not a checkpoint: it has no config.json.", hint)
    return read_json(folder / "config.json").get("model_type")


def _check_pixels(folder: Path) -> None:
    """Check that the processor does not enlarge small images without limit.

    Raises:
        ChatError: The minimum number of pixels is too large. It comes from an untrusted file.
    """
    for name in ("preprocessor_config.json", "video_preprocessor_config.json", "processor_config.json"):
        if not (folder / name).exists():
            continue
        for key, value in numbers_of(read_json(folder / name)):
            most = {"shortest_edge": MAX_LEAST_PIXELS, "min_pixels": MAX_LEAST_PIXELS}.get(key, MAX_NUMBER)
            if value > most and key not in ("longest_edge", "max_pixels"):
                raise ChatError(
                    f"{str(folder / name)!r} sets {key} to {str(value)[:20]}; the maximum is {most}."
                )


def _check_weights(folder: Path) -> None:
    index = folder / "model.safetensors.index.json"
    named = dict(read_json(index).get("weight_map") or {}) if index.is_file() else {}
    for name in sorted(set(map(str, named.values()))) or ["model.safetensors"]:
        if Path(name).name != name or not (folder / name).is_file():
            check_weights(folder, ChatError)
            raise ChatError(
                f"{str(folder)!r} lacks the weight file {name!r}.",
                "The download may be incomplete: download it again.",
            )
        check_safetensors(folder / name)


def _from_hub(name: str, download: bool) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        folder = snapshot_download(
            name, allow_patterns=[*WANTED_FILES, "prompt_set/*.txt"], local_files_only=not download
        )
    except (OSError, ValueError, HfHubHTTPError, HFValidationError) as error:
        if download:
            raise ChatError(f"Cannot download {name!r} ({type(error).__name__}: {error}).") from error
        raise ModelMissing(
            f"{name!r} is neither a folder nor a model in the local cache.",
            f"Give an existing folder, or {ALLOW_DOWNLOAD}.",
        ) from error
    return Path(folder)
