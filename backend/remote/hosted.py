"""Which models are somebody else's, so that using them costs money or leaves the house.

Decision: by the address alone, since no server says whether it sends a bill. This machine, private addresses
and names that no public name server answers for are one's own; every other host is taken for a hosted one. A
file of addresses is what one's own cluster writes.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from urllib.parse import urlsplit

from ..registry import split_spec
from .addresses import FILE_MARK

OWN_ENDINGS = (".local", ".localhost", ".internal", ".lan", ".home.arpa", ".svc")
BY_ADDRESS = ("openai", "http", "images")
"""Backends whose argument holds addresses."""


def is_hosted(host: str) -> bool:
    """Whether a host, by its name or number, is out of one's own network."""
    name = host.strip("[]").rstrip(".").lower()
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return "." in name and not name.endswith(OWN_ENDINGS)
    return address.is_global


def hosted_specs(specs: Iterable[str]) -> list[str]:
    """Those of the models, each as NAME or NAME:ARGUMENT, that have an address out of one's own network."""
    return [spec for spec in dict.fromkeys(specs) if any(map(is_hosted, _hosts(spec)))]


def _hosts(spec: str) -> list[str]:
    name, argument = split_spec(spec)
    if name not in BY_ADDRESS:
        return []
    if name != "http":
        argument = argument.partition("@")[2] if name == "images" else argument.rpartition("@")[2]
    pieces = (piece.strip() for piece in argument.split(","))
    urls = [piece for piece in pieces if not piece.startswith(FILE_MARK)]
    return [host for url in urls if (host := _host(url))]


def _host(url: str) -> str:
    try:
        return urlsplit(url if re.match(r"(https?:)?//", url) else f"//{url}").hostname or ""
    except ValueError:
        return ""
