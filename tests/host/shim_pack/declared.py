"""Declares the pack's nodes from functions, and gives them the pack under test and a record of what ran."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import folder_paths

FILE = "test-nodes-that-ran.txt"
NODE_CLASS_MAPPINGS: dict[str, type] = {}
TEXT = ("STRING", {"multiline": True, "default": ""})


def declared(
    name: str, *outputs: Any, needs: dict[str, Any] | None = None, **members: Any
) -> Callable[..., Any]:
    """Declare a function as a node: its inputs are those of `needs` and, optional, of `may`."""
    may = members.pop("may", {})

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        inputs = {"required": needs or {}, "optional": may}
        NODE_CLASS_MAPPINGS[name] = type(
            name,
            (),
            {
                "CATEGORY": "InterleaveThinker tests",
                "FUNCTION": "run",
                "RETURN_TYPES": outputs,
                "INPUT_TYPES": classmethod(lambda cls: inputs),
                "run": staticmethod(function),
                **members,
            },
        )
        return function

    return declare


def number(default: float) -> tuple[str, dict[str, Any]]:
    """A widget of a number."""
    return ("INT" if isinstance(default, int) else "FLOAT", {"default": default})


def note(line: str) -> None:
    """Write down in the output folder that a node ran: what the host really ran, in any process."""
    folder = Path(folder_paths.get_output_directory())
    folder.mkdir(exist_ok=True)
    with (folder / FILE).open("a", encoding="utf-8") as file:
        file.write(line + "\n")


def pack(module: str) -> ModuleType:
    """A module of the pack under test, which the host has imported under a name of its own."""
    root = next(name for name in list(sys.modules) if name.endswith("interleave-thinker"))
    return import_module(f"{root}.{module}")


def scripted_agent(
    replies: str, seconds_per_word: float = 0.0, before: Callable[[], object] = lambda: None
) -> tuple[Any]:
    """Return the output of a node: an agent with the replies of a JSON list, which calls `before` first."""
    scripted = pack("backend.models.chat.scripted")

    class Chat(scripted.ScriptedChat):
        def reply(self, messages: Any, settings: Any, on_token: Any = None) -> Any:
            def slowly(text: str) -> None:
                time.sleep(seconds_per_word)
                if on_token is not None:
                    on_token(text)

            before()
            return super().reply(messages, settings, slowly)

    chat = Chat(scripted.REPLIES.validate_json(replies))
    return (pack("nodes.agents.managed_chat").ManagedChat(chat),)
