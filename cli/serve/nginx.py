"""`serve nginx`: the configuration of a balancer before several services."""

from __future__ import annotations

from typing import Annotated

import typer

from ...backend.remote.addresses import DEFAULT_PORT


def command(
    services: Annotated[
        str, typer.Argument(help="URL1,URL2,..., or @FILE with one address a line (# begins a comment).")
    ],
    service_port: Annotated[
        int, typer.Option(min=1, max=65535, help="Port of addresses without one.")
    ] = DEFAULT_PORT,
    listen: Annotated[str, typer.Option(help="PORT or ADDRESS:PORT of nginx.")] = "127.0.0.1:8080",
    server_name: Annotated[str, typer.Option(help="Host name that it answers to; empty: any.")] = "",
    body_mib: Annotated[int, typer.Option(min=1, max=4096, help="Largest request in MiB.")] = 64,
    read_timeout: Annotated[
        int, typer.Option(min=1, max=86400, help="Seconds for a draw, its wait in the queue included.")
    ] = 900,
    whole: Annotated[
        bool, typer.Option("--whole", help="Print a whole file for `nginx -c`, not one for conf.d.")
    ] = False,
) -> None:
    """Print an nginx configuration that balances image services: kept connections, least busy first, a full
    queue passed on to the next service."""
    from ...backend.remote.addresses import Addresses
    from ...service.client_tools.balancer import Balancer

    urls = Addresses(services, service_port).now()
    balancer = Balancer(listen, server_name, body_mib, read_timeout, whole)
    typer.echo(balancer.configuration(urls), nl=False)
