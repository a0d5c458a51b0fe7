"""Finds checkpoint folders, checks them before any weight is read, and identifies them by content.

Folders that would fail deep inside a loader, or load something unsafe, are rejected here with a clear
message: missing folder, no safetensors, pickles, another architecture. The digest covers contents, so a
checkpoint that was trained further under the same name has another digest.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ..errors import ChatError
from ..files import bounded_reader
from .adapter_config import check_fields
from .digest import files_digest
from .families import TESTED, check_family, is_tested
from .foreign_folders import refuse_foreign
from .model_folder import MAX_NUMBER, check_files, check_weights, numbers_of
from .weights import check_safetensors

WANTED_FILES = ("*.safetensors", "*.json", "*.jinja", "*.txt")
AGENT_CARD = "agent.json"
"""File that the digest leaves out, see prompts/agent_card.py."""
MODEL_CARD = "model_card.json"
"""Facts of the model card (training/trainer/report/model_card.py), which the digest leaves out as well."""
MAX_LEAST_PIXELS = 1024 * 1024
MAX_JSON = 64 * 1024 * 1024
PLAIN_STARTS = (True, False, None, "gaussian", "orthogonal")
HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


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
            raise ChatError(
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
        raise ChatError(f"Cannot find the adapter folder {str(folder)!r}.")
    refuse_foreign(folder)
    check_files(folder, ChatError)
    if not (folder / "adapter_config.json").is_file():
        whole = (folder / "config.json").is_file()
        raise ChatError(
            f"{str(folder)!r} is not an adapter: it has no adapter_config.json.",
            "It is a full checkpoint: give it as the model itself, without an adapter."
            if whole
            else "Give the folder with adapter_config.json and adapter_model.safetensors.",
        )
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
            hint = "It is an adapter: give the base model here, and this folder as its adapter."
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
    if index.is_file():
        shards = set(map(str, dict(read_json(index).get("weight_map") or {}).values()))
        for shard in sorted(shards):
            if Path(shard).name != shard or not (folder / shard).is_file():
                raise ChatError(
                    f"{str(folder)!r} lacks the weight file {shard!r} that its index lists.",
                    "The download may be incomplete: download it again.",
                )
            check_safetensors(folder / shard)
        if shards:
            return
    if (folder / "model.safetensors").is_file():
        return check_safetensors(folder / "model.safetensors")
    check_weights(folder, ChatError)
    raise ChatError(
        f"{str(folder)!r} has no model.safetensors.", "The download may be incomplete: download it again."
    )


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
        raise ChatError(
            f"{name!r} is neither a folder nor a model in the local cache.",
            "Give an existing folder, or allow the download.",
        ) from error
    return Path(folder)
