"""Agents in GGUF format, run by llama.cpp's server and called through the OpenAI client.

llama.cpp loads and runs the files in a separate process. It is started for the first reply, and stopped when
VRAM is needed, when it hangs, and when this process ends. The identity depends only on the contents of the
files, so a renamed file keeps its cache.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from pydantic import ValidationError

from ...answers.grammar import GrammarName
from ...errors import ChatError, SettingsError
from ...pictures import Picture
from ...prompts.prompt_set import PromptSet
from ...prompts.trained_with import trained_with
from ..openai.client import DEADLINE, OpenAIChat
from ..openai.request_fields import ServerKind
from ..protocol import Message, Reply, ReplySettings
from ..server_grammars import answer_gbnf
from .gguf_files import GgufAgent, find_gguf
from .server_process import KEY_VARIABLE, LlamaServer
from .server_program import find_server, has_cards, has_shared_slots
from .settings import SLOTS, LlamaCppSettings

WAIT_SECONDS = 0.1


class SharedServer:
    """A server for all agents with the same files and settings. It answers one of them at a time."""

    def __init__(self, files: GgufAgent, digest: str, settings: LlamaCppSettings) -> None:
        program = find_server(settings.llama_server)
        self.files, self.digest, self.settings = files, digest, settings
        self.size = files.size
        """Size of the files in bytes, which is about the memory of the weights."""
        self.on_card = settings.gpu_layers != 0 and has_cards(program)
        self.has_slots = has_shared_slots(program)
        """Whether each role has its own slot, so that planner and critic keep each other's prompts cached."""
        arguments = settings.arguments(files.model, files.projector, self.has_slots)
        self.process = LlamaServer(program, arguments, settings.start_seconds)
        self.lock = threading.Lock()
        # The last agent closes its pipe, which ends the server; this waits for its end.
        weakref.finalize(self, self.process.stop)

    def fields(self, settings: ReplySettings) -> dict[str, Any]:
        """Return the fields of a request that select the slot of its role."""
        slot = {"id_slot": SLOTS.index(settings.role)} if self.has_slots else {}
        return {"cache_prompt": True, **slot}

    def constraint(self, name: GrammarName) -> dict[str, Any]:
        """Return the field that constrains a reply to the grammar of an answer."""
        return {"grammar": answer_gbnf(name, self.process.opens_thought())}

    def restore(self) -> None:
        """Do nothing: the next reply starts the server, which then uses the freed VRAM."""

    def release(self) -> None:
        """Stop the server after its current answer."""
        with self.lock:
            self.process.stop()


class LlamaCppChat:
    """A chat backend with its own llama.cpp server. Its prompt set is the one next to its files."""

    def __init__(self, server: SharedServer, timeout: float, deadline: float) -> None:
        self._server = server
        self._timeout, self._deadline = timeout, deadline
        self._client: tuple[int, OpenAIChat | None] = 0, None
        model = server.files.model
        self.trained = trained_with(model.parent, file=model.name)
        self._prompt_set = self.trained.prompt_set

    @property
    def identity(self) -> str:
        """Digest of the files, and of the prompt set if there is one."""
        parts = ["llamacpp", self._server.digest]
        parts += [f"prompts={self._prompt_set.digest}"] if self._prompt_set else []
        return ":".join(parts)

    @property
    def prompt_set(self) -> PromptSet | None:
        """Prompt set next to the files, if there is one."""
        return self._prompt_set

    @property
    def sees_images(self) -> bool:
        """Whether the model has a projector."""
        return self._server.files.projector is not None

    @property
    def constrains_replies(self) -> bool:
        """Whether replies can be constrained; true until the server rejects it."""
        client = self._client[1]
        return client is None or client.constrains_replies

    @property
    def most_tokens(self) -> int:
        """Half of the context, since the prompt needs room too."""
        return self._server.settings.context // 2

    @property
    def weights(self) -> object:
        """The server; the same object for agents that share it."""
        return self._server

    @property
    def server(self) -> SharedServer:
        """The server of the agent, for VRAM management."""
        return self._server

    def offload(self) -> None:
        """Stop the server if it uses the GPU. The next reply starts it again."""
        if self._server.on_card:
            self._server.release()

    def reply(
        self,
        messages: Sequence[Message],
        settings: ReplySettings,
        on_token: Callable[[str], None] | None = None,
    ) -> Reply:
        """Answer a conversation; the server is started if it is not running.

        If the server does not answer in time, it is stopped, so that the next reply gets a new one.

        Raises:
            ChatError: The server ended or failed, or the model cannot see images.
            Cancelled: The run was cancelled.
        """

        def waiting() -> None:
            if on_token is not None:
                on_token("")

        content = (part for message in messages for part in message.content)
        if not self.sees_images and any(isinstance(part, Picture) for part in content):
            model = self._server.files.model
            raise ChatError(
                f"{str(model)!r} cannot see images, because its projector is missing.",
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
        client = self._client_at(process.address(waiting))
        began = time.monotonic()
        try:
            return client.reply(messages, settings, on_token)
        except ChatError as error:
            late = time.monotonic() - began >= min(self._timeout, self._deadline)
            if late or not process.answers():
                ended, lines = process.has_ended(), process.last_lines()
                process.stop()
                how = "ended during its answer" if ended else "did not answer and was stopped"
                raise ChatError(
                    f"The llama.cpp server {how}: {lines}.", "Try again: the next reply restarts it."
                ) from error
            if "context" in error.message:
                error.hint = "Increase context, or show the agent fewer or smaller images."
            raise

    def _client_at(self, address: str) -> OpenAIChat:
        """Return the client of the running server; each start has another key."""
        process = self._server.process
        started, client = self._client
        if client is None or started != process.starts:
            kind = ServerKind(self._server.fields, self._server.constraint, constrains=True)
            client = OpenAIChat(
                "agent", f"{address}/v1", process.key, self._timeout, KEY_VARIABLE, self._deadline, kind
            )
            self._client = process.starts, client
        return client


OPTIONS = LlamaCppSettings
"""Settings that `open` accepts as options."""

_servers: weakref.WeakValueDictionary[tuple[str, LlamaCppSettings], SharedServer] = (
    weakref.WeakValueDictionary()
)
"""Running servers, by the digest of their files and their settings."""
_servers_lock = threading.Lock()


def open(
    argument: str, *, timeout: float = 300.0, deadline: float = DEADLINE, **options: Any
) -> LlamaCppChat:
    """Open a `.gguf` file with its projector, if it has one. The server is started at the first reply.

    Args:
        argument: The model file.
        timeout: Time limit for each wait, in seconds, as for OpenAIChat.
        deadline: Time limit for a whole reply, in seconds, as for OpenAIChat.
        options: Fields of LlamaCppSettings.

    Raises:
        ChatError: The files cannot be used.
        SettingsError: An option is not valid, or llama.cpp is not installed.
    """
    try:
        settings = LlamaCppSettings(**options)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        name = ".".join(map(str, fault["loc"]))
        raise SettingsError(f"Option {name} of chat backend 'llamacpp': {fault['msg']}.") from error
    files = find_gguf(argument, settings.mmproj)
    digest = files.digest
    with _servers_lock:
        server = _servers.get((digest, settings))
        if server is None:
            server = _servers[digest, settings] = SharedServer(files, digest, settings)
    return LlamaCppChat(server, timeout, deadline)
