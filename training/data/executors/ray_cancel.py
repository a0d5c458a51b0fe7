"""The cancel token on a Ray cluster: an actor. Workers check it once per second and add their costs."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

from ....backend.errors import SettingsError
from . import LocalCancelToken

LOOKED_EVERY = 1.0
"""Seconds between two checks of the token."""
ANSWERED_IN = 60.0
"""Seconds in which the actor must answer the command, which is on the same machine."""


class RayCancelToken:
    """Cancel token in a worker."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self._reason, self._looked = "", 0.0

    def reason(self) -> str:
        """Return why no more items may be started, or an empty text."""
        if not self._reason and time.monotonic() - self._looked >= LOOKED_EVERY:
            import ray  # pyright: ignore[reportMissingImports]
            from ray.exceptions import RayActorError  # pyright: ignore[reportMissingImports]

            self._looked = time.monotonic()
            # The network may fail for a moment. If the command is gone, Ray ends this worker.
            with suppress(RayActorError):
                self._reason = str(ray.get(self._handle.reason.remote()))
        return self._reason

    def add(self, cost: float) -> None:
        """Add a cost to the spent budget."""
        if cost:
            self._handle.add.remote(cost)


class Board:
    """Cancel token of the command, and the actor that represents it on the cluster."""

    def __init__(self, ray: Any, stop: LocalCancelToken) -> None:
        self._ray, self._stop = ray, stop
        # The actor runs on the command's own node, so that a lost worker node does not remove it.
        here = ray.get_runtime_context().get_node_id()
        near = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(here, soft=False)
        self.handle = ray.remote(LocalCancelToken).options(num_cpus=0, scheduling_strategy=near).remote()
        self._looked, self._there = 0.0, 0.0

    def reason(self) -> str:
        """Return the reason to stop; costs are synchronized from the workers, and the reason to them.

        Raises:
            SettingsError: The Ray node of this machine was lost.
        """
        if time.monotonic() - self._looked >= LOOKED_EVERY:
            self._looked = time.monotonic()
            spent = self._spent()
            self._stop.add(spent - self._there)
            self._there = spent
        reason = self._stop.reason()
        if reason:
            self.handle.stop.remote(reason)
        return reason

    def _spent(self) -> float:
        try:
            return float(self._ray.get(self.handle.spent.remote(), timeout=ANSWERED_IN))
        except (self._ray.exceptions.RayActorError, self._ray.exceptions.GetTimeoutError) as error:
            raise SettingsError(
                f"The Ray node of this machine was lost ({type(error).__name__}).",
                "Start Ray again, then run the same command. Finished work is kept.",
            ) from error
