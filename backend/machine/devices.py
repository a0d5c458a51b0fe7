"""The device of a model, by torch's name for it.

A device is tested by allocating a tensor of one element on it. That works for every kind (NVIDIA and AMD as
cuda, Macs as mps, DirectML as privateuseone once torch_directml is imported, Intel as xpu), while a separate
test per kind fails for kinds that were not considered.
"""

from __future__ import annotations

from ..errors import SettingsError


def device_named(name: str) -> str:
    """Return a device by torch's name (cpu, cuda:1, mps...), or the best available one for auto.

    Raises:
        SettingsError: The name is unknown, or the device is not available.
    """
    import torch

    if name == "auto":
        if torch.cuda.is_available():
            return "cuda"
        return "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise SettingsError(f"Unknown device {name!r}.", "Use auto, cpu, cuda, cuda:1 or mps.") from error
    try:
        torch.empty(1, device=device)
    # Each backend raises another error if its library or GPU is missing.
    except (RuntimeError, AssertionError, NotImplementedError, ImportError) as error:
        reason = next(iter(str(error).splitlines()), "")[:200]
        raise SettingsError(
            f"Device {name!r} is not available here ({reason.rstrip('.')}).", "Use auto or cpu."
        ) from error
    return str(device)


def has_bfloat16(device: str) -> bool:
    """Return whether a device supports bfloat16.

    Newer NVIDIA and AMD GPUs do, Macs from macOS 14, and every CPU, slowly.
    """
    import torch

    kind = device.partition(":")[0]
    if kind == "cuda":
        return torch.cuda.is_bf16_supported()
    if kind == "mps":
        return torch.backends.mps.is_macos_or_newer(14, 0)
    # DirectML does not support it. torch's other backends do.
    return kind != "privateuseone"
