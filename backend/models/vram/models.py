"""The model in a memory estimate: a known name or a folder.

Known names need nothing on the disk. Models on the disk are counted from their headers and configuration. If
these are insufficient, the error lists the known models, and nothing is guessed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ...core.errors import ChatError, SettingsError, boundary
from ...core.machine.registry import split_spec
from ..chat.llamacpp_chat import find_gguf
from ..checkpoints.checkpoint import find_checkpoint, path_of, read_json
from ..checkpoints.model_folder import tensors_of
from .shapes import (
    HUB_IDS,
    KNOWN,
    SHAPES,
    UNET_WIDTHS,
    UNET_WIDTHS_ATTENDING,
    WIDTHS,
    AgentShape,
    Denoiser,
    ImageShape,
    TextEncoders,
    Vae,
    agent_shape,
)

AGENTS = {name.split("/")[1].removesuffix("-Instruct").lower(): name for name in SHAPES}
"""Short names of the known agents, such as qwen3-vl-8b."""
ELSEWHERE = ("openai", "scripted", "http", "images", "gemini", "fake", "none")
"""Kinds of agents and generators that use no VRAM of the planned GPU."""
GGUF_BITS = {2: 3.0, 3: 3.9, 4: 4.9, 5: 5.7, 6: 6.6, 8: 8.5}
"""Mean bits of a weight in GGUF files of Qx_K_M, Qx_0 and their like, within about 10 %."""
QUANTIZED = re.compile(r"(?:[-._]|^)(?:i?q([234568])|b?f16)(?![0-9])", re.IGNORECASE)
MAX_NUMBER = 10**15
"""Maximum of all numbers in a shape: a thousand times the weights of the largest models."""


Shipped = Callable[[str], Path]
"""Returns the folder of a checkpoint in the package (`planner`, `critic`, `generator`).

tinyworld passes it in, since memory estimates do not depend on the demonstration.
"""


@dataclass(frozen=True)
class NamedAgent:
    """An agent as the user named it. Equal names are one model in memory.

    Attributes:
        name: Name of the model.
        shape: Its shape.
        gguf: Bytes of its GGUF file and projector; 0 for a checkpoint.
    """

    name: str
    shape: AgentShape
    gguf: float = 0.0


def named_agent(spec: str, shipped: Shipped | None = None) -> NamedAgent | None:
    """Return the agent of a known name, a folder, a cached hub id, or a spec such as transformers:FOLDER.

    Returns:
        The agent, or None if it does not run on this GPU (openai:MODEL@URL).

    Raises:
        SettingsError: The agent is unknown or cannot be read.
    """
    kind, argument = split_spec(spec)
    if kind in ELSEWHERE:
        return None
    if kind == "tinyworld" and shipped is not None:
        return NamedAgent(spec, folder_shape(shipped(argument or "planner")))
    if kind == "llamacpp":
        return _gguf_agent(argument)
    name = argument if kind == "transformers" else spec
    known = AGENTS.get(name.lower(), name)
    if known in SHAPES:
        return NamedAgent(known, agent_shape(SHAPES[known]))
    try:
        folder = find_checkpoint(name)
    except ChatError as error:
        hint = f"{error.hint} Known: {', '.join(AGENTS)}.".strip()
        raise SettingsError(error.message, hint) from error
    return NamedAgent(str(folder), folder_shape(folder))


def _gguf_agent(argument: str) -> NamedAgent:
    """Return the agent of a GGUF file, whose name contains its size, such as 8B."""
    sizes = {name.rpartition("-")[2]: shape for name, shape in AGENTS.items()}
    found = re.search(r"(?<![\w.])(\d+b)(?![\w])", Path(argument).name.lower().replace("_", "-"))
    if found is None or found[1] not in sizes:
        raise SettingsError(
            f"The name of {argument!r} does not contain a known size: {', '.join(sizes).upper()}.",
            "Give a name such as llamacpp:Qwen3-VL-8B-Instruct-Q4_K_M.gguf; the file need not exist.",
        )
    shape = agent_shape(SHAPES[sizes[found[1]]])
    if Path(argument).is_file():
        return NamedAgent(argument, shape, gguf=find_gguf(argument).size)
    size = (shape.layer_weights + shape.table_weights) * gguf_bytes(argument) + shape.vision_weights * 2.0
    return NamedAgent(f"{argument} (size by its name)", shape, gguf=size)


def gguf_bytes(name: str) -> float:
    """Return the mean bytes of a weight in a GGUF file by the quantization in its name.

    Raises:
        SettingsError: The name does not contain one.
    """
    found = QUANTIZED.search(Path(name).name)
    if found is None:
        raise SettingsError(
            f"{name!r} neither exists nor names its quantization.", "Give a name such as FILE-Q4_K_M.gguf."
        )
    return (16.0 if found[1] is None else GGUF_BITS[int(found[1])]) / 8


def folder_shape(folder: Path) -> AgentShape:
    """Return the shape of a checkpoint folder: widths from its config.json, weights from its files.

    Raises:
        SettingsError: The folder cannot be read.
    """
    with _planning(folder):
        try:
            shape = agent_shape(_dense(read_json(folder / "config.json")))
        except KeyError as error:
            raise SettingsError(
                f"{str(folder / 'config.json')!r} lacks {error.args[0]!r}, so its memory cannot be estimated."
            ) from error
        if 0 in (shape.layers, shape.patch, shape.merge):
            raise ValueError("0 layers, or patches of 0 pixels")
        _check_numbers(asdict(shape))
    tensors = tensors_of(folder)
    vision = sum(count for name, count in tensors.items() if "visual." in name)
    table = sum(count for name, count in tensors.items() if "embed_tokens" in name or "lm_head" in name)
    layers = sum(tensors.values()) - vision - table
    return replace(shape, layer_weights=layers, table_weights=table, vision_weights=vision)


def _dense(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields, with the effective width of a mixture of experts if it is one."""
    text = dict(fields["text_config"])
    if "moe_intermediate_size" in text:
        text["intermediate_size"] = text["moe_intermediate_size"] * text["num_experts_per_tok"]
    return {**fields, "text_config": text}


def named_image_model(spec: str, shipped: Shipped | None = None) -> ImageShape | None:
    """Return the image model of a known name, a diffusers folder or hub id, or a spec.

    Returns:
        The image model, or None if it does not run on this GPU (http:URL).

    Raises:
        SettingsError: The model is unknown or cannot be read.
    """
    kind, argument = split_spec(spec)
    if kind in ELSEWHERE:
        return None
    if kind == "tinyworld" and shipped is not None:
        return pipeline_shape(Path(argument) if argument else shipped("generator"))
    name = argument if kind == "diffusers" else spec
    known = HUB_IDS.get(name, name.lower())
    if known in KNOWN:
        return KNOWN[known]
    if name.lower().endswith(".gguf"):
        return _gguf_image_model(name)
    with _planning(name):
        path = path_of(name)
    if path.is_dir():
        return pipeline_shape(path)
    raise SettingsError(
        f"Unknown image model {name!r}: it is neither a folder nor a known name.",
        f"Known: {', '.join(KNOWN)}, tinyworld.",
    )


def _gguf_image_model(name: str) -> ImageShape:
    """Return a known image model whose denoiser is a GGUF file, which need not exist."""
    plain = re.sub(r"\W", "", Path(name).name.lower())
    found = [shape for one, shape in KNOWN.items() if plain.startswith(one.replace("-", ""))]
    if not found:
        raise SettingsError(
            f"The name of {name!r} does not begin with a known model.", f"Known: {', '.join(KNOWN)}."
        )
    path = Path(name)
    size = path.stat().st_size if path.is_file() else found[-1].denoiser.weights * gguf_bytes(name)
    return replace(found[-1], name=name, gguf=size)


def pipeline_shape(folder: Path) -> ImageShape:
    """Return the shape of a diffusers folder: weights from its files, widths from its configurations.

    Raises:
        SettingsError: The folder cannot be read.
    """
    with _planning(folder):
        shape = _pipeline_shape(folder)
        _check_numbers(asdict(shape))
    return shape


def _pipeline_shape(folder: Path) -> ImageShape:
    index = read_json(folder / "model_index.json")
    counts: dict[str, int] = {}
    for part, value in index.items():
        if (
            isinstance(value, list)
            and Path(part).name == part
            and (folder / part).is_dir()
            and any((folder / part).glob("*.safetensors"))
        ):
            counts[part] = sum(tensors_of(folder / part).values())
    main = next((part for part in ("transformer", "unet") if part in counts), None)
    if main is None:
        raise SettingsError(
            f"{str(folder)!r} contains neither a transformer nor a UNet with safetensors weights.",
            "The download may be incomplete: download it again.",
        )
    encoders = {part: count for part, count in counts.items() if part.startswith("text_encoder")}
    vae = next((part for part in ("vae", "codec") if part in counts), None)
    encoder = max(encoders, key=lambda part: encoders[part], default=None)
    return ImageShape(
        str(folder),
        _denoiser(read_json(folder / main / "config.json"), counts[main], str(index.get("_class_name"))),
        _encoder(read_json(folder / encoder / "config.json"), sum(encoders.values()))
        if encoder
        else TextEncoders(0, 0, 0, 0, 0),
        _vae(read_json(folder / vae / "config.json"), counts[vae]) if vae else Vae(0, width=0),
    )


def _denoiser(config: dict[str, Any], weights: int, pipeline: str) -> Denoiser:
    from ..generators.pipelines.kinds import KINDS

    kind = KINDS.get(pipeline)
    references = int(kind is not None and kind.edit == "reference")
    channels = config.get("block_out_channels")
    if channels:
        attends = "Attn" in str((config.get("down_block_types") or ["CrossAttn"])[0])
        widths = UNET_WIDTHS_ATTENDING if attends else UNET_WIDTHS
        return Denoiser(weights, int(channels[0]), widths, 1, batch=2, references=references)
    heads, size = config.get("num_attention_heads"), config.get("attention_head_dim")
    if not isinstance(heads, int) or not isinstance(size, int):
        raise SettingsError(
            f"The configuration of a {config.get('_class_name')!r} does not contain its width.",
            f"Use the name of a known model of the same architecture: {', '.join(KNOWN)}.",
        )
    # A class that was not counted is assumed to need as much as the largest that was.
    widths = WIDTHS.get(str(config.get("_class_name")), max(WIDTHS.values()))
    batch = 1 if config.get("_class_name") in WIDTHS else 2
    return Denoiser(weights, heads * size, widths, batch=batch, references=references)


def _encoder(config: dict[str, Any], weights: int) -> TextEncoders:
    text = config.get("text_config") or config
    width = int(text.get("hidden_size") or text.get("d_model") or 0)
    inner = int(text.get("intermediate_size") or text.get("d_ff") or 4 * width)
    layers = int(text.get("num_hidden_layers") or text.get("num_layers") or 0)
    architecture = str((config.get("architectures") or [""])[0])
    # Pipelines load the encoder of a T5ForConditionalGeneration alone, without its output layer.
    language_model = (
        architecture.endswith(("ForCausalLM", "ForConditionalGeneration")) and "T5" not in architecture
    )
    vocabulary = int(text.get("vocab_size") or 0) if language_model else 0
    return TextEncoders(weights, width, inner, layers, vocabulary=vocabulary)


def _vae(config: dict[str, Any], weights: int) -> Vae:
    channels = config.get("block_out_channels")
    if channels:
        return Vae(weights, int(channels[0]))
    if "base_dim" in config:
        return replace(KNOWN["qwen-image-edit"].vae, weights=weights, width=int(config["base_dim"]))
    return Vae(weights, width=int(config.get("channels", 128)))


@contextmanager
def _planning(model: str | Path) -> Iterator[None]:
    """Convert every error from reading an untrusted configuration into a SettingsError."""
    try:
        with boundary(ChatError, f"Cannot estimate the memory of {str(model)!r}"):
            yield
    except ChatError as error:
        raise SettingsError(error.message, error.hint) from error


def _check_numbers(fields: Mapping[str, Any]) -> None:
    for name, value in fields.items():
        if isinstance(value, Mapping):
            _check_numbers(value)
        elif isinstance(value, str):
            continue
        elif not isinstance(value, (int, float)) or not 0 <= value <= MAX_NUMBER:
            raise ValueError(f"{name} has the invalid value {str(value)[:40]}")
