"""Fields of a request: messages, and those that not every server supports.

The form of the reply, probabilities and counts are sent until the server rejects them. Then the request is
repeated without them, and later ones are sent without them at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...answers.grammar import GrammarName
from ...pictures import Picture
from ..image_limits import scaled_down
from ..protocol import Message, ReplySettings
from ..server_grammars import answer_schema

CONSTRAINT = ("response_format", "grammar")
OPTIONAL: Sequence[tuple[re.Pattern[str], tuple[str, ...]]] = (
    (re.compile("logprob", re.IGNORECASE), ("logprobs", "top_logprobs")),
    (re.compile("stream_options|include_usage", re.IGNORECASE), ("stream_options",)),
    (re.compile("response_format|schema|structured|guided|grammar", re.IGNORECASE), CONSTRAINT),
)
"""What a server says if it rejects these fields. The request is then repeated without them."""
UNCONSTRAINED = (
    "{url} does not support constrained replies, so its replies are not constrained. A reply that cannot be "
    "parsed is still requested once more."
)


class FieldsRejected(Exception):
    """The server rejects a request because of these optional fields."""

    def __init__(self, fields: Sequence[str]) -> None:
        super().__init__(", ".join(fields))
        self.fields = frozenset(fields)


def response_format(name: GrammarName) -> dict[str, Any]:
    """Return the field that constrains a reply to the JSON schema of an answer."""
    schema = {"name": name, "strict": True, "schema": answer_schema(name)}
    return {"response_format": {"type": "json_schema", "json_schema": schema}}


def nothing_more(settings: ReplySettings) -> dict[str, Any]:
    """Return the additional fields of a server of which nothing is known."""
    return {}


@dataclass(frozen=True)
class ServerKind:
    """What a kind of server is sent in addition to the usual fields.

    Attributes:
        extra: Returns the additional fields of a request.
        constraint: Returns the field that constrains a reply to an answer.
        constrains: Whether it is certain that the server does so, so that a reply may be stopped at true.
    """

    extra: Callable[[ReplySettings], dict[str, Any]] = nothing_more
    constraint: Callable[[GrammarName], dict[str, Any]] = response_format
    constrains: bool = False


def rejected_fields(body: Mapping[str, Any], said: str) -> Sequence[str]:
    """Return the optional fields of a request that a server's message rejects; empty if there are none."""
    for pattern, fields in OPTIONAL:
        if not body.keys().isdisjoint(fields) and pattern.search(said):
            return fields
    return ()


def message_json(message: Message, area: int) -> dict[str, Any]:
    """Return a message as the API has it, with its images scaled down to `area` pixels."""
    if all(isinstance(part, str) for part in message.content):
        return {"role": message.role, "content": "".join(str(part) for part in message.content)}
    content: list[dict[str, Any]] = []
    for part in message.content:
        if isinstance(part, Picture):
            content.append({"type": "image_url", "image_url": {"url": scaled_down(part, area).data_url()}})
        else:
            content.append({"type": "text", "text": part})
    return {"role": message.role, "content": content}
