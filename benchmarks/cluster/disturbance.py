"""Watches the trajectories and the service, and kills a node in the middle."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx

from . import nodes
from .walk import Walk

ASKED_EVERY = 1.0


class Disturbance:
    """Kills `node` once `after` trajectories in the folder `runs` are complete.

    Attributes:
        killed: Titles of the killed processes.
        in_progress: Trajectories that were in progress at that time, with the number of their images.
    """

    def __init__(self, walk: Walk, runs: Path, node: Any, after: int, service: str) -> None:
        self._walk, self._runs, self._node, self._after = walk, runs, node, after
        self._service, self._workers, self._asked = service, "", 0.0
        self.killed: list[str] = []
        self.in_progress: dict[str, int] = {}

    def look(self) -> None:
        """Kill the node if it is time, and print changes of the service's workers."""
        if time.monotonic() - self._asked > ASKED_EVERY:
            self._asked = time.monotonic()
            self._ask()
        done = {path.parent for path in self._runs.glob("*/execution_record.json")}
        if self.killed or len(done) < self._after:
            return
        begun = {path.parent for path in self._runs.glob("*/run.json")} - done
        self.in_progress = {one.name: len(list(one.glob("pictures/*.png"))) for one in sorted(begun)}
        self.killed = nodes.kill(nodes.raylet_of(self._node))
        titles = Counter(self.killed)
        shown = ", ".join(name if count == 1 else f"{count} x {name}" for name, count in titles.items())
        self._walk.say(f"  SIGKILL to node 3 after {len(done)} trajectories: {shown}")
        with_images = (f"{name[:15]} ({images} images)" for name, images in self.in_progress.items())
        self._walk.say(f"  in progress: {', '.join(with_images)}")

    def _ask(self) -> None:
        try:
            health = httpx.get(f"{self._service}/health", timeout=2.0, trust_env=False).json()
            workers = ", ".join(f"{n} {phase}" for phase, n in sorted(health["workers"].items()) if n)
        except (httpx.HTTPError, ValueError, KeyError, AttributeError) as error:
            workers = f"no answer ({type(error).__name__})"
        if workers != self._workers:
            self._workers = workers
            self._walk.say(f"  service: {workers}")
