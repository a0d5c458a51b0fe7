"""A row of the SFT data files (FORMATS: data files): a conversation that ends with the answer to learn.

Decisions. It stands in the backend because two sides share it: training reads it, and feedback on a run
writes it. A part of the answer that nobody can vouch for is marked, not cut out: the row keeps its grammar, a
tool that does not know the mark reads the row as any other, and rows without a mark are written as ever.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, FailFast, Field, PrivateAttr, model_validator

MARK = "<image>"
MAX_MESSAGES = 1_000

ImagePath = Annotated[str, Field(max_length=4096)]


class SftMessage(BaseModel):
    """One turn of a training conversation; `<image>` marks stand where the row's images go."""

    role: Literal["system", "user", "assistant"]
    content: str = Field(max_length=200_000)


class SftRow(BaseModel):
    """A training conversation that ends with the answer to learn; as many `<image>` marks as images.
    `not_learned` are ranges of characters, [start, end), of that answer that are shown and not learned."""

    model_config = ConfigDict(extra="ignore")

    messages: Annotated[list[SftMessage], FailFast()] = Field(min_length=2, max_length=MAX_MESSAGES)
    images: Annotated[list[ImagePath], FailFast()] = Field(default_factory=list, max_length=64)
    not_learned: Annotated[list[tuple[int, int]], FailFast()] = Field(default_factory=list, max_length=64)
    _place: str = PrivateAttr("")

    def __eq__(self, other: object) -> bool:
        """The same content, wherever it was read."""
        return isinstance(other, SftRow) and self.line() == other.line()

    def written(self) -> dict[str, Any]:
        """The row as it stands in a data file."""
        return self.model_dump(mode="json", exclude=None if self.not_learned else {"not_learned"})

    def line(self) -> str:
        """The same as JSON on one line, which identifies a row."""
        return self.model_dump_json(exclude=None if self.not_learned else {"not_learned"})

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
        length = len(self.messages[-1].content)
        for start, end in self.not_learned:
            if not 0 <= start < end <= length:
                raise ValueError(f"not_learned says {start} to {end} of an answer of {length} characters")
        return self
