"""Runs prompts in ComfyUI's own executor with each of its caches; started by a test with the host's Python.

One process for all four cache modes instead of four servers: the executor, its scheduler, its
caches and the nodes are the host's own, only the web server is left out. Usage: `python cache_rig.py
SCENARIOS.json RESULTS.json HOST [host options]`; SCENARIOS is a list of `{"cache": one of CACHES, "prompts":
[...], "size": of the LRU}`, each run by an executor of its own.
"""

from __future__ import annotations

import asyncio
import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

CACHES = {"classic": "CLASSIC", "lru": "LRU", "ram": "RAM_PRESSURE", "none": "NONE"}


class Listener:
    """Replaces the server of the executor and records its messages."""

    client_id: str | None = "rig"
    last_node_id = None
    last_prompt_id = None
    sockets_metadata: dict[str, Any] = {}  # noqa: RUF012 - the host reads it as an attribute

    def __init__(self) -> None:
        self.said: list[tuple[str, Any]] = []

    def send_sync(self, event: str, data: Any, sid: str | None = None) -> None:
        if event in ("executed", "execution_error", "execution_success"):
            self.said.append((event, data))


async def main(scenarios: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Return for each scenario the results of its prompts: nodes that ran, status, outputs."""
    import_module("utils.install_util")  # before nodes, which puts a folder first that shadows it
    from comfy.cli_args import args
    from execution import CacheType, PromptExecutor, validate_prompt
    from server import PromptServer

    import nodes

    server = PromptServer(asyncio.get_running_loop())
    server.add_routes()
    await nodes.init_extra_nodes(init_custom_nodes=True, init_api_nodes=False)
    counts = Path(args.base_directory) / "output" / "test-nodes-that-ran.txt"
    counts.parent.mkdir(exist_ok=True)
    results = []
    for scenario in scenarios:
        args.cache_none = scenario["cache"] == "none"
        listener = Listener()
        kind = CacheType[CACHES[scenario["cache"]]]
        executor = PromptExecutor(
            listener,
            cache_type=kind,
            cache_args={"lru": scenario.get("size", 100), "ram": 0.0, "ram_inactive": 0.0},
        )
        answers = []
        for number, prompt in enumerate(scenario["prompts"]):
            counts.write_text("")
            listener.said.clear()
            name = f"prompt{number}"
            valid, error, outputs, node_errors = await validate_prompt(name, prompt, None)
            if valid:
                await executor.execute_async(prompt, name, {"client_id": "rig"}, outputs)
            answers.append(
                {
                    "ran": counts.read_text().splitlines(),
                    "error": str(error or node_errors) if not valid else failure(listener),
                    "outputs": executor.history_result["outputs"] if valid else {},
                    "shown_at": [
                        data["display_node"] for event, data in listener.said if event == "executed"
                    ],
                }
            )
        results.append(answers)
    return results


def failure(listener: Listener) -> str:
    """Return the error reported by the executor; empty if there was none."""
    return next(
        (data["exception_message"].strip() for event, data in listener.said if event == "execution_error"), ""
    )


if __name__ == "__main__":
    source, target, home, *options = sys.argv[1:]
    sys.argv = [str(Path(home) / "main.py"), *options]
    sys.path.insert(0, home)
    import comfy.options

    comfy.options.enable_args_parsing()
    answers = asyncio.run(main(json.loads(Path(source).read_text())))
    Path(target).write_text(json.dumps(answers))
