"""The tiny world computes on one thread and leaves the process's number unchanged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from interleave_thinker import Message, ReplySettings, open_chat, open_generator


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(("variables", "threads"), [({}, 1), ({"OMP_NUM_THREADS": "2"}, 2)])
def test_one_thread_is_used_unless_the_environment_sets_a_number(
    two_threads: None, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], threads: int
) -> None:
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    seen: list[int] = []

    def note(*given: Any) -> None:
        seen.append(torch.get_num_threads())

    chat: Any = open_chat("tinyworld:planner")
    hook = chat.model.lm_head.register_forward_hook(note)
    chat.reply([Message(role="user", content=("a red sun",))], ReplySettings(max_tokens=2))
    hook.remove()
    generator: Any = open_generator("tinyworld")
    generator.pipeline.transformer.register_forward_hook(note)
    generator.draw("a red sun", None, 1)
    assert set(seen) == {threads} and torch.get_num_threads() == 2
