"""Both clients against a server that misbehaves: a one-line error, little memory, and no leaked key.

A forked child meets each behavior by running a one-step story with the server as its critic or image service.
Error, output, log and every file of the run and its page are searched for the key.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.forked import forked
from support.hostile_server import BEHAVIOURS, ECHOES, HostileServer, hostile_server

from interleave_thinker import Critic, Finished, InterleaveError, ReplySettings, export_by_name, open_chat
from interleave_thinker.backend.core.types import Plan, Request, RunSettings, Step
from interleave_thinker.backend.models import generators
from interleave_thinker.backend.story.journal.journal import Journal
from interleave_thinker.backend.story.loop.collaborators import Collaborators
from interleave_thinker.backend.story.loop.loop import run

pytestmark = [
    pytest.mark.stress,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(os.name != "posix", reason="fork is POSIX"),
]

KEY = "sk-proj-Q7/x9+hostile_Zw4tTq81LmNvB"
DEADLINE, LIMIT, MAX_BYTES = 3.0, 120.0, 500 * 1000 * 1000
"""The clients' timeout in seconds, and the limits of a child in seconds and bytes."""
PLAN = Plan(steps=(Step(number=1, prompt="a red boat on the sea"),))
PARTIAL = ("the beginning", "the end", "the header in base64", "a pair in url base64", "the whole header")


def forms_of_the_key() -> set[bytes]:
    """Return the whole key and its halves, in every form that the server uses."""
    half = len(KEY) // 2
    parts = (KEY, KEY[:half], KEY[half:])
    whole = {form(part).encode() for name, form in ECHOES.items() if name not in PARTIAL for part in parts}
    # Text next to a key in base64 changes its first and last characters.
    encoded = {base64.b64encode(b" " * offset + part.encode())[4:-4] for offset in range(3) for part in parts}
    return {form.lower() for form in whole | encoded if len(form) > 8 and b"*" not in form}


FORMS = forms_of_the_key()


@pytest.fixture(scope="module")
def server() -> Iterator[HostileServer]:
    with hostile_server() as running:
        yield running


@pytest.mark.parametrize("name", BEHAVIOURS)
@pytest.mark.parametrize("client", ["chat", "image"])
def test_a_story_fails_with_one_line(server: HostileServer, client: str, name: str, tmp_path: Path) -> None:
    before = forked(lambda: None, LIMIT).peak_bytes
    ended = forked(lambda: run_with_log(client, server.url(name), tmp_path), LIMIT)
    assert ended.code == 0, (tmp_path / "output.txt").read_text(errors="replace")
    assert ended.peak_bytes - before < MAX_BYTES
    error = json.loads((tmp_path / "error.json").read_text())
    assert len(error) < 1000 and (not error or error.isprintable())
    leaks = [path for path in tmp_path.rglob("*") if path.is_file() and has_key(path.read_bytes())]
    assert not leaks


def test_the_check_finds_a_leaked_key() -> None:
    for form in ("as it is", "in capitals", "in hexadecimal"):
        assert has_key(f"before {ECHOES[form](KEY)} after".encode())
    assert has_key(base64.b64encode(f"user:{KEY} and more".encode()))
    assert not has_key(b"sk-proj")


def has_key(content: bytes) -> bool:
    lower = content.lower()
    return any(form in lower for form in FORMS)


def run_with_log(client: str, url: str, folder: Path) -> None:
    """Run the story in the child, with all output and logs in a file, and write its error."""
    output = os.open(folder / "output.txt", os.O_CREAT | os.O_WRONLY)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
    logging.basicConfig(level=logging.DEBUG, force=True)
    error = run_client(client, url, folder)
    sys.stderr.flush()
    (folder / "error.json").write_text(json.dumps(error))


def run_client(client: str, url: str, folder: Path) -> str:
    """Run a one-step story and return its error, or an empty string."""
    os.environ.update(INTERLEAVE_API_KEY=KEY, INTERLEAVE_GENERATOR_KEY=KEY)
    critic, attempt = None, None
    try:
        if client == "image":
            generator = generators.open_generator(f"http:{url}", deadline=DEADLINE)
        else:
            generator = generators.open_generator("fake")
            chat = open_chat(f"openai:m@{url}", deadline=DEADLINE)
            critic = Critic(chat, settings=ReplySettings(watch_verdict=True))
        settings, journal = RunSettings(max_attempts=2), Journal(folder / "run")
        agents = Collaborators(None, generator, critic)
        for event in run(Request(text="a boat"), agents, settings, journal, PLAN):
            if isinstance(event, Finished):
                attempt = event.trajectory.results[0].attempts[0]
                export_by_name("page", event.trajectory, folder / "page")
    except InterleaveError as error:
        traceback.print_exc()
        return str(error)
    assert attempt is not None
    return attempt.error.message if attempt.error else ""
