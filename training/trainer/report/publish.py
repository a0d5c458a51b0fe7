"""Uploads a trained checkpoint and its model card to the Hugging Face Hub.

Only files of the checkpoint are uploaded: weights, configuration, tokenizer, prompt set and cards. The state
of a trainer, logs, rows and images stay. Configurations lose the paths that libraries write into them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from ....backend.checkpoints.checkpoint import HUB_ID, check_adapter, check_checkpoint
from ....backend.errors import SettingsError, TrainingError, boundary
from ....backend.files.bounded_reader import read_json
from ....backend.prompts.agent_card import CARD, read_card
from ....backend.prompts.prompt_set import FOLDER_NAME
from .model_card import ADAPTER, README, CardFacts, Origin, license_of, read_facts, write_card

FILES = (
    *("*.safetensors", "*.safetensors.index.json", "config.json", "generation_config.json", ADAPTER),
    *("*processor_config.json", "chat_template.jinja", "chat_template.json", "additional_chat_templates/*"),
    *("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "vocab.json", "merges.txt"),
    *("special_tokens_map.json", "added_tokens.json", CARD, f"{FOLDER_NAME}/*.txt"),
    *("LICENSE*", "NOTICE*", README),
)
"""Files that belong to a checkpoint; others, such as the state of a trainer, stay."""
NAMES = ("base_model_name_or_path", "_name_or_path", "name_or_path")
"""Keys in which libraries write the path of a model."""
LICENSE_ID = re.compile(r"[a-z0-9][a-z0-9.+-]{1,59}")


def publish(
    folder: Path, repo: str, license: str | None = None, without_gate: bool = False, public: bool = False
) -> str:
    """Upload the result of a training, or a checkpoint, to the repository `repo` of the hub.

    Returns:
        The address of the uploaded files.

    Raises:
        SettingsError: The license is not known, the checkpoint did not pass the gate, or one of its files is
            a link.
        ChatError: The folder is not a usable checkpoint.
        TrainingError: The upload failed, or the facts of the model card cannot be read.
    """
    from huggingface_hub import CommitOperationAdd, HfApi

    checkpoint = folder / "final" if (folder / "final").is_dir() else folder
    if (checkpoint / ADAPTER).is_file():
        check_adapter(checkpoint)
    else:
        check_checkpoint(checkpoint, untested=True)
    facts = read_facts(checkpoint) or _little_known(checkpoint)
    if not without_gate:
        _check_gate(checkpoint, facts)
    write_card(checkpoint, facts, _license(checkpoint, facts, license), repo.rpartition("/")[2])
    operations = [
        CommitOperationAdd(path.relative_to(checkpoint).as_posix(), _content(path, facts.base))
        for path in _files(checkpoint)
    ]
    with boundary(TrainingError, f"The upload to {repo!r} failed", "Log in with `hf auth login`, and retry."):
        api = HfApi()
        api.create_repo(repo, private=not public, exist_ok=True)
        return str(api.create_commit(repo, operations, commit_message="Upload a trained agent").commit_url)


def _check_gate(checkpoint: Path, facts: CardFacts) -> None:
    """Check that the checkpoint may be shared as good.

    Raises:
        SettingsError: A critic did not pass the gate or was not measured, or the training had to stop.
    """
    card = read_card(checkpoint / CARD)
    gate, planner = (card.gate, card.role == "planner") if card else (None, False)
    how = "or publish it anyway with --without-gate; its model card then says so."
    if facts.stopped:
        raise SettingsError(f"The training had to stop: {facts.stopped}.", f"Train it again, {how}")
    if planner or facts.role == "planner" or (gate is not None and gate.passed):
        return
    did = "did not pass" if gate is not None else "was not measured by"
    raise SettingsError(
        f"The critic in {str(checkpoint)!r} {did} the regression gate.",
        f"Train it with critic-sft --held-out or own-critic, {how}",
    )


def _license(checkpoint: Path, facts: CardFacts, given: str | None) -> str:
    known = given or license_of(checkpoint) or facts.base.license
    if known is None:
        raise SettingsError(
            f"The license of {facts.base.hub or facts.base.name} is not known.",
            "Look it up and give it with --license, such as --license apache-2.0. It must allow derivatives.",
        )
    if not LICENSE_ID.fullmatch(known):
        raise SettingsError(
            f"{known[:80]!r} is not a license identifier of the Hugging Face Hub.",
            "Write it in lower case, such as apache-2.0, cc-by-nc-4.0 or other.",
        )
    return known


def _little_known(checkpoint: Path) -> CardFacts:
    """Return the facts about a checkpoint without any, such as one of an earlier version."""
    card = read_card(checkpoint / CARD)
    config: Any = read_json(checkpoint / ADAPTER, TrainingError) if (checkpoint / ADAPTER).is_file() else {}
    named = str(config.get("base_model_name_or_path") or "") if isinstance(config, dict) else ""
    hub = named if HUB_ID.fullmatch(named) else None
    base = Origin(name=_name_of(named) or "not known", digest="not known", hub=hub)
    return CardFacts(stage="not known", role=card.role if card else None, base=base)


def _files(checkpoint: Path) -> Iterator[Path]:
    """Yield the files to upload. A link could name any file of the user.

    Raises:
        SettingsError: One is a link.
    """
    for path in sorted({path for pattern in FILES for path in checkpoint.glob(pattern) if path.is_file()}):
        if path.is_symlink() or path.parent.is_symlink():
            raise SettingsError(f"{str(path)!r} is a link.", "Replace it by the file if it may be shared.")
        yield path


def _content(path: Path, base: Origin) -> Path | bytes:
    """Return the path of a file, or its content with names of models instead of their paths."""
    if path.suffix != ".json" or path.name in ("tokenizer.json", "vocab.json"):
        return path
    named = _with_names(read_json(path, TrainingError), base)
    return json.dumps(named, ensure_ascii=False, indent=2).encode() + b"\n"


def _with_names(content: Any, base: Origin) -> Any:
    if isinstance(content, list):
        return [_with_names(one, base) for one in content]
    if not isinstance(content, dict):
        return content
    return {
        key: base.hub or _name_of(str(value)) if key in NAMES and value else _with_names(value, base)
        for key, value in content.items()
    }


def _name_of(model: str) -> str:
    """Return the hub id of a model, or the last name of its path."""
    return model if HUB_ID.fullmatch(model) else PurePosixPath(PureWindowsPath(model).as_posix()).name
