"""Finds and checks checkpoint folders before any weight is read, and names them by content.

Decision: what would fail deep inside a loader, or worse, load something unsafe, is refused here in words: no
folder, no safetensors, a pickle, another architecture. The digest is of contents, so a checkpoint that was
trained further under the same name is another one.
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
MAX_LEAST_PIXELS = 1024 * 1024
MAX_JSON = 64 * 1024 * 1024
PLAIN_STARTS = (True, False, None, "gaussian", "orthogonal")
HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


def find_checkpoint(argument: str, download: bool = False, untested: bool = False) -> Path:
    """The folder of a checkpoint: a local one, or a hub id that is in the cache already (`download` fetches
    it).

    Raises ChatError if it is not there, or is not a Qwen3-VL checkpoint in safetensors; with `untested`, one
    of any family that the library reads.
    """
    folder = path_of(argument)
    if not folder.is_dir():
        if not HUB_ID.fullmatch(argument) or folder.exists():
            raise ChatError(
                f"There is no checkpoint folder {argument!r}.",
                "Give a folder, or a hub id such as NAME/MODEL.",
            )
        folder = _from_hub(argument, download)
    check_checkpoint(folder, untested)
    return folder.resolve()


def check_checkpoint(folder: Path, untested: bool = False) -> None:
    """Raise ChatError unless the folder holds a Qwen3-VL checkpoint (`untested`: or one of another family) in
    safetensors, without code, whose configuration is that of its weights. To be asked before any library
    opens it."""
    refuse_foreign(folder)
    family = _family(folder)
    if untested:
        check_family(family, repr(str(folder)))
    elif not is_tested(family):
        raise ChatError(
            f"{str(folder)!r} is a {family!r} checkpoint; this needs one of {', '.join(TESTED)}.",
            "Agents of other families plan and judge, and are trained, but not here.",
        )
    _check_weights(folder)
    check_files(folder, ChatError)
    check_weights(folder, ChatError)
    _check_pixels(folder)


def path_of(argument: str) -> Path:
    """The path that a person wrote, `~` resolved; raises ChatError for one that no file can have."""
    try:
        path = Path(argument).expanduser()
        path.exists()
    except (OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ChatError(f"{argument[:100]!r} cannot be a path ({reason}).") from error
    return path


def check_adapter(folder: Path) -> None:
    """Raise ChatError unless the folder holds a LoRA adapter in safetensors."""
    if not folder.is_dir():
        raise ChatError(f"There is no adapter folder {str(folder)!r}.")
    refuse_foreign(folder)
    check_files(folder, ChatError)
    if not (folder / "adapter_config.json").is_file():
        whole = (folder / "config.json").is_file()
        raise ChatError(
            f"{str(folder)!r} is not an adapter: it has no adapter_config.json.",
            "It is a whole checkpoint (a full fine-tuning): name it as the model itself, nothing is merged."
            if whole
            else "Give the folder with adapter_config.json and adapter_model.safetensors.",
        )
    config = read_json(folder / "adapter_config.json")
    if config.get("peft_type") != "LORA":
        raise ChatError(
            f"The adapter in {str(folder)!r} is of kind {config.get('peft_type')!r}; only LORA is supported."
        )
    # These change the base's own weights when loaded, which other chats share.
    if config.get("bias", "none") != "none" or config.get("init_lora_weights", True) not in PLAIN_STARTS:
        raise ChatError(
            f"The adapter in {str(folder)!r} changes the base model's own weights.",
            "Save it as a plain LoRA (bias none), or merge it into a checkpoint of its own.",
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
    """16 hex digits over the names and contents of a folder's weights, configuration and tokenizer files."""
    return files_digest(sorted({path for pattern in WANTED_FILES for path in folder.glob(pattern)}))


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a checkpoint folder; raises ChatError naming the file."""
    value = bounded_reader.read_json(path, ChatError, limit=MAX_JSON)
    if not isinstance(value, dict):
        raise ChatError(f"{str(path)!r} is not a JSON object.")
    return value


def _family(folder: Path) -> object:
    if not (folder / "config.json").is_file():
        hint = ""
        if (folder / "adapter_config.json").is_file():
            hint = "It is an adapter: name the base model here, and this folder as its adapter."
        raise ChatError(f"{str(folder)!r} is not a checkpoint: it has no config.json.", hint)
    return read_json(folder / "config.json").get("model_type")


def _check_pixels(folder: Path) -> None:
    """Raise ChatError if small images would be blown up: the processor's least number of pixels is a
    stranger's word."""
    for name in ("preprocessor_config.json", "video_preprocessor_config.json", "processor_config.json"):
        if not (folder / name).exists():
            continue
        for key, value in numbers_of(read_json(folder / name)):
            most = {"shortest_edge": MAX_LEAST_PIXELS, "min_pixels": MAX_LEAST_PIXELS}.get(key, MAX_NUMBER)
            if value > most and key not in ("longest_edge", "max_pixels"):
                raise ChatError(f"{str(folder / name)!r} asks for a {key} of {str(value)[:20]}.")


def _check_weights(folder: Path) -> None:
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        shards = set(map(str, dict(read_json(index).get("weight_map") or {}).values()))
        for shard in sorted(shards):
            if Path(shard).name != shard or not (folder / shard).is_file():
                raise ChatError(
                    f"{str(folder)!r} lacks the weight file {shard!r} that its index names.",
                    "Is the download complete?",
                )
            check_safetensors(folder / shard)
        if shards:
            return
    if (folder / "model.safetensors").is_file():
        return check_safetensors(folder / "model.safetensors")
    check_weights(folder, ChatError)
    raise ChatError(f"{str(folder)!r} has no weights (model.safetensors).", "Is the download complete?")


def _from_hub(name: str, download: bool) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        folder = snapshot_download(
            name, allow_patterns=[*WANTED_FILES, "prompt_set/*.txt"], local_files_only=not download
        )
    except (OSError, ValueError, HfHubHTTPError, HFValidationError) as error:
        if download:
            raise ChatError(f"{name!r} could not be downloaded ({type(error).__name__}: {error}).") from error
        raise ChatError(
            f"There is no folder {name!r}, and no such model in the local cache.",
            "Give a folder, or set download.",
        ) from error
    return Path(folder)
