"""What to do when a library that a node needs is missing, broken or too old, in one line.

Decision: the pack shares the host's Python with everything else the artist has installed, so it must load in
any of them and say at the node that needs it which command mends it. The command names the interpreter that
is running, since the host often brings its own.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version

from ...backend.errors import InterleaveError, SettingsError
from ...backend.machine.libraries import is_too_old, least

REASONS = {
    "transformers": "to read Qwen3-VL agents",
    "torchvision": "to show images to Qwen3-VL agents",
    "diffusers": "to draw the tiny world",
    "peft": "to lay a LoRA adapter over an agent",
    "bitsandbytes": "to hold an agent in 8 or 4 bits",
    "accelerate": "to hold an agent in 8 or 4 bits",
    "httpx": "to speak to a server",
    "tenacity": "to speak to a server",
    "huggingface-hub": "to download an agent",
}
LIBRARY_FAULTS = (ImportError, AttributeError, RuntimeError, OSError)


def check_library(name: str) -> None:
    """Raise SettingsError if a library of REASONS is missing or older than pyproject.toml asks for."""
    wanted = least(name)
    try:
        installed = version(name)
    except PackageNotFoundError:
        installed = ""
    if installed and not is_too_old(name, installed):
        return
    found = f"{name} {installed} is too old" if installed else f"{name} is not installed"
    raise SettingsError(
        f"{found}; {wanted} or newer is needed {REASONS[name]}.", _command(f"{name}>={wanted}")
    )


@contextmanager
def require_library(*names: str) -> Iterator[None]:
    """Check libraries before, and turn their failures inside (a broken installation) into one line."""
    for name in names:
        check_library(name)
    try:
        yield
    except InterleaveError:
        raise
    except LIBRARY_FAULTS as error:
        found = ", ".join(f"{name} {version(name)}" for name in names)
        reason = next(iter(str(error).splitlines()), "")
        raise SettingsError(
            f"{found} failed: {type(error).__name__}: {reason}",
            f"If torch, torchvision or {names[0]} do not fit together, this mends it: "
            f"{_command(*names, option='--upgrade')}",
        ) from error


def _command(*requirements: str, option: str = "") -> str:
    option = f" {option}" if option else ""
    named = " ".join(f'"{requirement}"' for requirement in requirements)
    return f'Run: "{sys.executable}" -m pip install{option} {named}'
