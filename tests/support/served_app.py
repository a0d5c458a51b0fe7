"""The service's app on a local port, in a thread, with any pool."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from interleave_thinker.service.pool import Pool
from interleave_thinker.service.settings import ServiceSettings


@contextmanager
def served_app(pool: Pool, settings: ServiceSettings | None = None) -> Iterator[str]:
    """Yield the URL of the app while the block runs."""
    from interleave_thinker.service.web.app import create_app
    from interleave_thinker.service.web.server import DrainingServer, Work, server_config

    settings = settings or ServiceSettings()
    app: Any = create_app(pool, settings)
    config = server_config(app, settings, timeout_graceful_shutdown=1)
    front = app.state.front
    with running(DrainingServer(config, Work(front.close, front.under_way, pool.close), grace=1)) as url:
        yield url


@contextmanager
def running(server: Any) -> Iterator[str]:
    """Yield the URL of a uvicorn server, which runs in a thread while the block runs."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    until = time.monotonic() + 30
    while not server.started:
        assert thread.is_alive() and time.monotonic() < until, "the server did not start"
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)
