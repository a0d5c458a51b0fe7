"""Packs a trained checkpoint into a folder that can be uploaded as it is.

Only files of the checkpoint are copied: weights, configuration, tokenizer, prompt set and cards. The state of
a trainer, logs, rows and images stay. Configurations lose the paths that libraries write into them.
Uploading stays the user's own act.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from ....backend.checkpoints.checkpoint import HUB_ID, MODEL_CARD, check_adapter, check_checkpoint
from ....backend.errors import SettingsError, TrainingError
from ....backend.files.atomic import writing_folder
from ....backend.files.bounded_reader import read_json
from ....backend.prompts import FOLDER_NAME, recorded
from ....backend.prompts.agent_card import CARD, read_card
from ....backend.prompts.published_checkpoints import HUB_FOLDER
from ....backend.prompts.trained_with import trained_with
from .card_facts import CardFacts, Origin, license_of, read_facts
from .html_report import REPORT_FILE
from .model_card import ADAPTER, write_card

FILES = (
    *("*.safetensors", "*.safetensors.index.json", "config.json", "generation_config.json", ADAPTER),
    *("*processor_config.json", "chat_template.jinja", "chat_template.json", "additional_chat_templates/*"),
    *("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "vocab.json", "merges.txt"),
    *("special_tokens_map.json", "added_tokens.json", CARD, f"{FOLDER_NAME}/*.txt"),
    *("LICENSE*", "NOTICE*"),
)
"""Files that belong to a checkpoint; others, such as the state of a trainer, stay."""
NAMES = ("base_model_name_or_path", "_name_or_path", "name_or_path")
"""Keys in which libraries write the path of a model."""
LICENSE_ID = re.compile(r"[a-z0-9][a-z0-9.+-]{1,59}")


@dataclass(frozen=True)
class Publishing:
    """Options of a packed checkpoint.

    Attributes:
        license: License of the checkpoint; by default that of its base.
        without_gate: Also pack what did not pass the regression gate.
        with_report: Also pack the training's report, which shows held-out rows and their images.
    """

    license: str | None = None
    without_gate: bool = False
    with_report: bool = False


def pack(folder: Path, to: Path, options: Publishing | None = None) -> Path:
    """Pack the result of a training, or a checkpoint, into the new folder `to`.

    Returns:
        `to`.

    Raises:
        SettingsError: `to` exists, the license is not known, the checkpoint did not pass the gate, or one of
            its files is a link to another folder.
        ChatError: The folder is not a usable checkpoint.
        TrainingError: A file cannot be written, or the facts of the model card cannot be read.
    """
    options = options or Publishing()
    checkpoint = _checkpoint_in(folder, options.without_gate)
    adapter = (checkpoint / ADAPTER).is_file()
    if to.exists():
        raise SettingsError(f"{str(to)!r} already exists.", "Give a folder that does not exist yet.")
    if adapter:
        check_adapter(checkpoint)
    else:
        check_checkpoint(checkpoint, untested=True)
    facts = read_facts(checkpoint) or _little_known(checkpoint)
    _check_gate(checkpoint, facts, options.without_gate)
    license = _license(checkpoint, facts, options.license)
    # A step of an earlier version has its record in the folder of its training.
    prompts = recorded(checkpoint, FOLDER_NAME)
    for path in prompts.glob("*.txt"):
        _check_inside(path, prompts.parent)
    with writing_folder(to, TrainingError, "The packed checkpoint") as temporary:
        for path in _belonging(checkpoint, options.with_report):
            target = temporary / path.relative_to(checkpoint)
            target.parent.mkdir(parents=True, exist_ok=True)
            _copy(path, target, facts.base)
        trained_with(checkpoint).save(temporary)
        write_card(temporary, facts, license, to.name)
    return to


def upload_command(packed: Path) -> str:
    """Return the command with which the user uploads a packed checkpoint."""
    return f"hf upload YOUR-NAME/{shlex.quote(packed.name)} {shlex.quote(str(packed))} ."


def _checkpoint_in(folder: Path, without_gate: bool) -> Path:
    if not folder.is_dir():
        raise SettingsError(
            f"The folder {str(folder)!r} does not exist.", "Give the folder of a training or of a checkpoint."
        )
    for name in ("config.json", ADAPTER):
        if (folder / name).is_file():
            return folder
    if (folder / "final").is_dir():
        return folder / "final"
    waiting = next((path for path in (folder / "sft" / "trained", folder / "trained") if path.is_dir()), None)
    if waiting is not None and without_gate:
        return waiting
    if waiting is not None:
        raise SettingsError(
            f"The critic in {str(waiting)!r} has not passed the regression gate.",
            "If its training still runs, wait for the end. Otherwise run its command again, which states the "
            "reasons, or pack it anyway with --without-gate; its model card then says so.",
        )
    raise SettingsError(
        f"{str(folder)!r} does not contain a finished training.",
        "Run the training to its end, or end it with train finish.",
    )


def _check_gate(checkpoint: Path, facts: CardFacts, without_gate: bool) -> None:
    """Check that the checkpoint may be shared as good.

    Raises:
        SettingsError: A critic did not pass the gate or was not measured, or the training had to stop.
    """
    if without_gate:
        return
    card = read_card(checkpoint / CARD)
    gate = card.gate if card else None
    how = "or pack it anyway with --without-gate; its model card then says so."
    if facts.stopped:
        raise SettingsError(f"The training had to stop: {facts.stopped}.", f"Train it again, {how}")
    if (facts.role or (card.role if card else None)) == "planner":
        return
    if gate is None:
        raise SettingsError(
            f"The critic in {str(checkpoint)!r} was not measured by the regression gate.",
            f"Train it with critic-sft --held-out or own-critic, {how}",
        )
    if not gate.passed:
        raise SettingsError(
            f"The critic in {str(checkpoint)!r} did not pass the regression gate.", f"Train it again, {how}"
        )


def _license(checkpoint: Path, facts: CardFacts, given: str | None) -> str:
    known = given or license_of(checkpoint) or facts.base.license
    if known is None:
        where = f" (https://huggingface.co/{facts.base.hub})" if facts.base.hub else ""
        raise SettingsError(
            f"The license of {facts.base.name}{where} is not known.",
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
    role = trained_with(checkpoint).card.role
    config: Any = read_json(checkpoint / ADAPTER, TrainingError) if (checkpoint / ADAPTER).is_file() else {}
    named = str(config.get("base_model_name_or_path") or "") if isinstance(config, dict) else ""
    hub = named if HUB_ID.fullmatch(named) else None
    base = Origin(name=_name_of(named) or "not known", digest="not known", hub=hub)
    return CardFacts(stage="not known", role=role, base=base)


def _belonging(checkpoint: Path, with_report: bool) -> Iterator[Path]:
    """Yield the files to pack.

    Raises:
        SettingsError: One is a link out of the checkpoint.
    """
    names = (*FILES, REPORT_FILE) if with_report else FILES
    found = {path for pattern in names for path in checkpoint.glob(pattern)}
    for path in sorted(path for path in found if path.is_file() and path.name != MODEL_CARD):
        _check_inside(path, checkpoint)
        yield path


def _check_inside(path: Path, folder: Path) -> None:
    """Check that a file is in a folder, also after its links: a link could name any file of the user.

    Raises:
        SettingsError: It is a link out of the folder.
    """
    # In the Hugging Face cache, the files of a model are links to its folder of blobs.
    cached = next((one for one in folder.parents if one.name.startswith(HUB_FOLDER)), folder)
    if not path.resolve().is_relative_to(cached.resolve()):
        raise SettingsError(
            f"{str(path)!r} is a link to {str(path.resolve())!r}, which is outside the checkpoint.",
            "Replace the link by the file if it may be shared; otherwise delete the link.",
        )


def _copy(path: Path, target: Path, base: Origin) -> None:
    """Copy a file; in JSON, names of models replace their paths.

    Weights are copied too: a hard link would have the private mode of the training's file, and a change of
    one file would change both.
    """
    if path.suffix != ".json" or path.name in ("tokenizer.json", "vocab.json"):
        shutil.copyfile(path, target)
        return
    content = read_json(path, TrainingError)
    named = _with_names(content, base)
    if named == content:
        shutil.copyfile(path, target)
        return
    target.write_text(json.dumps(named, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def _with_names(content: Any, base: Origin) -> Any:
    """Return the content of a configuration, also of its parts, with names instead of the paths of models."""
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
