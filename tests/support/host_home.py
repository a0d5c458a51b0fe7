"""Where this machine's ComfyUI is, if it has one; nothing of it is imported."""

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
    """Where the host's sources and its Python are."""

    folder: Path
    python: Path
    front_end: Path | None = None
    """Folder of a built front end (it has an index.html), None for the one that the host itself pins."""


def find_host() -> HostHome | None:
    """The host on this machine, None if there is none."""
    folder = Path(os.environ.get("COMFYUI_PATH") or Path.home() / "comfy" / "ComfyUI").expanduser()
    pythons = [folder / name / "bin" / "python" for name in (".venv", "venv")]
    if given := os.environ.get("COMFYUI_PYTHON"):
        pythons.insert(0, Path(given).expanduser())
    python = next((path for path in pythons if path.exists()), None)
    if not (folder / "main.py").exists() or python is None:
        return None
    front_end = os.environ.get("COMFYUI_FRONT_END_ROOT")
    return HostHome(folder, python, Path(front_end).expanduser().resolve() if front_end else None)
