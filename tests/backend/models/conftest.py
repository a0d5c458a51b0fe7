"""Tiny agents that tests of the models share: a taught one with two adapters, and one of random weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support import tiny_checkpoint

from interleave_thinker.backend.models.chat import open_chat


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_checkpoint.taught_checkpoint(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="session")
def adapters(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return two adapters of the checkpoint."""
    return tiny_checkpoint.two_adapters(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="session")
def untaught(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Random weights: without a grammar its replies are noise."""
    folder = tiny_checkpoint.build_checkpoint(tmp_path_factory.mktemp("untaught") / "tiny")
    return open_chat(f"transformers:{folder}", device="cpu")
