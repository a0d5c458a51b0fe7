"""Checks whether a question is short enough for the planner to train, with its own tokenizer.

It is checked before anything is written, with the same upper estimate as in the trainings, so that a row that
passes here is never left out there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

from ....backend.errors import SettingsError
from ....backend.machine.libraries import require
from ...trainer.model_loading import load_processor
from ..rows.lengths import most_tokens
from .kinds import PlannerQuestion


@lru_cache(maxsize=2)
def _processor(checkpoint: Path) -> Any:
    try:
        return load_processor(checkpoint)
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"Cannot open the tokenizer in {str(checkpoint)!r}: {str(error)[:200]}.",
            "Give a complete folder.",
        ) from error


_one_at_a_time = Lock()
"""A tokenizer must be used by one thread at a time."""


@dataclass(frozen=True)
class TokenFit:
    """Checks whether a question takes at most `tokens`, with its images and answer.

    The tokenizer of `checkpoint` is opened by each process.

    Raises:
        SettingsError: The tokenizer cannot be opened.
        ChatError: The folder is not an agent's.
    """

    checkpoint: Path
    tokens: int

    def __post_init__(self) -> None:
        require("transformers")
        _processor(self.checkpoint)

    def __call__(self, question: PlannerQuestion) -> bool:
        """Return whether the question fits; false if the model rejects the shape of an image."""
        sizes = [picture.size for picture in question.images]
        with _one_at_a_time:
            try:
                texts = [question.text, question.answer]
                return most_tokens(texts, sizes, _processor(self.checkpoint)) <= self.tokens
            except ValueError:
                return False
