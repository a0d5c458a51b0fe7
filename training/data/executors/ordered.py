"""The results of a job in the order of its items, for whoever writes a file of them.

Decision: what comes of an item is small (rows, numbers; pictures go to the disk where they are made), so all
of it is in memory until the file is written, as the rows of a file are anyway. An item that no worker
survived is an error: a gap in the data would be noticed by nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Generic

from ....backend.errors import SettingsError
from . import CancelToken, Executor, Item, Job, LocalCancelToken, Result

SHOWN_EVERY = 500
"""Items between two lines of progress."""


def in_order(
    executor: Executor,
    job: Job[Item, Result],
    items: Sequence[Item],
    name: Callable[[Item], str],
    log: Callable[[str], None] = lambda line: None,
) -> Iterator[Result]:
    """The result of every item, after all of them are done. Raises what the job raises, and SettingsError for
    an item at which workers died, by its `name`."""
    numbered = list(enumerate(items))
    results: dict[int, Result] = {}
    stop = LocalCancelToken()
    for done in executor.map(_Numbered(job), numbered, lambda pair: str(pair[0]), stop):
        number = int(done.key)
        if done.lost or done.result is None:
            raise SettingsError(
                f"{name(items[number])}: {done.lost or 'nothing came of it'}.",
                "A machine may lack memory: fewer at a time, or more of it.",
            )
        results[number] = done.result
        if len(results) % SHOWN_EVERY == 0:
            log(f"{len(results)}/{len(items)} read")
    yield from (results.pop(number) for number in range(len(items)))


class _Numbered(Generic[Item, Result]):
    """A job of (number, item): the number is the key by which a result finds its place."""

    def __init__(self, job: Job[Item, Result]) -> None:
        self._job = job

    def open(self, stop: CancelToken) -> Callable[[tuple[int, Item]], Result]:
        function = self._job.open(stop)
        return lambda pair: function(pair[1])
