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


def config_of(folder: Path) -> AdapterConfig:
    """Return the configuration of an adapter that `check_usable` has accepted.

    Raises:
        ChatError: It uses a field that is not supported.
    """
    from peft import LoraConfig

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
    return AdapterConfig(values)


def attach(
    model: Any, folder: Path, name: str = "default", wrapped: Any = None, dropout: float | None = None
) -> Any:
    """Attach an adapter to a model, completely or not at all.

    Args:
        model: The library's model.
        folder: The adapter's folder.
        name: Name of the adapter within the model.
        wrapped: peft's model around `model`, if it has adapters already.
        dropout: LoRA dropout if the adapter is trained further, `None` if it is only used.

    Returns:
        peft's model around `model`.

    Raises:
        ChatError: The adapter does not fully fit this model. Nothing is attached then.
    """
    from peft import LoraConfig, PeftModel, set_peft_model_state_dict
    from safetensors import safe_open

    check_usable(folder)
    with boundary(ChatError, f"Adapter {str(folder)!r}"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        config = config_of(folder)
        weights = weights_for(model, folder, config)
        if wrapped is not None:
            _check_together(model, folder, weights)
        own = _own_config(LoraConfig, config, weights)
        if dropout is not None:
            own.inference_mode, own.lora_dropout, own.task_type = False, dropout, "CAUSAL_LM"
        with safe_open(folder / FILE, framework="pt") as file:
            state = {wanted: file.get_tensor(key) for wanted, key in weights.keys.items()}
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


def merged_layer(layer: Any, config: AdapterConfig, rank: int, alpha: float, matrices: Any) -> Any:
    """Add an adapter to the weights of one layer, as peft computes it, and return the layer.

    Args:
        layer: A linear layer or embeddings.
        config: Configuration of the adapter.
        rank: Rank for this layer.
        alpha: Alpha for this layer.
        matrices: The adapter's weights for this layer, by name, such as `lora_A.weight`.
    """
    from peft import LoraConfig, inject_adapter_in_model, set_peft_model_state_dict
    from torch.nn import ModuleDict

    own = LoraConfig(r=rank, lora_alpha=alpha, target_modules=["layer"], **_switches(config))  # pyright: ignore[reportArgumentType] - alpha may be a float
    holder: Any = inject_adapter_in_model(own, ModuleDict({"layer": layer}))
    found: Any = set_peft_model_state_dict(holder, {f"layer.{key}": one for key, one in matrices.items()})
    if lost := [*found.unexpected_keys, *(key for key in found.missing_keys if ".default" in key)]:
        raise ChatError(f"The adapter was not loaded completely ({lost[0]}).", "Update peft.")
    holder["layer"].merge(safe_merge=True)
    return holder["layer"].get_base_layer()


def changes_ends(model: Any, weights: AdapterWeights) -> bool:
    """Return whether an adapter changes the embeddings or the output layer, which some models share."""
    ends = {id(plain_module(one)) for one in (model.get_input_embeddings(), model.get_output_embeddings())}
    inside = (one for name in weights.modules for one in plain_module(model.get_submodule(name)).modules())
    return any(id(one) in ends for one in inside)


def _switches(config: AdapterConfig) -> dict[str, bool]:
    return {name: config.has(name) for name in ("use_rslora", "use_dora", "lora_bias")}


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
        inference_mode=True,
        **_switches(config),
    )


def _pattern(values: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return the most common value, and a pattern for the modules of each other value."""
    common = Counter(values.values()).most_common(1)[0][0]
    others: dict[Any, list[str]] = {}
    for module, value in values.items():
        if value != common:
            others.setdefault(value, []).append(re.escape(module))
    return common, {"|".join(modules): value for value, modules in others.items()}
