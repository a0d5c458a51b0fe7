"""The name by which a server was called: the check against DNS rebinding.

A page of another site can let its own name resolve to this machine. The browser then treats it as the same
origin as the server. Only the `Host` header shows the difference. An IP address was not resolved at all.
"""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from .server import THIS_MACHINE


def called_name(host: str) -> str:
    """Return the name or address in a `Host` header without its port, or "" if it has none.

    Raises:
        ValueError: The header is not a valid address.
    """
    return urlsplit(f"//{host}").hostname or ""


def is_address(name: str) -> bool:
    """Return whether a name is an IP address."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_this_machine(name: str) -> bool:
    """Return whether a name or listening address refers to this machine only."""
    return name in THIS_MACHINE or (is_address(name) and ipaddress.ip_address(name).is_loopback)
