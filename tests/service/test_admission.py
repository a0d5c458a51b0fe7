"""The order in which waiting requests are admitted, and the Retry-After of a rejected client."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from interleave_thinker.service.admission import CLOSING_SECONDS, Admission, RequestSlots
from interleave_thinker.service.pool import Busy, GeneratedImage, ImageRequest, ModelInfo, WorkerState
from interleave_thinker.service.settings import ServiceSettings

MODEL = "model"
PATIENCE = 60.0
DRAW_SECONDS = 4.0


class FullPool:
    """A pool that generates nothing. The test sets its queue and its capacity."""

    def __init__(self, queued: int, capacity: int) -> None:
        self.queue, self.images = queued, capacity

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def draw(self, request: ImageRequest, deadline: float) -> GeneratedImage:
        raise AssertionError("this pool draws nothing")

    def models(self) -> Sequence[ModelInfo]:
        return [ModelInfo(name=MODEL, kind="full")]

    def workers(self) -> Sequence[WorkerState]:
        return []

    def queued(self, model: str) -> int:
        return self.queue

    def capacity(self, model: str) -> int:
        return self.images


async def settle() -> None:
    """Let every task run until it waits."""
    for _ in range(20):
        await asyncio.sleep(0)


def test_requests_are_admitted_in_order_of_arrival() -> None:
    async def main() -> None:
        admission = Admission(FullPool(0, 1), ServiceSettings(queue=1, patience=PATIENCE))
        admitted: list[int] = []
        done = asyncio.Event()

        async def request(number: int) -> None:
            async with admission.slot(MODEL):
                admitted.append(number)
                if number < 2:
                    await done.wait()

        tasks = []
        for number in range(8):
            tasks.append(asyncio.create_task(request(number)))
            await settle()
        assert admitted == [0, 1] and admission.waiting(MODEL) == 6
        done.set()
        await asyncio.gather(*tasks)
        assert admitted == list(range(8)) and admission.under_way == 0

    asyncio.run(main())


def test_a_new_request_does_not_pass_those_that_wait() -> None:
    """Even if a slot is free that the first in line has not taken yet."""

    async def main() -> None:
        limit = 1
        slots = RequestSlots(lambda: limit, line=10)
        assert await slots.acquire(0)
        waiting = asyncio.create_task(slots.acquire(PATIENCE))
        await settle()
        limit = 2
        assert not await slots.acquire(0)
        slots.wake()
        assert await waiting and slots.taken == 2

    asyncio.run(main())


@pytest.mark.parametrize(
    ("queued", "waiting", "capacity", "seconds"),
    [(0, 0, 1, 1.0), (6, 0, 1, 24.0), (0, 3, 1, 12.0), (6, 3, 1, 36.0), (6, 3, 2, 18.0), (3, 0, 5, 3.0)],
)
def test_a_rejected_client_gets_the_waiting_time(
    queued: int, waiting: int, capacity: int, seconds: float
) -> None:
    """All requests ahead count: those in the pool's queue and those that wait for space in it."""

    async def main() -> None:
        settings = ServiceSettings(queue=1, patience=PATIENCE)
        admission = Admission(FullPool(queued, capacity), settings)
        admission.note(MODEL, GeneratedImage(image=b"", size=(1, 1), seed=1, draw_seconds=DRAW_SECONDS))
        entered = [admission.slot(MODEL) for _ in range(1 + capacity)]
        for place in entered:
            await place.__aenter__()
        in_line = [asyncio.create_task(admission.slot(MODEL).__aenter__()) for _ in range(waiting)]
        await settle()
        settings.patience = 0.0
        with pytest.raises(Busy) as refused:
            await admission.slot(MODEL).__aenter__()
        assert refused.value.retry_after == seconds
        admission.close()
        assert all(isinstance(one, Busy) for one in await asyncio.gather(*in_line, return_exceptions=True))

    asyncio.run(main())


def test_the_retry_time_follows_the_models_mean_generation_time() -> None:
    """A new image counts a fifth, and those of other models do not count.

    Before the first, a second is assumed.
    """
    admission = Admission(FullPool(10, 1), ServiceSettings())
    assert admission.retry_after(MODEL) == 10.0
    for model, seconds in ((MODEL, 4.0), ("other", 90.0), (MODEL, 9.0)):
        admission.note(model, GeneratedImage(image=b"", size=(1, 1), seed=1, draw_seconds=seconds))
    assert admission.retry_after(MODEL) == 10 * (4.0 + 0.2 * 5.0)


def test_service_shutting_down_admits_no_request() -> None:
    async def main() -> None:
        admission = Admission(FullPool(0, 1), ServiceSettings(queue=1, patience=PATIENCE))
        assert not admission.closing
        drawn = [admission.slot(MODEL) for _ in range(2)]
        for place in drawn:
            await place.__aenter__()
        in_line = asyncio.create_task(admission.slot(MODEL).__aenter__())
        await settle()
        admission.close()
        assert admission.closing
        for late in (in_line, admission.slot(MODEL).__aenter__()):
            with pytest.raises(Busy, match="shutting down") as refused:
                await late
            assert refused.value.retry_after == CLOSING_SECONDS
        assert admission.under_way == 2, "admitted requests are finished"

    asyncio.run(main())


def test_waiting_line_is_limited_and_timeouts_leave_it() -> None:
    async def main() -> None:
        slots = RequestSlots(lambda: 1, line=2)
        assert await slots.acquire(0) and not await slots.acquire(0) and not slots.waiting
        waiting = [asyncio.create_task(slots.acquire(PATIENCE)) for _ in range(2)]
        await settle()
        assert slots.waiting == 2 and not await slots.acquire(PATIENCE), "the line is full"
        waiting[0].cancel()
        await settle()
        assert slots.waiting == 1 and not await slots.acquire(0.01), "and too short a patience ends"
        assert slots.waiting == 1
        slots.release()
        assert await waiting[1] and slots.taken == 1

    asyncio.run(main())


def test_slot_of_a_canceled_request_goes_to_the_next() -> None:
    async def main() -> None:
        slots = RequestSlots(lambda: 1, line=2)
        assert await slots.acquire(0)
        first, second = (asyncio.create_task(slots.acquire(PATIENCE)) for _ in range(2))
        await settle()
        slots.release()
        first.cancel()
        assert await second and slots.taken == 1 and not slots.waiting

    asyncio.run(main())
