"""How the cluster pool gets to know its models, with stand-ins for Serve's handles.

A model that never loads neither blocks nor hides the others.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from interleave_thinker.service.pool import ModelInfo
from interleave_thinker.service.ray_pool import RayPool
from interleave_thinker.service.settings import ModelSettings, ServiceSettings

NAMES = ("stuck", "broken", "good")


class Answer:
    """A response of Serve, which is awaited or canceled."""

    def __init__(self, made: Awaitable[ModelInfo]) -> None:
        self._made = asyncio.ensure_future(made)
        self.cancelled = False

    def __await__(self) -> Any:
        return self._made.__await__()

    def cancel(self) -> None:
        self.cancelled = True
        self._made.cancel()


class Handle:
    """A handle of a deployment: `info.remote()`."""

    def __init__(self, name: str, load: Callable[[str], Awaitable[ModelInfo]]) -> None:
        self._name, self._load = name, load
        self.asked: list[Answer] = []

    @property
    def info(self) -> Handle:
        return self

    def remote(self) -> Answer:
        self.asked.append(Answer(self._load(self._name)))
        return self.asked[-1]


async def load(name: str) -> ModelInfo:
    if name == "stuck":
        await asyncio.sleep(3600)
    if name == "broken":
        raise RuntimeError("no such folder")
    return ModelInfo(name, identity="good/1")


async def learned(handles: Mapping[str, Handle], seconds: float) -> RayPool:
    models = [ModelSettings(name=name, generator="fake") for name in NAMES]
    pool = RayPool(models, handles, ServiceSettings(load_timeout=seconds), "app")
    await pool.start()
    until = time.monotonic() + 20
    while time.monotonic() < until and not (pool.models()[2].identity and len(pool.not_loaded) == 2):
        await asyncio.sleep(0.01)
    await pool.close()
    return pool


def test_each_model_has_its_own_loading_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RayPool, "_replicas_now", lambda pool: {})
    handles = {name: Handle(name, load) for name in NAMES}
    pool = asyncio.run(learned(handles, 0.05))
    assert [info.identity for info in pool.models()] == ["", "", "good/1"]
    assert pool.not_loaded == {
        "stuck": "The model 'stuck' was not loaded within 0.05 s.",
        "broken": "The model 'broken' cannot be queried (RuntimeError).",
    }
    assert handles["stuck"].asked[0].cancelled, "the wait is canceled"
