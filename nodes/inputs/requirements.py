"""Errors for libraries that a node needs and that are missing, broken or too old.

The pack shares the host's Python with everything else the user has installed. So it must load in any
environment, and the node that needs a library reports the command that repairs it. The command names the
running interpreter, since the host often has its own.
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
    "torchvision": "to pass images to Qwen3-VL agents",
    "diffusers": "to run diffusers pipelines and the tiny world",
    "peft": "to apply a LoRA adapter to an agent",
    "bitsandbytes": "to load an agent in 8-bit or 4-bit",
    "accelerate": "to load an agent in 8-bit or 4-bit",
    "httpx": "to connect to a server",
    "tenacity": "to connect to a server",
    "huggingface-hub": "to download an agent",
    "fpdf2": "to export PDF files",
    "fonttools": "to export PDF files",
}
LIBRARY_FAULTS = (ImportError, AttributeError, RuntimeError, OSError)


def check_library(name: str) -> None:
    """Check that a library of `REASONS` is installed in a supported version.

    Raises:
        SettingsError: It is missing or too old. The message has the command that installs it.
    """
    wanted = least(name)
    try:
        installed = version(name)
    except PackageNotFoundError:
        installed = ""
    if installed and not is_too_old(name, installed):
        return
    found = f"{name} {installed} is too old" if installed else f"{name} is not installed"
    raise SettingsError(
        f"{found}. Version {wanted} or newer is needed {REASONS[name]}.", _command(f"{name}>={wanted}")
    )


@contextmanager
def require_library(*names: str) -> Iterator[None]:
    """Check libraries, and report their failures inside the block (a broken installation) as one error.

    Raises:
        SettingsError: A library is missing, too old or broken.
    """
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
            f"If torch, torchvision and {names[0]} do not match, this repairs them: "
            f"{_command(*names, option='--upgrade')}",
        ) from error


def _command(*requirements: str, option: str = "") -> str:
    option = f" {option}" if option else ""
    named = " ".join(f'"{requirement}"' for requirement in requirements)
    return f'Run: "{sys.executable}" -m pip install{option} {named}'
