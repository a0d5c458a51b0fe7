"""A chat backend with prepared replies in a fixed order, for tests, demonstrations and measurements.

It is part of the package, so that no mock is needed. `requests` records the calls.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from ...core.errors import ChatError, SettingsError, first_fault
from ...core.files.bounded_reader import parse_json, read_bytes
from ...core.prompts.prompt_set import PromptSet
from ...core.seams.chat_model import ChatModel, Message, Reply, ReplySettings

MAX_FILE = 16 * 1024 * 1024
MAX_REPLIES = 100_000
REPLIES = TypeAdapter(Annotated[list[str | Reply], Field(max_length=MAX_REPLIES)])


@dataclass(frozen=True)
class ScriptedRequest:
    """The arguments of one call of `reply`."""

    messages: tuple[Message, ...]
    settings: ReplySettings


class ScriptedChat(ChatModel):
    """Returns the replies in order, and raises ChatError after the last one."""

    def __init__(self, replies: Sequence[str | Reply], prompt_set: PromptSet | None = None) -> None:
        self.replies = [
            reply if isinstance(reply, Reply) else Reply(text=reply, tokens=len(reply.split()))
            for reply in replies
        ]
        self.requests: list[ScriptedRequest] = []
        self._prompt_set = prompt_set
        self._asking = threading.Lock()

    @property
    def identity(self) -> str:
        """Digest of the replies."""
        # Old scripts keep their identity.
        later = {"question_tokens", "cached_tokens"}
        content = "\0".join(reply.model_dump_json(exclude=later) for reply in self.replies)
        return f"scripted:{hashlib.blake2b(content.encode(), digest_size=8).hexdigest()}"

    @property
    def prompt_set(self) -> PromptSet | None:
        """Prompt set of the script, if there is one."""
        return self._prompt_set

    def reply(
        self,
        messages: Sequence[Message],
        settings: ReplySettings,
        on_token: Callable[[str], None] | None = None,
    ) -> Reply:
        """Return the next prepared reply, streamed word by word.

        Raises:
            ChatError: There are no more replies.
        """
        with self._asking:
            number = len(self.requests)
            self.requests.append(ScriptedRequest(tuple(messages), settings))
        if number >= len(self.replies):
            raise ChatError(
                f"The script has {len(self.replies)} replies, but more were requested.", "Add replies."
            )
        reply = self.replies[number]
        if on_token is not None:
            for piece in re.findall(r"\s*\S+|\s+$", reply.text):
                on_token(piece)
        return reply


def open(argument: str) -> ScriptedChat:
    """Read a JSON list of replies: texts, or objects with `text`, `tokens`, `probability`.

    Raises:
        SettingsError: The file is not such a list.
    """
    content = read_bytes(argument, MAX_FILE, SettingsError, "Script")
    found = parse_json(content, SettingsError, f"Script {argument!r}")
    try:
        return ScriptedChat(REPLIES.validate_python(found))
    except ValidationError as error:
        raise SettingsError(
            f"Script {argument!r} is not a JSON list of replies: {first_fault(error).reason}.",
            "Give a JSON file with a list of replies: scripted:FILE.",
        ) from error
