"""Runs jobs in threads of this process, for work that waits for servers or for a single model.

Threads share what the job opened, so that a model is in memory only once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import islice

from . import Item, ItemResult, Job, LocalCancelToken, Result


class ThreadExecutor:
    """Runs up to `parallel` items at a time."""

    def __init__(self, parallel: int = 1) -> None:
        self.parallel = parallel

    def map(
        self,
        job: Job[Item, Result],
        items: Iterable[Item],
        key: Callable[[Item], str],
        stop: LocalCancelToken,
    ) -> Iterator[ItemResult[Result]]:
        """Yield results as `Executor.map`."""
        function = job.open(stop)
        source = iter(items)
        begun: dict[Future[Result], str] = {}
        with ThreadPoolExecutor(self.parallel, thread_name_prefix="work") as pool:
            try:
                while True:
                    room = 0 if stop.reason() else self.parallel - len(begun)
                    for item in islice(source, room):
                        begun[pool.submit(function, item)] = key(item)
                    if not begun:
                        return
                    for future in wait(begun, return_when=FIRST_COMPLETED).done:
                        yield ItemResult(begun.pop(future), future.result())
            finally:
                # Also when this iterator is closed or a worker raised: the others end at their next event.
                stop.stop("stopped")
