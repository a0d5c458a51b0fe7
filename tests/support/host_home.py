"""Finds this machine's ComfyUI, if it has one; nothing of it is imported."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

HOW_TO_ENABLE = (
    "Host tests need ComfyUI 0.14.1 or newer: set COMFYUI_PATH to its folder (or have it in "
    "~/comfy/ComfyUI) and "
    "COMFYUI_PYTHON to the Python that it runs with (or have a .venv inside it)."
)


@dataclass(frozen=True)
class HostHome:
    """Paths of the host's sources and its Python."""

    folder: Path
    python: Path
    front_end: Path | None = None
    """Folder of a built front end (with an index.html); `None` for the one that the host pins."""


def find_host() -> HostHome | None:
    """Return the host on this machine; `None` if there is none."""
    folder = Path(os.environ.get("COMFYUI_PATH") or Path.home() / "comfy" / "ComfyUI").expanduser()
    given = os.environ.get("COMFYUI_PYTHON")
    front_end = os.environ.get("COMFYUI_FRONT_END_ROOT")
    return home_at(
        folder,
        python=Path(given).expanduser() if given else None,
        front_end=Path(front_end).expanduser().resolve() if front_end else None,
    )


def home_at(folder: Path, python: Path | None = None, front_end: Path | None = None) -> HostHome | None:
    """Return the host in this folder, with this Python or that of a virtual environment inside it.

    Returns `None` if either is missing.
    """
    pythons = [folder / name / "bin" / "python" for name in (".venv", "venv")]
    found = next((path for path in ([python] if python else []) + pythons if path.exists()), None)
    if not (folder / "main.py").exists() or found is None:
        return None
    return HostHome(folder, found, front_end)
