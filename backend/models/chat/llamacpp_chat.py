"""Agents in GGUF files: their files, and llama.cpp's server with one client for each agent.

Only what a user has a reason to change is an option. The server's sampling defaults, which a model file may
change, are set to neutral values, so that requests without sampling settings are not restricted.
"""

from __future__ import annotations

import re
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from ...core.answers.grammar import GrammarName
from ...core.errors import ChatError, ModelMissing
from ...core.files.bounded_reader import opened
from ...core.pictures import Picture
from ...core.prompts.trained_with import TrainedWith, trained_with
from ...core.seams.chat_model import Message, Reply, ReplySettings
from ...core.types import Value
from ...core.types.values import read_options
from ..checkpoints.checkpoint import files_digest, path_of
from .grammars import answer_gbnf
from .llamacpp_server import KEY_VARIABLE, LlamaServer, find_server, has_cards, has_shared_slots
from .openai_chat import DEADLINE, OpenAIChat

CONTEXT = 16384
MIN_CONTEXT = 2048
MAX_CONTEXT = 1_048_576
SETTLED_SAMPLING = ("--temp", "0", "--top-k", "0", "--top-p", "1", "--min-p", "0", "--repeat-penalty", "1")
SLOTS = ("planner", "critic", "")
"""Role of each slot. A slot keeps the last prompt of its role, so that only a new end is read."""
SHARED_SLOTS = ("--parallel", str(len(SLOTS)), "--kv-unified", "--no-cache-idle-slots")
"""Slots that share one context: each reply may use all of it, and it is allocated once.

A slot that is not answering is cleared when its room is needed. Versions without the last option divide the
context among the slots, or copy the other slots to RAM at every reply.
"""
OFF_THE_CARD = ("--device", "none", "--no-mmproj-offload")
SUFFIX = ".gguf"
PROJECTOR = "mmproj"
PART = re.compile(r"(.+)-(\d{5})-of-(\d{5})\.gguf", re.IGNORECASE)
FORMATS = ("f16", "bf16", "q8_0", "f32")
"""Dtypes of projectors. If a model has several projectors, the first one in this order is used."""
FORMAT = re.compile(r"[-._]?(?:ud[-_])?(?:iq\d\w*|t?q\d\w*|mxfp4\w*|bf16|fp?16|fp?32)$", re.IGNORECASE)
HEADER = 24
"""Length of the header in bytes: magic, version, number of tensors, number of values."""
WAIT_SECONDS = 0.1
_servers_lock = threading.Lock()


class LlamaCppSettings(Value):
    """How llama.cpp's server is found and started."""

    mmproj: str | None = Field(
        default=None, description="Projector (mmproj) of a GGUF agent. Default: the one next to the model."
    )
    context: int = Field(
        default=CONTEXT,
        ge=MIN_CONTEXT,
        le=MAX_CONTEXT,
        description="Context length of a GGUF agent in tokens, for prompt and answer together. Its memory is "
        "reserved at the start.",
    )
    threads: int | None = Field(
        default=None, ge=1, le=1024, description="CPU threads of a GGUF agent. Default: chosen by llama.cpp."
    )
    gpu_layers: int | None = Field(
        default=None,
        ge=0,
        le=9999,
        description="Layers of a GGUF agent on the GPU; 0 runs it on the CPU. Default: as many as fit into "
        "VRAM.",
    )
    llama_server: str | None = Field(
        default=None,
        description="Path of llama.cpp's llama-server. Default: the variable LLAMA_SERVER, then the PATH.",
    )
    start_seconds: float = Field(
        default=600.0, gt=0.0, le=86400.0, description="Time limit for loading the model, in seconds."
    )

    def arguments(self, model: Path, projector: Path | None, slots: bool = False) -> list[str]:
        """Return the server's command-line arguments for these files, without its address.

        Args:
            model: Model file.
            projector: Projector file, if there is one.
            slots: Whether the server supports `SHARED_SLOTS`.
        """
        arguments = ["-m", str(model), "-c", str(self.context)]
        arguments += ["--mmproj", str(projector)] if projector is not None else []
        arguments += SHARED_SLOTS if slots else ("--parallel", "1")
        arguments += ["--no-webui", "--jinja", *SETTLED_SAMPLING]
        if self.threads is not None:
            arguments += ["-t", str(self.threads)]
        if self.gpu_layers is not None:
            arguments += ["-ngl", str(self.gpu_layers)]
        if self.gpu_layers == 0:
            arguments += OFF_THE_CARD
        return arguments


@dataclass(frozen=True)
class GgufAgent:
    """The files of one agent; `parts` are those of the model, in order."""

    parts: tuple[Path, ...]
    projector: Path | None
    """`None` for a text-only model, which can plan requests without images."""

    @property
    def model(self) -> Path:
        """The file that is passed to llama.cpp, which finds the other parts by their names."""
        return self.parts[0]

    @property
    def digest(self) -> str:
        """16 hex digits over the contents, independent of folder and file names."""
        return files_digest(self._files, names=False)

    @property
    def size(self) -> int:
        """Total size of all files in bytes."""
        return sum(path.stat().st_size for path in self._files)

    @property
    def _files(self) -> tuple[Path, ...]:
        return self.parts if self.projector is None else (*self.parts, self.projector)


def is_model(path: Path) -> bool:
    """Return whether a file name is that of a GGUF model (or its first part) and not of a projector."""
    if path.suffix.lower() != SUFFIX or PROJECTOR in path.name.lower():
        return False
    part = PART.fullmatch(path.name)
    return part is None or int(part.group(2)) == 1


def find_gguf(argument: str, projector: str | None = None) -> GgufAgent:
    """Return the agent with this model file.

    Args:
        argument: The model file.
        projector: The projector file. Default: the one next to the model. Without one the agent cannot see
            images.

    Raises:
        ChatError: A file is missing, damaged or of another kind.
    """
    model = path_of(argument)
    if not model.is_file():
        raise ModelMissing(f"File {argument!r} does not exist.", "Give a .gguf file: llamacpp:FILE.")
    if not is_model(model):
        raise ChatError(
            f"{argument!r} is not a GGUF model.",
            "Give the model's .gguf file; if it has several parts, the first one (-00001-of-...). The mmproj "
            "file is found next to it.",
        )
    parts = _parts(model)
    for part in parts:
        _check(part)
    found = path_of(projector) if projector is not None else _projector_beside(model)
    if found is None:
        return GgufAgent(tuple(part.resolve() for part in parts), None)
    if not found.is_file():
        raise ModelMissing(f"Projector {str(found)!r} does not exist.", "Give the mmproj file of this model.")
    _check(found)
    return GgufAgent(tuple(part.resolve() for part in parts), found.resolve())


def _parts(model: Path) -> tuple[Path, ...]:
    """Return the file and its other parts, which llama.cpp finds by their names too."""
    match = PART.fullmatch(model.name)
    if match is None:
        return (model,)
    stem, _, of = match.groups()
    parts = sorted(path for path in model.parent.iterdir() if _is_part(path, stem, of))
    if len(parts) != int(of):
        raise ChatError(
            f"{model.name!r} has {len(parts)} of its {int(of)} parts.", "Download all parts into one folder."
        )
    return tuple(parts)


def _is_part(path: Path, stem: str, of: str) -> bool:
    match = PART.fullmatch(path.name)
    return match is not None and match.group(1, 3) == (stem, of) and path.is_file()


def _projector_beside(model: Path) -> Path | None:
    beside = sorted(
        path
        for path in model.parent.iterdir()
        if path.suffix.lower() == SUFFIX and PROJECTOR in path.name.lower() and path.is_file()
    )
    if not beside:
        return None
    own = _base_name(model)
    named = [path for path in beside if _base_name(path) == own]
    unnamed = [path for path in beside if not _base_name(path)]
    candidates = named or unnamed or beside
    if len({_base_name(path) for path in candidates}) > 1:
        names = ", ".join(path.name for path in candidates[:6])
        raise ChatError(
            f"Several projectors could belong to {model.name!r}: {names}.",
            "Put each model into its own folder, with its projector.",
        )
    return min(candidates, key=_preference)


def _base_name(path: Path) -> str:
    """Return the model's name in a file name: without the projector mark, the part and the dtype."""
    part = PART.fullmatch(path.name)
    name = (part.group(1) if part else path.stem).lower()
    name = FORMAT.sub("", re.sub(rf"[-._]?{PROJECTOR}[-._]?", "-", name).strip("-._"))
    return name.strip("-._")


def _preference(path: Path) -> tuple[int, str]:
    name = path.stem.lower()
    # bf16 also ends in f16.
    ends = [number for number, ending in enumerate(FORMATS) if re.search(rf"(?<!b){ending}$", name)]
    return (ends[0] if ends else len(FORMATS), path.name)


def _check(path: Path) -> None:
    """Check that a file starts like a GGUF file.

    Raises:
        ChatError: It does not.
    """
    with opened(path, ChatError, "Weight file") as file:
        start = file.read(HEADER)
    if len(start) == HEADER and start[:4] == b"GGUF" and any(start[8:16]):
        return
    if start.startswith(b"version https://git-lfs"[:HEADER]):
        raise ChatError(
            f"{str(path)!r} is a git LFS pointer and does not contain the weights.",
            "Run `git lfs pull` there, or download the file itself.",
        )
    raise ChatError(
        f"{str(path)!r} is not a GGUF file, or it is damaged or incomplete.", "Download the file again."
    )


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

    def restore(self) -> None:
        """Do nothing: the next reply starts the server, which then uses the freed VRAM."""

    def release(self) -> None:
        """Stop the server after its current answer."""
        with self.lock:
            self.process.stop()


class LlamaCppChat(OpenAIChat):
    """A chat backend with its own llama.cpp server. Its prompt set is the one next to its files."""

    obeys_constraints = True

    def __init__(self, server: SharedServer, timeout: float, deadline: float) -> None:
        super().__init__("agent", "http://127.0.0.1", None, timeout, KEY_VARIABLE, deadline)
        self.server = server
        """The server of the agent, for VRAM management."""
        self._starts = 0
        model = server.files.model
        self._trained = trained_with(model.parent, file=model.name)

    @property
    def identity(self) -> str:
        """Digest of the files, and of the prompt set if there is one."""
        parts = ["llamacpp", self.server.digest]
        parts += [f"prompts={self.prompt_set.digest}"] if self.prompt_set else []
        return ":".join(parts)

    @property
    def trained(self) -> TrainedWith:
        """What the record next to the files says about the training."""
        return self._trained

    @property
    def sees_images(self) -> bool:
        """Whether the model has a projector."""
        return self.server.files.projector is not None

    @property
    def most_tokens(self) -> int:
        """Half of the context, since the prompt needs room too."""
        return self.server.settings.context // 2

    @property
    def weights(self) -> object:
        """The server; the same object for agents that share it."""
        return self.server

    def extra_fields(self, settings: ReplySettings) -> dict[str, Any]:
        """Return the fields that select the slot of a role."""
        slot = {"id_slot": SLOTS.index(settings.role)} if self.server.has_slots else {}
        return {"cache_prompt": True, **slot}

    def constraint(self, name: GrammarName) -> dict[str, Any]:
        """Return the field with the grammar of an answer."""
        return {"grammar": answer_gbnf(name, self.server.process.opens_thought())}

    def offload(self) -> None:
        """Stop the server if it uses the GPU. The next reply starts it again."""
        if self.server.on_card:
            self.server.release()

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
            model = self.server.files.model
            raise ChatError(
                f"{str(model)!r} cannot see images, because its projector is missing.",
                f"Put the mmproj file of the same model (mmproj-....gguf) into {str(model.parent)!r}.",
            )
        while not self.server.lock.acquire(timeout=WAIT_SECONDS):
            waiting()
        try:
            process = self.server.process
            address = process.address(waiting)
            if self._starts != process.starts:
                # Each start has another port and key.
                self.use_server(f"{address}/v1", process.key)
                self._starts = process.starts
            return self._answered(messages, settings, on_token)
        finally:
            self.server.lock.release()

    def _answered(
        self,
        messages: Sequence[Message],
        settings: ReplySettings,
        on_token: Callable[[str], None] | None,
    ) -> Reply:
        process, began = self.server.process, time.monotonic()
        try:
            return super().reply(messages, settings, on_token)
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


OPTIONS = LlamaCppSettings
"""Settings that `open` accepts as options."""

_servers: weakref.WeakValueDictionary[tuple[str, LlamaCppSettings], SharedServer] = (
    weakref.WeakValueDictionary()
)
"""Running servers, by the digest of their files and their settings."""


def check(argument: str, *, mmproj: str | None = None, llama_server: str | None = None) -> None:
    """Check that the files and the server program exist. Errors are those of `open`."""
    find_gguf(argument, mmproj)
    find_server(llama_server)


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
    settings = read_options("Chat backend 'llamacpp'", LlamaCppSettings, options)
    files = find_gguf(argument, settings.mmproj)
    digest = files.digest
    with _servers_lock:
        server = _servers.get((digest, settings))
        if server is None:
            server = _servers[digest, settings] = SharedServer(files, digest, settings)
    return LlamaCppChat(server, timeout, deadline)
