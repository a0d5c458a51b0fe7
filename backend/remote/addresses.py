"""The addresses of services that share work: a typed list, which may refer to files with addresses.

The file has the format that clusters write: one address per line, `#` comments, bare host names as well as
URLs. It is read again when it changes, because services come and go while a client runs for days. If the file
is temporarily missing, empty or incomplete, the last addresses stay in use and the log reports it. Typed
addresses have the same forms as lines of a file. Only the command line accepts files. A workflow contains
only addresses.
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


def service_url(text: str, port: int | None = None) -> str:
    """Return the URL of a service without a trailing slash.

    Args:
        text: `http://...`, `https://...` or `//HOST...`.
        port: Port for a bare `HOST`. None does not allow bare names.

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
            "The URL of a service may contain only scheme, host, port and path.",
            "Put an API key into the environment variable INTERLEAVE_GENERATOR_KEY.",
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
