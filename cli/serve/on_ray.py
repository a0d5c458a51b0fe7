"""`serve --ray`: runs the service on a Ray cluster until Ctrl-C or SIGTERM."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

import typer

from ...service.ray_deploy import Service, start_ray, stop_ray
from ...service.ray_pool.settings import ClusterSettings
from ...service.settings import ModelSettings, ServiceSettings


def serve_on_ray(
    address: str, models: Sequence[ModelSettings], settings: ServiceSettings, cluster: ClusterSettings
) -> None:
    """Serve until SIGTERM or Ctrl-C.

    Raises:
        SettingsError: Ray or the service cannot be started with these settings.
    """
    started_here = start_ray(address, lambda line: typer.echo(line, err=True))
    # Set after Ray starts, whose own handlers end the process at once.
    with _end_signal() as ending:
        service = Service(settings, models, cluster)
        try:
            service.deploy()
            scheme = "https" if settings.certificate else "http"
            typer.echo(f"Listening at {scheme}://{settings.host}:{settings.port}", err=True)
            while not ending.wait(1.0):
                pass
            typer.echo("Stopping", err=True)
            service.end()
        finally:
            stop_ray(started_here)


@contextmanager
def _end_signal() -> Iterator[threading.Event]:
    """Yield an event that is set by SIGTERM and Ctrl-C."""
    ending = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        ending.set()

    before = {one: signal.signal(one, end) for one in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield ending
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
