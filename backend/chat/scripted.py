"""A chat backend that gives prepared replies in order: for tests, demonstrations and measurements.

Decision: it ships with the package, so that nobody needs a mock. It keeps what it was asked in `requests`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from ..errors import ChatError, SettingsError
from ..prompts import PromptSet
from .protocol import Message, Reply, ReplySettings

MAX_FILE = 16 * 1024 * 1024
REPLIES = TypeAdapter(list[str | Reply])


@dataclass(frozen=True)
class ScriptedRequest:
    """One call of `reply` as it came."""

    messages: tuple[Message, ...]
    settings: ReplySettings


class ScriptedChat:
    """Gives the replies in order, and raises ChatError when there are no more."""

    def __init__(self, replies: Sequence[str | Reply], prompt_set: PromptSet | None = None) -> None:
        self.replies = [
            reply if isinstance(reply, Reply) else Reply(text=reply, tokens=len(reply.split()))
            for reply in replies
        ]
        self.requests: list[ScriptedRequest] = []
        self._prompt_set = prompt_set

    @property
    def identity(self) -> str:
        content = "\0".join(reply.model_dump_json() for reply in self.replies)
        return f"scripted:{hashlib.blake2b(content.encode(), digest_size=8).hexdigest()}"

    @property
    def prompt_set(self) -> PromptSet | None:
        return self._prompt_set

    def reply(
        self,
        messages: Sequence[Message],
        settings: ReplySettings,
        on_token: Callable[[str], None] | None = None,
    ) -> Reply:
        """The next prepared reply, streamed word by word."""
        number = len(self.requests)
        self.requests.append(ScriptedRequest(tuple(messages), settings))
        if number >= len(self.replies):
            raise ChatError(f"The script has {len(self.replies)} replies and was asked for one more.")
        reply = self.replies[number]
        if on_token is not None:
            for piece in re.findall(r"\s*\S+|\s+$", reply.text):
                on_token(piece)
        return reply


def open(argument: str) -> ScriptedChat:
    """Read a JSON list of replies (texts, or objects with `text`, `tokens`, `probability`); raises SettingsError."""
    path = Path(argument)
    try:
        if path.stat().st_size > MAX_FILE:
            raise SettingsError(f"Script {argument!r} is larger than {MAX_FILE} bytes.")
        return ScriptedChat(REPLIES.validate_json(path.read_bytes()))
    except OSError as error:
        raise SettingsError(
            f"Script {argument!r} cannot be read ({error.strerror or error}).",
            "Give a JSON file with a list of replies: scripted:FILE.",
        ) from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise SettingsError(f"Script {argument!r} is not a JSON list of replies: {first['msg']}.") from error
