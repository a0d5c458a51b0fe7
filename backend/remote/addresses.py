"""The addresses of services that share one work: a list as it is typed, which may name files of addresses.

Decision: the file is the one that clusters write already: an address a line, `#` comments, bare host names
among URLs. It is read anew when it changes, because services come and go under a client that runs for days. A
moment in which it is gone, empty or half written ends no run: the addresses that were read last stay until it
is good again, and the log says so. Only who starts a program names a file; a workflow gives addresses alone.
"""

from __future__ import annotations

import logging
import os
from urllib.parse import urlsplit

from ..errors import SettingsError
from ..files.bounded_reader import read_text

DEFAULT_PORT = 8011
MAX_SERVICES = 256
MAX_FILE_BYTES = 256 * 1024
FILE_MARK = "@"
LOG = logging.getLogger(__name__)
Stamp = tuple[int, int, int]


class Addresses:
    """`URL1,URL2,@FILE` as addresses, each once. `port` is for bare names in files, `path` for addresses
    without one. Raises SettingsError for an item that is no address, a file that cannot be read, and a list
    without any."""

    def __init__(self, text: str, port: int = DEFAULT_PORT, path: str = "") -> None:
        self._port, self._path = port, path
        self._items = [item.strip() for item in text.split(",")]
        self._files: dict[str, tuple[Stamp | None, tuple[str, ...]]] = {}
        for item in self._items:
            if item.startswith(FILE_MARK):
                self._files[item] = self._stamp(item), self._read(item)
        self._typed = {item: service_url(item) for item in self._items if item not in self._files}
        _within_bounds(self.now())

    @property
    def can_change(self) -> bool:
        """Whether a file is among them."""
        return bool(self._files)

    def now(self) -> tuple[str, ...]:
        """The addresses; files that changed are read anew."""
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
            LOG.warning("The services named before stay in use. %s", error)
        self._files[item] = stamp, known
        return known

    def _read(self, item: str) -> tuple[str, ...]:
        path = os.path.expanduser(item.removeprefix(FILE_MARK))
        what = "The file of services"
        lines = read_text(path, MAX_FILE_BYTES, SettingsError, what).splitlines()
        named = [line.partition("#")[0].strip() for line in lines]
        urls = tuple(service_url(name, self._port) for name in named if name)
        if not urls:
            raise SettingsError(f"{what} {path!r} names none.", "Write an address a line: gpu-1:8011.")
        _within_bounds(urls)
        return urls

    def _stamp(self, item: str) -> Stamp | None:
        try:
            found = os.stat(os.path.expanduser(item.removeprefix(FILE_MARK)))
        except (OSError, ValueError):
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino


def service_url(text: str, port: int | None = None) -> str:
    """The URL of a service without a slash at its end: `http://...`, `https://...`, `//HOST...`, and with
    `port` also a bare `HOST` or `HOST:PORT`. Raises SettingsError."""
    # `http:URL` arrives as the part after the first colon, so `http://host` as `//host`.
    whole = f"http:{text}" if text.startswith("//") else text
    bare = port is not None and "/" not in text
    try:
        parts = urlsplit(f"http://{text}" if bare else whole)
        if bare and parts.port is None:
            parts = urlsplit(f"http://{text}:{port}")
        number = parts.port
    except ValueError as error:
        raise SettingsError(f"{text[:200]!r} is not a URL ({error}).") from error
    if parts.username or parts.password or parts.query or parts.fragment:
        raise SettingsError(
            "The service's URL may hold only scheme, host, port and path.",
            "A key goes into INTERLEAVE_GENERATOR_KEY.",
        )
    if parts.scheme not in ("http", "https") or not parts.hostname or number == 0 or _has_spaces(text):
        raise SettingsError(
            f"{text[:200]!r} is not the URL of a service.", "Give http://HOST:PORT or https://HOST."
        )
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def _has_spaces(text: str) -> bool:
    return any(character.isspace() or not character.isprintable() for character in text)


def _within_bounds(urls: tuple[str, ...]) -> None:
    if len(urls) > MAX_SERVICES:
        raise SettingsError(f"{len(urls)} services are more than the {MAX_SERVICES} that one list may hold.")
