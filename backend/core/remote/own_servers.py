"""Protection of this package's own servers: who may call them, and how many connections they keep.

A page of another site can let its own name resolve to this machine (DNS rebinding). The browser then treats
it as the same origin as the server. Only the `Host` header shows the difference. An IP address was not
resolved at all.

Clients can open connections and send half a request at no cost, while each takes a file descriptor of the
process. Their number therefore has a limit below the system's own. At the limit, the connection that has kept
the server waiting longest is closed for a new one, so clients that send complete requests are still served. A
socket is shut down here and closed by the code that serves it, which sees a client that hung up.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

from .addresses import THIS_MACHINE

GRACE = 0.1
"""Seconds for which no connection is closed for a new one, because its first data may not be read yet."""
FILES_BESIDE = 2
"""File descriptors reserved per connection. Half of them are for other uses."""


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


def connections_allowed(wanted: int) -> int:
    """Return the number of connections, at most `wanted`, for which this process may open enough files.

    The soft limit of open files is raised towards the hard limit if necessary.
    """
    try:
        import resource
    except ImportError:  # Windows has no such limit.
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    files = wanted * FILES_BESIDE
    if soft < files:
        soft = files if hard == resource.RLIM_INFINITY else min(files, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(1, min(wanted, soft // FILES_BESIDE))
