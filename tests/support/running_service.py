"""A generator service for tests: the real app on a real port, with models in this process or on Ray."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from support.ray_here import ON_RAY, importable
from support.service_generators import open_drawer

from interleave_thinker.service.front import Front
from interleave_thinker.service.local_pool import LocalPool
from interleave_thinker.service.pool import OpenDrawer
from interleave_thinker.service.ray_deploy import Service as RayService
from interleave_thinker.service.ray_deploy import models_here
from interleave_thinker.service.ray_pool import RayPool
from interleave_thinker.service.settings import ClusterSettings, ModelSettings, ServiceSettings
from interleave_thinker.service.web.app import create_app

MAX_SECONDS = 60.0
LOADING = 240.0
"""Seconds to wait for a model: imports take a minute on a busy machine."""


LOCAL = "local"
POOLS = [LOCAL, pytest.param("ray", marks=ON_RAY)]
"""The pools that the contract tests of the service run with."""


@dataclass
class Service:
    """A running service; `client` calls it."""

    url: str
    client: httpx.Client
    front: Front
    pool: LocalPool | RayPool

    def post(self, path: str, **body: Any) -> httpx.Response:
        return self.client.post(path, json=body)

    def wait_for(self, model: str) -> None:
        """Return once none of the model's workers is loading."""
        wait_until(lambda: self.phases(model) and "loading" not in self.phases(model), LOADING)

    def phases(self, model: str) -> list[str]:
        """Return the phases of the model's workers."""
        return [worker.phase for worker in self.pool.workers() if worker.model == model]


@contextmanager
def running_service(
    folder: Path,
    models: Sequence[ModelSettings],
    settings: ServiceSettings | None = None,
    drawers: OpenDrawer = open_drawer,
    loaded: bool = True,
    where: str = LOCAL,
) -> Iterator[Service]:
    """Run the service until the block ends. The workers of its first model are loaded when it begins.

    `folder` is empty. `drawers` opens the models in the workers. `where` is one of POOLS.
    """
    settings = settings or ServiceSettings()
    with ExitStack() as ending:
        ending.enter_context(importable(folder))
        pool = ending.enter_context(pool_of(models, settings, drawers, where))
        app = create_app(pool, settings)
        server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning", access_log=False, ws="none"))
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        try:
            wait_until(lambda: server.started)
            port = server.servers[0].sockets[0].getsockname()[1]
            url = f"http://127.0.0.1:{port}"
            with httpx.Client(base_url=url, timeout=MAX_SECONDS) as client:
                service = Service(url, client, app.state.front, pool)
                if loaded:
                    service.wait_for(models[0].name)
                yield service
        finally:
            server.should_exit = True
            thread.join(MAX_SECONDS)


@contextmanager
def pool_of(
    models: Sequence[ModelSettings], settings: ServiceSettings, drawers: OpenDrawer, where: str
) -> Iterator[LocalPool | RayPool]:
    """Yield the pool in this process, or on a Ray that is started for it."""
    if where == LOCAL:
        yield LocalPool(models, settings, drawers)
        return
    service = RayService(settings, models, ClusterSettings(replica_cpus=0.1), drawers)
    with models_here(service, lambda line: print(line, file=sys.stderr)) as pool:
        yield pool


def wait_until(there: Any, seconds: float = MAX_SECONDS) -> None:
    """Return once `there()` is true; a test that waits longer fails."""
    until = time.monotonic() + seconds
    while not there():
        assert time.monotonic() < until, "it did not come about"
        time.sleep(0.01)
