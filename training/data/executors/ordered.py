"""Returns the results of a job in the order of its items, for writing files.

Results are small (rows and numbers; images are written to disk by the workers), so all of them are in memory
until the file is written. An item that was lost is an error, since a gap in the data would not be noticed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Generic

from ....backend.errors import SettingsError
from . import CancelToken, Executor, Item, Job, LocalCancelToken, Result

SHOWN_EVERY = 500
"""Number of items between two lines of progress."""


def in_order(
    executor: Executor,
    job: Job[Item, Result],
    items: Sequence[Item],
    name: Callable[[Item], str],
    log: Callable[[str], None] = lambda line: None,
) -> Iterator[Result]:
    """Yield the result of every item in order, after all are done.

    Raises:
        SettingsError: Workers died at an item; the message has its `name`.
        InterleaveError: As the job.
    """
    numbered = list(enumerate(items))
    results: dict[int, Result] = {}
    stop = LocalCancelToken()
    for done in executor.map(_Numbered(job), numbered, lambda pair: str(pair[0]), stop):
        number = int(done.key)
        if done.lost or done.result is None:
            raise SettingsError(
                f"{name(items[number])}: {done.lost or 'the worker returned no result'}.",
                "The machine may have too little RAM: use fewer parallel workers.",
            )
        results[number] = done.result
        if len(results) % SHOWN_EVERY == 0:
            log(f"{len(results)}/{len(items)} read")
    yield from (results.pop(number) for number in range(len(items)))


class _Numbered(Generic[Item, Result]):
    """A job of (number, item); the number is the key that orders the results."""

    def __init__(self, job: Job[Item, Result]) -> None:
        self._job = job

    def open(self, stop: CancelToken) -> Callable[[tuple[int, Item]], Result]:
        function = self._job.open(stop)
        return lambda pair: function(pair[1])
