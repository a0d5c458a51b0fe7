"""Whether a question is short enough for the planner that is to learn, by its own tokenizer.

Decision: it is measured before anything is written, by the upper estimate that the trainings use, so that a
row that passes here is never left out there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ....backend.errors import SettingsError
from ...rows.lengths import most_tokens
from ...trainer.policy import load_processor
from ...trainer.requirements import require
from .kinds import Question


class Fits:
    """Says whether questions take at most `tokens`, their images and answers included, by a checkpoint's
    tokenizer."""

    def __init__(self, checkpoint: Path, tokens: int) -> None:
        """Raises SettingsError or ChatError for a checkpoint that cannot be opened."""
        require("transformers")
        self._tokens = tokens
        try:
            self._processor: Any = load_processor(checkpoint)
        except (OSError, ValueError) as error:
            raise SettingsError(
                f"The tokenizer in {str(checkpoint)!r} cannot be opened ({str(error)[:200]})."
            ) from error

    def __call__(self, question: Question) -> bool:
        """Whether the question fits; one with an image of a shape that the model refuses does not."""
        sizes = [picture.size for picture in question.images]
        try:
            return most_tokens([question.text, question.answer], sizes, self._processor) <= self._tokens
        except ValueError:
            return False
