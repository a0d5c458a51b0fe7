"""Environment variables, devices and threads of this machine.

This is the only module that reads environment variables for code that runs in ComfyUI. A variable is set by
the owner of the machine, and no workflow or file can change it: API keys and the hosts that may receive them,
the number of threads. A review of what the package reads from the environment needs only this file.
"""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..errors import SettingsError

SET_BY_USER = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
INHERITED = ("PATH", "SYSTEMROOT", "LD_LIBRARY_PATH", "LANG")
"""Variables that a program of others gets in `restricted`."""
SECRET = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD)S?$", re.IGNORECASE)


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


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute on one thread inside the block, unless the environment sets the number of threads."""
    import torch

    before = torch.get_num_threads()
    if before == 1 or any(variable(name) for name in SET_BY_USER):
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def variable(name: str) -> str:
    """Return the value of an environment variable without surrounding blanks, or "" if it is not set."""
    return os.environ.get(name, "").strip()


def for_a_child(leave_out: str, **more: str) -> dict[str, str]:
    """Return the environment for a child process.

    Variables that look like secrets by name are removed.

    Args:
        leave_out: Prefix of further variables to remove.
        **more: Variables to add.
    """
    own = {
        name: value
        for name, value in os.environ.items()
        if not SECRET.search(name) and not name.startswith(leave_out)
    }
    return {**own, **more}


def restricted(home: Path, **more: str) -> dict[str, str]:
    """Return the environment for a program of others: no key, no proxy, an empty home and no model hub.

    Args:
        home: Folder for its home and its temporary files. It is created.
        **more: Variables to add.
    """
    with suppress(OSError):
        home.mkdir(parents=True, exist_ok=True)
    inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
    fixed = {
        "HOME": str(home),
        "TMPDIR": str(home),
        "HF_HOME": str(home / "hf"),
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "NO_PROXY": "*",
        "PYTHONBREAKPOINT": "0",
        "PYTHONIOENCODING": "utf-8",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return {**inherited, **fixed, **more}


@contextmanager
def collector_paused() -> Iterator[None]:
    """Collect no garbage inside the block: scanning the objects of imported libraries takes long."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.freeze()
            gc.unfreeze()  # The objects are old ones now, which are rarely scanned.
            gc.enable()
