"""A row of the SFT data files (docs/reference/file-formats.md): a conversation that ends with its answer.

It is part of the backend because two sides use it: training reads it, and feedback on a run writes it. Parts
of the answer that must not be learned are marked and not removed. So the answer stays valid, a tool that does
not know the marks can read the row, and rows without marks keep their old form. Fields that other tools add
are either shown to the agent or refused, never dropped silently.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, FailFast, Field, PrivateAttr, model_validator

MARK = "<image>"
MAX_MESSAGES = 1_000
ROLES = {"human": "user", "gpt": "assistant", "user": "user", "assistant": "assistant", "system": "system"}
"""Roles of ShareGPT's turns (field `from`), mapped to the roles used here."""

ImagePath = Annotated[str, Field(max_length=4096)]


class SftMessage(BaseModel):
    """One turn of a training conversation; each `<image>` mark stands for one image of the row."""

    role: Literal["system", "user", "assistant"]
    content: str = Field(max_length=200_000)


def as_written_here(row: Any) -> Any:
    """Return a conversation row in the form that is used here.

    ShareGPT's `conversations` become `messages`, a single `image` becomes `images`, and a `system` text
    becomes the first turn.

    Raises:
        ValueError: The row has tools, an unsupported role, or two system texts.
    """
    if not isinstance(row, dict):
        return row
    row = {**row, "images": row.get("images") or []}
    if row.get("tools") not in (None, "", "[]", []):
        raise ValueError("'tools' are not supported: remove them, or describe them in a system turn")
    if "messages" not in row and isinstance(row.get("conversations"), list):
        row["messages"] = [_message(turn) for turn in row["conversations"]]
        if isinstance(row.get("image"), str) and not row["images"]:
            row["images"] = [row["image"]]
    system, messages = row.get("system"), row.get("messages")
    if system in (None, "") or not isinstance(messages, list):
        return row
    first = messages[0] if messages else None
    if isinstance(first, dict) and first.get("role") == "system":
        raise ValueError("it has 'system' and a system turn: keep one of them")
    return {**row, "messages": [{"role": "system", "content": system}, *messages]}


def _message(turn: Any) -> Any:
    """Convert a turn of ShareGPT into a message."""
    if not isinstance(turn, dict) or "from" not in turn:
        return turn
    role = ROLES.get(str(turn["from"]))
    if role is None:
        raise ValueError(f"the role {str(turn['from'])[:40]!r} is not supported: use human, gpt or system")
    return {"role": role, "content": turn.get("value")}


class SftRow(BaseModel):
    """A training conversation that ends with the target answer. It has one `<image>` mark per image.

    `not_learned` are character ranges [start, end) of the answer that are excluded from the loss.
    """

    model_config = ConfigDict(extra="ignore")

    messages: Annotated[list[SftMessage], FailFast()] = Field(min_length=2, max_length=MAX_MESSAGES)
    images: Annotated[list[ImagePath], FailFast()] = Field(default_factory=list, max_length=64)
    not_learned: Annotated[list[tuple[int, int]], FailFast()] = Field(default_factory=list, max_length=64)
    _place: str = PrivateAttr("")

    def __eq__(self, other: object) -> bool:
        """Compare the content; the place where a row was read does not count."""
        return isinstance(other, SftRow) and self.line() == other.line()

    def written(self) -> dict[str, Any]:
        """Return the row as it is written to a data file."""
        return self.model_dump(mode="json", exclude=None if self.not_learned else {"not_learned"})

    def line(self) -> str:
        """Return the row as one line of JSON, which identifies it."""
        return self.model_dump_json(exclude=None if self.not_learned else {"not_learned"})

    @property
    def place(self) -> str:
        """Place where the row was read, such as "row 3"; empty for a new row."""
        return self._place

    def at(self, place: str) -> SftRow:
        """Set the place where the row was read, and return the row.

        The place is copied with it and never written.
        """
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
                f"the last message must have the role assistant, but has {self.messages[-1].role}"
            )
        marks = sum(message.content.count(MARK) for message in self.messages[:-1])
        if marks != len(self.images):
            raise ValueError(f"the row has {marks} {MARK} marks but {len(self.images)} images")
        length = len(self.messages[-1].content)
        for start, end in self.not_learned:
            if not 0 <= start < end <= length:
                raise ValueError(
                    f"not_learned has the range {start} to {end}, but the answer has {length} characters"
                )
        return self
