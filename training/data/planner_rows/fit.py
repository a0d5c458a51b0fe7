"""Whether a question is short enough for the planner that is to learn, by its own tokenizer.

Decision: it is measured before anything is written, by the upper estimate that the trainings use, so that a
row that passes here is never left out there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

from ....backend.errors import SettingsError
from ....backend.machine.requirements import require
from ...trainer.model_loading import load_processor
from ..rows.lengths import most_tokens
from .kinds import PlannerQuestion


@lru_cache(maxsize=2)
def _processor(checkpoint: Path) -> Any:
    try:
        return load_processor(checkpoint)
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"The tokenizer in {str(checkpoint)!r} cannot be opened ({str(error)[:200]})."
        ) from error


_one_at_a_time = Lock()
"""A tokenizer answers one thread at a time."""


@dataclass(frozen=True)
class TokenFit:
    """Says whether questions take at most `tokens`, their images and answers included, by the tokenizer of a
    checkpoint, which each process opens for itself. Raises SettingsError or ChatError for one that cannot be
    opened."""

    checkpoint: Path
    tokens: int

    def __post_init__(self) -> None:
        require("transformers")
        _processor(self.checkpoint)

    def __call__(self, question: PlannerQuestion) -> bool:
        """Whether the question fits; one with an image of a shape that the model refuses does not."""
        sizes = [picture.size for picture in question.images]
        with _one_at_a_time:
            try:
                texts = [question.text, question.answer]
                return most_tokens(texts, sizes, _processor(self.checkpoint)) <= self.tokens
            except ValueError:
                return False
