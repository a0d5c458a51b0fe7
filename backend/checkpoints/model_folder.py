"""A model's folder as foreign data: what may lie in it before a library opens it.

Decision: libraries look for classes, shards and sizes where a folder tells them to. So code is refused by its
name wherever it lies in the folder, whichever library would find it; pickles are refused where weights are
wanted; and a configuration may not describe more than the weight files hold, because libraries build the
whole model before they read a weight.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import ChatError, InterleaveError, SettingsError
from ..files.bounded_reader import check_values, read_json, read_text
from .patterns import check_patterns
from .weights import tensors_of

CODE = (".py", ".pyw", ".pyc", ".pyo", ".pyd", ".so", ".dylib", ".dll")
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")
MAX_ENTRIES = 20_000
DEEPEST = 8
MAX_CONFIG = 4 * 1024 * 1024
TEXTS = (".json", ".txt", ".jinja", ".model")
LARGE_JSON = ("tokenizer.", "vocab", "added_tokens")
MAX_TEXT = 64 * 1024 * 1024
MAX_INDEX = 64 * 1024 * 1024
MAX_VALUES = 100_000

PATTERNS = ("quantization_config", "compression_config")
"""Parts of a configuration whose texts the library matches with the names of modules."""
NOT_SIZES = re.compile(r"token|theta|seed|params|position|timesteps|^_|version|^total")
LAYERS = re.compile(r"(?<!per_)layer|depth|blocks$")
TABLES = re.compile(r"vocab|num_embeddings|num_experts")
WIDTHS = re.compile(r"(^|_)(dim|dims|size|width|channels|rank|d_model|d_ff|d_kv|model|heads|features)$")
MAX_NUMBER = 2**24
"""No other number of a configuration is larger."""
FEW_LAYERS = 256
SPARE_WEIGHTS = 2**26
"""Weights that a configuration may describe beyond what the files hold: 256 MB of them."""
WEIGHTS_A_BYTE = 4
"""Weights that a configuration may seem to describe for each byte of the files, by its widest width in every
layer."""


def check_files(folder: Path, kind: type[InterleaveError]) -> None:
    """Raise `kind` if anything in or below the folder could be imported, would keep a library reading for
    ever (pipes, devices, texts of gigabytes), or if there is no end of entries."""
    for number, path in enumerate(_entries(folder, kind)):
        if number >= MAX_ENTRIES:
            raise kind(f"{str(folder)!r} holds more than {MAX_ENTRIES} files.", "It is no model's folder.")
        if path.name.lower().endswith(CODE):
            raise kind(
                f"{str(folder)!r} brings code of its own ({path.relative_to(folder).as_posix()!r}).",
                "Models that do are not loaded. If you know the model, give a copy without that file.",
            )
        _check_file(path, kind)


def _check_file(path: Path, kind: type[InterleaveError]) -> None:
    try:
        state = path.stat()
    except OSError as error:
        raise kind(f"{str(path)!r} cannot be read ({error.strerror or error}).") from error
    if stat.S_ISDIR(state.st_mode):
        return
    if not stat.S_ISREG(state.st_mode):
        raise kind(f"{str(path)!r} is not a regular file.", "It belongs to no model.")
    large = path.suffix != ".json" or path.name.startswith(LARGE_JSON) or path.name.endswith(".index.json")
    if path.suffix in TEXTS and state.st_size > (MAX_TEXT if large else MAX_CONFIG):
        raise kind(f"{str(path)!r} is larger than such a file of a model ever is.", "Get the folder again.")
    if path.name == "tokenizer.json":
        check_values(read_text(path, MAX_TEXT, kind), kind, repr(str(path)))


def check_weights(folder: Path, kind: type[InterleaveError]) -> None:
    """Raise `kind` if a folder of weights has pickles in place of safetensors, if an index names other files
    than those beside it, or if config.json describes more than the files hold. A folder without weights (a
    tokenizer) passes."""
    names = [path.name for path in _listed(folder, kind)]
    weights = [name for name in names if name.endswith(".safetensors")]
    pickles = sorted(name for name in names if name.lower().endswith(PICKLES))
    if pickles and not weights:
        raise kind(
            f"The weights in {str(folder)!r} ({pickles[0]}) are pickles, which can run code when loaded.",
            "Only safetensors are read: convert them, or get the model in safetensors.",
        )
    for name in names:
        if name.endswith(".safetensors.index.json"):
            _check_index(folder, name, weights, kind)
    if (folder / "config.json").exists():
        config = read_json(folder / "config.json", kind, "Configuration", MAX_CONFIG, MAX_VALUES)
        if not isinstance(config, dict):
            raise kind(f"{str(folder / 'config.json')!r} is not a JSON object.")
        _check_config(config, folder, weights, kind)


def _check_index(folder: Path, name: str, weights: list[str], kind: type[InterleaveError]) -> None:
    index = read_json(folder / name, kind, "Weight index", MAX_INDEX)
    named = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(named, dict):
        raise kind(f"{str(folder / name)!r} is no index of weights.", "Download it again.")
    absent = sorted({str(file) for file in named.values() if file not in weights})
    if absent:
        raise kind(
            f"{str(folder)!r} lacks the weight file {absent[0][:200]!r} that its index names.",
            "Is the download complete?",
        )


def _check_config(
    config: dict[str, Any], folder: Path, weights: list[str], kind: type[InterleaveError]
) -> None:
    for part in (config, *(value for value in config.values() if isinstance(value, dict))):
        for name in PATTERNS:
            check_patterns(part.get(name), kind, f"{str(folder / 'config.json')!r} ({name})")
    total, tensors = 0, 0
    try:
        total = sum((folder / name).stat().st_size for name in weights)
        tensors = len(tensors_of(folder)) if weights else 0
    except OSError as error:
        raise kind(f"{str(folder)!r} cannot be read ({error.strerror or error}).") from error
    except (SettingsError, ChatError) as error:
        raise kind(error.message, error.hint) from error
    most = SPARE_WEIGHTS + WEIGHTS_A_BYTE * total
    width, layers = 0, 1
    for name, value in numbers_of(config):
        wrong = None
        if LAYERS.search(name):
            layers = max(layers, value)
            wrong = value > max(FEW_LAYERS, tensors)
        elif TABLES.search(name):
            wrong = value > most
        elif WIDTHS.search(name):
            width = max(width, value)
            wrong = value * value > most
        elif not NOT_SIZES.search(name):
            wrong = value > MAX_NUMBER
        if wrong:
            raise _too_large(folder, f"{name} {str(value)[:20]}", kind)
    if width * width * layers > most:
        raise _too_large(folder, f"{layers} layers of up to {width}", kind)


def _too_large(folder: Path, what: str, kind: type[InterleaveError]) -> InterleaveError:
    return kind(
        f"{str(folder / 'config.json')!r} describes a model that the weights beside it cannot be ({what}).",
        "Is the download complete? Get the folder again.",
    )


def numbers_of(value: Any, name: str = "") -> Iterator[tuple[str, int]]:
    """Every whole number in a configuration with the last key above it, heads times their size as
    `heads_size`."""
    if isinstance(value, bool):
        return
    if isinstance(value, int):
        yield name, abs(value)
    elif isinstance(value, float) and value.is_integer():
        yield name, abs(int(value))
    elif isinstance(value, list):
        for one in value:
            yield from numbers_of(one, name)
    elif isinstance(value, dict):
        heads, size = value.get("num_attention_heads"), value.get("attention_head_dim", value.get("head_dim"))
        if isinstance(heads, int) and isinstance(size, int):
            yield "heads_size", abs(heads * size)
        for key, one in value.items():
            yield from numbers_of(one, str(key)[:100])


def _entries(folder: Path, kind: type[InterleaveError], depth: int = 0) -> Iterator[Path]:
    for path in _listed(folder, kind):
        yield path
        # Hidden folders are the downloader's and git's, which no library looks into; links are followed as
        # libraries do.
        if path.is_dir() and not path.name.startswith("."):
            if depth == DEEPEST:
                raise kind(f"{str(folder)!r} is nested too deep.", "It is no model's folder.")
            yield from _entries(path, kind, depth + 1)


def _listed(folder: Path, kind: type[InterleaveError]) -> list[Path]:
    found: list[Path] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                found.append(folder / entry.name)
                if len(found) > MAX_ENTRIES:
                    break
    except OSError as error:
        raise kind(f"{str(folder)!r} cannot be read ({error.strerror or error}).") from error
    return sorted(found)
