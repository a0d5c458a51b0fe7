"""A row of the SFT data files (FORMATS: data files): a conversation that ends with the answer to learn.

Decisions. It stands in the backend because two sides share it: training reads it, and feedback on a run
writes it. A part of the answer that nobody can vouch for is marked, not cut out: the row keeps its grammar, a
tool that does not know the mark reads the row as any other, and rows without a mark are written as ever. What
other tools write beside the turns is either shown to the agent or refused, never dropped.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, FailFast, Field, PrivateAttr, model_validator

MARK = "<image>"
MAX_MESSAGES = 1_000
ROLES = {"human": "user", "gpt": "assistant", "user": "user", "assistant": "assistant", "system": "system"}
"""Roles of ShareGPT's turns (`from`) as they are called here."""

ImagePath = Annotated[str, Field(max_length=4096)]


class SftMessage(BaseModel):
    """One turn of a training conversation; `<image>` marks stand where the row's images go."""

    role: Literal["system", "user", "assistant"]
    content: str = Field(max_length=200_000)


def as_written_here(row: Any) -> Any:
    """Return a conversation row in the one form that is read: ShareGPT's `conversations` as `messages`, one
    `image` as `images`, and a `system` text as the first turn.

    Raises:
        ValueError: The row has tools, a role that is not trained, or two system texts.
    """
    if not isinstance(row, dict):
        return row
    row = {**row, "images": row.get("images") or []}
    if row.get("tools") not in (None, "", "[]", []):
        raise ValueError(
            "it has 'tools', and no agent here is shown any: remove them, or describe them in a system turn"
        )
    if "messages" not in row and isinstance(row.get("conversations"), list):
        row["messages"] = [_message(turn) for turn in row["conversations"]]
        if isinstance(row.get("image"), str) and not row["images"]:
            row["images"] = [row["image"]]
    system, messages = row.get("system"), row.get("messages")
    if system in (None, "") or not isinstance(messages, list):
        return row
    first = messages[0] if messages else None
    if isinstance(first, dict) and first.get("role") == "system":
        raise ValueError("it has both 'system' and a system turn: keep one of them")
    return {**row, "messages": [{"role": "system", "content": system}, *messages]}


def _message(turn: Any) -> Any:
    """A turn of ShareGPT as a message."""
    if not isinstance(turn, dict) or "from" not in turn:
        return turn
    role = ROLES.get(str(turn["from"]))
    if role is None:
        raise ValueError(
            f"a turn is from {str(turn['from'])[:40]!r}, and those of human, gpt and system are read"
        )
    return {"role": role, "content": turn.get("value")}


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

    @model_validator(mode="before")
    @classmethod
    def _as_written_here(cls, row: Any) -> Any:
        return as_written_here(row)

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
