"""Replacement for llama.cpp's llama-server: a program with its command line, log, answers and faults."""

from __future__ import annotations

import json
import os
import socket
import stat
import sys
import time
from pathlib import Path
from typing import Any

MODEL = b"GGUF" + (3).to_bytes(4, "little") + (2).to_bytes(8, "little") + (1).to_bytes(8, "little")
FAULTS = (
    "none", "dies", "no memory", "other projector", "old", "never ready", "mute", "ends", "ends late",
    "no slots", "thinks",
)  # fmt: skip
SHARED_SLOTS = ("--kv-unified", "--no-cache-idle-slots")


def write_program(folder: Path, fault: str = "none", text: str = "") -> Path:
    """Write a program that replies `text` like llama-server, except for one fault (FAULTS).

    It writes its process id and arguments to `starts` next to it, one line per start.
    """
    assert fault in FAULTS
    (folder / "reply.txt").write_text(text, encoding="utf-8")
    program = folder / "llama-server"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{__file__}" "{folder}" "{fault}" "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


def write_agent(folder: Path, name: str = "tiny-Q8_0.gguf", projector: str = "mmproj-tiny-F16.gguf") -> Path:
    """Write a model and its projector, of which only the beginning is real."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / projector).write_bytes(MODEL + b"projector")
    (folder / name).write_bytes(MODEL + name.encode())
    return folder / name


def starts_of(program: Path) -> list[tuple[int, list[str]]]:
    """Return process ids and arguments of the started servers."""
    noted = program.with_name("starts")
    lines = noted.read_text().splitlines() if noted.exists() else []
    return [(int(line.split("\t")[0]), line.split("\t")[1:]) for line in lines]


def requests_of(program: Path) -> list[dict[str, Any]]:
    """Return the bodies of the chat requests, in order."""
    noted = program.with_name("requests")
    return [json.loads(line) for line in noted.read_text().splitlines()] if noted.exists() else []


def main(folder: Path, fault: str, arguments: list[str]) -> int:
    if "--list-devices" in arguments:
        print("Available devices:")
        return 0
    if "--help" in arguments:
        print("-c,    --ctx-size N", *(SHARED_SLOTS if fault != "no slots" else ()), sep="\n")
        return 0
    with (folder / "starts").open("a") as noted:
        noted.write("\t".join([str(os.getpid()), *arguments]) + "\n")
    if fault == "no slots" and set(SHARED_SLOTS) & set(arguments):
        print("error: invalid argument: --kv-unified", file=sys.stderr, flush=True)
        return 1
    # Files that the real program would reject, or be fooled by.
    assert arguments[arguments.index("--host") + 1] == "127.0.0.1" and "--api-key" not in arguments
    assert not [name for name in os.environ if name.startswith("LLAMA_") and name != "LLAMA_API_KEY"]
    if fault == "dies":
        print("load_model: failed to load model, 'tiny.gguf'", file=sys.stderr, flush=True)
        return 1
    if fault == "no memory":
        print("ggml_backend_cuda_buffer_type_alloc_buffer: cudaMalloc failed: out of memory", flush=True)
        return 1
    if fault == "other projector":
        print("mtmd: error: mismatch between text model (n_embd = 2560) and mmproj (n_embd = 4096)")
        print("hint: you may be using wrong mmproj")
        print("srv load_model: failed to load multimodal model, 'mmproj.gguf'", flush=True)
        for number in range(8):
            print(f"llama_memory_breakdown_print: | memory breakdown [MiB] | total {number} |", flush=True)
        return 1
    if fault == "old":
        print("error: invalid argument: --mmproj", file=sys.stderr, flush=True)
        return 1
    if fault == "never ready":
        print("loading", flush=True)
        time.sleep(600)
    return serve(folder, fault, os.environ["LLAMA_API_KEY"])


def serve(folder: Path, fault: str, key: str) -> int:
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from support.chat_server import ChatServer, _Handler

    class Handler(_Handler):
        def do_GET(self) -> None:
            self.send(200 if self.path == "/health" else 404, b'{"status":"ok"}')

        def do_POST(self) -> None:
            if self.headers["authorization"] != f"Bearer {key}":
                return self.send(401, b"Invalid API Key")
            if fault == "ends":
                print("GGML_ASSERT(false) failed", flush=True)
                os._exit(134)
            if fault == "mute":
                time.sleep(600)
            if self.path == "/apply-template":
                prompt = "?<think>\n" if fault == "thinks" else "?"
                return self.send(200, {"prompt": prompt})
            super().do_POST()

        def record(self, body: dict[str, Any]) -> None:
            # Before the reply, since the client may look as soon as it has read the reply.
            super().record(body)
            with (folder / "requests").open("a") as noted:
                noted.write(json.dumps(body) + "\n")

        def _event(self, data: str) -> None:
            super()._event(data)
            if fault == "ends late":
                # The connections of a killed process are closed before its parent learns of its end.
                server.socket.close()
                self.connection.shutdown(socket.SHUT_RDWR)
                time.sleep(0.5)
                os._exit(137)

    server = ChatServer((folder / "reply.txt").read_text(encoding="utf-8"))
    server.RequestHandlerClass = Handler
    print(f"srv  llama_server: server is listening on http://127.0.0.1:{server.server_port}", flush=True)
    print(f"the key is {key}", flush=True)
    server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
