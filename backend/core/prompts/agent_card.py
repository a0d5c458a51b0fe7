"""The agent card: a file next to a checkpoint with its job and how it was trained.

Training and `prompts import` write it, and opening an agent applies it. The checkpoint's digest leaves it
out: the cache key of a reply has the prompt set and the image size anyway. So a card that is added later
leaves the cached answers of old runs valid.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, ValidationError

from ..errors import SettingsError, first_fault
from ..files.atomic import write_text
from ..files.bounded_reader import read_json
from ..types.checklist import QuestionKind
from ..types.values import ValidTexts

CARD = "agent.json"
FORMAT = "interleave-agent-card"
"""Value of `format`. A file `agent.json` of another program has another one, and is ignored."""
VERSION = 1
MIN_PIXELS, MAX_PIXELS = 1024, 16_777_216
MAX_BYTES = 1024 * 1024
CALIBRATED = "|calibrated="
SMALLEST, MAX_ODDS = 1e-9, 700.0
CHANCE = 0.5
"""Balanced accuracy of guessing."""

Role = Literal["planner", "critic"]
Share = Annotated[float, Field(ge=0.0, le=1.0)]


class MeasuredStrictness(ValidTexts):
    """Verdicts of a critic on held-out rows, as the regression gate measured them.

    Attributes:
        rows: Number of rows.
        accuracy: Share of right verdicts.
        accepts_right: Share of right images that it accepts.
        rejects_wrong: Share of wrong images that it rejects.
        passed: Whether the gate was passed.
    """

    model_config = ConfigDict(frozen=True)

    rows: int = Field(ge=1)
    accuracy: Share
    accepts_right: Share
    rejects_wrong: Share
    passed: bool


class KindReliability(ValidTexts):
    """A critic's answers to the items of one kind, measured with known truth.

    Attributes:
        items: Number of items.
        true: Number of items that are true.
        yes_of_true: Share of true items that it answers with yes.
        no_of_false: Share of false items that it answers with no.
        low: Lower bound of the 95 % confidence interval of its balanced accuracy.
    """

    model_config = ConfigDict(frozen=True)

    items: int = Field(ge=1)
    true: int = Field(ge=0)
    yes_of_true: Share
    no_of_false: Share
    low: Share

    @property
    def accuracy(self) -> float:
        """Balanced accuracy: the mean of both shares, 0.5 for guessing."""
        return (self.yes_of_true + self.no_of_false) / 2

    @property
    def is_reliable(self) -> bool:
        """Whether the critic is better than chance in this kind of question."""
        return self.low > CHANCE


def log_odds(probability: float) -> float:
    """Return the log-odds of a probability that is kept away from 0 and 1."""
    bounded = min(1 - SMALLEST, max(SMALLEST, probability))
    return math.log(bounded / (1 - bounded))


class Calibration(ValidTexts):
    """Platt scaling of a critic's P(success), fitted on images whose truth is known.

    Attributes:
        slope: Factor of the log-odds; above 0, so that the order of images stays.
        intercept: Added to them.
        images: Number of images that it was fitted on.
    """

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    slope: float = Field(gt=0.0)
    intercept: float
    images: int = Field(ge=1)

    def apply(self, probability: float) -> float:
        """Return the calibrated probability."""
        odds = self.slope * log_odds(probability) + self.intercept
        return 1.0 / (1.0 + math.exp(-max(-MAX_ODDS, min(MAX_ODDS, odds))))

    @property
    def identity(self) -> str:
        """Part of the identity of a critic that uses it."""
        return f"{CALIBRATED}{self.slope:.6g},{self.intercept:.6g}"


class AgentCard(ValidTexts):
    """The card of a checkpoint or adapter. Fields are `None` if they are unknown.

    Attributes:
        role: Job that it was trained for. The other job is refused.
        prompt_set: Digest of the prompt set that it was trained with.
        image_pixels: Maximum number of pixels of an image in training, and the default when it is used.
        gate: Measured strictness of a critic.
        calibration: Calibration of a critic's P(success).
        reliability: Measured reliability of a critic by kind of question (backend/core/types/checklist.py).
    """

    model_config = ConfigDict(frozen=True)

    role: Role | None = None
    prompt_set: str | None = Field(default=None, pattern=r"^[0-9a-f]{16}$")
    image_pixels: int | None = Field(default=None, strict=True, ge=MIN_PIXELS, le=MAX_PIXELS)
    gate: MeasuredStrictness | None = None
    calibration: Calibration | None = None
    reliability: dict[QuestionKind, KindReliability] = Field(default_factory=dict)

    def save(self, folder: Path) -> None:
        """Write the card into a folder.

        Raises:
            SettingsError: The file cannot be written.
        """
        empty = set() if self.reliability else {"reliability"}
        fields = {"format": FORMAT, "version": VERSION, **self.model_dump(exclude_none=True, exclude=empty)}
        write_text(folder / CARD, f"{json.dumps(fields, indent=1)}\n", SettingsError, "The agent card")


def read_card(path: Path) -> AgentCard | None:
    """Return the card in a file, `None` if there is no file or if it belongs to another program.

    Raises:
        SettingsError: The card is damaged or has a newer version.
    """
    if not path.is_file():
        return None
    found: Any = read_json(path, SettingsError, "The agent card", MAX_BYTES)
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        return None
    if found.get("version") != VERSION:
        raise SettingsError(
            f"The agent card {str(path)!r} has version {str(found.get('version'))[:20]}, but this pack reads "
            f"version {VERSION}.",
            "Update the pack, or delete the file.",
        )
    try:
        return AgentCard.model_validate(found)
    except ValidationError as error:
        fault = first_fault(error)
        raise SettingsError(
            f"{fault.place} in the agent card {str(path)!r} is {str(fault.value)[:40]!r}: {fault.reason}.",
            "Correct the value, or delete the file.",
        ) from error
