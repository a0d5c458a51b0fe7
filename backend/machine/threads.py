"""Limits the tiny world's models to one CPU thread.

Models of a few million weights gain nothing from a second thread and lose much on a busy machine (a story
took 21 s with two threads, 14 s with one). The number belongs to torch and the process, so it is set around
each call and restored: a large model in the same process keeps its threads. A number set by the user is not
changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .environment import variable

SET_BY_USER = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute on one thread inside the block, unless the environment sets the number of threads."""
    import torch

    before = torch.get_num_threads()
    if before == 1 or any(variable(name) for name in SET_BY_USER):
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
