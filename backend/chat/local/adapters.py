"""LoRA adapters on a loaded model: whether one fits, and merging one into the weights.

Decision: a merged agent has weights of its own, which nobody shares, and decodes without the two extra
products in every layer; how much that gains is in docs/speed.md. Merging rounds otherwise than adding, so it
is never done unasked.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from ...checkpoints.checkpoint import check_adapter
from ...errors import ChatError, boundary


def check_usable(folder: Path) -> None:
    """Raise ChatError unless the folder is an adapter and there is a library for it."""
    check_adapter(folder)
    if importlib.util.find_spec("peft") is None:
        raise ChatError("Adapters need the library peft.", "Install it: pip install peft")


def check_fit(model: Any, folder: Path) -> None:
    """Raise ChatError unless every LoRA matrix has a module of its size, before anything is attached."""
    from safetensors import safe_open

    modules = dict(model.named_modules())
    fitting = 0
    with safe_open(folder / "adapter_model.safetensors", framework="pt") as weights:
        for key in weights.keys():  # noqa: SIM118 - not a dict
            path, _, side = key.removeprefix("base_model.model.").partition(".lora_")
            if side not in ("A.weight", "B.weight"):
                continue
            module = modules.get(path)
            size = getattr(module, "in_features" if side[0] == "A" else "out_features", None)
            if size != weights.get_slice(key).get_shape()[1 if side[0] == "A" else 0]:
                raise ChatError(f"The adapter {str(folder)!r} does not fit this base model (at {path}).")
            fitting += 1
    if not fitting:
        raise ChatError(f"The adapter {str(folder)!r} holds no LoRA weights for this base model.")


def with_merged(model: Any, folder: Path) -> Any:
    """The model with the adapter added to its weights, in place. Raises ChatError."""
    from peft import PeftModel

    with boundary(ChatError, f"Adapter {str(folder)!r}"):
        check_fit(model, folder)
        merged: Any = PeftModel.from_pretrained(model, str(folder)).merge_and_unload(safe_merge=True)
        merged.train(False).requires_grad_(False)
    return merged
