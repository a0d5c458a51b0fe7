"""The addresses of services: lists and files of them, and which of them are other people's.

A list may refer to files, in the format that clusters write: one address per line, `#` comments, bare host
names as well as URLs. A file is read again when it changes, because services come and go while a client runs
for days. If it is temporarily missing, empty or incomplete, the last addresses stay in use and the log
reports it. Only the command line accepts files. A workflow contains only addresses.
"""

from __future__ import annotations

import ipaddress
import logging
import os
import re
import socket
from collections.abc import Iterable
from urllib.parse import urlsplit

from ..errors import SettingsError
from ..files.bounded_reader import read_text
from ..machine.environment import variable
from ..machine.registry import split_spec

OWN_ENDINGS = (".local", ".localhost", ".internal", ".lan", ".home.arpa", ".svc")
BY_ADDRESS = ("openai", "http", "images")
"""Backends whose argument contains addresses."""
ALWAYS_HOSTED = ("gemini",)
"""Backends whose model exists only at its provider. An address is that of a proxy to it."""
REACHED_IN = 10.0
"""Seconds in which a cluster must accept a connection."""
ADDRESS_HINT = (
    'Give the address of a running cluster, "auto" or "local". A cluster with a token needs '
    "RAY_AUTH_MODE=token and RAY_AUTH_TOKEN."
)
THIS_MACHINE = ("localhost", "127.0.0.1", "::1")
DEFAULT_PORT = 8011
MAX_SERVICES = 256
MAX_FILE_BYTES = 256 * 1024
FILE_MARK = "@"
LOG = logging.getLogger(__name__)
Stamp = tuple[int, int, int]


class Addresses:
    """Addresses from `URL1,URL2,@FILE`, without duplicates.

    Args:
        text: The list.
        port: Port for bare names.
        path: Path for addresses without one.

    Raises:
        SettingsError: An address is invalid, a file cannot be read, or the list is empty.
    """

    def __init__(self, text: str, port: int = DEFAULT_PORT, path: str = "") -> None:
        self._port, self._path = port, path
        self._items = [item.strip() for item in text.split(",")]
        self._files: dict[str, tuple[Stamp | None, tuple[str, ...]]] = {}
        for item in self._items:
            if item.startswith(FILE_MARK):
                self._files[item] = self._stamp(item), self._read(item)
        self._typed = {item: service_url(item, port) for item in self._items if item not in self._files}
        _within_bounds(self.now())

    @property
    def can_change(self) -> bool:
        """Whether the list refers to a file."""
        return bool(self._files)

    def now(self) -> tuple[str, ...]:
        """Return the current addresses. Changed files are read again."""
        found: list[str] = []
        for item in self._items:
            found += [self._typed[item]] if item in self._typed else self._fresh(item)
        return tuple(dict.fromkeys(url if urlsplit(url).path else url + self._path for url in found))

    def _fresh(self, item: str) -> tuple[str, ...]:
        before, known = self._files[item]
        stamp = self._stamp(item)
        if stamp == before:
            return known
        try:
            known = self._read(item)
        except SettingsError as error:
            LOG.warning("The previous list of services stays in use. %s", error)
        self._files[item] = stamp, known
        return known

    def _read(self, item: str) -> tuple[str, ...]:
        path = os.path.expanduser(item.removeprefix(FILE_MARK))
        what = "The list of services"
        lines = read_text(path, MAX_FILE_BYTES, SettingsError, what).splitlines()
        named = [line.partition("#")[0].strip() for line in lines]
        urls = tuple(service_url(name, self._port) for name in named if name)
        if not urls:
            raise SettingsError(
                f"{what} {path!r} is empty.", "Write one address per line, for example gpu-1:8011."
            )
        _within_bounds(urls)
        return urls

    def _stamp(self, item: str) -> Stamp | None:
        try:
            found = os.stat(os.path.expanduser(item.removeprefix(FILE_MARK)))
        except (OSError, ValueError):
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino


def service_url(text: str, port: int | None = None, key_variable: str = "INTERLEAVE_GENERATOR_KEY") -> str:
    """Return the URL of a service without a trailing slash.

    Args:
        text: `http://...`, `https://...` or `//HOST...`.
        port: Port for a bare `HOST`. None does not allow bare names.
        key_variable: Environment variable of the API key, for errors.

    Raises:
        SettingsError: The URL is invalid.
    """
    # `http:URL` is split at the first colon, so `http://host` arrives as `//host`.
    whole = f"http:{text}" if text.startswith("//") else text
    bare = port is not None and "/" not in text
    try:
        parts = urlsplit(f"http://{text}" if bare else whole)
        if bare and parts.port is None:
            parts = urlsplit(f"http://{text}:{port}")
        number = parts.port
    except ValueError as error:
        raise SettingsError(f"{text[:200]!r} is not a valid URL ({error}).") from error
    if parts.username or parts.password or parts.query or parts.fragment:
        raise SettingsError(
            "The address of a server may contain only a host, a port and a path.",
            f"Put an API key into the environment variable {key_variable}.",
        )
    if parts.scheme not in ("http", "https") or not parts.hostname or number == 0 or _has_spaces(text):
        raise SettingsError(
            f"{text[:200]!r} is not a valid URL of a service.", "Use http://HOST:PORT or https://HOST."
        )
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def _has_spaces(text: str) -> bool:
    return any(character.isspace() or not character.isprintable() for character in text)


def _within_bounds(urls: tuple[str, ...]) -> None:
    if len(urls) > MAX_SERVICES:
        raise SettingsError(f"The list has {len(urls)} services; the maximum is {MAX_SERVICES}.")


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
