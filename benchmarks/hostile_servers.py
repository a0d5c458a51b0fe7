"""What both clients make of servers that do everything wrong: one line, soon, in little memory, and the key
nowhere.

Decision: every behaviour of tests/support/hostile_server.py meets both clients, each time in a process of its
own that tells a whole story of one step with that server as its critic or its image service. Its error, what
it printed and logged, and every byte of the run's folder and of its page are searched for the key. The server
runs in another process.

    python benchmarks/hostile_servers.py                  # the last line is JSON
    python benchmarks/hostile_servers.py --only echo --deadline 2
"""

from __future__ import annotations

import argparse
import base64
import importlib
import json
import logging
import multiprocessing
import os
import sys
import tempfile
import time
import traceback
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import conftest  # noqa: F401 - makes the package importable
from support.hostile_server import BEHAVIOURS, ECHOES, HostileServer

from interleave_thinker.backend import generators
from interleave_thinker.backend.agents.critic import Critic
from interleave_thinker.backend.chat import ReplySettings, open_chat
from interleave_thinker.backend.errors import InterleaveError
from interleave_thinker.backend.exporters import export_by_name
from interleave_thinker.backend.journal.journal import Journal
from interleave_thinker.backend.loop import loop
from interleave_thinker.backend.loop.events import Finished
from interleave_thinker.backend.types import Plan, Request, RunSettings, Step

KEY = "sk-proj-Q7/x9+hostile_Zw4tTq81LmNvB"
MAX_SECONDS, MAX_BYTES = 10.0, 500 * 1000 * 1000
PLAN = Plan(steps=(Step(number=1, prompt="a red boat on the sea"),))


def run_client(client: str, url: str, folder: Path, deadline: float) -> str:
    """A story of one step; the error that it met, or nothing."""
    os.environ.update(INTERLEAVE_API_KEY=KEY, INTERLEAVE_GENERATOR_KEY=KEY)
    try:
        if client == "image":
            generator = generators.open_generator(f"http:{url}", deadline=deadline)
            critic = None
        else:
            generator = generators.open_generator("fake")
            chat = open_chat(f"openai:m@{url}", deadline=deadline)
            critic = Critic(chat, settings=ReplySettings(watch_verdict=True))
        request = Request(text="a boat")
        settings = RunSettings(max_attempts=2)
        events = loop.run(request, None, generator, critic, settings, journal=Journal(folder), plan=PLAN)
        attempt = None
        for event in events:
            if isinstance(event, Finished):
                attempt = event.trajectory.results[0].attempts[0]
                export_by_name("page", event.trajectory, folder.parent / "page")
        assert attempt is not None
        return attempt.error.message if attempt.error else ""
    except InterleaveError as error:
        traceback.print_exc()
        return str(error)


def meet(client: str, url: str, deadline: float, answer: Connection) -> None:
    """Tell the story with everything that is printed and logged in a file, and say how it went."""
    with tempfile.TemporaryDirectory() as place:
        here = Path(place)
        output = os.open(here / "output.txt", os.O_CREAT | os.O_WRONLY)
        os.dup2(output, 1)
        os.dup2(output, 2)
        logging.basicConfig(level=logging.DEBUG, force=True)
        began = time.monotonic()
        try:
            error, raised = run_client(client, url, here / "run", deadline), ""
        except BaseException as fault:  # noqa: BLE001 - that is what is looked for
            error, raised = "", f"{type(fault).__name__}: {str(fault)[:300]}"
        seconds = time.monotonic() - began
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        leaks = [
            path.relative_to(here).as_posix()
            for path in here.rglob("*")
            if path.is_file() and leaky(path.read_bytes())
        ]
        leaks += ["error"] if leaky(error.encode()) else []
        answer.send({"error": error, "raised": raised, "seconds": round(seconds, 2), "leaks": leaks})


def leaky(content: bytes) -> bool:
    """Whether the key is in there, whole or half, in any of the forms that the server uses."""
    lower = content.lower()
    return any(form in lower for form in FORMS)


def _forms() -> set[bytes]:
    half = len(KEY) // 2
    parts = (KEY, KEY[:half], KEY[half:])
    whole = {
        form(part).encode().lower() for name, form in ECHOES.items() if name not in HALVES for part in parts
    }
    # What stands beside a key in base64 changes its first and last characters.
    encoded = {
        base64.b64encode(b" " * offset + part.encode())[4:-4].lower() for offset in range(3) for part in parts
    }
    return {form for form in whole | encoded if len(form) > 8 and b"*" not in form}


HALVES = ("the beginning", "the end", "the header in base64", "a pair in url base64", "the whole header")
FORMS = _forms()


def serve(answer: Connection) -> None:
    server = HostileServer()
    answer.send(server.port)
    server.serve()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--deadline", type=float, default=3.0, help="Seconds that the clients allow for an answer."
    )
    parser.add_argument("--only", default="", help="Behaviours with this in their name.")
    parser.add_argument("--clients", nargs="+", default=["chat", "image"], choices=["chat", "image"])
    options = parser.parse_args()
    for name in ("httpx", "tenacity", "jinja2"):
        importlib.import_module(name)
    fork = multiprocessing.get_context("fork")
    here, there = fork.Pipe()
    server = fork.Process(target=serve, args=(there,), daemon=True)
    server.start()
    port = here.recv()
    rows: list[dict[str, Any]] = []
    for client in options.clients:
        for number, name in enumerate(BEHAVIOURS):
            if options.only in name:
                rows.append(
                    {
                        "client": client,
                        "name": name,
                        **one(fork, client, f"http://127.0.0.1:{port}/{number}", options.deadline),
                    }
                )
                row = rows[-1]
                print(
                    (
                        f"{'WRONG ' if row['wrong'] else ''}{client:6} {name:34} {row['seconds']:5.1f} s "
                        f"{row['megabytes']:4} MB  {row['error'][:150]} {row['raised']} {row['leaks'] or ''}"
                    ),
                    flush=True,
                )
    server.kill()
    wrong = [row for row in rows if row["wrong"]]
    summary = {
        "behaviours": len(rows),
        "wrong": len(wrong),
        "errors": sum(bool(row["error"]) for row in rows),
        "most_seconds": max(row["seconds"] for row in rows),
        "most_megabytes": max(row["megabytes"] for row in rows),
        "leaks": sum(bool(row["leaks"]) for row in rows),
    }
    print(json.dumps(summary))
    sys.exit(bool(wrong))


def one(fork: Any, client: str, url: str, deadline: float) -> dict[str, Any]:
    """One behaviour met by one client."""
    here, there = fork.Pipe()
    child = os.fork()
    if child == 0:
        try:
            meet(client, url, deadline, there)
        finally:
            os._exit(0)
    there.close()
    answer = (
        here.recv() if here.poll(120) else {"error": "", "raised": "hangs", "seconds": 120.0, "leaks": []}
    )
    if answer["raised"] == "hangs":
        os.kill(child, 9)
    _, _, usage = os.wait4(child, 0)
    answer["megabytes"] = usage.ru_maxrss // 1000
    answer["wrong"] = bool(
        answer["raised"]
        or answer["leaks"]
        or answer["seconds"] > MAX_SECONDS
        or usage.ru_maxrss * 1024 > MAX_BYTES
        or "\n" in answer["error"]
        or not answer["error"].isprintable()
        or len(answer["error"]) > 1000
    )
    return answer


if __name__ == "__main__":
    main()
