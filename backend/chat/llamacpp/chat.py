"""An agent in GGUF: llama.cpp's own server runs it, and our client of such servers speaks to it.

Decision: llama.cpp reads and runs the files in a process of its own, which is started for the first reply and
stopped when the card is wanted, when it hangs and when this process ends. The agent is named by its files'
contents alone, so a renamed file goes on with its cache.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from pydantic import ValidationError

from ...errors import ChatError, SettingsError
from ...pictures import Picture
from ...prompts import PromptSet
from ...prompts.trained_with import trained_with
from ..openai.client import DEADLINE, OpenAIChat
from ..protocol import Message, Reply, ReplySettings
from .gguf_files import GgufAgent, find_gguf
from .server_process import KEY_VARIABLE, LlamaServer, find_server, has_cards
from .settings import LlamaCppSettings

WAIT_SECONDS = 0.1


class SharedServer:
    """A server for all agents of the same files and settings, which answers one of them at a time."""

    def __init__(self, files: GgufAgent, digest: str, settings: LlamaCppSettings) -> None:
        program = find_server(settings.llama_server)
        self.files, self.digest, self.settings = files, digest, settings
        self.size = files.size
        """Bytes of the files, which is about what the weights take wherever they are."""
        self.on_card = settings.gpu_layers != 0 and has_cards(program)
        self.process = LlamaServer(
            program, settings.arguments(files.model, files.projector), settings.start_seconds
        )
        self.lock = threading.Lock()
        # Its pipe closes with the last agent, and that ends the server; this waits for it.
        weakref.finalize(self, self.process.stop)

    def restore(self) -> None:
        """Nothing: the next reply starts the server, which then finds the room that was made for it."""

    def release(self) -> None:
        """Stop the server, once it has answered."""
        with self.lock:
            self.process.stop()


class LlamaCppChat:
    """A chat backend around a server of our own; the agent's prompt set is the one beside its files."""

    def __init__(self, server: SharedServer, timeout: float, deadline: float) -> None:
        self._server = server
        self._timeout, self._deadline = timeout, deadline
        model = server.files.model
        self.trained = trained_with(model.parent, file=model.name)
        self._prompt_set = self.trained.prompt_set

    @property
    def identity(self) -> str:
        parts = ["llamacpp", self._server.digest]
        parts += [f"prompts={self._prompt_set.digest}"] if self._prompt_set else []
        return ":".join(parts)

    @property
    def prompt_set(self) -> PromptSet | None:
        return self._prompt_set

    @property
    def sees_images(self) -> bool:
        """Whether there is a projector beside the model."""
        return self._server.files.projector is not None

    @property
    def most_tokens(self) -> int:
        """Half of the context, which has to hold the question too."""
        return self._server.settings.context // 2

    @property
    def weights(self) -> object:
        return self._server

    @property
    def server(self) -> SharedServer:
        """What runs the agent, for who manages memory."""
        return self._server

    def offload(self) -> None:
        """Stop the server if it uses the card; the next reply starts it again."""
        if self._server.on_card:
            self._server.release()

    def reply(
        self,
        messages: Sequence[Message],
        settings: ReplySettings,
        on_token: Callable[[str], None] | None = None,
    ) -> Reply:
        """Ask the server, started if it does not run. Raises ChatError with its last lines if it ends, or for
        images that it cannot see, and Cancelled. One that does not answer in time is stopped, so that the
        next reply has a new one."""

        def waiting() -> None:
            if on_token is not None:
                on_token("")

        content = (part for message in messages for part in message.content)
        if not self.sees_images and any(isinstance(part, Picture) for part in content):
            model = self._server.files.model
            raise ChatError(
                f"{str(model)!r} has no projector beside it, and without one it sees no images.",
                f"Put the mmproj file of the same model (mmproj-....gguf) into {str(model.parent)!r}.",
            )
        while not self._server.lock.acquire(timeout=WAIT_SECONDS):
            waiting()
        try:
            return self._ask(messages, settings, on_token, waiting)
        finally:
            self._server.lock.release()

    def _ask(
        self,
        messages: Sequence[Message],
        settings: ReplySettings,
        on_token: Callable[[str], None] | None,
        waiting: Callable[[], None],
    ) -> Reply:
        process = self._server.process
        address = process.address(waiting)
        client = OpenAIChat(
            "agent", f"{address}/v1", process.key, self._timeout, KEY_VARIABLE, self._deadline
        )
        began = time.monotonic()
        try:
            return client.reply(messages, settings, on_token)
        except ChatError as error:
            late = time.monotonic() - began >= min(self._timeout, self._deadline)
            if late or not process.answers():
                ended, said = not process.runs, process.last_lines()
                process.stop()
                how = "ended while it answered" if ended else "did not answer and was stopped"
                raise ChatError(
                    f"llama.cpp's server {how}: {said}.", "The next reply starts it again."
                ) from error
            if "context" in error.message:
                error.hint = "Raise context, or show the agent fewer or smaller images."
            raise


OPTIONS = LlamaCppSettings
"""Whose fields `open` takes as options."""

_servers: weakref.WeakValueDictionary[tuple[str, LlamaCppSettings], SharedServer] = (
    weakref.WeakValueDictionary()
)
"""By the digest of the files."""
_servers_lock = threading.Lock()


def open(
    argument: str, *, timeout: float = 300.0, deadline: float = DEADLINE, **options: Any
) -> LlamaCppChat:
    """Open a `.gguf` file with its projector, if it has one. `timeout` and `deadline` in seconds as for
    OpenAIChat, `options`: fields of LlamaCppSettings. Nothing is started before the first reply. Raises
    ChatError for files that cannot be it, SettingsError where there is no server."""
    try:
        settings = LlamaCppSettings(**options)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        name = ".".join(map(str, fault["loc"]))
        raise SettingsError(f"Chat backend 'llamacpp', option {name}: {fault['msg']}.") from error
    files = find_gguf(argument, settings.mmproj)
    digest = files.digest
    with _servers_lock:
        server = _servers.get((digest, settings))
        if server is None:
            server = _servers[digest, settings] = SharedServer(files, digest, settings)
    return LlamaCppChat(server, timeout, deadline)
