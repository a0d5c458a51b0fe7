"""Rows of `critic_pairs.jsonl` and `planner_pairs.jsonl`: a question with a better and a worse answer.

The question is stored with the prompt template it was asked with, as in fine-tuning rows, since both answers
were written for it. What is known of the right answer (a verdict, a plan) is stored next to the pair.
Held-out questions can thus be checked by the trained agent's own answers. The answers must differ, and
neither may be empty. Format: docs/reference/file-formats.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import FailFast, Field, model_validator

from ....backend.chat.image_limits import MAX_PIXELS
from ....backend.feedback.sft_row import MARK, ImagePath, SftMessage, SftRow, as_written_here
from ....backend.types import MAX_STEPS, Step
from .conversations import as_prompt_completion
from .lengths import ShownRow, shown_of
from .planner_rl import MAX_ITEMS, Item, PlannerRlRow, StepRange
from .rl_lines import RlRow, read_rl_lines, write_rl_lines
from .sft import RowProblem

MAX_ANSWER = 200_000
CRITIC_FILE, PLANNER_FILE = "critic_pairs.jsonl", "planner_pairs.jsonl"

Answer = Annotated[str, Field(min_length=1, max_length=MAX_ANSWER)]
Pair = TypeVar("Pair", bound="PreferenceRow")


class PreferenceRow(RlRow):
    """A question, a `chosen` and a `rejected` answer, with one image per `<image>` mark.

    `chosen_score` and `rejected_score` are the rewards by which `by` compared them; `why` is the rule that
    made the pair.
    """

    messages: Annotated[list[SftMessage], FailFast()] = Field(min_length=1, max_length=64)
    images: Annotated[list[ImagePath], FailFast()] = Field(default=[], max_length=64)
    chosen: Answer
    rejected: Answer
    chosen_score: float | None = None
    rejected_score: float | None = None
    by: str | None = Field(default=None, max_length=2000)
    why: str | None = Field(default=None, max_length=200)

    @model_validator(mode="before")
    @classmethod
    def _as_written_here(cls, row: Any) -> Any:
        return as_written_here(row)

    @model_validator(mode="after")
    def _is_a_pair(self) -> PreferenceRow:
        if self.messages[-1].role != "user":
            raise ValueError(
                f"the question must end with a user turn, not a turn of {self.messages[-1].role}"
            )
        marks = sum(message.content.count(MARK) for message in self.messages)
        if marks != len(self.images):
            raise ValueError(f"{marks} {MARK} marks, but {len(self.images)} images")
        if not self.chosen.strip() or not self.rejected.strip():
            raise ValueError("an answer is empty")
        if self.chosen.strip() == self.rejected.strip():
            raise ValueError("the chosen and the rejected answer are the same")
        return self

    @property
    def image_paths(self) -> Mapping[str, str]:
        """Image paths by field."""
        return {f"images.{number}": name for number, name in enumerate(self.images)}

    def with_paths(self: Pair, paths: Mapping[str, str]) -> Pair:
        """Return the row with these paths."""
        return self.model_copy(update={"images": list(paths.values())})

    def answered(self, answer: str) -> SftRow:
        """Return the question with this answer, as a fine-tuning row."""
        turns = [*self.messages, SftMessage(role="assistant", content=answer)]
        return SftRow(messages=turns, images=self.images).at(self.place)

    @property
    def question(self) -> str:
        """The question: its turns and the names of its images."""
        return "\0".join([*(f"{turn.role}:{turn.content}" for turn in self.messages), *self.images])

    @property
    def subject(self) -> str:
        """What training and held-out pairs must not share: the whole question."""
        return self.question


class CriticPair(PreferenceRow):
    """Two verdicts on one image; `truth` states whether the image is right."""

    stage = "critic-dpo"
    truth: bool = Field(strict=True)

    @property
    def subject(self) -> str:
        """The judged image, regardless of its source image."""
        return self.images[-1] if self.images else self.question


class PlannerPair(PreferenceRow):
    """Two plans for one request, with its `checklist` or `reference` as in planner_rl.jsonl, if known."""

    stage = "planner-dpo"
    request: str = Field(default="", max_length=MAX_ANSWER)
    checklist: list[Item] = Field(default=[], max_length=MAX_ITEMS)
    reference: list[Step] = Field(default=[], max_length=MAX_STEPS)
    steps: StepRange | None = None

    def judged_by(self) -> PlannerRlRow | None:
        """Return the criteria for a plan, or None if none are known."""
        if not self.request or not (self.checklist or self.reference):
            return None
        fields = {
            name: getattr(self, name) for name in ("request", "images", "checklist", "reference", "steps")
        }
        return PlannerRlRow(**fields).at(self.place)


def read_critic_pairs(
    path: Path, skip_bad: bool = False, images: Path | None = None
) -> tuple[list[CriticPair], list[RowProblem]]:
    """Return (rows of a file, problems of the other rows), as `read_rl_lines`."""
    return read_rl_lines(path, CriticPair, skip_bad, images)


def read_planner_pairs(
    path: Path, skip_bad: bool = False, images: Path | None = None
) -> tuple[list[PlannerPair], list[RowProblem]]:
    """Return (rows of a file, problems of the other rows), as `read_rl_lines`."""
    return read_rl_lines(path, PlannerPair, skip_bad, images)


def write_pairs(path: Path, rows: Sequence[PreferenceRow]) -> None:
    """Write a data file, one row per line.

    Raises:
        SettingsError: The file cannot be written.
    """
    write_rl_lines(path, rows)


def as_preference(row: PreferenceRow, folder: Path) -> dict[str, Any]:
    """Return a row in the format of trl's DPO trainer.

    The keys are `prompt`, `chosen` and `rejected` (conversations) and `images` (absolute paths).
    """
    better = as_prompt_completion(row.answered(row.chosen), folder)
    worse = as_prompt_completion(row.answered(row.rejected), folder)
    return {
        "prompt": better["prompt"],
        "chosen": better["completion"],
        "rejected": worse["completion"],
        "images": better["images"],
    }


def shown_pair(row: PreferenceRow, folder: Path, pixels: int = MAX_PIXELS) -> tuple[ShownRow, ShownRow]:
    """Return a row as it is measured, once with each answer; image paths are relative to `folder`."""
    better, worse = (shown_of(row.answered(one), folder, pixels) for one in (row.chosen, row.rejected))
    return better, worse
