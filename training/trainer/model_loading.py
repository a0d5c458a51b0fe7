"""The model that is trained: loaded in the right arithmetic, what trains of it chosen.

Decisions. Adapters (LoRA, QLoRA) go to the linear layers of the language model, found in the model itself
(model_parts.py), because "all-linear" would put a third of them into the vision tower. The vision tower and
the projectors are trained or frozen together. What is loaded is an instance that knows the folder it came
from: a trainer that needs a reference model reads it from there. It is loaded after the trainer's arguments
are made, which start the process group: only then is a share of the weights what a rank of ZeRO-3 holds.
Under FSDP2 every rank reads all of them first (transformers 5.23, tried with two ranks).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ...backend.chat.local.loading import load_processor as agents_processor
from ...backend.checkpoints.checkpoint import check_checkpoint
from ...backend.checkpoints.loaded import load_whole
from ...backend.errors import SettingsError
from ...backend.machine.requirements import TRAINERS, missing, require
from .model_parts import ModelParts

TRACKERS = ("wandb", "trackio", "mlflow", "tensorboard")
"""What `--report-to` passes on to the trainer."""


class ModelTraining(BaseModel):
    """What trains, where, and in which arithmetic; shared by all stages."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    learning_rate: float = Field(
        default=2e-5, gt=0, description="Peak learning rate; cosine after the warm-up."
    )
    warmup_steps: float = Field(
        default=0.1, ge=0, description="Steps of the warm-up; below 1, their share of all steps."
    )
    weight_decay: float = Field(default=1e-6, ge=0, description="AdamW weight decay.")
    adam_beta2: float = Field(default=0.999, gt=0, lt=1, description="AdamW beta 2.")
    optim: Literal["adamw_torch", "adamw_8bit"] = Field(
        default="adamw_torch", description="AdamW, or its 8-bit form of bitsandbytes (a GPU is needed)."
    )
    lora_r: int = Field(
        default=0, ge=0, le=1024, description="Rank of a LoRA adapter; 0 trains the weights themselves."
    )
    lora_alpha: int = Field(default=32, ge=1, description="LoRA's scale is alpha / rank.")
    lora_dropout: float = Field(default=0.0, ge=0, lt=1, description="Dropout before the adapter.")
    load_in_4bit: bool = Field(
        default=False, description="Hold the frozen base in NF4 (QLoRA); needs a rank."
    )
    freeze_vision: bool = Field(
        default=True, description="Keep the vision tower and its projector as they are."
    )
    device: Literal["auto", "cpu"] = Field(default="auto", description="Where to train.")
    bf16: bool = Field(default=False, description="Train in bfloat16 (mixed precision) instead of float32.")
    gradient_checkpointing: bool = Field(
        default=True, description="On a GPU, compute activations twice instead of keeping them."
    )
    image_pixels: int = Field(
        default=1_048_576,
        ge=1024,
        description="Largest area of an image that is shown, in pixels; a running agent shows 1,048,576.",
    )
    save_dtype: Literal["auto", "float16", "bfloat16"] = Field(
        default="auto",
        description="Precision that the finished checkpoint is saved in: as trained, or half of it (bfloat16 "
        "keeps the range of what was trained in bf16).",
    )
    tensorboard: bool = Field(default=True, description="Write TensorBoard files where it is installed.")
    report_to: str | None = Field(
        default=None,
        max_length=200,
        description="Where else the training is logged, with commas between: wandb, trackio, mlflow, "
        "tensorboard (to be installed); empty: nowhere.",
    )
    seed: int = Field(default=0, ge=0, description="Seed of data order and dropout.")


@dataclass(frozen=True)
class Policy:
    """A model ready to be trained, its processor with padding on the left, and the adapter's configuration,
    if any."""

    model: Any
    processor: Any
    adapter: Any | None


@contextmanager
def silence_libraries() -> Iterator[None]:
    """Keep the libraries' bars, and their warnings about their own future, out of the progress that is
    shown."""
    import logging

    from datasets.utils import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars
    from transformers.utils import logging as shown

    bars, level = shown.is_progress_bar_enabled(), shown.get_verbosity()
    trl = logging.getLogger("trl")
    trl_level = trl.level
    # It would print a whole row, images and all, for every sample that is left out of its group.
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
    """Whether training runs on the processor."""
    import torch

    return settings.device == "cpu" or not torch.cuda.is_available()


def load_processor(checkpoint: Path) -> Any:
    """The processor of a checkpoint folder, with padding on the left: generation continues every row at its
    right end. Raises ChatError, as an agent does, for a folder without processor or chat template."""
    check_checkpoint(checkpoint, untested=True)
    processor = agents_processor(checkpoint)
    processor.tokenizer.padding_side = "left"
    return processor


def load_policy(checkpoint: Path, settings: ModelTraining) -> Policy:
    """Load a checkpoint folder for training; raises SettingsError for options that do not go together,
    ChatError for a checkpoint that lacks weights."""
    import torch

    check_options(settings)
    processor = load_processor(checkpoint)
    frozen = settings.lora_r > 0
    options: dict[str, Any] = {"dtype": torch.bfloat16 if frozen and settings.bf16 else torch.float32}
    if settings.load_in_4bit:
        options["quantization_config"] = quantized(settings, empty_model(checkpoint))
        options["device_map"] = {"": "cpu" if on_cpu(settings) else torch.cuda.current_device()}
    model = load_whole(checkpoint, **options)
    if settings.load_in_4bit and on_cpu(settings):
        _unpacked(model)
    if settings.freeze_vision:
        ModelParts(model).freeze_seeing()
    return Policy(model, processor, adapter_config(settings, model))


def empty_model(checkpoint: Path | Any) -> Any:
    """The model of a checkpoint folder, or of a configuration, with all of its modules and no memory (meta
    device)."""
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
    """Keep bitsandbytes from packing 4-bit weights for inference as soon as the model answers: on processors
    with AVX512-bf16 it does, training then goes on with weights in another layout, and widths that 64 does
    not divide are a fault."""
    for module in model.modules():
        if hasattr(module, "support_avx512bf16_for_cpu"):
            module.support_avx512bf16_for_cpu = False


def check_options(settings: ModelTraining) -> None:
    """Raise SettingsError for options that do not go together or need a library that is not there."""
    if settings.load_in_4bit and not settings.lora_r:
        raise SettingsError(
            "Quantised weights cannot be trained themselves.", "Give --lora-r as well (QLoRA)."
        )
    require(*TRAINERS, *libraries_of(settings))
    trackers_of(settings)


def libraries_of(settings: ModelTraining) -> list[str]:
    """The libraries that these options need beside the trainers."""
    quantizes = settings.load_in_4bit or settings.optim == "adamw_8bit"
    return (["peft"] if settings.lora_r else []) + (["bitsandbytes"] if quantizes else [])


def quantized(settings: ModelTraining, model: Any) -> Any:
    """NF4 with doubly quantised scales for everything of a model (`empty_model`) but what it sees with and
    the output layer."""
    import torch
    from transformers import BitsAndBytesConfig

    parts = ModelParts(model)
    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.bfloat16 if settings.bf16 else torch.float32,
        # A bare "visual" would be ignored silently, and naming it alone would quantise the output layer.
        llm_int8_skip_modules=[*parts.seeing, parts.head],
    )


def adapter_config(settings: ModelTraining, model: Any) -> Any | None:
    """The LoRA configuration for a model, None for full training."""
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
    """Return the arguments of a trl configuration: settings by their own names, and what follows from them.

    A GPU's defaults are switched off by name on a CPU.
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


def reports_to(settings: ModelTraining, log: Callable[[str], None]) -> list[str]:
    """Where else the trainer logs: the trackers that are named, and TensorBoard if wanted and installed.

    Raises SettingsError for a tracker that is not known or not installed."""
    trackers = trackers_of(settings)
    if settings.tensorboard and "tensorboard" not in trackers:
        if missing(["tensorboard"]):
            log("TensorBoard is not installed (pip install tensorboard); its files are not written")
        else:
            trackers.append("tensorboard")
    return trackers or ["none"]


def trackers_of(settings: ModelTraining) -> list[str]:
    """The trackers that `report_to` names; raises SettingsError for one that is not known or not
    installed."""
    named = [name.strip() for name in (settings.report_to or "").split(",")]
    trackers = list(dict.fromkeys(name for name in named if name))
    for name in trackers:
        if name not in TRACKERS:
            raise SettingsError(f"--report-to has no {name!r}.", f"Known: {', '.join(TRACKERS)}.")
    absent = missing(trackers)
    if absent:
        raise SettingsError(
            f"--report-to {','.join(trackers)} needs {' and '.join(absent)}, not installed here.",
            f"Install: pip install {' '.join(absent)}",
        )
    return trackers


def count_parameters(model: Any) -> tuple[int, int]:
    """How many weights train, and how many there are; 4-bit ones are counted as weights, not as bytes."""
    trained = whole = 0
    for weight in model.parameters():
        size = getattr(getattr(weight, "quant_state", None), "shape", None)
        number = size.numel() if size is not None else weight.numel()
        whole += number
        trained += number if weight.requires_grad else 0
    return trained, whole
