"""Models for tests with a real llama-server: a tiny one with random weights, and the user's own.

A test that needs one is skipped if the server or the model cannot be found.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.tiny_gguf import write_tiny_gguf

from interleave_thinker import SettingsError, open_chat
from interleave_thinker.backend.models.chat.llamacpp_chat import LlamaCppChat
from interleave_thinker.backend.models.chat.llamacpp_server import find_server

VARIABLE = "INTERLEAVE_REAL_GGUF"


def need_server() -> None:
    """Skip the test if there is no llama-server where the product looks for it."""
    try:
        find_server()
    except SettingsError as error:
        pytest.skip(f"needs llama.cpp's server: {error.message} Set LLAMA_SERVER to its path.")


def tiny_model(folder: Path) -> Path:
    """Write the tiny model, or skip the test if the package `gguf` is not installed."""
    pytest.importorskip("gguf", reason="needs the package gguf to write a tiny model")
    return write_tiny_gguf(folder / "tiny.gguf")


def real_model() -> Path:
    """Return the file that `INTERLEAVE_REAL_GGUF` names, or skip the test."""
    named = os.environ.get(VARIABLE, "")
    if not named:
        pytest.skip(f"needs a real model: set {VARIABLE} to an instruct model in GGUF")
    return Path(named)


@contextmanager
def opened(model: Path, **options: Any) -> Iterator[LlamaCppChat]:
    """Open an agent on one thread of the CPU, and stop its server at the end of the block."""
    chat = open_chat(f"llamacpp:{model}", threads=1, gpu_layers=0, **options)
    assert isinstance(chat, LlamaCppChat)
    try:
        yield chat
    finally:
        chat.server.release()
