"""Identity of an object of the user's graph, such as a guider, a sampler or a ControlNet.

It is computed from the object's content, since the host creates the object again for every run: a resumed run
must find its images again, and one with a changed strength or control image must not. Python code is
identified by its name only. Attributes used only while sampling are ignored.
"""

from __future__ import annotations

import enum
import hashlib
from typing import Any

import torch

from .weights_identity import weights_identity

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
    _add(content, value, DEEPEST)
    return f"{type(value).__name__}-{content.hexdigest()}"


def _add(content: Any, value: Any, depth: int) -> None:
    if isinstance(value, torch.Tensor):
        numbers = value.detach().contiguous().flatten().view(torch.uint8).cpu().numpy()
        content.update(f"{tuple(value.shape)} {value.dtype}".encode())
        content.update(numbers.tobytes())
    elif value is None or isinstance(value, (str, int, float, bool, enum.Enum)):
        content.update(f"{value!r};".encode())
    elif isinstance(value, dict):
        for key in sorted(value, key=str):
            content.update(f"{key}=".encode())
            _add(content, value[key], depth - 1)
    elif isinstance(value, (list, tuple)):
        content.update(f"[{len(value)}".encode())
        for one in value:
            _add(content, one, depth - 1)
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
        _add(content, held, depth - 1)
