"""Reports which trainings this machine can run: libraries, memory, and the needs of the built-in recipes.

Everything is estimated before anything is loaded or downloaded, and each figure states whether it is counted
or estimated. A recipe fits only with a tenth of the VRAM to spare.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ....backend.checkpoints.checkpoint import check_family, read_json
from ....backend.errors import SettingsError
from ....backend.machine.libraries import TRAINERS, missing, outdated, require
from ....backend.vram.agent_shapes import SHAPES, published_config
from ....backend.vram.footprint import GB
from ...grpo.planner_settings import PlannerGrpoTraining
from ...grpo.rollouts import batches
from ...grpo.settings import GrpoTraining
from ...reward.plans.judging import JudgingSettings
from ...reward.redraws.drawing_settings import DrawingSettings
from ...sft.train import SftTraining
from ...trainer.model_loading import ModelTraining, libraries_of
from ..recipe import about, read_recipe, recipe_names, stages_in
from . import costs
from .vram import Memory, Stage, counted, estimate

LIBRARIES = (
    "torch",
    "transformers",
    "trl",
    "peft",
    "accelerate",
    "datasets",
    "tensorboard",
    "bitsandbytes",
    "vllm",
    "deepspeed",
)
SPARE = 0.9
KINDS: dict[str, type[SftTraining] | type[GrpoTraining]] = {
    "critic-grpo": GrpoTraining,
    "planner-grpo": PlannerGrpoTraining,
}
"""Settings of the stages other than SFT."""


def lines(
    recipe: str | None, devices: int | None, weights: bool, folder_of: Callable[[str], Path] = Path
) -> Iterator[str]:
    """Yield the lines of the report.

    Args:
        recipe: Name or file of a recipe; None for all built-in ones.
        devices: Number of GPUs; None for the recipe's, or those of this machine.
        weights: Also list trained and total parameters by part of the model.
        folder_of: Returns the folder of a recipe's `model`.

    Raises:
        SettingsError: The recipe cannot be read.
    """
    yield from _machine()
    gpus = _gpus()
    require("yaml")
    for name in [recipe] if recipe else recipe_names():
        yield ""
        yield f"recipe {name}"
        yield from (f"  {line}" for line in about(name))
        for stage in stages_in(name):
            yield from _stage(name, stage, devices, gpus, weights, folder_of)


def _machine() -> Iterator[str]:
    found = []
    for library in LIBRARIES:
        try:
            found.append(f"{library} {version(library)}")
        except PackageNotFoundError:
            found.append(f"{library} not installed")
    yield "libraries: " + ", ".join(found)
    yield f"CPU: {os.cpu_count()} cores, {_ram() / GB:.0f} GB RAM"
    gpus = _gpus()
    yield "GPU: " + (", ".join(f"{name} {size / GB:.0f} GB" for name, size in gpus) or "none usable by torch")


def _ram() -> float:
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (ValueError, OSError, AttributeError):
        return 0.0


def _gpus() -> list[tuple[str, float]]:
    import torch

    if not torch.cuda.is_available():
        return []
    gpus = [torch.cuda.get_device_properties(number) for number in range(torch.cuda.device_count())]
    return [(gpu.name, float(gpu.total_memory)) for gpu in gpus]


def settings_of(values: dict[str, Any], stage: str) -> Stage:
    """Return the training settings among a recipe's values.

    Raises:
        SettingsError: A value is invalid; the error names the field.
    """
    kind = KINDS.get(stage, SftTraining)
    given = {key: value for key, value in values.items() if key in kind.model_fields}
    try:
        return kind(**given)
    except ValidationError as error:
        fault = error.errors()[0]
        raise SettingsError(f"{stage}, {fault['loc'][0]}: {fault['msg']}.") from error


def config_of(model: str, folder_of: Callable[[str], Path]) -> Any | None:
    """Return the configuration of a published model or of a folder, or None if it is not available."""
    if model in SHAPES:
        return published_config(model)
    folder = folder_of(model)
    if not (folder / "config.json").is_file():
        return None
    from transformers import AutoConfig

    check_family(read_json(folder / "config.json").get("model_type"), repr(str(folder)))
    return AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)


def _stage(
    name: str,
    stage: str,
    devices: int | None,
    gpus: list[tuple[str, float]],
    weights: bool,
    folder_of: Callable[[str], Path],
) -> Iterator[str]:
    values = read_recipe(name, stage)
    settings = settings_of(values, stage)
    model = str(values.get("model", ""))
    config = config_of(model, folder_of)
    if config is None:
        yield f"  {stage}: the model {model!r} is not available locally, so nothing is estimated"
        return
    if settings.lora_r and missing(["peft"]):
        yield f"  {stage}: {model}, {_how(settings)}: needs peft (pip install peft) for an estimate"
        return
    wanted = devices or int(values.get("devices", 0)) or max(1, len(gpus))
    if isinstance(settings, GrpoTraining):
        batches(settings, wanted)
    gpu = gpus[0][1] if gpus else 80 * GB
    memory = estimate(config, settings, wanted, gpu)
    yield f"  {stage}: {model} on {wanted} device(s), {_how(settings)}"
    yield f"    trains {memory.trained:,} of {memory.whole:,} parameters (counted)"
    if weights:
        for part, (trained, whole) in counted(config, settings).parts.items():
            yield f"      {part}: {trained:,} of {whole:,}"
    kind = "RAM" if settings.device == "cpu" else "VRAM per device"
    yield f"    about {memory.total / GB:.1f} GB {kind} (estimated): {_parts(memory)}"
    plans = isinstance(settings, PlannerGrpoTraining)
    usual = JudgingSettings().parallel_scores if plans else DrawingSettings().parallel_draws
    parallel = int(values.get("parallel_scores" if plans else "parallel_draws", usual))
    free = float(shutil.disk_usage(Path.cwd()).free)
    machine = costs.Machine(wanted, gpu, _ram(), free)
    for line in costs.lines(config, memory, settings, machine, parallel):
        yield f"    {line}"
    if values.get("take_turns"):
        waiting = sum(memory.parts[name] for name in costs.WAITS)
        yield (
            f"    --take-turns: additional RAM for waiting models: {waiting / GB:.1f} GB for this model "
            "(estimated), and the weights of generator and judge"
        )
    yield f"    {_verdict(memory, settings, wanted, gpus)}"


def _how(settings: ModelTraining) -> str:
    how = f"LoRA of rank {settings.lora_r}" if settings.lora_r else "full training"
    base = " on a 4-bit base" if settings.load_in_4bit else ""
    arithmetic = "bf16" if settings.bf16 else "fp32"
    return f"{how}{base}, {arithmetic}, vision {'frozen' if settings.freeze_vision else 'trained'}"


def _parts(memory: Memory) -> str:
    return (
        ", ".join(f"{part} {size / GB:.1f}" for part, size in memory.parts.items() if size >= 0.05 * GB)
        or "little"
    )


def _verdict(memory: Memory, settings: ModelTraining, devices: int, gpus: list[tuple[str, float]]) -> str:
    absent = _missing(settings)
    if absent:
        return f"needs {', '.join(absent)}"
    if settings.device == "cpu":
        return "fits here" if memory.total < SPARE * _ram() else "needs more RAM than this machine has"
    if not gpus:
        return "needs a GPU, which this machine does not have"
    if len(gpus) < devices:
        return f"needs {devices} GPUs; this machine has {len(gpus)}"
    return "fits here" if memory.total < SPARE * gpus[0][1] else "needs more VRAM than this machine has"


def _missing(settings: ModelTraining) -> list[str]:
    wanted = [*TRAINERS, *libraries_of(settings)]
    wanted += ["vllm"] if isinstance(settings, GrpoTraining) and settings.use_vllm else []
    return missing(wanted) + outdated(wanted)


def memory_lines(checkpoint: Path, settings: Stage, devices: int) -> Iterator[str]:
    """Yield the estimated memory of one training on each device, and whether this machine has it."""
    config, gpus = config_of(str(checkpoint), Path), _gpus()
    if config is None:
        return
    memory = estimate(config, settings, devices, gpus[0][1] if gpus else 80 * GB)
    on_cpu = settings.device == "cpu" or not gpus
    yield f"trains {memory.trained:,} of {memory.whole:,} parameters (counted)"
    yield (
        f"about {memory.total / GB:.1f} GB {'RAM' if on_cpu else 'VRAM per device'} (estimated): "
        f"{_parts(memory)}; {_verdict(memory, settings, devices, gpus)}"
    )
