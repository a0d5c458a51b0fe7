"""Checks against requests from pages of other sites: their origin, and the name of the called server.

A page of another site can let its own name resolve to this machine (DNS rebinding). The browser then treats
it as the same origin as the server. Only the `Host` header shows the difference. An IP address was not
resolved at all.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
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


def may_be_called(host: str, listening: str, named: str = "") -> bool:
    """Return whether a server may be called by the name in this `Host` header.

    Args:
        host: The header.
        listening: Addresses on which the server listens, separated by commas. If one of them is not of this
            machine only, any name is accepted.
        named: Origin of another page that may call it, such as `https://NAME`.
    """
    if not all(is_this_machine(address.strip()) for address in listening.split(",")):
        return True
    try:
        name = called_name(host)
        other = urlsplit(named).hostname
    except ValueError:
        return False
    return is_this_machine(name) or is_address(name) or name == other


def from_own_page(headers: Mapping[str, str], allowed: str = "") -> bool:
    """Return whether a request comes from the server's own page, an allowed page, or a program.

    Args:
        headers: Headers of the request, whose names are found in any case.
        allowed: Origin of another page that may call the server. `*` allows none.
    """
    origin = headers.get("Origin", "")
    if allowed and allowed != "*" and origin == allowed:
        return True
    if headers.get("Sec-Fetch-Site", "") == "cross-site":
        return False
    if not origin:
        return True
    # A proxy may have put its own name into Host; pages cannot set the other header without permission.
    hosts = [headers.get(name, "") for name in ("Host", "X-Forwarded-Host")]
    return any(_same_host(origin, host.strip()) for host in hosts)


def _same_host(origin: str, host: str) -> bool:
    try:
        asking, asked = urlsplit(origin), urlsplit(f"//{host}")
        if not asking.hostname or asking.hostname != asked.hostname:
            return False
        # Some browsers and proxies omit a port; the host's own check accepts that.
        return None in (asking.port, asked.port) or asking.port == asked.port
    except ValueError:
        return False
