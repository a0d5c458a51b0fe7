"""`serve --ray`: the service on a Ray cluster, from its start to Ctrl-C or SIGTERM."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

import typer

from ...service.ray_pool.deploy import Service, start_ray, stop_ray
from ...service.ray_pool.settings import ClusterSettings
from ...service.settings import ModelSettings, ServiceSettings


def serve_on_ray(
    address: str, models: Sequence[ModelSettings], settings: ServiceSettings, cluster: ClusterSettings
) -> None:
    """Serve until this process is told to end. Raises SettingsError."""
    started_here = start_ray(address, lambda line: typer.echo(line, err=True))
    # After Ray, whose own handlers end the process at once.
    with _end_asked() as asked:
        service = Service(settings, models, cluster)
        try:
            service.deploy()
            scheme = "https" if settings.certificate else "http"
            typer.echo(f"Listening at {scheme}://{settings.host}:{settings.port}", err=True)
            while not asked.wait(1.0):
                pass
            typer.echo("Ending", err=True)
            service.end()
        finally:
            stop_ray(started_here)


@contextmanager
def _end_asked() -> Iterator[threading.Event]:
    """Set once SIGTERM or Ctrl-C comes."""
    asked = threading.Event()

    def ask(number: int, frame: FrameType | None) -> None:
        asked.set()

    before = {one: signal.signal(one, ask) for one in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield asked
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
