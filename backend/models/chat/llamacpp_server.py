"""Finds llama.cpp's server program, asks it what it can do, and runs it."""

from __future__ import annotations

import os
import re
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from shutil import which
from typing import IO

from pydantic import BaseModel, ValidationError

from ...core.errors import ChatError, SettingsError
from ...core.machine.environment import for_a_child, variable
from ...core.remote.call import RemoteCall
from ...core.remote.server import RemoteServer
from ...core.shown_text import one_line
from .chat_template import opens_thought

PROGRAM = "llama-server"
VARIABLE = "LLAMA_SERVER"
HOW_TO_GET = (
    "Install llama.cpp (a release of github.com/ggml-org/llama.cpp, `brew install llama.cpp` or "
    f"`winget install llama.cpp`), or name the program in the environment variable {VARIABLE}."
)
DEVICE = re.compile(r"^ +\w[^:]*: .+$", re.MULTILINE)
OWN_VARIABLES = "LLAMA_"
"""Prefix of the variables that override llama.cpp's command line, for example its address."""
LIST_SECONDS = 30.0
KEY_VARIABLE = "LLAMA_API_KEY"
LISTENS = re.compile(r"(?:listening|hostname).{0,40}127\.0\.0\.1(?::|, port: )(\d{1,5})\b")
LINES = 200
MAX_LINE = 2000
SHOWN_LINES = 6
MAX_SHOWN = 900
FAULT = re.compile(
    r"error|fail|unknown|invalid|unable|cannot|not (?:found|supported)|mismatch|wrong mmproj|"
    r"(?:out of|not enough|insufficient) memory",
    re.IGNORECASE,
)
NO_MEMORY = re.compile(
    r"(?:out of|not enough|insufficient) memory|(?:failed|unable) to allocate|cannot allocate|cudamalloc"
)
"""The memory report at the server's end has other lines about memory, so these are specific."""
OTHER_PROJECTOR = re.compile(r"mismatch between text model|wrong mmproj")
MAX_ANSWER = 1024 * 1024
LOOK_SECONDS = 0.1
HEALTH_SECONDS = 5.0
STOP_SECONDS = 10.0
END_SECONDS = 2.0
"""Wait for the report of the server's end and its last lines. Clients lose their connection before that."""


def find_server(named: str | None = None) -> str:
    """Return the path of the program: the given one, else the one in LLAMA_SERVER, else the one on the PATH.

    Raises:
        SettingsError: It was not found. The hint says how to install it.
    """
    given = named or variable(VARIABLE)
    found = which(str(Path(given).expanduser()) if given else PROGRAM)
    if found is None and given:
        raise SettingsError(f"{given!r} is not an executable program.", HOW_TO_GET)
    if found is None:
        raise SettingsError(f"Agents in GGUF need {PROGRAM}, which is not on the PATH.", HOW_TO_GET)
    return found


def has_cards(program: str) -> bool:
    """Return whether this build of the server finds a GPU that it can use.

    Raises:
        ChatError: The program does not start.
    """
    return bool(DEVICE.search(_printed(program, "--list-devices").partition("vailable devices:")[2]))


def has_shared_slots(program: str) -> bool:
    """Return whether this build of the server has slots that share one context (`SHARED_SLOTS`).

    Raises:
        ChatError: The program does not start.
    """
    return "--no-cache-idle-slots" in _printed(program, "--help")


def _printed(program: str, option: str) -> str:
    try:
        ended = subprocess.run(
            [program, option],
            capture_output=True,
            timeout=LIST_SECONDS,
            env=for_a_child(OWN_VARIABLES),
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ChatError(f"Cannot start {program!r} ({error}).", HOW_TO_GET) from error
    return ended.stdout.decode("utf-8", "replace")


class _Rendered(BaseModel):
    """A conversation as the server's chat template renders it."""

    prompt: str = ""


class LlamaServer:
    """A server with these arguments. `start_seconds` is the time limit for loading the model."""

    def __init__(self, program: str, arguments: Sequence[str], start_seconds: float) -> None:
        self._program = program
        self._arguments = tuple(arguments)
        self._start_seconds = start_seconds
        self._child: subprocess.Popen[bytes] | None = None
        self._said: deque[str] = deque(maxlen=LINES)
        self._listener: threading.Thread | None = None
        self._port: int | None = None
        self._ready = False
        self._opens_thought: bool | None = None
        self.key = ""
        """Key of the running server."""
        self.starts = 0

    @property
    def runs(self) -> bool:
        """Whether the process is running."""
        return self._child is not None and self._child.poll() is None

    @property
    def process_id(self) -> int | None:
        """Process id of the supervisor while the server runs."""
        return self._child.pid if self._child is not None and self.runs else None

    def address(self, waiting: Callable[[], None]) -> str:
        """Return the server's address; the server is started if it is not running.

        Args:
            waiting: Called repeatedly during the wait. It may raise an exception.

        Raises:
            ChatError: The server does not start. The message contains its last lines.
        """
        if not (self.runs and self._ready):
            self.stop()
            self._start()
            try:
                self._wait(waiting)
            except BaseException:
                self.stop()
                raise
        return f"http://127.0.0.1:{self._port}"

    def answers(self) -> bool:
        """Return whether it reports to be healthy within a few seconds."""
        return self.runs and self._port is not None and self._is_well()

    def has_ended(self) -> bool:
        """Return whether the process has ended, after waiting a moment for its supervisor."""
        if self._child is None:
            return True
        try:
            self._child.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            return False
        self._read_to_the_end()
        return True

    def opens_thought(self) -> bool:
        """Return whether the model's chat template ends in a <think>, which each reply then has to close.

        Versions that cannot tell are treated as if it does not.
        """
        if self._opens_thought is None:
            question = {"messages": [{"role": "user", "content": "?"}]}
            answer = self._requested("POST", "/apply-template", question)
            try:
                prompt = _Rendered.model_validate_json(answer or b"{}").prompt
            except ValidationError:
                prompt = ""
            self._opens_thought = opens_thought(prompt)
        return self._opens_thought

    def stop(self) -> None:
        """End the server and wait for its end. Does nothing if it is not running."""
        child, self._child, self._ready = self._child, None, False
        if child is None:
            return
        if child.stdin is not None:
            child.stdin.close()
        try:
            child.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            _kill(child)
            child.wait()

    def last_lines(self) -> str:
        """Return the last lines of its output as one line; if there are error messages, only these."""
        lines = [" ".join(one_line(line).split()) for line in list(self._said)]
        faults = [line for line in lines if FAULT.search(line)] or lines
        text = " | ".join(line for line in faults[-SHOWN_LINES:] if line)
        return text[-MAX_SHOWN:] or "no output"

    def _start(self) -> None:
        self.key = secrets.token_urlsafe(32)
        self._port = None
        self._opens_thought = None
        said: deque[str] = deque(maxlen=LINES)
        self._said = said
        supervisor = Path(__file__).with_name("supervisor.py")
        command = [
            sys.executable, "-I", "-S", str(supervisor), self._program, *self._arguments,
            "--host", "127.0.0.1", "--port", "0",
        ]  # fmt: skip
        try:
            self._child = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=for_a_child(OWN_VARIABLES, **{KEY_VARIABLE: self.key}),
                # A Ctrl+C in the terminal must reach only this process, which ends the server.
                start_new_session=os.name == "posix",
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )
        except OSError as error:
            raise ChatError(
                f"Cannot start {self._program!r} ({error.strerror or error}).", HOW_TO_GET
            ) from error
        self.starts += 1
        assert self._child.stdout is not None
        self._listener = threading.Thread(
            target=self._listen, args=(self._child.stdout, said), name="llama-server-log", daemon=True
        )
        self._listener.start()

    def _listen(self, output: IO[bytes], said: deque[str]) -> None:
        with output:
            while line := output.readline(MAX_LINE):
                text = line.decode("utf-8", "replace").rstrip()
                said.append(text.replace(self.key, "(key)"))
                found = LISTENS.search(text)
                if found is not None and said is self._said:
                    self._port = int(found.group(1))

    def _read_to_the_end(self) -> None:
        """Wait until the last lines of an ended process have been read."""
        if self._listener is not None:
            self._listener.join(END_SECONDS)

    def _wait(self, waiting: Callable[[], None]) -> None:
        until = time.monotonic() + self._start_seconds
        while time.monotonic() < until:
            waiting()
            child = self._child
            assert child is not None
            if child.poll() is not None:
                self._read_to_the_end()
                raise ChatError(
                    f"The llama.cpp server ended at its start (status {child.returncode}): "
                    f"{self.last_lines()}.",
                    hint_for(self.last_lines()),
                )
            if self._port is not None and self._is_well():
                self._ready = True
                return
            time.sleep(LOOK_SECONDS)
        raise ChatError(
            f"The llama.cpp server was not ready within {self._start_seconds:g} s: {self.last_lines()}.",
            "Increase start_seconds if the disk is slow, or update llama.cpp.",
        )

    def _is_well(self) -> bool:
        return self._requested("GET", "/health") is not None

    def _requested(self, method: str, path: str, body: object = None) -> bytes | None:
        """Return the answer to a request; `None` if it fails."""
        import httpx

        server = RemoteServer(f"http://127.0.0.1:{self._port}", self.key, ChatError)
        try:
            with server.answer(RemoteCall(HEALTH_SECONDS), method, path, HEALTH_SECONDS, body) as response:
                content = server.whole(response, MAX_ANSWER)
                return content if response.status_code == 200 else None
        except (httpx.RequestError, httpx.StreamError):
            return None


def hint_for(said: str) -> str:
    """Return what to do about the last output of the server."""
    text = said.lower()
    if OTHER_PROJECTOR.search(text):
        return (
            "The projector belongs to another model. Put each model into its own folder, with its mmproj "
            "file."
        )
    if NO_MEMORY.search(text):
        return "Free VRAM, lower gpu_layers (0: all layers on the CPU), or lower context."
    if "unknown model architecture" in text or "unknown projector" in text or "argument" in text:
        return "Update llama.cpp: this version does not support the model."
    if "failed to load" in text or "magic" in text or "tensor" in text or "clip" in text:
        return "Check that the file is complete, and that model and mmproj belong together."
    return "See the output of the server above."


def _kill(child: subprocess.Popen[bytes]) -> None:
    """Kill the process and, if the system has process groups, the server with it."""
    if os.name == "posix":
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            return
    else:
        child.kill()
