"""`serve nginx`: prints or writes the configuration of a load balancer for several services."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...backend.errors import SettingsError
from ...backend.remote.addresses import DEFAULT_PORT


def command(
    services: Annotated[
        str, typer.Argument(help="URL1,URL2,... or @FILE with one address per line (# starts a comment).")
    ],
    service_port: Annotated[
        int, typer.Option(min=1, max=65535, help="Port of addresses that have none.")
    ] = DEFAULT_PORT,
    listen: Annotated[
        str, typer.Option(help="PORT or ADDRESS:PORT that nginx listens on.")
    ] = "127.0.0.1:8080",
    server_name: Annotated[str, typer.Option(help="Host name that nginx answers to. Default: any.")] = "",
    body_mib: Annotated[int, typer.Option(min=1, max=4096, help="Maximum size of a request in MiB.")] = 64,
    read_timeout: Annotated[
        int,
        typer.Option(
            min=1, max=86400, help="Timeout of an image in seconds, including the time in the queue."
        ),
    ] = 900,
    whole: Annotated[
        bool, typer.Option("--whole", help="Print a complete file for `nginx -c` instead of one for conf.d.")
    ] = False,
    to: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Write a folder with which any user can run nginx: configuration, start.sh and stop.sh. "
            "Use it again after the services change.",
        ),
    ] = None,
) -> None:
    """Print an nginx configuration that balances the load of several image services.

    Connections are reused, the least busy service is chosen, and a request that meets a full queue goes to
    the next service.
    """
    from ...backend.remote.addresses import Addresses
    from ...service.client_tools.balancer import Balancer

    urls = Addresses(services, service_port).now()
    balancer = Balancer(listen, server_name, body_mib, read_timeout, whole)
    if to is None:
        typer.echo(balancer.configuration(urls), nl=False)
        return
    if whole:
        raise SettingsError("--whole has no effect with --to, which writes a complete file.", "Remove it.")
    from ...service.client_tools.balancer_folder import START, write_folder

    write_folder(to.expanduser(), balancer, urls)
    typer.echo(f"To start or reload nginx: {to / START}")
