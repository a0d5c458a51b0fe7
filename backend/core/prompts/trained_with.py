"""What a checkpoint was trained for and with: role, prompt set and image size.

An agent that gets another prompt set or larger images than in training answers worse without any error. So
training writes this record (the agent card and the prompt set) and opening an agent applies it. If a trained
folder has no record, a warning is logged.
"""

from __future__ import annotations

import logging
import re
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import SettingsError
from ..files.bounded_reader import read_json
from ..shown_text import shown_text
from .agent_card import CARD, MAX_BYTES, MAX_PIXELS, MIN_PIXELS, AgentCard, Role, read_card
from .prompt_set import FOLDER_NAME, PromptSet, prompt_set_of, recorded
from .published_checkpoints import (
    HUB_FOLDER,
    REPOSITORY,
    PublishedCheckpoint,
    import_command,
    named_checkpoint,
    published_checkpoint,
)

logger = logging.getLogger(__name__)

FILE = "trained_with.json"
"""Record of the image size that earlier versions wrote instead of an agent card."""
RUN_FILE = "training.json"
"""File with the settings of a training run, in its folder; earlier versions wrote it without `FILE`."""
TRAINER_FILES = ("trainer_state.json", "training_args.bin", "train_results.json", "all_results.json")
"""Files that trainers write next to the weights of a checkpoint."""
PUBLISHED = re.compile(r"interleave[-_ ]?thinker|planner|critic", re.IGNORECASE)
FLAGS = "'prompt set' of Load Agent in ComfyUI, planner.prompts or critic.prompts (--set) on the command line"
OWN_WORDING = (
    "{name} has no prompt set, so this pack's default prompt set is used. If it was trained with another "
    "one, store that in its folder: {command} (CHECKOUT: a clone of {repository}), or name it: {flags}."
)
PUBLISHED_WORDING = (
    "{name} is a {about}. Its folder does not contain the authors' prompts, which it was trained with, so "
    "this pack's default prompt set is used. Import them once: git clone {repository}, then {command}. "
    "Or name their prompt set: {flags}."
)
SERVED_WORDING = (
    "{name} is a {about}. A server does not pass on the authors' prompts, which it was trained with, so this "
    "pack's default prompt set is used. Import them once: git clone {repository}, then mkdir PROMPTS and "
    "{command}. Then name the folder PROMPTS: {flags}."
)
OTHER_WORDING = (
    "{name} was trained with prompt set {trained}, but its folder has {found}. Copy the folder "
    "{folder!r} from where it was trained, or name the prompt set: {flags}."
)


NO_CARD = AgentCard()


@dataclass(frozen=True)
class TrainedWith:
    """The record of a checkpoint or adapter. Values that are unknown are `None`.

    Attributes:
        name: Name of the checkpoint for messages.
        prompt_set: Prompt set in its folder.
        image_pixels: Maximum number of pixels of an image in training.
        elsewhere: Whether another program trained the checkpoint, and it has no prompt set.
        card: Its agent card, empty if there is none.
        folder: Its folder, `None` before it is saved, and for a model on a server.
        published: The published checkpoint that it is.
    """

    name: str
    prompt_set: PromptSet | None = None
    image_pixels: int | None = None
    elsewhere: bool = False
    card: AgentCard = NO_CARD
    folder: Path | None = None
    published: PublishedCheckpoint | None = None

    def save(self, folder: Path) -> None:
        """Write the prompt set and the agent card into a folder.

        Raises:
            SettingsError: A file cannot be written.
        """
        known: dict[str, Any] = {"image_pixels": self.image_pixels}
        if self.prompt_set is not None:
            self.prompt_set.save(folder / FOLDER_NAME)
            known["prompt_set"] = self.prompt_set.digest
        card = self.card.model_copy(update=known)
        if card != NO_CARD:
            card.save(folder)

    def over(self, base: TrainedWith) -> TrainedWith:
        """Return this record of an adapter, completed by the record of its base model.

        The role and the measured strictness are the adapter's: it may give the model another job.
        """
        return TrainedWith(
            self.name,
            self.prompt_set or base.prompt_set,
            self.image_pixels or base.image_pixels,
            self.elsewhere and base.prompt_set is None,
            self.card,
            self.folder,
            self.published,
        )

    def check_role(self, role: Role) -> None:
        """Check that the checkpoint may be used for a job. Call it before the weights are loaded.

        Raises:
            SettingsError: It was trained for the other job.
        """
        if self.card.role in (None, role):
            return
        where = f" (role in {str(self.folder / CARD)!r})" if self.folder else ""
        raise SettingsError(
            f"{self.name} was trained as a {self.card.role}{where} and cannot be used as a {role}.",
            f"Choose a {role}, or a model that was trained for neither job. If the card is wrong, correct "
            "'role' in it, or delete it.",
        )

    @property
    def described(self) -> str:
        """Role, prompt set, image size, measured strictness and reliability as far as known, or ""."""
        gate = self.card.gate
        parts = [
            self.card.role or "",
            f"prompt set {self.prompt_set.digest}" if self.prompt_set else "",
            f"images up to {self.image_pixels:,} pixels" if self.image_pixels else "",
        ]
        if gate is not None:
            accepts, rejects = (
                f"{gate.accepts_right:.0%} of right images",
                f"{gate.rejects_wrong:.0%} of wrong",
            )
            parts.append(f"accepts {accepts} and rejects {rejects} ones, measured on {gate.rows} rows")
        unable = [kind for kind, known in self.card.reliability.items() if not known.is_reliable]
        parts += [f"cannot judge {' or '.join(unable)}"] if unable else []
        if self.card.calibration is not None:
            parts.append(f"P(success) calibrated on {self.card.calibration.images} images")
        return ", ".join(part for part in parts if part)

    @property
    def warning(self) -> str | None:
        """One line with the remedy if the prompts are not those of the training, else `None`."""
        own = None if self.prompt_set is None else self.prompt_set.digest
        if self.card.prompt_set not in (None, own):
            found = "none" if own is None else f"prompt set {own}"
            folder = str((self.folder or Path()) / FOLDER_NAME)
            return OTHER_WORDING.format(
                name=self.name, trained=self.card.prompt_set, found=found, folder=folder, flags=FLAGS
            )
        if not self.elsewhere:
            return None
        known = self.published
        wording = OWN_WORDING if known is None else PUBLISHED_WORDING
        return (wording if self.folder else SERVED_WORDING).format(
            name=self.name,
            about=known.about if known else "",
            command=import_command(self.folder or Path("PROMPTS"), known is not None),
            repository=REPOSITORY,
            flags=FLAGS,
        )


def trained_with(folder: str | Path, adapter: bool = False, file: str | None = None) -> TrainedWith:
    """Return the record of a checkpoint.

    Args:
        folder: Folder of the checkpoint.
        adapter: Whether it is an adapter, which is always trained.
        file: Name of a weight file in the folder.

    Raises:
        SettingsError: The record is damaged.
    """
    folder = Path(folder)
    prompt_set, card = prompt_set_of(folder), read_card(recorded(folder, CARD)) or NO_CARD
    published = published_checkpoint(folder, file)
    shown = file or next((part for part in folder.parts if part.startswith(HUB_FOLDER)), folder.name)
    was_trained = (
        adapter
        or published is not None
        or PUBLISHED.search(shown) is not None
        or any((folder / name).exists() for name in TRAINER_FILES)
    )
    name = shown.removeprefix(HUB_FOLDER).replace("--", "/")
    pixels = card.image_pixels or _pixels(folder)
    elsewhere = was_trained and prompt_set is None and pixels is None
    return TrainedWith(name, prompt_set, pixels, elsewhere, card, folder, published)


def served(model: str) -> TrainedWith:
    """Return the record of a model on a server, of which only the name is known."""
    published = named_checkpoint(model)
    return TrainedWith(model, elsewhere=published is not None, published=published)


def critic_card(folder: Path) -> AgentCard:
    """Return the agent card of a critic's checkpoint, to be completed; a new one if it has none.

    Raises:
        SettingsError: The folder does not exist, it is a planner's, or its record is damaged.
    """
    if not folder.is_dir():
        raise SettingsError(
            f"The folder {str(folder)!r} does not exist.", "Give the folder of a checkpoint or an adapter."
        )
    record = trained_with(folder)
    record.check_role("critic")
    return AgentCard(role="critic") if record.card == NO_CARD else record.card


def _pixels(folder: Path) -> int | None:
    own = recorded(folder, FILE)
    # A finished checkpoint is in the folder of its run, whose settings have the size in earlier versions.
    path = own if own.exists() else recorded(folder, RUN_FILE)
    path = path if path.exists() else folder.parent / RUN_FILE
    if not path.is_file():
        return None
    try:
        found: Any = read_json(path, SettingsError, "The checkpoint's record", MAX_BYTES)
    except SettingsError:
        if path.name != RUN_FILE:
            raise
        found = None
    values = found if isinstance(found, dict) else {}
    # Other programs use this name too, for example for their rows.
    if path.name == RUN_FILE and not {"stage", "image_pixels"} <= values.keys():
        return None
    value = values.get("image_pixels")
    if isinstance(value, bool) or not isinstance(value, int) or not MIN_PIXELS <= value <= MAX_PIXELS:
        raise SettingsError(
            f"image_pixels in {str(path)!r} must be a number from {MIN_PIXELS} to {MAX_PIXELS}, but is "
            f"{str(value)[:20]}.",
            "Correct the number, or delete the file.",
        )
    return value


_told: weakref.WeakKeyDictionary[Any, set[str]] = weakref.WeakKeyDictionary()
"""Warnings that were logged already, per agent."""


def say_once(agent: object, text: str) -> None:
    """Log a warning about an agent, only the first time."""
    told = _told.setdefault(agent, set())
    if text not in told:
        told.add(text)
        logger.warning("%s", shown_text(text))
