"""A real chat server: `transformers serve` with the shipped agents, which must answer as in this process.

Skipped if it is not installed: `pip install "transformers[serving]"` here, or the environment variable
INTERLEAVE_SERVE_PYTHON with the Python of an environment that has it.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from support.cli_calls import call

from interleave_thinker.backend.agents.critic import Critic
from interleave_thinker.backend.agents.planner import Planner
from interleave_thinker.backend.chat import Message, ReplySettings, open_chat
from interleave_thinker.backend.errors import ChatError
from interleave_thinker.tinyworld.lab.runs.stories import request_of
from interleave_thinker.tinyworld.lab.world.judged_images import rendered
from interleave_thinker.tinyworld.lab.world.requests import random_story
from interleave_thinker.tinyworld.runtime import checkpoint
from interleave_thinker.tinyworld.runtime.wording import edit_text, prompt_text

STARTED_WITHIN = 240.0
NEEDS = """
from importlib.util import find_spec
raise SystemExit(not all(map(find_spec, ["fastapi", "openai", "uvicorn", "transformers.cli.serve"])))
"""


pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a server that loads the model that a request names."""
    python = os.environ.get("INTERLEAVE_SERVE_PYTHON", sys.executable)
    if subprocess.run([python, "-c", NEEDS], capture_output=True, check=False).returncode:
        pytest.skip(f"{python} has no `transformers serve`; INTERLEAVE_SERVE_PYTHON names one that has it")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = tmp_path_factory.mktemp("serve") / "log"
    command = [python, "-m", "transformers.cli.transformers", "serve", "--host", "127.0.0.1"]
    with (
        log.open("wb") as said,
        subprocess.Popen(
            [*command, "--port", str(port), "--device", "cpu", "--dtype", "float32"],
            stdout=said,
            stderr=said,
            env={**os.environ, "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""},
        ) as server,
    ):
        try:
            until = time.monotonic() + STARTED_WITHIN
            while not _listens(port):
                assert server.poll() is None and time.monotonic() < until, log.read_text(errors="replace")
                time.sleep(0.1)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            server.kill()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_plans_are_those_of_the_local_planner(address: str) -> None:
    local = Planner(open_chat("tinyworld:planner"))
    served = Planner(open_chat(f"openai:{checkpoint('planner')}@{address}"), local.prompt_set)
    rng = Random("served")
    requests = (request_of(random_story(rng, "evaluate")) for _ in range(20))
    request = next(one for one in requests if one.images)
    assert served.plan(request) == local.plan(request)


def test_verdicts_are_those_of_the_local_critic(address: str) -> None:
    local = Critic(open_chat("tinyworld:critic"))
    served = Critic(open_chat(f"openai:{checkpoint('critic')}@{address}"), local.prompt_set, local.settings)
    rng = Random("served")
    pages = [rendered(rng) for _ in range(6)]
    found = set()
    for page in pages:
        asked = page.before, page.after, edit_text(page.edit), prompt_text(page.edit, page.clauses)
        ours, theirs = local.judge(*asked), served.judge(*asked)
        # It reports no log-probabilities.
        assert theirs == ours.model_copy(update={"probability": None})
        found.add(theirs.success)
    assert found == {True, False}


def test_the_command_line_runs_with_the_checkpoints_prompt_sets(address: str, tmp_path: Path) -> None:
    planner, critic = checkpoint("planner"), checkpoint("critic")
    told = call(
        "run",
        "Draw a sea page with a red boat in the middle. Then make it blue.",
        *("--out", str(tmp_path / "run")),
        *("--planner", f"openai:{planner}@{address}", "--planner-prompts", str(planner)),
        *("--critic", f"openai:{critic}@{address}", "--critic-prompts", str(critic / "prompt_set")),
    )
    assert told.exit_code == 0, told.output
    assert "2 of 2 images accepted" in told.output


def test_unsupported_options_raise_a_clear_error(address: str) -> None:
    chat = open_chat(f"openai:{checkpoint('planner')}@{address}")
    settings = ReplySettings(temperature=0.7, top_k=5)
    with pytest.raises(ChatError, match="does not support top_k"):
        chat.reply([Message(role="user", content=("Draw a sea page.",))], settings)
