"""Recognizes models on other people's servers, whose use costs money or sends data outside.

The address decides, since no server reports whether it charges. This machine, private addresses and
names without a public domain are the user's own. Every other host counts as hosted. A file of addresses is
written by the user's own cluster.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from urllib.parse import urlsplit

from ..machine.registry import split_spec
from .addresses import FILE_MARK

OWN_ENDINGS = (".local", ".localhost", ".internal", ".lan", ".home.arpa", ".svc")
BY_ADDRESS = ("openai", "http", "images")
"""Backends whose argument contains addresses."""
ALWAYS_HOSTED = ("gemini",)
"""Backends whose model exists only at its provider. An address is that of a proxy to it."""


def is_hosted(host: str) -> bool:
    """Return whether a host, given by name or IP address, is outside the user's own network."""
    name = host.strip("[]").rstrip(".").lower()
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return "." in name and not name.endswith(OWN_ENDINGS)
    return address.is_global


def hosted_specs(specs: Iterable[str]) -> list[str]:
    """Return the models, given as NAME or NAME:ARGUMENT, with an address outside the user's own network."""
    return [
        spec
        for spec in dict.fromkeys(specs)
        if split_spec(spec)[0] in ALWAYS_HOSTED or any(map(is_hosted, _hosts(spec)))
    ]


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
