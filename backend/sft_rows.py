"""A row of the SFT data files (FORMATS: data files): a conversation that ends with the answer to learn.

Decision: it stands in the backend because two sides share it: training reads it, and feedback on a run writes it.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, FailFast, Field, PrivateAttr, model_validator

MARK = "<image>"
MAX_MESSAGES = 1_000

ImagePath = Annotated[str, Field(max_length=4096)]


class SftMessage(BaseModel):
    """One turn of a training conversation; `<image>` marks stand where the row's images go."""

    role: Literal["system", "user", "assistant"]
    content: str = Field(max_length=200_000)


class SftRow(BaseModel):
    """A training conversation that ends with the answer to learn; as many `<image>` marks as images."""

    model_config = ConfigDict(extra="ignore")

    messages: Annotated[list[SftMessage], FailFast()] = Field(min_length=2, max_length=MAX_MESSAGES)
    images: Annotated[list[ImagePath], FailFast()] = Field(default_factory=list, max_length=64)
    _place: str = PrivateAttr("")

    def __eq__(self, other: object) -> bool:
        """The same content, wherever it was read."""
        return isinstance(other, SftRow) and (self.messages, self.images) == (other.messages, other.images)

    @property
    def place(self) -> str:
        """Where the row was read, such as "row 3"; empty for one that was made."""
        return self._place

    def at(self, place: str) -> SftRow:
        """This row, with the place where it was read; it stays with copies and is never written."""
        self._place = place
        return self

    @model_validator(mode="after")
    def _complete(self) -> SftRow:
        if self.messages[-1].role != "assistant":
            raise ValueError(
                f"the last message must be the assistant's, but is the {self.messages[-1].role}'s"
            )
        marks = sum(message.content.count(MARK) for message in self.messages[:-1])
        if marks != len(self.images):
            raise ValueError(f"{marks} {MARK} marks, but {len(self.images)} images")
        return self
