"""The address of a Ray cluster, for the service and the data commands. Ray itself is not imported.

If no cluster is at an address, Ray 2.60 tries for a quarter of an hour to reach it.
"""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

from ..errors import SettingsError
from .environment import variable

REACHED_IN = 10.0
"""Seconds in which a cluster must accept a connection."""
ADDRESS_HINT = (
    'Give the address of a running cluster, "auto" or "local". A cluster with a token needs '
    "RAY_AUTH_MODE=token and RAY_AUTH_TOKEN."
)


def check_ray_address(address: str) -> None:
    """Check that a Ray cluster accepts connections; `auto` uses the address in RAY_ADDRESS, if there is one.

    Raises:
        SettingsError: It does not.
    """
    given = variable("RAY_ADDRESS") if address == "auto" else address
    try:
        parts = urlsplit(given if "://" in given else f"//{given}")
        place = parts.hostname, parts.port
    except ValueError:
        return  # Ray explains what is wrong with it
    if place[0] is None or place[1] is None:
        return
    try:
        socket.create_connection((place[0], place[1]), REACHED_IN).close()
    except (OSError, UnicodeError) as error:  # UnicodeError: no host name, such as "head..local"
        raise SettingsError(f"No Ray cluster answers at {given!r} ({error}).", ADDRESS_HINT) from error
