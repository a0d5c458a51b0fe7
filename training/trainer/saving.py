"""Saves a trained or a merged checkpoint as a folder that agents open: weights, processor, prompt set, card.

The result is what the trainer has in memory at its end, or the files of a checkpoint if the training had to
stop or was already complete. Conversion to half precision rewrites the weights file by file, so that no
second model is in memory. The folder appears by one rename.

An adapter is merged into its base for programs without adapter support. The base's files are copied, and one
weight after another is merged in float32 and written in its place, in its own dtype. So an 8B model needs the
memory of its largest layer, and an adapter trained on a 4-bit base is merged into the full weights. The new
folder appears only when it is complete.
"""

from __future__ import annotations

import copy
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...backend.core.errors import ChatError, SettingsError, TrainingError, boundary
from ...backend.core.files.atomic import replace_folder, writing_folder
from ...backend.core.machine.libraries import require
from ...backend.core.prompts.agent_card import AgentCard, Role
from ...backend.core.prompts.prompt_set import PromptSet
from ...backend.core.prompts.trained_with import TrainedWith, trained_with
from ...backend.core.seams.chat_model import MAX_PIXELS
from ...backend.models.chat.local.adapters import changes_ends, check_usable, config_of, merged_layer
from ...backend.models.chat.local.base_model import load_processor
from ...backend.models.checkpoints.adapter_files import FILE, PREFIX, aliases_of, own_module, weights_for
from ...backend.models.checkpoints.checkpoint import check_checkpoint, check_missing, read_json
from .model_card import README, CardFacts, read_facts, write_card
from .model_loading import empty_model
from .resume import step_of

# Files that a trainer writes next to the weights; the first is a pickle.
LEFT_OUT = ("training_args.bin", README)
INDEX = "model.safetensors.index.json"
HEAD_FILE, BODY_FILE = "model-head.safetensors", "model-body.safetensors"
WEIGHTS = ("*.safetensors", "*.safetensors.index.json", "*config.json")
"""Files of a trainer's checkpoint that form a model or an adapter."""


@dataclass(frozen=True)
class Result:
    """Result of a training.

    Attributes:
        record: Record of how it was trained.
        save_dtype: "float16", "bfloat16" or "auto" (as trained).
        checkpoint: Checkpoint whose files are saved instead of the weights in memory.
        facts: Facts for the model card.
    """

    record: TrainedWith
    save_dtype: str
    checkpoint: Path | None = None
    facts: CardFacts | None = None


def save_trained(trainer: Any, processor: Any, folder: Path, result: Result) -> Path:
    """Save a trained model or adapter to `folder`, which appears only when it is complete.

    Args:
        trainer: Trainer whose weights, gathered from all ranks, are saved.
        processor: Processor of the model.
        folder: Folder to create.
        result: The result to save.

    Returns:
        `folder`.

    Raises:
        TrainingError: The folder cannot be written.
    """
    checkpoint, facts = result.checkpoint, result.facts
    # The name is fixed because all ranks write into the folder and must know its name.
    part = folder.with_name(f"{folder.name}.part")
    if trainer.accelerator.is_main_process:
        shutil.rmtree(part, ignore_errors=True)
    trainer.accelerator.wait_for_everyone()
    with boundary(TrainingError, f"The checkpoint {str(folder)!r} cannot be written"):
        if checkpoint is None:
            trainer.save_model(str(part))
        if trainer.accelerator.is_main_process:
            # With sharded weights, a checkpoint cannot be loaded back from its file.
            if checkpoint is not None:
                part.mkdir(parents=True)
                for path in (path for pattern in WEIGHTS for path in checkpoint.glob(pattern)):
                    shutil.copyfile(path, part / path.name)
            for name in LEFT_OUT:
                (part / name).unlink(missing_ok=True)
            if result.save_dtype != "auto":
                _convert(part, result.save_dtype)
            processor.save_pretrained(part)
            result.record.save(part)
            if facts is not None:
                steps = step_of(checkpoint) if checkpoint else trainer.state.global_step
                write_card(part, facts.model_copy(update={"steps": steps}))
            replace_folder(part, folder, TrainingError, "The checkpoint")
    trainer.accelerator.wait_for_everyone()
    return folder


def record_of(
    out: Path, prompt_set: PromptSet | None, image_pixels: int, role: Role | None = None
) -> TrainedWith:
    """Return the record of how an agent is trained.

    It is saved in the training's folder immediately, for agents that open one of its checkpoints. A `role` of
    `None` leaves the job of the agent open.
    """
    record = TrainedWith(out.name, prompt_set, min(image_pixels, MAX_PIXELS), card=AgentCard(role=role))
    if os.environ.get("RANK", "0") == "0":
        record.save(out)
    return record


def narrowed(name: str, weight: Any, kind: Any, hint: str) -> Any:
    """Return a tensor in another dtype.

    Raises:
        TrainingError: Finite values would become infinite; the error has this hint.
    """
    if not weight.is_floating_point():
        return weight
    made = weight.to(kind)
    lost = made.isinf() & weight.isfinite()
    if lost.any():
        shown = str(kind).removeprefix("torch.")
        raise TrainingError(
            f"Cannot convert the weight {name!r} to {shown}: {int(lost.sum())} values, up to "
            f"{weight.abs().max().item():g}, would become infinite.",
            hint,
        )
    return made


def _convert(folder: Path, dtype: str) -> None:
    """Convert the weight files to "float16" or "bfloat16", one at a time."""
    import torch
    from safetensors.torch import load_file, save_file

    kind = getattr(torch, dtype)
    for path in sorted(folder.glob("*.safetensors")):
        weights = {
            name: narrowed(
                name,
                weight,
                kind,
                "The training is complete; run the command again with --set save_dtype=bfloat16.",
            )
            for name, weight in load_file(path).items()
        }
        save_file(weights, path, metadata={"format": "pt"})
    path = folder / "config.json"
    if path.is_file():
        config = json.loads(path.read_text(encoding="utf-8"))
        for part in (config, *(value for value in config.values() if isinstance(value, dict))):
            if "dtype" in part:
                part["dtype"] = str(kind).removeprefix("torch.")
        _write_json(path, config)


WIDER = "Merge into a base model in bfloat16."


def merge(base: Path, adapter: Path, out: Path) -> Path:
    """Merge `adapter` into `base` and write the result to `out`, with processor, prompt set and model card.

    Args:
        base: Folder of the base model.
        adapter: Folder of the LoRA adapter. Its record of how it was trained takes precedence over the
            base's.
        out: Folder to create.

    Returns:
        `out`.

    Raises:
        ChatError: `adapter` is not a LoRA adapter or does not fit the base, or the base cannot be an agent.
        SettingsError: `out` exists.
        TrainingError: The checkpoint cannot be written, or the adapter's model card cannot be read.
    """
    require("peft")
    check_usable(adapter)
    check_checkpoint(base, untested=True)
    if out.exists():
        raise SettingsError(f"{str(out)!r} already exists.", "Give a folder that does not exist yet.")
    facts = read_facts(adapter)
    processor = load_processor(base)
    with boundary(TrainingError, f"The adapter {str(adapter)!r} cannot be merged into {str(base)!r}"):
        merging = _Merging(base, adapter)
    record = trained_with(adapter).over(trained_with(base))
    saving = boundary(TrainingError, f"The merged checkpoint {str(out)!r} cannot be written")
    with saving, writing_folder(out, TrainingError, "The merged checkpoint") as temporary:
        processor.save_pretrained(temporary)
        merging.write(base, temporary)
        record.save(temporary)
        if facts is not None:
            write_card(temporary, facts.model_copy(update={"merged": True}))
    return out


class _Merging:
    """Merges an adapter into the weights of a base model, which it reads one at a time from their files."""

    def __init__(self, base: Path, adapter: Path) -> None:
        """Find every weight in the base's files.

        Raises:
            ChatError: The adapter does not fit the base model, or weights are missing.
        """
        from safetensors import safe_open

        self.adapter, self.config = adapter, config_of(adapter)
        model = empty_model(base)
        self.modules, known = dict(model.named_modules()), model.state_dict()
        self.index: Any = read_json(base / INDEX) if (base / INDEX).is_file() else {}
        files = set(self.index.get("weight_map", {"": "model.safetensors"}).values())
        self.places: dict[str, tuple[Path, str]] = {}
        """File of each weight of the model, and its name there."""
        aliases, other_shapes = dict(aliases_of(model)), False
        for path in (base / name for name in sorted(files)):
            with safe_open(path, framework="np") as file:
                for key in file.keys():  # noqa: SIM118 - not a dict
                    holder, _, leaf = key.rpartition(".")
                    found = own_module(holder, self.modules, aliases)
                    name = f"{found[0]}.{leaf}" if len(found) == 1 else key
                    self.places[name] = path, key
                    shape = tuple(file.get_slice(key).get_shape())
                    other_shapes |= name in known and shape != tuple(known[name].shape)
        missing = {name for name, _ in model.named_parameters()} - self.places.keys()
        if self.places.keys() <= known.keys():
            check_missing(base, missing)
        if other_shapes or missing:
            raise ChatError(
                f"The weights in {str(base)!r} have other names or shapes than the model.",
                "Load and save the base model with transformers, then merge again.",
            )
        ends, head = (model.get_output_embeddings(), model.get_input_embeddings()), ""
        if ends[0] is not None and ends[0].weight is ends[1].weight:
            head, table = (
                next(f"{name}.weight" for name, one in self.modules.items() if one is end) for end in ends
            )
            self.places[head] = self.places[table]
        self.weights = weights_for(model, adapter, self.config, self._own)
        self.head = head if changes_ends(model, self.weights) else ""
        """Name of an output layer that shares the embeddings of the base, and not those of the result."""

    def write(self, base: Path, folder: Path) -> None:
        """Copy the base's files, and write the merged weights in their places."""
        from safetensors.torch import save_file

        for name in ("config.json", "generation_config.json", INDEX):
            if (base / name).is_file():
                shutil.copyfile(base / name, folder / name)
        for path in {path for path, _ in self.places.values()}:
            shutil.copyfile(path, folder / path.name)
        leaves = ("weight", "bias") if self.config.has("lora_bias") else ("weight",)
        changed = {f"{module}.{leaf}" for module in self.weights.ranks for leaf in leaves}
        changed |= {key.removeprefix(PREFIX) for key in self.weights.keys}
        for name in sorted((changed | {self.head}) & self.places.keys()):
            path, key = self.places[name]
            own = self._own(name)
            merged = narrowed(name, self._made(name, own), own.dtype, WIDER)
            if name == self.head:
                save_file({name: merged}, folder / HEAD_FILE, metadata={"format": "pt"})
            else:
                _overwrite(folder / path.name, key, merged)
        if self.head:
            # A reader that finds a file of the usual name does not look for others.
            if (folder / "model.safetensors").is_file():
                (folder / "model.safetensors").rename(folder / BODY_FILE)
            files = {
                key: BODY_FILE if path.name == "model.safetensors" else path.name
                for name, (path, key) in self.places.items()
                if name != self.head
            }
            _write_json(folder / INDEX, {"metadata": {}, "weight_map": {**files, self.head: HEAD_FILE}})
            config = read_json(base / "config.json")
            for part in (config, config.get("text_config", {})):
                part["tie_word_embeddings"] = False
            _write_json(folder / "config.json", config)

    def _own(self, name: str) -> Any:
        """Return a weight of the base model."""
        from safetensors import safe_open

        path, key = self.places[name]
        with safe_open(path, framework="pt") as file:
            return file.get_tensor(key)

    def _made(self, name: str, own: Any) -> Any:
        """Return the merged weight in float32 for the base's own one."""
        import torch
        from safetensors import safe_open

        module, _, leaf = name.rpartition(".")
        start = f"{PREFIX}{module}."
        with safe_open(self.adapter / FILE, framework="pt") as file:
            if (whole := self.weights.keys.get(f"{PREFIX}{name}")) is not None:
                return file.get_tensor(whole)
            keys = {one: key for one, key in self.weights.keys.items() if one.startswith(start)}
            matrices = {one.removeprefix(start): file.get_tensor(key) for one, key in keys.items()}
        if module not in self.weights.ranks:
            return own
        layer = copy.deepcopy(self.modules[module])
        for part, _ in self.modules[module].named_parameters():
            weight = self._own(f"{module}.{part}").float()
            setattr(layer, part, torch.nn.Parameter(weight, requires_grad=False))
        rank, alpha = self.weights.ranks[module], self.weights.alphas[module]
        return getattr(merged_layer(layer, self.config, rank, alpha, matrices), leaf).detach()


def _overwrite(path: Path, key: str, weight: Any) -> None:
    """Replace a tensor in a safetensors file by another one of the same shape and dtype."""
    import torch

    with path.open("r+b") as file:
        length = int.from_bytes(file.read(8), "little")
        start, _ = json.loads(file.read(length))[key]["data_offsets"]
        file.seek(8 + length + start)
        file.write(memoryview(weight.contiguous().reshape(-1).view(torch.uint8).numpy()))


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
