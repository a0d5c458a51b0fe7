"""Models that a workflow may name, and traits of a loaded model that the pack needs to know.

Agents, adapters, prompt sets and diffusers pipelines are those in the host's folders. Nothing is downloaded
unless the user names it. A choice is looked up among those found, never joined to a path, so a workflow from
a stranger cannot reach outside the folders. Precisions that cannot work on this machine are not offered; a
workflow that uses one gets an error with the required libraries.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ...backend.core.errors import SettingsError
from ...backend.core.files.bounded_reader import read_json
from ...backend.core.prompts.prompt_set import FOLDER_NAME, PromptSet
from ...backend.models.chat.llamacpp_chat import SUFFIX, is_model
from ...backend.models.checkpoints.checkpoint import looks_like_an_agent
from .validation import FROM_THE_AGENT, check_library

BUILT_IN = {"tiny world planner": "tinyworld:planner", "tiny world critic": "tinyworld:critic"}
NO_ADAPTER = "none"
ADAPTER = "adapter_config.json"
TEMPLATE = "critic.txt"
HUB_NAME = re.compile(
    r"(?:(?P<owner>[A-Za-z0-9][A-Za-z0-9-]{0,40})/)?(?P<name>[A-Za-z0-9][A-Za-z0-9.-]{0,90})"
)
OWNERS = {"Qwen3-VL-": "Qwen", "InterleaveThinker-": "InterleaveThinker", "Critic-SFT-": "InterleaveThinker"}
"""Owner on the Hugging Face Hub of agents whose names begin so."""
DEPTH = 2
MAX_CONFIG = 1024 * 1024
AUTO = "auto"
AS_MANY_AS_FIT = -1
"""Value of `gpu_layers`."""
PLAIN = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
QUANTIZED = {"8-bit": "8bit", "4-bit": "4bit"}
SHARE_LEFT = {"8bit": 0.65, "4bit": 0.45}
"""Peak memory while loading quantized weights, as a share of the 16-bit weights."""
INDEX = "model_index.json"
HUB_ID = re.compile(r"^[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*$")
LISTED = 20


def agent_names(roots: Sequence[Path]) -> list[str]:
    """Return the built-in agents, then the checkpoints and GGUF files, as paths relative to their root."""
    return [*BUILT_IN, *_found(roots, "config.json"), *_gguf_files(roots)]


def adapter_names(roots: Sequence[Path]) -> list[str]:
    """Return `none`, then the LoRA adapters found."""
    return [NO_ADAPTER, *_found(roots, ADAPTER)]


def named_agent(agent: str, hub_id: str, download: bool, roots: Sequence[Path]) -> str:
    """Return the name of the chosen agent: the hub id (also its folder's name) if given, else the listed one.

    Raises:
        SettingsError: The folder is missing, and it may not be downloaded.
    """
    requested = hub_id.strip()
    if not requested:
        agent_spec(agent, roots)
        return agent
    from ...backend.models.checkpoints.hub import check_hub_id

    check_hub_id(requested)
    if not download and requested not in _found(roots, "config.json"):
        raise SettingsError(
            f"The agent {requested} is not in {places(roots)}.",
            "Switch on 'download' in Load Agent to download it from the Hugging Face Hub (several GB), "
            "or put its folder there.",
        )
    return requested


def places(roots: Sequence[Path]) -> str:
    """Return the agents' folders as text."""
    return " or ".join(repr(str(root)) for root in roots)


def checkpoint_bytes(name: str, roots: Sequence[Path]) -> int:
    """Return the size in bytes of an agent's weight files."""
    return sum(path.stat().st_size for path in _folder(name, roots, "config.json").glob("*.safetensors"))


def agent_spec(name: str, roots: Sequence[Path]) -> str:
    """Return the specification of an agent for `open_chat`.

    Raises:
        SettingsError: The agent was not found.
    """
    if name in BUILT_IN:
        return BUILT_IN[name]
    return f"{'llamacpp' if is_gguf(name) else 'transformers'}:{agent_file(name, roots)}"


def agent_file(name: str, roots: Sequence[Path]) -> Path:
    """Return the folder of a checkpoint, or the GGUF file. The name is not that of a built-in agent.

    Raises:
        SettingsError: The agent was not found.
    """
    return _gguf_file(name, roots) if is_gguf(name) else _folder(name, roots, "config.json")


def is_gguf(name: str) -> bool:
    """Return whether the name is that of a GGUF file."""
    return name.lower().endswith(SUFFIX)


def adapter_folder(name: str, roots: Sequence[Path]) -> str | None:
    """Return the folder of an adapter, `None` for `none`.

    Raises:
        SettingsError: The adapter was not found.
    """
    return None if name == NO_ADAPTER else str(_folder(name, roots, ADAPTER))


def prompt_set_names(roots: Sequence[Path]) -> list[str]:
    """Return `from the agent`, then the folders that contain a prompt set or a checkpoint with one."""
    return [
        FROM_THE_AGENT,
        *sorted({**_found(roots, f"{FOLDER_NAME}/{TEMPLATE}"), **_found(roots, TEMPLATE)}),
    ]


def prompt_set_named(name: str, roots: Sequence[Path]) -> PromptSet | None:
    """Return the prompt set of a choice, `None` for `from the agent`.

    Raises:
        SettingsError: The prompt set was not found or is not valid.
    """
    if name == FROM_THE_AGENT:
        return None
    own, inside = _found(roots, TEMPLATE), _found(roots, f"{FOLDER_NAME}/{TEMPLATE}")
    folder = own.get(name) or (inside[name] / FOLDER_NAME if name in inside else None)
    if folder is None:
        raise SettingsError(
            f"The prompt set {name[:200]!r} was not found.",
            f"Put its folder (of .txt files, as `prompts import` writes it) into {places(roots)} and press "
            "R.",
        )
    return PromptSet.load(folder)


def weights_stamp(name: str, roots: Sequence[Path], marker: str = "config.json") -> str:
    """Return a string that changes with the files of an agent or adapter, "" for built-in or missing ones."""
    file = _gguf_files(roots).get(name) if is_gguf(name) else None
    return files_stamp(file.parent if file is not None else _found(roots, marker).get(name))


def prompts_stamp(name: str, roots: Sequence[Path]) -> str:
    """Return a string that changes with the files of a chosen prompt set, "" without a choice."""
    inside = f"{FOLDER_NAME}/{TEMPLATE}"
    return files_stamp(_found(roots, TEMPLATE).get(name) or _found(roots, inside).get(name))


def files_stamp(folder: Path | None) -> str:
    """Return a string that changes with the files of a folder and of the prompt set in it."""
    if folder is None:
        return ""
    files = sorted(path for path in (*folder.iterdir(), *folder.glob(f"{FOLDER_NAME}/*")) if path.is_file())
    return " ".join(f"{path.name}:{path.stat().st_size}:{path.stat().st_mtime_ns}" for path in files)


def _gguf_file(name: str, roots: Sequence[Path]) -> Path:
    found = _gguf_files(roots)
    if name not in found:
        raise SettingsError(
            f"The agent {name[:200]!r} was not found.",
            f"Put the file and its mmproj file into {places(roots)} and press R, or choose another agent: "
            f"{', '.join(agent_names(roots)[:9])}.",
        )
    return found[name]


def _gguf_files(roots: Sequence[Path]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for root in roots:
        if not root.is_dir():
            continue
        for folder in (root, *sorted(_folders(root, DEPTH))):
            for path in sorted(folder.iterdir()):
                if is_model(path) and path.is_file():
                    found.setdefault(path.relative_to(root).as_posix(), path)
    return found


def _folder(name: str, roots: Sequence[Path], marker: str) -> Path:
    folder = _found(roots, marker).get(name)
    if folder is None:
        kind, found = (
            ("adapter", _found(roots, marker)) if marker == ADAPTER else ("agent", agent_names(roots))
        )
        command = download_command(name, roots) if kind == "agent" else ""
        fetched = f"Download it: {command}. " if command else ""
        raise SettingsError(
            f"The {kind} {name[:200]!r} was not found.",
            f"{fetched}Put its folder into {places(roots)} and press R, or choose another {kind}: "
            f"{', '.join(list(found)[:9]) or 'none yet'}.",
        )
    return folder


def download_command(name: str, roots: Sequence[Path]) -> str:
    """Return the command that downloads an agent, "" if its name is not a hub name.

    The name may come from a stranger: only letters, digits, dots and dashes reach the command.
    """
    owned = HUB_NAME.fullmatch(name)
    by_name = next((OWNERS[start] for start in OWNERS if name.startswith(start)), "")
    if not owned or not roots or not (owner := owned["owner"] or by_name):
        return ""
    return f"hf download {owner}/{owned['name']} --local-dir {shlex.quote(str(roots[0] / name))}"


def _found(roots: Sequence[Path], marker: str) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for root in roots:
        for folder in sorted(_folders(root, DEPTH)):
            if (folder / marker).is_file() and (marker != "config.json" or _is_agent(folder / marker)):
                found.setdefault(folder.relative_to(root).as_posix(), folder)
    return found


def _folders(root: Path, depth: int) -> Iterator[Path]:
    if not root.is_dir():
        return
    for folder in root.iterdir():
        if folder.is_dir() and not folder.name.startswith("."):
            yield folder
            if depth > 1:
                yield from _folders(folder, depth - 1)


def _is_agent(config: Path) -> bool:
    try:
        found = read_json(config, SettingsError, limit=MAX_CONFIG)
    except SettingsError:
        return False
    return looks_like_an_agent(found)


def precisions() -> list[str]:
    """Return the precisions that this installation supports."""
    quantized = QUANTIZED if all(find_spec(name) for name in ("bitsandbytes", "accelerate")) else ()
    return [AUTO, *PLAIN, *quantized]


def check_precision(name: str, built_in: bool) -> None:
    """Check that an agent supports a precision here.

    Raises:
        SettingsError: The precision is unknown, needs missing libraries, or is not for this agent.
    """
    if name not in (AUTO, *PLAIN, *QUANTIZED):
        raise SettingsError(f"Unknown precision {name[:40]!r}.", f"Choose one of: {', '.join(precisions())}.")
    if name in QUANTIZED:
        if built_in:
            raise SettingsError(f"The built-in agents do not support {name}.", "Set precision to auto.")
        check_library("bitsandbytes")
        check_library("accelerate")


def check_gguf(precision: str, adapter: str) -> None:
    """Check the options of a GGUF agent.

    Raises:
        SettingsError: A precision or an adapter is set.
    """
    if precision != AUTO:
        raise SettingsError(
            f"A .gguf file has its own precision; {precision[:40]!r} cannot be used.",
            "Set precision to auto.",
        )
    if adapter != NO_ADAPTER:
        raise SettingsError(
            "A .gguf agent cannot use an adapter.",
            "Set adapter to none, or merge it into its base model (interleave-thinker train merge --to "
            "gguf).",
        )


def options_of(name: str) -> dict[str, str | None]:
    """Return the precision as options of `open_chat`; `None` leaves an option to the checkpoint."""
    return {"dtype": PLAIN.get(name), "quantization": QUANTIZED.get(name)}


def check_agent(name: str, precision: str, adapter: str, roots: list[Path]) -> None:
    """Check that this agent supports a precision and an adapter.

    Raises:
        SettingsError: It does not.
    """
    if is_gguf(name):
        check_gguf(precision, adapter)
        return
    check_precision(precision, name in BUILT_IN)
    adapter_folder(adapter, roots)


def gguf_options(context: Any, gpu_layers: Any) -> dict[str, int | None]:
    """Return the two inputs of .gguf agents as options of `open_chat`.

    Raises:
        SettingsError: A value is not an integer.
    """
    for name, value in (("context", context), ("gpu_layers", gpu_layers)):
        if isinstance(value, bool) or not isinstance(value, int):
            raise SettingsError(
                f"Load Agent, input {name!r}: {value!r:.60} is not an integer.",
                "Check what is connected to it.",
            )
    return {"context": context, "gpu_layers": None if gpu_layers < 0 else gpu_layers}


def pipeline_folders(roots: Sequence[Path]) -> dict[str, Path]:
    """Return the pipelines below the roots, one or two folders deep, by their path relative to the root."""
    found: dict[str, Path] = {}
    for root in roots:
        for index in sorted([*root.glob(f"*/{INDEX}"), *root.glob(f"*/*/{INDEX}")]):
            found.setdefault(index.parent.relative_to(root).as_posix(), index.parent)
    return found


def pipeline_spec(name: str, roots: Sequence[Path]) -> str:
    """Return the specification of a pipeline for `open_generator`.

    Raises:
        SettingsError: It was not found. The message lists those found.
    """
    found = pipeline_folders(roots)
    name = name.strip()
    if name in found:
        return f"diffusers:{found[name]}"
    # A relative path that happens to look like a hub id would be read as a folder.
    if HUB_ID.match(name) and not Path(name).exists():
        return f"diffusers:{name}"
    places = " or ".join(repr(str(root)) for root in roots)
    listed = ", ".join(list(found)[:LISTED]) or "none yet"
    raise SettingsError(
        f"The diffusers pipeline {name[:200]!r} was not found in {places} (found: {listed}), and it is not a "
        "Hugging Face id such as OWNER/NAME.",
        f"Put the pipeline's folder, with its {INDEX}, there.",
    )


@dataclass(frozen=True)
class ModelTraits:
    """Properties of a loaded model of the host that are known without running it."""

    name: str
    """Name of the model's class in the host."""
    latent_channels: int = 4
    latent_dimensions: int = 2
    pixels_per_latent: int = 8
    text_width: int | None = None
    """Length of the text vectors that the model reads, `None` if its configuration does not state it."""
    distilled_guidance: bool = False
    """Whether it has a guidance input in addition to cfg."""
    image_features: bool = False
    """Whether it reads image features (Z-Image Omni)."""
    timestep_zero: bool = False
    """Whether its file states the reference method (Qwen-Image-Edit-2511)."""
    layered: bool = False
    """Whether it generates several layers (Qwen-Image-Layered)."""

    @property
    def is_flux2(self) -> bool:
        """Whether it is a FLUX.2 model."""
        return self.name == "Flux2"
