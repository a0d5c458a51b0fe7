"""Minimum versions of libraries, and a check that those for training are installed before anything is loaded.

The minimum versions are only in pyproject.toml, which pip reads too. It is next to the package where ComfyUI
runs a checkout, and in the package's metadata once installed. Libraries are looked up without importing them,
so a missing or old one is a fast one-line error. trl before 1.15 (which needs Python 3.11) knows only one end
token, so it learns from what follows another one, before 1.14 it does not await the reward, before 1.6 it
counts a skipped sample as 0, and up to 1.9.1 it halves the gradient with two updates per rollout.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from ..errors import SettingsError

TRAINERS = ("trl", "transformers", "accelerate", "datasets")
"""Libraries that every training needs."""
EXTRAS = {"bitsandbytes": "quantization", "vllm": "vllm"}
EXTRAS |= dict.fromkeys(("fastapi", "uvicorn", "python_multipart"), "serve")
EXTRAS["datasketch"] = "research"
PROJECT = Path(__file__).parents[3] / "pyproject.toml"
BOUND = re.compile(
    r"""["']?([A-Za-z0-9_.-]+)(?:\[[^\]]*\])?>=([0-9.]+)(?:; \(?python_version (<|>=) ["']3\.(\d+))?"""
)
"""A library, its oldest version, and the versions of Python for which that holds."""


def missing(libraries: Sequence[str]) -> list[str]:
    """Return those of the libraries that are not installed."""
    return [library for library in libraries if importlib.util.find_spec(library) is None]


def outdated(libraries: Sequence[str]) -> list[str]:
    """Return the installed libraries that are too old, as "trl 1.9.0 (1.16 or newer)"."""
    found = []
    for library in libraries:
        try:
            here = version(library)
        except PackageNotFoundError:
            continue
        if is_too_old(library, here):
            found.append(f"{library} {here} ({least(library)} or newer)")
    return found


def require(*libraries: str) -> None:
    """Check that libraries are installed and new enough.

    Raises:
        SettingsError: Some are not. The message lists them, and the hint is the command that installs them.
    """
    absent = missing(libraries)
    if absent:
        raise SettingsError(f"This requires {_listed(absent)}, not installed here.", _how(absent))
    old = outdated(libraries)
    if old:
        raise SettingsError(
            f"These libraries are too old: {_listed(old)}.", _how([one.split()[0] for one in old])
        )


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _how(libraries: Sequence[str]) -> str:
    extras = sorted({EXTRAS.get(library, "training") for library in libraries})
    return f'Install, in the folder of this package: pip install -U ".[{",".join(extras)}]"'


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
