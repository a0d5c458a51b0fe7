"""`serve --register`: the address under which a service is listed."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

from ...backend.remote.addresses import THIS_MACHINE, service_url

EVERY_ADDRESS = ("0.0.0.0", "::")
"""Hosts with which a service listens on all addresses of its machine."""


def advertised_url(listening: str, advertise: str = "") -> str:
    """Return the address that other machines use.

    Args:
        listening: URL at which the service listens.
        advertise: HOST, HOST:PORT or a URL. Empty: the host at which it listens, or the name of this machine
            if it listens on all addresses.

    Raises:
        SettingsError: `advertise` is not an address.
    """
    parts = urlsplit(listening)
    host = parts.hostname or ""
    if not advertise:
        advertise = socket.gethostname() if host in EVERY_ADDRESS else parts.netloc
    if "//" in advertise:
        return service_url(advertise)
    url = service_url(f"{parts.scheme}://{advertise}")
    return url if urlsplit(url).port else f"{url}:{parts.port}"


def is_local(url: str) -> bool:
    """Return whether only this machine can use an address."""
    return urlsplit(url).hostname in THIS_MACHINE
