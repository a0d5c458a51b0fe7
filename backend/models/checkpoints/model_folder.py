"""Checks a model folder as untrusted data before a library opens it.

Libraries follow the class names, shard names and sizes in a folder. Files with code are therefore rejected by
name, anywhere in the folder. Pickles are rejected where weights are expected. A configuration must not
describe more than the weight files contain, because libraries build the complete model before they read a
weight. The headers of weight files are parsed by the library that loads them (`safetensors.safe_open`), so
the counts match what will be loaded. A pattern that a library will match with module names is accepted only
if the number of ways to match it is small: Python's `re` tries every way, so a short one can run for years.
"""

from __future__ import annotations

import math
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

from ...core.errors import ChatError, InterleaveError, SettingsError
from ...core.files.bounded_reader import check_values, opened, read_json, read_text

MAX_LENGTH = 20_000
MAX_REPEATS = 3
"""Maximum unbounded repeats of non-digits in one alternative. A name has about 100 characters."""
MAX_GROUPS = 12
WAYS_PER_REPEAT = 50
"""Average number of ways to match one unbounded repeat in a name."""
MAX_WAYS = 1_000_000
"""Maximum number of ways to match one pattern. For all patterns of a file, see `MAX_WAYS_IN_ALL`."""
MAX_WAYS_IN_ALL = 10_000_000
OPTIONAL = re.compile(r"(?<![(*+?}\\])\?")
"""A quantifier `?` that neither starts a special group nor makes a repeat lazy."""
VERBOSE = re.compile(r"\(\?[a-zA-Z]*x")
"""A group in which spaces are ignored, so that they could hide a repeat."""
REPEATED_GROUP = re.compile(r"\)(?:[*+]|\{)")
REPEAT = re.compile(r"(?<!\\d)(?<!\\)(?:[*+]|\{\d*,\d*\})")
DIGITS = re.compile(r"(?:\\d[*+]){2}")
MAX_HEADER = 16 * 1024 * 1024
"""Maximum size of a header in bytes. A tensor takes about a hundred."""
PICKLE_STARTS = (b"PK", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
Tensors = dict[str, int]
"""Number of weights by tensor name."""
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
"""Fields of a configuration whose texts the library matches with module names."""
NOT_SIZES = re.compile(r"token|theta|seed|params|position|timesteps|^_|version|^total")
LAYERS = re.compile(r"(?<!per_)layer|depth|blocks$")
TABLES = re.compile(r"vocab|num_embeddings|num_experts")
WIDTHS = re.compile(r"(^|_)(dim|dims|size|width|channels|rank|d_model|d_ff|d_kv|model|heads|features)$")
MAX_NUMBER = 2**24
"""Maximum of all other numbers in a configuration."""
FEW_LAYERS = 256
SPARE_WEIGHTS = 2**26
"""Weights that a configuration may describe in addition to those in the files: 256 MB in float32."""
WEIGHTS_A_BYTE = 4
"""Maximum weights per byte of the files, estimated from the largest width in every layer."""


def check_pattern(pattern: str, kind: type[InterleaveError], where: str) -> int:
    """Check that a pattern cannot take very long to match.

    Args:
        pattern: Regular expression.
        kind: Class of the error.
        where: File and field of the pattern, for the error message.

    Returns:
        Number of ways to match the pattern, at most `MAX_WAYS`.

    Raises:
        InterleaveError: Of class `kind`, if the pattern is too complex.
    """
    # Alternatives inside groups cannot be split at "|", so the whole pattern counts.
    parts = [pattern] if "(" in pattern else pattern.split("|")
    many = any(len(REPEAT.findall(part)) > MAX_REPEATS for part in parts)
    ways = sum(_ways(part) for part in parts)
    if (
        len(pattern) > MAX_LENGTH
        or many
        or ways > MAX_WAYS
        or pattern.count("(") > MAX_GROUPS
        or REPEATED_GROUP.search(pattern)
        or DIGITS.search(pattern)
        or VERBOSE.search(pattern)
    ):
        raise kind(
            f"{where} has the pattern {pattern[:100]!r}, which could take forever to match.",
            "Use plain module names, or get the file from its author again.",
        )
    return ways


def check_patterns(value: Any, kind: type[InterleaveError], where: str) -> None:
    """Check every string of a JSON value, including keys, as `check_pattern` does, and all of them together.

    Raises:
        InterleaveError: Of class `kind`, if one of them or all together are too complex.
    """
    if sum(check_pattern(text, kind, where) for text in _texts(value)) > MAX_WAYS_IN_ALL:
        raise kind(
            f"{where} has too many patterns: together they could take forever to match.",
            "Use plain module names, or get the file from its author again.",
        )


def _ways(pattern: str) -> int:
    """Return an upper bound of the ways to match a pattern.

    It is the product over its groups, repeats and optional parts.
    """
    ways, open_groups = 1, [1]
    for character in pattern:
        if character == "(":
            open_groups.append(1)
        elif character == "|":
            open_groups[-1] += 1
        elif character == ")" and len(open_groups) > 1:
            ways *= open_groups.pop()
    # More optional parts than this are rejected in any case.
    optional = min(len(OPTIONAL.findall(pattern)), 64)
    repeats = min(len(REPEAT.findall(pattern)), MAX_REPEATS + 1)
    return ways * math.prod(open_groups) * 2**optional * WAYS_PER_REPEAT**repeats


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)
    elif isinstance(value, dict):
        for key, one in value.items():
            yield str(key)
            yield from _texts(one)


def tensors_of(path: Path) -> Tensors:
    """Return the tensors of a file, or of all safetensors files in a folder.

    Raises:
        SettingsError: The folder has no such file, or a file is damaged.
    """
    files = sorted(path.glob("*.safetensors")) if path.is_dir() else [path]
    if not files:
        raise SettingsError(
            f"{str(path)!r} does not contain safetensors files.",
            "The download may be incomplete: download it again.",
        )
    # A folder may contain the same weights in several precisions. Files with plain names are the ones loaded.
    plain = [file for file in files if "." not in file.name.removesuffix(".safetensors")] or files
    found: Tensors = {}
    try:
        for file in plain:
            with _weights(file) as weights:
                found |= {name: prod(weights.get_slice(name).get_shape()) for name in weights.keys()}  # noqa: SIM118
    except ChatError as error:
        raise SettingsError(error.message, error.hint) from error
    return found


def check_safetensors(path: Path) -> None:
    """Check that a file is valid safetensors and as long as its header says.

    Raises:
        ChatError: It is not.
    """
    with _weights(path):
        pass


@contextmanager
def _weights(path: Path) -> Iterator[Any]:
    from safetensors import SafetensorError, safe_open

    # This also rejects anything but a regular file, on which the library would block.
    with opened(path, ChatError, "Weight file") as file:
        start, size = file.read(64), os.fstat(file.fileno()).st_size
    length = int.from_bytes(start[:8], "little")
    if start[8:9] != b"{" or not 2 <= length <= min(MAX_HEADER, size - 8):
        raise _no_safetensors(path, start)
    try:
        with safe_open(path, framework="np") as weights:
            yield weights
    except (SafetensorError, OSError) as error:
        raise ChatError(
            f"Cannot read the header of {str(path)!r} ({error}): the file is damaged or incomplete.",
            "Download the file again.",
        ) from error


def _no_safetensors(path: Path, start: bytes) -> ChatError:
    if start.startswith(b"version https://git-lfs"):
        return ChatError(
            f"{str(path)!r} is only a git-lfs pointer to the weights.",
            "Run `git lfs pull` in that folder, or download the file.",
        )
    kind = "damaged or incomplete"
    if start[:2] in PICKLE_STARTS:
        kind = "a pickle, which can run code when loaded"
    elif start and all(32 <= byte < 127 or byte in b"\t\r\n" for byte in start):
        kind = "a text file"
    return ChatError(f"{str(path)!r} is not a safetensors file: it is {kind}.", "Download the file again.")


def check_files(folder: Path, kind: type[InterleaveError]) -> None:
    """Check all files in and below a folder.

    Raises:
        InterleaveError: Of class `kind`: a file could be imported as code, would block a library (pipes,
            devices, gigabytes of text), or the folder has too many entries.
    """
    for number, path in enumerate(_entries(folder, kind)):
        if number >= MAX_ENTRIES:
            raise kind(f"{str(folder)!r} contains more than {MAX_ENTRIES} files.", "Give a model folder.")
        if path.name.lower().endswith(CODE):
            raise kind(
                f"{str(folder)!r} contains code ({path.relative_to(folder).as_posix()!r}).",
                "Models with code are not loaded. If you trust the model, give a copy without that file.",
            )
        _check_file(path, kind)


def _check_file(path: Path, kind: type[InterleaveError]) -> None:
    try:
        state = path.stat()
    except OSError as error:
        raise kind(f"Cannot read {str(path)!r} ({error.strerror or error}).") from error
    if stat.S_ISDIR(state.st_mode):
        return
    if not stat.S_ISREG(state.st_mode):
        raise kind(f"{str(path)!r} is not a regular file.", "Remove it from the model folder.")
    large = path.suffix != ".json" or path.name.startswith(LARGE_JSON) or path.name.endswith(".index.json")
    if path.suffix in TEXTS and state.st_size > (MAX_TEXT if large else MAX_CONFIG):
        raise kind(f"{str(path)!r} is too large for a model file of this kind.", "Download the folder again.")
    if path.name == "tokenizer.json":
        check_values(read_text(path, MAX_TEXT, kind), kind, repr(str(path)))


def check_weights(folder: Path, kind: type[InterleaveError]) -> None:
    """Check the weight files and the configuration of a folder.

    A folder without weights (a tokenizer) passes.

    Raises:
        InterleaveError: Of class `kind`: the folder contains pickles instead of safetensors, an index lists
            files that are missing, or config.json describes more than the files contain.
    """
    names = [path.name for path in _listed(folder, kind)]
    weights = [name for name in names if name.endswith(".safetensors")]
    pickles = sorted(name for name in names if name.lower().endswith(PICKLES))
    if pickles and not weights:
        raise kind(
            f"The weights in {str(folder)!r} ({pickles[0]}) are pickles, which can run code when loaded.",
            "Only safetensors are supported: convert the weights, or download the model in safetensors.",
        )
    for name in names:
        if name.endswith(".safetensors.index.json"):
            _check_index(folder, name, weights, kind)
    if (folder / "config.json").exists():
        config = read_json(folder / "config.json", kind, "Configuration", MAX_CONFIG, MAX_VALUES)
        if not isinstance(config, dict):
            raise kind(f"{str(folder / 'config.json')!r} does not contain a JSON object.")
        _check_config(config, folder, weights, kind)


def _check_index(folder: Path, name: str, weights: list[str], kind: type[InterleaveError]) -> None:
    index = read_json(folder / name, kind, "Weight index", MAX_INDEX)
    named = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(named, dict):
        raise kind(f"{str(folder / name)!r} is not a valid weight index.", "Download it again.")
    absent = sorted({str(file) for file in named.values() if file not in weights})
    if absent:
        raise kind(
            f"{str(folder)!r} lacks the weight file {absent[0][:200]!r} that its index lists.",
            "The download may be incomplete: download it again.",
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
        raise kind(f"Cannot read {str(folder)!r} ({error.strerror or error}).") from error
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
        f"{str(folder / 'config.json')!r} describes a larger model than its weight files contain ({what}).",
        "The download may be incomplete: download the folder again.",
    )


def numbers_of(value: Any, name: str = "") -> Iterator[tuple[str, int]]:
    """Yield every integer of a configuration with its key.

    Heads times head size is yielded as `heads_size`.
    """
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
        # Hidden folders belong to the downloader or git, and libraries ignore them. Links are followed, as
        # libraries do.
        if path.is_dir() and not path.name.startswith("."):
            if depth == DEEPEST:
                raise kind(
                    f"{str(folder)!r} is nested more than {DEEPEST} folders deep.", "Give a model folder."
                )
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
        raise kind(f"Cannot read {str(folder)!r} ({error.strerror or error}).") from error
    return sorted(found)
