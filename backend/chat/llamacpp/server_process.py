"""llama.cpp's own server as a child of this process: started when it is needed, stopped when it is not.

Decision: it is bound to 127.0.0.1, at a port that the system chooses (`--port 0`, read from its log, so no
other program can take it first), with a key that is new every time and goes through the environment, not the
command line, which every user of the machine can read. It ends with this process, however that ends
(supervisor.py). What it prints is read all the time, since it would stand still otherwise, and its last lines
are the reason that is given when it dies.
"""

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

from ...errors import ChatError, SettingsError
from ...machine.environment import for_a_child, variable
from ...remote.call import RemoteCall
from ...remote.server import RemoteServer
from ...shown_text import one_line

PROGRAM = "llama-server"
VARIABLE = "LLAMA_SERVER"
KEY_VARIABLE = "LLAMA_API_KEY"
HOW_TO_GET = (
    "Install llama.cpp (a release of github.com/ggml-org/llama.cpp, `brew install llama.cpp` or "
    f"`winget install llama.cpp`), or name the program in the environment variable {VARIABLE}."
)
LISTENS = re.compile(r"(?:listening|hostname).{0,40}127\.0\.0\.1(?::|, port: )(\d{1,5})\b")
DEVICE = re.compile(r"^ +\w[^:]*: .+$", re.MULTILINE)
OWN_VARIABLES = "LLAMA_"
"""How the variables begin by which llama.cpp takes other settings than it was started with, such as another
address."""
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
"""Memory is named by other lines too: the server lists what it took as it ends."""
OTHER_PROJECTOR = re.compile(r"mismatch between text model|wrong mmproj")
LOOK_SECONDS = 0.1
HEALTH_SECONDS = 5.0
STOP_SECONDS = 10.0
LIST_SECONDS = 30.0


def find_server(named: str | None = None) -> str:
    """The program's path: the one that is named, else the one that LLAMA_SERVER names, else on the PATH.
    Raises SettingsError with how to get it."""
    wanted = named or variable(VARIABLE)
    found = which(str(Path(wanted).expanduser()) if wanted else PROGRAM)
    if found is None and wanted:
        raise SettingsError(f"{wanted!r} is no program that can be started.", HOW_TO_GET)
    if found is None:
        raise SettingsError(f"An agent in GGUF needs {PROGRAM}, which is not on the PATH.", HOW_TO_GET)
    return found


def has_cards(program: str) -> bool:
    """Whether this build of the server finds a graphics card that it can use. Raises ChatError."""
    command = [program, "--list-devices"]
    try:
        ended = subprocess.run(
            command,
            capture_output=True,
            timeout=LIST_SECONDS,
            env=for_a_child(OWN_VARIABLES),
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ChatError(f"{program!r} does not start ({error}).", HOW_TO_GET) from error
    said = ended.stdout.decode("utf-8", "replace")
    return bool(DEVICE.search(said.partition("vailable devices:")[2]))


class LlamaServer:
    """The server with these arguments. `start_seconds`: the longest wait until it has read the model."""

    def __init__(self, program: str, arguments: Sequence[str], start_seconds: float) -> None:
        self._program = program
        self._arguments = tuple(arguments)
        self._start_seconds = start_seconds
        self._child: subprocess.Popen[bytes] | None = None
        self._said: deque[str] = deque(maxlen=LINES)
        self._port: int | None = None
        self._ready = False
        self.key = ""
        """Of the server that runs now."""
        self.starts = 0

    @property
    def runs(self) -> bool:
        """Whether the process is there, whatever it does."""
        return self._child is not None and self._child.poll() is None

    @property
    def process_id(self) -> int | None:
        """Of the process that stands between, while the server runs."""
        return self._child.pid if self._child is not None and self.runs else None

    def address(self, waiting: Callable[[], None]) -> str:
        """Where it listens, started if it does not run; `waiting` is called all the while and may raise.
        Raises ChatError with its last lines if it does not come up."""
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
        """Whether it says that it is well, within a few seconds."""
        return self.runs and self._port is not None and self._is_well()

    def stop(self) -> None:
        """End it and wait for its end; nothing happens if it does not run."""
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
        """What it said last, in one line: those lines that name a fault, if any do."""
        lines = [" ".join(one_line(line).split()) for line in list(self._said)]
        faults = [line for line in lines if FAULT.search(line)] or lines
        text = " | ".join(line for line in faults[-SHOWN_LINES:] if line)
        return text[-MAX_SHOWN:] or "it said nothing"

    def _start(self) -> None:
        self.key = secrets.token_urlsafe(32)
        self._port = None
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
                # A Ctrl+C in the terminal is for us: we end it when we are done.
                start_new_session=os.name == "posix",
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )
        except OSError as error:
            raise ChatError(f"{self._program!r} does not start ({error.strerror or error}).") from error
        self.starts += 1
        assert self._child.stdout is not None
        threading.Thread(
            target=self._listen, args=(self._child.stdout, said), name="llama-server-log", daemon=True
        ).start()

    def _listen(self, output: IO[bytes], said: deque[str]) -> None:
        with output:
            while line := output.readline(MAX_LINE):
                text = line.decode("utf-8", "replace").rstrip()
                said.append(text.replace(self.key, "(key)"))
                found = LISTENS.search(text)
                if found is not None and said is self._said:
                    self._port = int(found.group(1))

    def _wait(self, waiting: Callable[[], None]) -> None:
        until = time.monotonic() + self._start_seconds
        while time.monotonic() < until:
            waiting()
            child = self._child
            assert child is not None
            if child.poll() is not None:
                time.sleep(LOOK_SECONDS)  # its last lines are still being read
                raise ChatError(
                    f"llama.cpp's server ended as it started (status {child.returncode}): "
                    f"{self.last_lines()}.",
                    hint_for(self.last_lines()),
                )
            if self._port is not None and self._is_well():
                self._ready = True
                return
            time.sleep(LOOK_SECONDS)
        raise ChatError(
            f"llama.cpp's server was not ready within {self._start_seconds:g} s: {self.last_lines()}.",
            "Is the model on a slow disk? Or update llama.cpp.",
        )

    def _is_well(self) -> bool:
        import httpx

        server = RemoteServer(f"http://127.0.0.1:{self._port}", self.key, ChatError)
        try:
            with server.answer(RemoteCall(HEALTH_SECONDS), "GET", "/health", HEALTH_SECONDS) as response:
                return response.status_code == 200
        except (httpx.RequestError, httpx.StreamError):
            return False


def hint_for(said: str) -> str:
    """What to do about what the server said as it ended."""
    text = said.lower()
    if OTHER_PROJECTOR.search(text):
        return (
            "The projector is one of another model: keep each model in a folder of its own, with its mmproj "
            "file."
        )
    if NO_MEMORY.search(text):
        return "Leave the card free for it, lower gpu_layers (0: none on it), or lower context."
    if "unknown model architecture" in text or "unknown projector" in text or "argument" in text:
        return "Update llama.cpp: this version does not know it."
    if "failed to load" in text or "magic" in text or "tensor" in text or "clip" in text:
        return "Is the file whole, and do model and mmproj belong together?"
    return "Its own words say why."


def _kill(child: subprocess.Popen[bytes]) -> None:
    """End the process and, where the system has groups, the server with it."""
    if os.name == "posix":
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            return
    else:
        child.kill()
