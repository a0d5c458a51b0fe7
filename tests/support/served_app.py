"""The service's app on a port of this machine, in a thread, over any pool."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from interleave_thinker.training.service.pool import Pool
from interleave_thinker.training.service.settings import ServiceSettings


@contextmanager
def served_app(pool: Pool, settings: ServiceSettings | None = None) -> Iterator[str]:
    """The URL of the app while the block runs."""
    import uvicorn

    from interleave_thinker.training.service.web.app import create_app

    app: Any = create_app(pool, settings or ServiceSettings())
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until = time.monotonic() + 30
    while not server.started:
        assert thread.is_alive() and time.monotonic() < until, "the app did not start"
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)
