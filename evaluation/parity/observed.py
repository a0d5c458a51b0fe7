"""What a side asked its models and returned, in the same form for both sides."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from ...backend.errors import SettingsError
from ...backend.files.bounded_reader import read_bytes
from ...backend.journal.records.run_files import first_fault

MAX_FILE = 64 * 1024 * 1024
Parts = list[tuple[Literal["role", "text", "image"], str]]
"""A conversation: roles, texts, and digests of images, in the order in which the model reads them."""


class Draw(BaseModel):
    """One call of the generator.

    Attributes:
        source: Digest of the image that is edited; `None` for text-to-image.
    """

    model_config = ConfigDict(extra="forbid")

    prompt: str
    source: str | None
    seed: int


class Observed(BaseModel):
    """What one side asked its models in a case, and its result.

    Attributes:
        planner: Conversations with the planner, in order.
        critic: Conversations with the critic, in order.
        draws: Calls of the generator, in order.
        texts: Texts of the steps, or one joined text.
        final: Digests of the steps' images.
    """

    model_config = ConfigDict(extra="forbid")

    planner: list[Parts]
    critic: list[Parts]
    draws: list[Draw]
    texts: list[str]
    final: list[str]


def read_observed(path: Path) -> list[Observed]:
    """Read the file of the child process.

    Raises:
        SettingsError: It is missing or damaged.
    """
    content = read_bytes(path, MAX_FILE, SettingsError, "Result of the published code")
    try:
        return TypeAdapter(list[Observed]).validate_json(content)
    except ValidationError as error:
        raise SettingsError(
            f"The published code returned values of an unexpected form{first_fault(error)}",
            "Use a checkout of the supported commit.",
        ) from error
