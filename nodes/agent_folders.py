"""Which agents can be chosen: the built-in ones and the Qwen3-VL checkpoints in the host's agent folders.

Decision: any local folder of the right architecture is offered, none is listed by name and none is downloaded. A choice
is looked up among those found, never joined to a path, so a workflow from a stranger cannot reach outside the folders.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..backend.errors import SettingsError

BUILT_IN = {"tiny world planner": "tinyworld:planner", "tiny world critic": "tinyworld:critic"}
NO_ADAPTER = "none"
ARCHITECTURE = "qwen3_vl"
DEPTH = 2


def agent_names(roots: Sequence[Path]) -> list[str]:
    """The built-in agents, then the checkpoints found, as paths relative to their root."""
    return [*BUILT_IN, *_found(roots, "config.json")]


def adapter_names(roots: Sequence[Path]) -> list[str]:
    """`none`, then the LoRA adapters found."""
    return [NO_ADAPTER, *_found(roots, "adapter_config.json")]


def agent_spec(name: str, roots: Sequence[Path]) -> str:
    """Specification of an agent for `open_chat`; raises SettingsError if there is no such agent any more."""
    return BUILT_IN[name] if name in BUILT_IN else f"transformers:{_folder(name, roots, 'config.json')}"


def adapter_folder(name: str, roots: Sequence[Path]) -> str | None:
    """Folder of an adapter, None for `none`; raises SettingsError if there is no such adapter any more."""
    return None if name == NO_ADAPTER else str(_folder(name, roots, "adapter_config.json"))


def weights_stamp(name: str, roots: Sequence[Path], marker: str = "config.json") -> str:
    """A string that changes when the files of an agent or adapter change; empty for a built-in or missing one."""
    folder = _found(roots, marker).get(name)
    if folder is None:
        return ""
    files = sorted(path for path in folder.iterdir() if path.is_file())
    return " ".join(f"{path.name}:{path.stat().st_size}:{path.stat().st_mtime_ns}" for path in files)


def _folder(name: str, roots: Sequence[Path], marker: str) -> Path:
    folder = _found(roots, marker).get(name)
    if folder is None:
        places = " or ".join(repr(str(root)) for root in roots)
        raise SettingsError(
            f"There is no agent {name!r}.", f"Put its folder into {places} and refresh the page."
        )
    return folder


def _found(roots: Sequence[Path], marker: str) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for root in roots:
        for folder in sorted(_folders(root, DEPTH)):
            if (folder / marker).is_file() and (marker != "config.json" or _is_agent(folder / marker)):
                found.setdefault(folder.relative_to(root).as_posix(), folder)
    return found


def _folders(root: Path, depth: int) -> Iterator[Path]:
    if not root.is_dir():
        return
    for folder in root.iterdir():
        if folder.is_dir() and not folder.name.startswith("."):
            yield folder
            if depth > 1:
                yield from _folders(folder, depth - 1)


def _is_agent(config: Path) -> bool:
    try:
        return str(json.loads(config.read_text(encoding="utf-8")).get("model_type", "")).startswith(
            ARCHITECTURE
        )
    except (OSError, ValueError, AttributeError):
        return False
