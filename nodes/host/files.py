"""The host's folders, and files below its output folder.

Agents have their own model folder, which extra_model_paths.yaml can extend like any other. Files are named by
a prefix as in the host's Save Image: the host numbers the names, so nothing is overwritten, and rejects a
prefix that leads outside. Names that it accepts and a file system would not (control characters, dots,
Windows devices) are rejected here. Temporary images are shown from the host's temporary folder, images in a
journal from there.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import folder_paths
import torch
from comfy.cli_args import args
from comfy_api.latest import io, ui

from ...backend.core.errors import JournalError, SettingsError
from ...backend.core.files.atomic import name_fault
from ..inputs.validation import fault_of

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


MAX_PREFIX = 200
MAX_NAME = 100
FORBIDDEN = re.compile(r"[\x7f]")
"""In addition to what `name_fault` rejects. Slashes and backslashes are subfolders here."""


@dataclass(frozen=True)
class NewName:
    """An unused name below the output folder: `folder`/`stem`, with any ending."""

    folder: Path
    stem: str

    def file(self, ending: str = "") -> Path:
        """Return the path with this ending ("" for a folder)."""
        return self.folder / f"{self.stem}{ending}"


def new_name(prefix: str, size: tuple[int, int] = (0, 0)) -> NewName:
    """Return the next unused name `PREFIX_00001_` below the output folder.

    Args:
        prefix: Beginning of the name, with subfolders before it. %year%, %width% and the like are replaced;
            the browser has replaced %date:yyyy-MM-dd% and %Node.widget% (web/host.js).
        size: Width and height in pixels of the saved images, for %width% and %height%.

    Raises:
        SettingsError: The prefix is not a safe name, or leads outside.
        JournalError: The folder cannot be made.
    """
    output = folder_paths.get_output_directory()
    check_name(prefix)
    try:
        folder, name, counter, _, _ = folder_paths.get_save_image_path(
            prefix.replace("\\", "/"), output, *size
        )
    except OSError as error:
        raise JournalError(
            f"Cannot create the folder of {prefix!r} ({error.strerror or error}).",
            "Check the disk, or choose another name.",
        ) from error
    except Exception as error:  # the host raises a bare Exception for a prefix that leads outside
        raise SettingsError(
            f"{prefix[:80]!r} leads out of the output folder.", "Begin it with a name."
        ) from error
    return NewName(Path(folder), f"{name}_{counter:05}_")


def prefix_fault(prefix: str | None) -> bool | str:
    """Return the error of a name prefix, True if it has none: the result of a node's `validate_inputs`.

    `None` is a prefix on a wire; `new_name` checks it when the node runs.
    """
    return prefix is None or fault_of(lambda: check_name(prefix), filename_prefix=prefix)


def check_name(prefix: str) -> None:
    """Check a name prefix.

    Raises:
        SettingsError: It is not a safe name, leads out of the output folder, or leads through a file.
    """
    parts = prefix.replace("\\", "/").split("/")
    plain = 0 < len(prefix) <= MAX_PREFIX and not FORBIDDEN.search(prefix)
    if (
        not plain
        or any(part.startswith((".", " ")) or (part and name_fault(part)) for part in parts)
        or not parts[-1]
    ):
        raise SettingsError(
            f"{prefix[:80]!r} is not a valid beginning of a file name.",
            "Use letters and digits, and / for subfolders, for example stories/boat.",
        )
    if len(parts[-1].encode()) > MAX_NAME:
        raise SettingsError(f"The name {parts[-1][:40]!r}... is too long.", f"Use at most {MAX_NAME} bytes.")
    output = Path(os.path.abspath(folder_paths.get_output_directory()))
    folder = Path(os.path.abspath(output.joinpath(*parts[:-1]) if parts[0] else "/".join(parts[:-1])))
    if not folder.is_relative_to(output):
        raise SettingsError(f"{prefix[:80]!r} leads out of the output folder.", "Begin it with a name.")
    for place in (folder, *folder.parents):
        if place.is_dir():
            return
        if place.exists():
            raise SettingsError(
                f"{prefix[:80]!r} leads through {place.name!r}, a file.", "Choose another name."
            )


def graph_metadata(hidden: io.HiddenHolder | None) -> dict[str, str]:
    """Return the running graph as in the host's Save Image: JSON texts by key (`prompt`, `workflow`...).

    Empty if the host was started with --disable-metadata, or the graph is unknown.
    """
    if getattr(args, "disable_metadata", False) or hidden is None:
        return {}
    sent = hidden.extra_pnginfo if isinstance(hidden.extra_pnginfo, dict) else {}
    graph = {} if hidden.prompt is None else {"prompt": hidden.prompt}
    return {str(name): json.dumps(value) for name, value in (graph | sent).items()}


def saved_file(path: Path) -> dict[str, Any]:
    """Return the address of a file below the output folder for the host's front end and /view."""
    # Not resolved: a subfolder of the output folder may be a link by its owner, and /view follows it.
    relative = Path(os.path.abspath(path)).relative_to(os.path.abspath(folder_paths.get_output_directory()))
    folder = relative.parent.as_posix()
    return {"filename": relative.name, "subfolder": "" if folder == "." else folder, "type": "output"}


def view_link(saved: dict[str, Any]) -> str:
    """Return the URL of a saved file on this server, without the server's name."""
    return f"/view?{urlencode(saved)}"


def input_folder() -> Path:
    """Return the host's input folder."""
    return Path(folder_paths.get_input_directory())


def shown_images(batches: Sequence[torch.Tensor], node: type[io.ComfyNode]) -> dict[str, Any]:
    """Return a node's display of image batches, saved in the host's temporary folder.

    Args:
        batches: Images, each `(count, height, width, channels)`.
        node: The node.
    """
    results = [result for batch in batches for result in ui.PreviewImage(batch, cls=node).values]
    return {"images": results, "animated": (False,)}


def shown_files(files: Sequence[Path]) -> dict[str, Any]:
    """Return a node's display of image files below the host's output folder."""
    folders = [file.parent.relative_to(output_folder()).as_posix() for file in files]
    results = [
        {"filename": file.name, "subfolder": folder, "type": "output"}
        for file, folder in zip(files, folders, strict=True)
    ]
    return {"images": results, "animated": (False,)}
