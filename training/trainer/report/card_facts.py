"""Facts about a finished training from which its model card is written.

They are stored next to the weights (`model_card.json`), so that the card can be written again when more is
known: after the gate, after a merge, or when the checkpoint is packed to be shared. Paths and addresses of
the user's machine are removed here, before anything is stored.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from ....backend.checkpoints.checkpoint import MODEL_CARD, checkpoint_digest
from ....backend.errors import TrainingError
from ....backend.files.atomic import write_text
from ....backend.files.bounded_reader import read_bytes_if_any, read_json
from ....backend.prompts.agent_card import Role
from ....backend.prompts.published_checkpoints import HUB_FOLDER
from ....backend.shown_text import shown_text
from .run_description import ShownSetting, libraries

logger = logging.getLogger(__name__)

README = "README.md"
MAX_BYTES = 1024 * 1024
FRONT = re.compile(r"\A---\r?\n(.*?)^---\s*$", re.DOTALL | re.MULTILINE)
LICENSE = re.compile(r"^license:[ \t]*[\"']?([\w.+-]{1,80})", re.MULTILINE)
URL = re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s'\",;)]+", re.IGNORECASE)
PATH = re.compile(r"(?<![\w.])(?:~|\.\.?|[A-Za-z]:(?=[\\/])|(?=[/\\]))(?:[/\\][^/\\\s'\",;:)]+)+[/\\]?")


def shareable(text: str) -> str:
    """Return a text with the last name in place of each path, and without the addresses of servers.

    A path with blanks is known only if it begins with the home folder or is the whole text.
    """
    if os.path.isabs(text) and os.path.exists(text):
        return Path(text).name
    text = URL.sub("(address)", text)
    text = re.sub(rf"{re.escape(os.path.expanduser('~'))}(?=[/\\])", "~", text)
    return PATH.sub(lambda found: PurePosixPath(PureWindowsPath(found.group()).as_posix()).name, text)


class Facts(BaseModel):
    """Values without paths of the user's machine."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    @field_validator("*", mode="after")
    @classmethod
    def _without_paths(cls, value: Any) -> Any:
        if isinstance(value, str):
            return shareable(value)
        if isinstance(value, tuple):
            return tuple(shareable(one) if isinstance(one, str) else one for one in value)
        if isinstance(value, dict):
            return {name: shareable(one) if isinstance(one, str) else one for name, one in value.items()}
        return value


class UsedRows(Facts):
    """A set of rows: its purpose, number of rows and the digest of their content."""

    name: str
    count: int
    digest: str


class SettingFact(Facts):
    """A setting: option, value as text, and whether it is the default."""

    name: str
    value: str
    is_default: bool


class Origin(Facts):
    """Model that a training started from.

    Attributes:
        name: Hub id or name of its folder.
        digest: Digest of its files.
        hub: Hub id of it, or of the published model that it was trained from; `None` if unknown.
        license: License in its own model card; `None` if unknown.
        stages: Earlier trainings of it, oldest first.
        rows: Rows of these trainings.
    """

    name: str
    digest: str
    hub: str | None = Field(default=None, pattern=r"^[\w.-]+(/[\w.-]+)?$")
    license: str | None = None
    stages: tuple[str, ...] = ()
    rows: tuple[UsedRows, ...] = ()


class CardFacts(Facts):
    """Facts about a training.

    Attributes:
        stage: "sft", "critic-grpo" and so on.
        role: Job of the agent.
        base: Model that it started from.
        steps: Optimizer steps of the result.
        rows: Rows that were trained on, measured and held out.
        settings: All settings.
        made_with: Judges, generators and libraries by name.
        notes: Lines about the training.
        checks: Held-out checks of the first and the last checkpoint.
        stopped: Reason why the training had to stop, if it had.
        gate: Table of the regression gate, as lines of Markdown.
        learned: Table of what it learned from annotated runs.
        merged: Whether an adapter was merged into its base.
    """

    stage: str
    role: Role | None = None
    base: Origin
    steps: int | None = None
    rows: tuple[UsedRows, ...] = ()
    settings: tuple[SettingFact, ...] = ()
    made_with: dict[str, str] = Field(default_factory=dict)
    notes: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    stopped: str | None = None
    gate: tuple[str, ...] = ()
    learned: tuple[str, ...] = ()
    merged: bool = False

    def save(self, folder: Path) -> None:
        """Write the facts into the folder of a checkpoint.

        Raises:
            TrainingError: The file cannot be written.
        """
        text = json.dumps(self.model_dump(mode="json"), ensure_ascii=False, indent=1)
        write_text(folder / MODEL_CARD, f"{text}\n", TrainingError, "The facts of the model card")


def read_facts(folder: Path) -> CardFacts | None:
    """Return the facts in a checkpoint's folder, or None if it has none.

    Raises:
        TrainingError: They cannot be read.
    """
    path = folder / MODEL_CARD
    if not path.is_file():
        return None
    found = read_json(path, TrainingError, "The facts of the model card", MAX_BYTES)
    try:
        return CardFacts.model_validate(found)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "content"
        raise TrainingError(
            f"The facts of the model card {str(path)!r} are not valid: {where}: {first['msg']}.",
            "Copy the file again from where the model was trained. If it is lost, delete it: the model card "
            "then lacks these facts.",
        ) from error


def origin_of(checkpoint: Path) -> Origin:
    """Return what is known of the model in a folder, as the start of a training.

    This is called when the training has ended, so damaged facts of its base are left out with a warning.
    """
    earlier, hub = None, hub_id(checkpoint)
    try:
        earlier = read_facts(checkpoint)
    except TrainingError as error:
        logger.warning("The model card will not contain earlier trainings. %s", shown_text(str(error)))
    stages: tuple[str, ...] = ()
    if earlier is not None:
        stages = (*earlier.base.stages, earlier.stage)
    return Origin(
        name=hub or checkpoint.name,
        digest=checkpoint_digest(checkpoint),
        hub=hub or (earlier.base.hub if earlier else None),
        license=license_of(checkpoint) or (earlier.base.license if earlier else None),
        stages=stages,
        rows=(*earlier.base.rows, *earlier.rows) if earlier else (),
    )


def hub_id(checkpoint: Path) -> str | None:
    """Return the id of a model in the Hugging Face cache, or None for another folder."""
    parts = [part for part in checkpoint.parts if part.startswith(HUB_FOLDER)]
    if not parts:
        return None
    owner, dashes, name = parts[-1].removeprefix(HUB_FOLDER).partition("--")
    return f"{owner}/{name}" if dashes else owner


def license_of(folder: Path) -> str | None:
    """Return the license in the metadata of a folder's model card, or None if it does not state one."""
    try:
        content = read_bytes_if_any(folder / README, MAX_BYTES, TrainingError)
    except TrainingError:
        return None
    front = FRONT.match((content or b"").decode("utf-8", "replace"))
    found = LICENSE.search(front.group(1)) if front else None
    return found.group(1) if found else None


def setting_facts(settings: Iterable[ShownSetting]) -> tuple[SettingFact, ...]:
    """Return the settings of a report as facts."""
    return tuple(SettingFact(name=one.name, value=one.value, is_default=one.is_default) for one in settings)


def rows_of(counted: Iterable[tuple[str, int, str]]) -> tuple[UsedRows, ...]:
    """Return sets of rows, given name, number and digest of each; empty sets are left out."""
    return tuple(UsedRows(name=name, count=count, digest=known) for name, count, known in counted if count)


def made_with(judges: Mapping[str, Any]) -> dict[str, str]:
    """Return judges and libraries by name."""
    return {**{name: str(judge) for name, judge in judges.items()}, "libraries": libraries()}
