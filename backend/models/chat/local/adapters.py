"""LoRA adapters on a loaded model: attached to it, or merged into its weights.

Agents, merging and training all attach an adapter with `attach`, so an adapter gives the same answers in all
of them, or is rejected by all of them. peft gets the names of the modules for which the file has weights
(adapter_files.py), and never the patterns of a foreign configuration.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import re
import warnings
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ....core.errors import ChatError, boundary
from ...checkpoints.adapter_files import (
    FILE,
    AdapterConfig,
    AdapterWeights,
    plain_module,
    weights_for,
)
from ...checkpoints.checkpoint import check_adapter, read_json

READ_HERE = frozenset(
    {
        *("task_type", "peft_type", "auto_mapping", "peft_version", "base_model_name_or_path", "revision"),
        *("inference_mode", "r", "target_modules", "exclude_modules", "lora_alpha", "lora_dropout"),
        *("fan_in_fan_out", "bias", "use_rslora", "modules_to_save", "init_lora_weights"),
        *("layers_to_transform", "layers_pattern", "rank_pattern", "alpha_pattern", "megatron_core"),
        *("loftq_config", "eva_config", "corda_config", "lora_ga_config", "use_dora", "qalora_group_size"),
        "lora_bias",
    }
)
"""Known fields of peft's configuration: used, checked, or without effect once the weights are loaded.

Others may change which weights exist or how they are computed.
"""


def check_usable(folder: Path) -> None:
    """Check that a folder contains an adapter, and that peft is installed.

    Raises:
        ChatError: One of them is not the case.
    """
    check_adapter(folder)
    if importlib.util.find_spec("peft") is None:
        raise ChatError("Adapters require the library peft.", "Install it: pip install peft")


def attach(model: Any, folder: Path, name: str = "default", wrapped: Any = None) -> Any:
    """Attach an adapter to a model, completely or not at all.

    Args:
        model: The library's model.
        folder: The adapter's folder.
        name: Name of the adapter within the model.
        wrapped: peft's model around `model`, if it has adapters already.

    Returns:
        peft's model around `model`.

    Raises:
        ChatError: The adapter does not fully fit this model. Nothing is attached then.
    """
    from peft import LoraConfig, PeftModel, set_peft_model_state_dict
    from safetensors.torch import load_file

    check_usable(folder)
    with boundary(ChatError, f"Adapter {str(folder)!r}"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        values = read_json(folder / "adapter_config.json")
        defaults = {field.name: field.default for field in dataclasses.fields(LoraConfig)}
        for unknown in sorted(values.keys() - READ_HERE):
            value = values[unknown]
            # A note of another tool is a text or a number; a field of a later peft could be anything.
            changes = unknown in defaults or isinstance(value, (dict, list))
            if changes and value not in (None, False, [], {}, "", defaults.get(unknown)):
                raise ChatError(
                    f"The adapter in {str(folder)!r} uses {unknown!r}, which is not supported.",
                    "Merge it with its own tool.",
                )
        config = AdapterConfig(values)
        weights = weights_for(model, folder, config)
        if wrapped is not None:
            _check_together(model, folder, weights)
        own = _own_config(LoraConfig, config, weights)
        file = load_file(folder / FILE)
        state = {wanted: file[key] for wanted, key in weights.keys.items()}
        made: Any = wrapped
        if made is None:
            made = PeftModel(model, own, adapter_name=name)
        else:
            made.add_adapter(name, own)
        try:
            result: Any = set_peft_model_state_dict(made, state, adapter_name=name)
            lost = [*result.unexpected_keys, *(key for key in result.missing_keys if f".{name}" in key)]
            if lost:
                raise ChatError(
                    f"The adapter {str(folder)!r} was not loaded completely ({lost[0]}).", "Update peft."
                )
        except BaseException:
            # Other agents may use the same base.
            if wrapped is None:
                made.unload()
            else:
                made.delete_adapter(name)
            raise
    return made


def _check_together(model: Any, folder: Path, weights: AdapterWeights) -> None:
    """Check that no adapter replaces a module to which another one adds.

    Raises:
        ChatError: One does.
    """
    for names, wrapper in ((weights.whole, "base_layer"), (weights.ranks, "original_module")):
        for name in names:
            if any(hasattr(one, wrapper) for one in model.get_submodule(name).modules()):
                raise ChatError(
                    f"The adapter {str(folder)!r} and another adapter of the same base model change {name!r} "
                    "in incompatible ways.",
                    "Open it with its own base model (share=False), or merge it (train merge).",
                )


def merged_into(model: Any, folder: Path) -> Any:
    """Add an adapter to the weights of a model, in place, and return the model.

    If the model shares its output layer with its embeddings and the adapter changes one of them, the output
    layer gets its own weights.

    Raises:
        ChatError: The adapter does not fit the model.
    """
    check_usable(folder)
    with boundary(ChatError, f"Adapter {str(folder)!r}"):
        config = AdapterConfig(read_json(folder / "adapter_config.json"))
        if _changes_ends(model, weights_for(model, folder, config)):
            _untie(model)
        merged: Any = attach(model, folder).merge_and_unload(safe_merge=True)
    return merged


def _own_config(kind: Any, config: AdapterConfig, weights: AdapterWeights) -> Any:
    """Return peft's configuration for exactly these modules."""
    rank, ranks = _pattern(weights.ranks)
    alpha, alphas = _pattern(weights.alphas)
    return kind(
        r=rank,
        lora_alpha=alpha,
        rank_pattern=ranks,
        alpha_pattern=alphas,
        target_modules=list(weights.ranks),
        modules_to_save=list(weights.whole) or None,
        use_rslora=config.has("use_rslora"),
        use_dora=config.has("use_dora"),
        lora_bias=config.has("lora_bias"),
        inference_mode=True,
    )


def _pattern(values: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return the most common value, and a pattern for the modules of each other value."""
    common = Counter(values.values()).most_common(1)[0][0]
    others: dict[Any, list[str]] = {}
    for module, value in values.items():
        if value != common:
            others.setdefault(value, []).append(re.escape(module))
    return common, {"|".join(modules): value for value, modules in others.items()}


def _changes_ends(model: Any, weights: AdapterWeights) -> bool:
    """Return whether an adapter changes the embeddings or the output layer, which some models share."""
    ends = {id(plain_module(one)) for one in (model.get_input_embeddings(), model.get_output_embeddings())}
    inside = (one for name in weights.modules for one in plain_module(model.get_submodule(name)).modules())
    return any(id(one) in ends for one in inside)


def _untie(model: Any) -> None:
    """Give the output layer its own weights, if it shares those of the embeddings."""
    import torch

    head, embeddings = model.get_output_embeddings(), model.get_input_embeddings()
    if head is None or head.weight is not embeddings.weight:
        return
    head.weight = torch.nn.Parameter(head.weight.detach().clone(), requires_grad=False)
    model.config.tie_word_embeddings = False
    model.config.get_text_config().tie_word_embeddings = False
    model.all_tied_weights_keys = {}
