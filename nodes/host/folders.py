"""The host's folders: agents' checkpoints, inputs, outputs.

Agents have their own model folder, which extra_model_paths.yaml can extend like any other.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import folder_paths

AGENT_FOLDER = "interleave_agents"
IMAGE_ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".avif")
MAX_LOOKED_AT = 20_000


def register_folders() -> None:
    """Register models/interleave_agents; entries of extra_model_paths.yaml are already registered."""
    default = Path(folder_paths.models_dir) / AGENT_FOLDER
    folder_paths.add_model_folder_path(AGENT_FOLDER, str(default), is_default=True)


def agent_roots() -> list[Path]:
    """Return all folders for agents' checkpoints, the default one first."""
    if AGENT_FOLDER not in folder_paths.folder_names_and_paths:
        register_folders()
    return [Path(root) for root in folder_paths.get_folder_paths(AGENT_FOLDER)]


def pipeline_roots() -> list[Path]:
    """Return all folders for diffusers pipelines."""
    return [Path(root) for root in folder_paths.get_folder_paths("diffusers")]


def lora_names() -> list[str]:
    """Return the LoRAs in the host's folders, by their names in its lists; safetensors files only."""
    return [name for name in folder_paths.get_filename_list("loras") if name.endswith(".safetensors")]


def lora_name(name: str) -> str | None:
    """Return a LoRA's name in the host's list, `None` if it is not there. Both kinds of slashes are read."""
    names = lora_names()
    written = name.replace("\\", "/").replace("/", os.sep)
    return name if name in names else written if written in names else None


def lora_file(name: str) -> Path | None:
    """Return the file of a LoRA in the list, `None` for an unknown name."""
    listed = lora_name(name)
    found = folder_paths.get_full_path("loras", listed) if listed else None
    return Path(found) if found else None


def output_folder() -> Path:
    """Return the host's output folder."""
    return Path(folder_paths.get_output_directory())


def input_images(most: int) -> list[str]:
    """Return the newest images of the input folder as relative paths with slashes.

    At most MAX_LOOKED_AT files are examined.
    """
    root = folder_paths.get_input_directory()
    found: list[tuple[float, str]] = []
    for looked, entry in enumerate(_files(root)):
        if looked == MAX_LOOKED_AT:
            break
        if entry.name.lower().endswith(IMAGE_ENDINGS):
            with suppress(OSError):
                found.append((entry.stat().st_mtime, os.path.relpath(entry.path, root).replace(os.sep, "/")))
    return [name for _, name in sorted(found, reverse=True)[:most]]


def _files(folder: str) -> Iterator[os.DirEntry[str]]:
    """Yield the files below a folder, without following links."""
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    yield from _files(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    yield entry
    except OSError:
        return  # an unreadable folder is skipped
