"""Calls of the command line in this process or a separate one, and agents that answer from files."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

from support.small_agents import STORY
from typer.testing import CliRunner

from interleave_thinker.backend.core.answers.reading import write_plan, write_verdict
from interleave_thinker.backend.core.types import Verdict
from interleave_thinker.cli import app

TESTS = Path(__file__).resolve().parents[1]
ENTRY = (
    "import sys; sys.path[:0] = [sys.argv.pop(1)]; import conftest; from interleave_thinker.cli import "
    "main; main()"
)


def call(*arguments: object) -> Any:
    """Call the command in this process."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def python(code: str, *arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run code in a process of its own, for at most two minutes."""
    line = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(line, capture_output=True, text=True, timeout=120, check=False, **options)


def start(*arguments: object) -> subprocess.Popen[str]:
    """Start the command in a separate process, with pipes."""
    line = [sys.executable, "-c", ENTRY, str(TESTS), *map(str, arguments)]
    # A background job ignores Ctrl-C, and its children would too.
    heard = None if sys.platform == "win32" else partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heard)


def verdict_reply(success: bool, prompt: str = "") -> str:
    return write_verdict(Verdict(success=success, refined_prompt=prompt, reasoning="looked"))


class Scripts:
    """Files of prepared replies, as options of the command."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def planner(self, *replies: str) -> list[str]:
        return ["--planner", self._write("planner", replies)]

    def critic(self, *replies: str) -> list[str]:
        return ["--critic", self._write("critic", replies)]

    def story(self, *verdicts: bool) -> list[str]:
        critic = self.critic(*(verdict_reply(verdict, "better") for verdict in verdicts))
        return [*self.planner(write_plan(STORY)), *critic, "--generator", "fake:16"]

    def _write(self, name: str, replies: tuple[str, ...]) -> str:
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps(replies))
        return f"scripted:{path}"
