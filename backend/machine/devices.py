"""The device on which a model runs, by the name that torch has for it.

Decision: whether a device is there is asked by putting one number on it. That is true of every kind (NVIDIA
and AMD as cuda, Macs as mps, DirectML as privateuseone once torch_directml is imported, Intel as xpu), where
a question of its own for each kind is wrong for the kind that nobody thought of.
"""

from __future__ import annotations

from ..errors import SettingsError


def device_named(name: str) -> str:
    """A device by torch's name for it (cpu, cuda:1, mps...), or the best there is for auto; raises
    SettingsError."""
    import torch

    if name == "auto":
        if torch.cuda.is_available():
            return "cuda"
        return "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise SettingsError(f"There is no device {name!r}.", "Such as cpu, cuda, cuda:1 or mps.") from error
    try:
        torch.empty(1, device=device)
    # Each backend refuses in its own way when its library or card is not there.
    except (RuntimeError, AssertionError, NotImplementedError, ImportError) as error:
        reason = next(iter(str(error).splitlines()), "")[:200]
        raise SettingsError(
            f"Device {name!r} is not available here ({reason.rstrip('.')}).", "Use auto or cpu."
        ) from error
    return str(device)


def has_bfloat16(device: str) -> bool:
    """Whether the device computes in bfloat16: newer NVIDIA and AMD cards, Macs from macOS 14; every
    processor, slowly."""
    import torch

    kind = device.partition(":")[0]
    if kind == "cuda":
        return torch.cuda.is_bf16_supported()
    if kind == "mps":
        return torch.backends.mps.is_macos_or_newer(14, 0)
    # DirectML has none; of the others torch's own kinds have it.
    return kind != "privateuseone"
