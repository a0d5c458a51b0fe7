"""Minimum versions of libraries, and comparison with the installed ones.

The minimum versions are only in pyproject.toml, which pip reads too. It is next to the package where ComfyUI
runs a checkout, and in the package's metadata once installed. Libraries are looked up without importing them,
so the check is fast.
"""

from __future__ import annotations

import re
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

PROJECT = Path(__file__).parents[2] / "pyproject.toml"
BOUND = re.compile(
    r"""["']?([A-Za-z0-9_.-]+)(?:\[[^\]]*\])?>=([0-9.]+)(?:; \(?python_version (<|>=) ["']3\.(\d+))?"""
)
"""A library, its oldest version, and the versions of Python for which that holds."""


def least(library: str) -> str:
    """Return the minimum version, such as "5.0", or "" for a library without one."""
    return _bounds().get(library, "")


def installed(library: str) -> str:
    """Return the installed version, or "" if it is not installed."""
    try:
        return version(library)
    except PackageNotFoundError:
        return ""


def is_too_old(library: str, found: str) -> bool:
    """Return whether a version is older than `least`. A pre-release counts as its release."""
    return release(found) < release(least(library))


def release(text: str) -> tuple[int, ...]:
    """Return the leading numbers of a version without trailing zeros: "1.16.0.dev0" is (1, 16)."""
    match = re.match(r"\d+(?:\.\d+)*", text)
    numbers = [int(part) for part in match.group().split(".")] if match else []
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


def torchvision_repair(error: BaseException | None) -> str:
    """Return how to repair torchvision if an error, or its cause, is that it does not load with this torch.

    transformers and diffusers import torchvision themselves and hide the reason behind the name of a class.

    Returns:
        One sentence with the command, or "" for another error.
    """
    while error is not None:
        if "torchvision::" in str(error):
            build = installed("torch").partition("+")[2]
            index = f" --index-url https://download.pytorch.org/whl/{build}" if build else ""
            return (
                f"torch {installed('torch')} and torchvision {installed('torchvision')} do not belong "
                f"together. Reinstall both with: pip install --force-reinstall torch torchvision{index}"
            )
        error = error.__cause__ or error.__context__
    return ""


@cache
def _bounds() -> dict[str, str]:
    if PROJECT.is_file():
        text = PROJECT.read_text(encoding="utf-8").partition("\ndependencies = [")[2]
        # The list ends where the first table that does not list libraries begins.
        lines = text.partition("\n[project.scripts]")[0].splitlines()
        named = re.findall(r'"[^"]+"', "\n".join(lines))
    else:
        named = requires("interleave-thinker") or []
    found = (BOUND.match(one) for one in named)
    return {one[1]: one[2] for one in found if one and _is_for_this_python(one[3], one[4])}


def _is_for_this_python(sign: str | None, minor: str | None) -> bool:
    return sign is None or (sys.version_info < (3, int(minor or 0))) == (sign == "<")
