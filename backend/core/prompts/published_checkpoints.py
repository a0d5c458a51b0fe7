"""Recognizes the published planner and critics, and writes the command that imports their prompts.

They are recognized by their folder, by `_name_or_path` in config.json, and by the model card (README.md).
Nothing is downloaded or requested. The sources of the facts are in docs/how-to/agents/published-models.md.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

from ..errors import SettingsError
from ..files.bounded_reader import read_json, read_text
from .agent_card import Role

REPOSITORY = "https://github.com/zhengdian1/InterleaveThinker"
CLONE = "InterleaveThinker"
PACK = Path(__file__).resolve().parents[3]
"""Folder of this package, which Python runs by its path, under any name (`__main__.py`)."""
HUB_FOLDER = "models--"
MODEL_TYPE = "qwen3_vl"
"""Architecture of the published checkpoints in config.json."""
DATASET = re.compile(r"InterleaveThinker/Train-Data", re.IGNORECASE)
"""Dataset in the metadata of the published model cards."""
MAX_CONFIG, MAX_CARD = 4 * 1024 * 1024, 256 * 1024
TITLE = re.compile(r"^#\s+(.+)$|^model_name:\s*(.+)$", re.MULTILINE)


@dataclass(frozen=True)
class PublishedCheckpoint:
    """One of the published checkpoints. `role` is `None` if only the maker is known."""

    name: str
    about: str
    role: Role | None = None
    image_pixels: int = 1_048_576
    """Maximum number of pixels of an image in the published training scripts."""


PUBLISHED = {
    r"interleave-?thinker-planner-8b": PublishedCheckpoint(
        "InterleaveThinker-Planner-8B", "published planner", "planner"
    ),
    r"(interleave-?thinker-)?critic-sft-8b": PublishedCheckpoint(
        "Critic-SFT-8B", "published fine-tuned critic (the less strict one)", "critic"
    ),
    r"interleave-?thinker-critic-8b": PublishedCheckpoint(
        "InterleaveThinker-Critic-8B", "published reinforced critic (strict)", "critic"
    ),
}
"""Checkpoints by the start of their name, in lower case with dashes."""
UNNAMED = PublishedCheckpoint("", "model trained on the published dataset")


def published_checkpoint(folder: Path, file: str | None = None) -> PublishedCheckpoint | None:
    """Return the published checkpoint in a folder, `None` if there is another one.

    Args:
        folder: Folder of the checkpoint or of the GGUF file.
        file: Name of a weight file that names the checkpoint (GGUF).
    """
    config = _json(folder / "config.json")
    if config and config.get("model_type") != MODEL_TYPE:
        return None
    card = _text(folder / "README.md")
    titles = [title or name for title, name in TITLE.findall(card)]
    cached = [part for part in folder.parts if part.startswith(HUB_FOLDER)]
    for text in (file or "", folder.name, *cached, str(config.get("_name_or_path", "")), *titles):
        found = named_checkpoint(text)
        if found is not None:
            return found
    return UNNAMED if DATASET.search(card) else None


def import_command(folder: Path, published: bool = True) -> str:
    """Return the command that imports the published prompts into a folder, with this program's Python.

    Args:
        folder: Folder of the checkpoint.
        published: Whether it is a published one. For others the user chooses the CHECKOUT.
    """
    checkout = CLONE if published else "CHECKOUT"
    words = [sys.executable or "python", str(PACK), "prompts", "import", checkout, "--to", str(folder)]
    return " ".join(map(_quoted, words))


def named_checkpoint(text: str) -> PublishedCheckpoint | None:
    """Return the published checkpoint that a name or a path names, `None` for another one."""
    last = re.split(r"[\\/]|--", text[-300:].rstrip("\\/"))[-1]
    plain = re.sub(r"[\s_.-]+", "-", last.strip().lower())
    return next((one for pattern, one in PUBLISHED.items() if re.match(pattern, plain)), None)


def _quoted(word: str) -> str:
    if os.name == "nt":
        return f'"{word}"' if re.search(r"[^\w.:\\/-]", word) else word
    return shlex.quote(word)


def _json(path: Path) -> dict[str, object]:
    try:
        found = read_json(path, SettingsError, limit=MAX_CONFIG) if path.is_file() else {}
    except SettingsError:
        return {}  # opening the checkpoint reports it
    return found if isinstance(found, dict) else {}


def _text(path: Path) -> str:
    try:
        return read_text(path, MAX_CARD, SettingsError) if path.is_file() else ""
    except SettingsError:
        return ""  # a model card is optional
