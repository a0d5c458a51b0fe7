"""Functions shared by the clients of image services."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Sequence

from ...errors import GeneratorError
from ...pictures import Picture

MAX_ANSWER_VALUES = 10_000


def late_error(where: str, seconds: float) -> GeneratorError:
    """Return the error for a request that timed out."""
    return GeneratorError(
        f"{where} did not answer within {seconds:g} s.", "Increase the deadline, or reduce the steps."
    )


def request_digest(prompt: str, images: Sequence[Picture], seed: int) -> bytes:
    """Return a digest of a request, so that equal requests go to the same service."""
    drawn_from = f"{prompt}\0{seed}\0{' '.join(one.digest for one in images)}"
    return hashlib.blake2b(drawn_from.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def check_values(said: bytes, where: str) -> None:
    """Check that an answer does not have too many values. An image counts as one.

    Raises:
        GeneratorError: It has too many.
    """
    if said.count(b",") + said.count(b"[") + said.count(b"{") > MAX_ANSWER_VALUES:
        raise GeneratorError(f"{where} answered with more than {MAX_ANSWER_VALUES} values.")


def at_the_same_time(work: Sequence[Callable[[], None]], seconds: float, late: Exception) -> list[Exception]:
    """Run functions concurrently in daemon threads, which do not keep the process from ending.

    Args:
        work: Functions to run.
        seconds: Maximum time to wait for all.
        late: Error for each function that did not end in time. The results of the others are kept.

    Returns:
        The errors.
    """
    ended: dict[int, Exception | None] = {}

    def done(number: int) -> None:
        try:
            work[number]()
        except Exception as error:  # noqa: BLE001 - returned to the caller
            ended[number] = error
        else:
            ended[number] = None

    until = time.monotonic() + seconds
    threads = [threading.Thread(target=done, args=(number,), daemon=True) for number in range(len(work))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    found = [ended.get(number, late) for number in range(len(work))]
    return [error for error in found if error is not None]
