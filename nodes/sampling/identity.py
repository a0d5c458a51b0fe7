"""Identity of the weights loaded by the host, and of objects of the user's graph, such as a ControlNet.

It is computed from the content, not from a file name or the host's patch id, which changes with every
process: a run resumed after a restart must find its images again, and one with a changed LoRA or control
image must not. A few values of every weight tensor are read, since a diffusion model has gigabytes. Python
code is identified by its name only, and attributes used only while sampling are ignored.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Iterator
from typing import Any

import torch

SAMPLES = 64


def weights_identity(patcher: Any) -> str:
    """Return `CLASS-DIGEST` of a ModelPatcher.

    It changes with the weights, their dtype, their patches and the noise schedule. Python code added to the
    model (attention patches, wrappers) is identified by its name only.
    """
    name = type(patcher.model).__name__
    content = hashlib.blake2b(name.encode(), digest_size=6)
    replaced = tuple(f"{key}." for key in (*patcher.object_patches_backup, "model_sampling"))
    for key, tensor in sorted(patcher.model.state_dict().items()):
        if not key.startswith(replaced):
            # While the model is on the GPU, the manager overwrites these with patched weights and keeps a
            # backup.
            original = patcher.backup.get(key)
            _add(content, key, tensor if original is None else original.weight)
    if hasattr(patcher.model, "model_sampling"):
        schedule = patcher.get_model_object("model_sampling")
        content.update(type(schedule).__qualname__.encode())
        for key, tensor in sorted(schedule.state_dict().items()):
            _add(content, key, tensor)
    for key, patches in sorted(patcher.patches.items(), key=lambda item: str(item[0])):
        for strength, value, model_strength, *_ in patches:
            content.update(f"{key} {strength} {model_strength}".encode())
            for number, tensor in enumerate(_tensors(value)):
                _add(content, str(number), tensor)
    for key, patch in sorted(patcher.object_patches.items()):
        content.update(f"{key} {type(patch).__qualname__}".encode())
    content.update("\n".join(sorted(_names(patcher.model_options))).encode())
    _add_hung_in(content, patcher)
    return f"{name}-{content.hexdigest()}"


def _add_hung_in(content: Any, patcher: Any) -> None:
    """Add wrappers, hooks, and LoRA that bypass the weights (whose tensors are in the attachment)."""
    for name in ("wrappers", "injections", "attachments"):
        content.update(" ".join(sorted(_names(getattr(patcher, name, {}), name))).encode())
    for name, attachment in sorted(getattr(patcher, "attachments", {}).items()):
        adapters = getattr(attachment, "adapters", None)
        for key, entries in sorted(adapters.items()) if isinstance(adapters, dict) else ():
            for adapter, strength, *_ in entries:
                content.update(f"{name} {key} {strength}".encode())
                for number, tensor in enumerate(_tensors(adapter)):
                    _add(content, str(number), tensor)
    for hook, patches in getattr(patcher, "hook_patches", {}).items():
        content.update(f"hook {getattr(hook, 'strength', '')} {len(patches)}".encode())


def _add(content: Any, name: str, tensor: Any) -> None:
    # A quantized tensor cannot be sliced; use the plain tensors that it consists of.
    if not type(tensor).__module__.startswith("torch") and hasattr(tensor, "state_dict"):
        for part, plain in sorted(tensor.state_dict(name).items()):
            _add(content, part, plain)
        return
    content.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
    if not tensor.is_meta:
        flat = tensor.detach().reshape(-1)
        few = flat[:: max(1, flat.numel() // SAMPLES)][:SAMPLES]
        content.update(few.to(device="cpu", dtype=torch.float64).numpy().tobytes())


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from _tensors(part)
    elif hasattr(value, "weights"):  # the host's weight adapters (LoRA, LoHa...)
        yield from _tensors(value.weights)


def _names(options: Any, path: str = "") -> Iterator[str]:
    if isinstance(options, dict):
        for key, value in options.items():
            yield from _names(value, f"{path}/{key}")
    elif isinstance(options, (list, tuple)):
        for number, value in enumerate(options):
            yield from _names(value, f"{path}/{number}")
    elif callable(options):
        yield f"{path}={getattr(options, '__qualname__', type(options).__qualname__)}"
    elif isinstance(options, (str, int, float, bool)):
        yield f"{path}={options}"


WORKING = frozenset(
    [
        "conds",
        "original_conds",
        "inner_model",
        "loaded_models",
        "model_options",
        "seed",
        "cond_hint",
        "extra_concat",
        "timestep_range",
        "model_sampling_current",
        "multigpu_clones",
        "control_model",
        "latent_format",
        "load_device",
    ]
)
"""Attributes that are ignored: working state, and those covered by another attribute."""
DEEPEST = 8


def graph_identity(value: Any) -> str:
    """Return `CLASS-DIGEST` of an object, tensor or plain value."""
    content = hashlib.blake2b(digest_size=8)
    _add_part(content, value, DEEPEST)
    return f"{type(value).__name__}-{content.hexdigest()}"


def _add_part(content: Any, value: Any, depth: int) -> None:
    if isinstance(value, torch.Tensor):
        numbers = value.detach().contiguous().flatten().view(torch.uint8).cpu().numpy()
        content.update(f"{tuple(value.shape)} {value.dtype}".encode())
        content.update(numbers.tobytes())
    elif value is None or isinstance(value, (str, int, float, bool, enum.Enum)):
        content.update(f"{value!r};".encode())
    elif isinstance(value, dict):
        for key in sorted(value, key=str):
            content.update(f"{key}=".encode())
            _add_part(content, value[key], depth - 1)
    elif isinstance(value, (list, tuple)):
        content.update(f"[{len(value)}".encode())
        for one in value:
            _add_part(content, one, depth - 1)
    else:
        _add_object(content, value, depth)


def _add_object(content: Any, value: Any, depth: int) -> None:
    patcher = value if hasattr(value, "object_patches_backup") else getattr(value, "patcher", None)
    named = value if callable(value) and hasattr(value, "__qualname__") else type(value)
    content.update(f"{named.__qualname__};".encode())
    if patcher is not None:
        content.update(weights_identity(patcher).encode())
    elif (depth > 0 and not callable(value)) or hasattr(value, "set_conds"):
        held = {name: one for name, one in vars(value).items() if name not in WORKING}
        _add_part(content, held, depth - 1)
