"""Requests that share one image, also if some of them leave or the generation fails."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import pytest

pytest.importorskip("prometheus_client", reason='a service needs: pip install "interleave-thinker[serve]"')

from interleave_thinker.service.front import Front
from interleave_thinker.service.pool import DrawTimeout, GeneratedImage, ImageRequest, ModelInfo, WorkerState
from interleave_thinker.service.settings import ServiceSettings
from interleave_thinker.service.sharing import SharedDraws


class ScriptedPool:
    """Waits for the given seconds, then returns the given image or raises the given error."""

    def __init__(self, *script: tuple[float, GeneratedImage | DrawTimeout]) -> None:
        self.script, self.asked = list(script), 0

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def draw(self, request: ImageRequest, deadline: float) -> GeneratedImage:
        self.asked += 1
        seconds, outcome = self.script.pop(0)
        await asyncio.sleep(seconds)
        if isinstance(outcome, DrawTimeout):
            raise outcome
        return outcome

    def models(self) -> Sequence[ModelInfo]:
        return [ModelInfo(name="model", kind="scripted")]

    def workers(self) -> Sequence[WorkerState]:
        return []

    def queued(self, model: str) -> int:
        return 0

    def capacity(self, model: str) -> int:
        return 1


IMAGE = GeneratedImage(image=b"image", size=(1, 1), seed=1)
REQUEST = ImageRequest(model="model", prompt="a", seed=1)


def test_stopped_generation_is_not_retried_forever() -> None:
    async def main() -> None:
        pool = ScriptedPool((0.0, DrawTimeout("The draw was stopped.")))
        with pytest.raises(DrawTimeout):
            await Front(pool, ServiceSettings(timeout=60.0)).draw(REQUEST, seeded=True)
        assert pool.asked == 1

    asyncio.run(main())


def test_joined_request_has_its_own_deadline() -> None:
    async def main() -> None:
        pool = ScriptedPool((0.05, DrawTimeout("Too late.")), (0.0, IMAGE))
        front = Front(pool, ServiceSettings(timeout=60.0))
        first = asyncio.ensure_future(front.draw(REQUEST, seeded=True))
        await asyncio.sleep(0.01)
        second = asyncio.ensure_future(front.draw(REQUEST, seeded=True))
        with pytest.raises(DrawTimeout):
            await first
        assert (await second).image == b"image"
        assert (await front.draw(REQUEST, seeded=True)).image == b"image" and pool.asked == 2

    asyncio.run(main())


def test_cache_stays_within_its_budget_and_excludes_errors() -> None:
    async def main() -> None:
        shared = SharedDraws(20_000)

        async def make() -> GeneratedImage:
            return GeneratedImage(image=b"x" * 5000, size=(1, 1), seed=1)

        async def fail() -> GeneratedImage:
            raise DrawTimeout("Too late.")

        for number in range(10):
            assert (await shared.draw(str(number), make))[1] == "drawn"
        assert shared.kept.bytes <= 20_000 and (await shared.draw("9", fail))[1] == "kept"
        with pytest.raises(DrawTimeout):
            await shared.draw("new", fail)
        assert (await shared.draw("new", make))[1] == "drawn"

    started = time.monotonic()
    asyncio.run(main())
    assert time.monotonic() - started < 10


def test_last_request_to_leave_cancels_the_generation() -> None:
    async def main() -> None:
        shared, ended = SharedDraws(0), asyncio.Event()

        async def make() -> GeneratedImage:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                ended.set()
                raise
            return IMAGE

        waiting = [asyncio.ensure_future(shared.draw("key", make)) for _ in range(3)]
        await asyncio.sleep(0.01)
        for one in waiting[:2]:
            one.cancel()
        await asyncio.sleep(0.01)
        assert not ended.is_set()
        waiting[2].cancel()
        await asyncio.wait_for(ended.wait(), 10)
        assert not shared.is_under_way("key")

    asyncio.run(main())
