"""Loads the model to train, in the right dtype, and selects the parts that are trained.

Adapters (LoRA, QLoRA) are added to the linear layers of the language model, which are found in the model
itself (`ModelParts`); peft's "all-linear" would put a third of them into the vision tower. Vision tower and
projectors are trained or frozen together. The loaded model knows the folder it came from, since a trainer
that needs a reference model reads it from there. It is loaded after the trainer's arguments are built, which
start the process group: only then does a ZeRO-3 rank hold only its share of the weights. Under FSDP2 every
rank first reads all weights (tested with transformers 5.23 and two ranks).

No model family or layer name is hard-coded. The library reports the decoder (`get_decoder`) and the output
layer; modules with weights next to the decoder are the vision parts (vision tower, projector). Adapters go to
every linear layer of a part, with any name, so that fused or recurrent layers of a new family are included.
peft shortens their names in the adapter's file to endings, such as "q_proj", that no other layer has.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from ...backend.core.errors import ChatError, SettingsError
from ...backend.core.machine.libraries import TRAINERS, missing, require
from ...backend.core.prompts.prompt_set import PromptSet, prompt_set_of
from ...backend.core.prompts.trained_with import trained_with
from ...backend.core.types.values import DIRECT
from ...backend.models.chat.local.adapters import attach
from ...backend.models.chat.local.base_model import load_processor as agents_processor
from ...backend.models.checkpoints.checkpoint import (
    HUB_ID,
    check_adapter,
    check_checkpoint,
    checkpoint_digest,
    load_whole,
    path_of,
    read_json,
)


@dataclass(frozen=True)
class ModelParts:
    """Parts of a model; `model` is the library's own class, not wrapped by adapters."""

    model: Any

    @cached_property
    def language(self) -> str:
        """Name of the language model's module, such as "model.language_model"."""
        return self._name_of(self.model.get_decoder())

    @cached_property
    def head(self) -> str:
        """Name of the output layer, such as "lm_head"."""
        return self._name_of(self.model.get_output_embeddings())

    @cached_property
    def seeing(self) -> tuple[str, ...]:
        """Names of the vision parts: vision tower and projectors, which may be one module."""
        around, _, own = self.language.rpartition(".")
        parent = self.model.get_submodule(around)
        others = ((name, part) for name, part in parent.named_children() if name != own)
        beside = [name for name, part in others if next(part.parameters(), None) is not None]
        return tuple(f"{around}.{name}" if around else name for name in beside)

    def freeze_seeing(self) -> None:
        """Freeze the vision parts."""
        for name in self.seeing:
            self.model.get_submodule(name).requires_grad_(False)
        for weight in self._single.values():
            weight.requires_grad_(False)

    def adapter_targets(self, with_seeing: bool) -> list[str]:
        """Return the names of the linear layers of the language model (and the vision parts)."""
        parts = (self.language, *self.seeing) if with_seeing else (self.language,)
        return sorted(name for part in parts for name in self._linear(part))

    @cached_property
    def _single(self) -> dict[str, Any]:
        """Weights next to the language model that are not in a module, such as an end-of-row embedding."""
        around = self.language.rpartition(".")[0]
        parent = self.model.get_submodule(around)
        own = parent.named_parameters(recurse=False)
        return {f"{around}.{name}" if around else name: weight for name, weight in own}

    def _linear(self, part: str) -> Iterator[str]:
        from torch.nn import Linear

        for name, module in self.model.get_submodule(part).named_modules(prefix=part):
            # A gate with one output is skipped: its adapter would be larger than the layer.
            if isinstance(module, Linear) and module.out_features > 1:
                yield name

    def _name_of(self, module: Any) -> str:
        return next((name for name, one in self.model.named_modules() if one is module), "")


TRACKERS = ("wandb", "trackio", "mlflow", "tensorboard")
"""Trackers that `report_to` passes to the trainer."""


class ModelTraining(BaseModel):
    """Settings that all stages share: what is trained, on which device and in which dtype."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    learning_rate: float = Field(
        default=2e-5,
        gt=0,
        description="Peak learning rate, with cosine decay after the warmup.",
        json_schema_extra=DIRECT,
    )
    warmup_steps: float = Field(
        default=0.1, ge=0, description="Warmup steps. A value below 1 is a share of all steps."
    )
    weight_decay: float = Field(default=1e-6, ge=0, description="AdamW weight decay.")
    adam_beta2: float = Field(default=0.999, gt=0, lt=1, description="AdamW beta2.")
    optim: Literal["adamw_torch", "adamw_8bit"] = Field(
        default="adamw_torch", description="AdamW, or the 8-bit AdamW of bitsandbytes (needs a GPU)."
    )
    lora_r: int = Field(
        default=0,
        ge=0,
        le=1024,
        description="LoRA rank. 0 trains the full weights.",
        json_schema_extra=DIRECT,
    )
    lora_alpha: int = Field(default=32, ge=1, description="LoRA alpha. The adapter's scale is alpha / rank.")
    lora_dropout: float = Field(default=0.0, ge=0, lt=1, description="LoRA dropout.")
    adapter: str | None = Field(
        default=None,
        description="LoRA adapter to train further, such as OUT/final of an earlier stage. Its rank and "
        "alpha stay, and by default its image size. Default: a new adapter if --lora-r is set.",
        json_schema_extra=DIRECT,
    )
    load_in_4bit: bool = Field(
        default=False,
        description="Load the frozen base model in 4-bit NF4 (QLoRA). Needs --lora-r.",
        json_schema_extra=DIRECT,
    )
    freeze_vision: bool = Field(default=True, description="Do not train the vision tower and its projector.")
    device: Literal["auto", "cpu"] = Field(default="auto", description="Device. auto uses a GPU if possible.")
    bf16: bool = Field(default=False, description="Train in bfloat16 mixed precision instead of float32.")
    gradient_checkpointing: bool = Field(
        default=True,
        description="On a GPU, recompute activations in the backward pass instead of storing "
        "them: less VRAM, more time.",
    )
    image_pixels: int = Field(
        default=1_048_576,
        ge=1024,
        description="Largest area of a shown image, in pixels. Larger images are scaled down; running agents "
        "use 1,048,576.",
    )
    save_dtype: Literal["auto", "float16", "bfloat16"] = Field(
        default="auto",
        description="Dtype of the saved checkpoint. auto: as trained; bfloat16 has the range of models "
        "trained in bf16.",
    )
    tensorboard: bool = Field(default=True, description="Write TensorBoard files.")
    report_to: str | None = Field(
        default=None,
        max_length=200,
        description="Experiment trackers, separated by commas: wandb, trackio, mlflow, tensorboard (must be "
        "installed). Default: none.",
    )
    seed: int = Field(
        default=0, ge=0, description="Seed of the data order and of dropout.", json_schema_extra=DIRECT
    )

    @property
    def adapts(self) -> bool:
        """Whether an adapter is trained, and not the weights of the model."""
        return self.lora_r > 0 or self.adapter is not None

    def identity(self, checkpoint: Path) -> dict[str, str]:
        """Return the digests of what the training of a checkpoint starts from."""
        adapter = {"adapter": checkpoint_digest(Path(self.adapter))} if self.adapter else {}
        return {"model": checkpoint_digest(checkpoint), **adapter}

    def prompt_set(self, checkpoint: Path) -> PromptSet | None:
        """Return the prompt set of what the training of a checkpoint starts from."""
        own = prompt_set_of(self.adapter) if self.adapter else None
        return own or prompt_set_of(checkpoint)


Some = TypeVar("Some", bound=ModelTraining)


def starting_from(model: str, settings: Some) -> tuple[str, Some]:
    """Return the base model of a training, and its settings with the adapter that it continues.

    Args:
        model: A model, or the folder of an adapter. Its configuration then names the base model.
        settings: Settings of the training. An adapter's image size replaces a default.

    Raises:
        ChatError: The adapter cannot be used, or names no base model.
    """
    adapter = settings.adapter
    if adapter is None and (path_of(model) / "adapter_config.json").is_file():
        adapter = model
        named = read_json(path_of(model) / "adapter_config.json").get("base_model_name_or_path")
        if not isinstance(named, str) or not (HUB_ID.fullmatch(named) or Path(named).is_dir()):
            raise ChatError(
                f"{model!r} is a LoRA adapter, whose base model {str(named)[:200]!r} is not here.",
                f"Name the base model: --model BASE --adapter {model}",
            )
        model = named
    if adapter is None:
        return model, settings
    check_adapter(path_of(adapter))
    pixels = trained_with(path_of(adapter), adapter=True).image_pixels
    changes: dict[str, Any] = {"adapter": str(path_of(adapter))}
    if pixels and "image_pixels" not in settings.model_fields_set:
        changes["image_pixels"] = pixels
    return model, settings.model_copy(update=changes)


@dataclass(frozen=True)
class Policy:
    """A model ready for training, its processor (padding on the left) and a new adapter's configuration."""

    model: Any
    processor: Any
    adapter: Any | None


@contextmanager
def silence_libraries() -> Iterator[None]:
    """Hide the libraries' progress bars and deprecation warnings, which would disturb the progress shown."""
    import logging

    from datasets.utils import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars
    from transformers.utils import logging as shown

    bars, level = shown.is_progress_bar_enabled(), shown.get_verbosity()
    trl = logging.getLogger("trl")
    trl_level = trl.level
    # trl would print a whole row, images included, for every answer that is left out of its group.
    trl.setLevel(logging.ERROR)
    dataset_bars = are_progress_bars_disabled()
    shown.disable_progress_bar()
    disable_progress_bars()
    shown.set_verbosity(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            yield
    finally:
        trl.setLevel(trl_level)
        shown.set_verbosity(level)
        if not dataset_bars:
            enable_progress_bars()
        if bars:
            shown.enable_progress_bar()


def on_cpu(settings: ModelTraining) -> bool:
    """Return whether training runs on the CPU."""
    import torch

    return settings.device == "cpu" or not torch.cuda.is_available()


def load_processor(checkpoint: Path) -> Any:
    """Load a checkpoint's processor, padding on the left; raise ChatError without one or a chat template."""
    check_checkpoint(checkpoint, untested=True)
    processor = agents_processor(checkpoint)
    processor.tokenizer.padding_side = "left"
    return processor


def load_policy(checkpoint: Path, settings: ModelTraining) -> Policy:
    """Load a checkpoint for training.

    Raises:
        SettingsError: The settings contradict each other.
        ChatError: The checkpoint lacks weights.
    """
    import torch

    check_options(settings)
    processor = load_processor(checkpoint)
    half = settings.adapts and settings.bf16
    options: dict[str, Any] = {"dtype": torch.bfloat16 if half else torch.float32}
    if settings.load_in_4bit:
        options["quantization_config"] = quantized(settings, empty_model(checkpoint))
        options["device_map"] = {"": "cpu" if on_cpu(settings) else torch.cuda.current_device()}
    model = load_whole(checkpoint, **options)
    if hasattr(next(model.parameters()), "ds_id"):  # ZeRO-3: transformers 5.24 would save changed names
        model._weight_conversions = None
    if settings.load_in_4bit and on_cpu(settings):
        _unpacked(model)
    if settings.freeze_vision:
        ModelParts(model).freeze_seeing()
    if settings.adapter:
        return Policy(attach(model, Path(settings.adapter), dropout=settings.lora_dropout), processor, None)
    return Policy(model, processor, adapter_config(settings, model))


def empty_model(checkpoint: Path | Any) -> Any:
    """Return the model of a checkpoint folder or a configuration on the meta device, without any memory."""
    import torch
    from transformers import AutoConfig, AutoModelForImageTextToText

    config = checkpoint
    if isinstance(checkpoint, Path):
        config = AutoConfig.from_pretrained(checkpoint, local_files_only=True, trust_remote_code=False)
    with torch.device("meta"), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        model = AutoModelForImageTextToText.from_config(config)
        model.tie_weights()
        return model


def _unpacked(model: Any) -> None:
    """Keep bitsandbytes from repacking 4-bit weights for inference when the model generates.

    It does so on CPUs with AVX512-bf16. Training would then continue with weights in another layout, and
    layers whose width is not divisible by 64 would fail.
    """
    for module in model.modules():
        if hasattr(module, "support_avx512bf16_for_cpu"):
            module.support_avx512bf16_for_cpu = False


def check_options(settings: ModelTraining) -> None:
    """Raise SettingsError if the settings contradict each other or need a library that is not installed."""
    if settings.load_in_4bit and not settings.adapts:
        raise SettingsError(
            "--load-in-4bit freezes the weights, but no LoRA adapter is set.", "Set --lora-r as well (QLoRA)."
        )
    quantizes = settings.load_in_4bit or settings.optim == "adamw_8bit"
    require(*TRAINERS, *["peft"] * settings.adapts, *["bitsandbytes"] * quantizes)
    trackers_of(settings)


def quantized(settings: ModelTraining, model: Any) -> Any:
    """Return the NF4 configuration (double quantization) for all but vision parts and output layer."""
    import torch
    from transformers import BitsAndBytesConfig

    parts = ModelParts(model)
    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.bfloat16 if settings.bf16 else torch.float32,
        # bitsandbytes would silently ignore a bare "visual", and naming it alone would quantize the output
        # layer.
        llm_int8_skip_modules=[*parts.seeing, parts.head],
    )


def adapter_config(settings: ModelTraining, model: Any) -> Any | None:
    """Return the LoRA configuration for a model, or None for full training."""
    if not settings.lora_r:
        return None
    from peft import LoraConfig

    return LoraConfig(
        r=settings.lora_r,
        lora_alpha=settings.lora_alpha,
        lora_dropout=settings.lora_dropout,
        target_modules=ModelParts(model).adapter_targets(with_seeing=not settings.freeze_vision),
        task_type="CAUSAL_LM",
    )


def trainer_arguments(
    settings: ModelTraining, config: type[Any], steps: Path, steps_in_all: int
) -> dict[str, Any]:
    """Return the arguments of a trl configuration: settings that trl has by the same name, and derived ones.

    Defaults for a GPU are disabled explicitly on a CPU.
    """
    cpu, warmup = on_cpu(settings), settings.warmup_steps
    return {
        **settings.model_dump(
            include=type(settings).model_fields.keys() & config.__dataclass_fields__.keys()
        ),
        "output_dir": str(steps),
        "warmup_steps": round(warmup if warmup >= 1 else warmup * steps_in_all),
        "use_cpu": cpu,
        "gradient_checkpointing": settings.gradient_checkpointing and not cpu,
        "save_total_limit": 2,
        "disable_tqdm": True,
    }


def trackers_of(settings: ModelTraining) -> list[str]:
    """Return the trackers that the trainer logs to: those in `report_to`, and TensorBoard if enabled.

    Raises:
        SettingsError: A tracker is unknown or not installed.
    """
    named = [*(settings.report_to or "").split(","), "tensorboard" if settings.tensorboard else ""]
    trackers = list(dict.fromkeys(filter(None, map(str.strip, named))))
    for name in trackers:
        if name not in TRACKERS:
            raise SettingsError(f"report_to: unknown tracker {name!r}.", f"Use one of {', '.join(TRACKERS)}.")
    if absent := missing(trackers):
        raise SettingsError(
            f"report_to {','.join(trackers)} needs {' and '.join(absent)} (not installed).",
            f"Install: pip install {' '.join(absent)}",
        )
    return trackers


def count_parameters(model: Any) -> tuple[int, int]:
    """Return (trained parameters, all parameters); 4-bit weights and ZeRO-3 weights count whole."""
    trained = whole = 0
    for weight in model.parameters():
        size = getattr(getattr(weight, "quant_state", None), "shape", None)
        number = size.numel() if size is not None else getattr(weight, "ds_numel", weight.numel())
        whole += number
        trained += number if weight.requires_grad else 0
    return trained, whole
