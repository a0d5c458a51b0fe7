"""Adds the address of a running service to a list of services, and removes it when the service ends.

The list is the file that clients read as `http:@FILE` (addresses.py). Services on several machines share it,
so each change takes a lock and replaces the file as a whole. A service that was killed leaves its address.
Clients then use the other services, and the same service finds its address there when it starts again.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..errors import InterleaveError, SettingsError
from ..files.atomic import write_text
from ..files.bounded_reader import read_text
from ..files.lock import SystemLock
from .addresses import DEFAULT_PORT, MAX_FILE_BYTES, MAX_SERVICES, service_url

LOCK_SECONDS = 30.0
"""Maximum time to wait for other services that change the list."""
WHAT = "The list of services"
LOG = logging.getLogger(__name__)


@contextmanager
def registered(path: Path, url: str) -> Iterator[None]:
    """Keep the address of a service in a list of services while the block runs.

    Other lines and comments of the file are kept. The file is created if necessary.

    Args:
        path: The file.
        url: Address of the service.

    Raises:
        SettingsError: The file cannot be read or written, is locked for too long or is full.
    """
    # A link to the list stays a link.
    path = Path(os.path.realpath(path.expanduser()))
    _change(path, lambda lines: _with(lines, url))
    try:
        yield
    finally:
        try:
            _change(path, lambda lines: [line for line in lines if _address(line) != url])
        except InterleaveError as error:
            LOG.warning("%s stays in the list of services. %s", url, error)


def _with(lines: list[str], url: str) -> list[str]:
    addresses = {_address(line) for line in lines} - {""}
    if url in addresses:
        return lines
    if len(addresses) >= MAX_SERVICES:
        raise SettingsError(
            f"{WHAT} has {len(addresses)} addresses, the maximum.", "Remove those of services that ended."
        )
    return [*lines, url]


def _change(path: Path, change: Callable[[list[str]], list[str]]) -> None:
    """Replace the lines of the file by those that `change` returns."""
    busy = SettingsError(f"{WHAT} {str(path)!r} is locked by another process.", "Try again.")
    if not path.parent.is_dir():
        raise SettingsError(f"{WHAT} {str(path)!r} is in a folder that does not exist.", "Create the folder.")
    with SystemLock(path.with_name(f"{path.name}.lock")).held(busy, LOCK_SECONDS):
        before = read_text(path, MAX_FILE_BYTES, SettingsError, WHAT).splitlines() if path.exists() else []
        after = change(before)
        if after != before:
            mode = path.stat().st_mode if path.exists() else None
            write_text(path, "".join(f"{line}\n" for line in after), SettingsError, WHAT)
            if mode is not None:
                with suppress(OSError):  # the services of a group may have different users
                    path.chmod(mode)


def _address(line: str) -> str:
    """Return the address in a line, or an empty text if there is none that can be used."""
    name = line.partition("#")[0].strip()
    try:
        return service_url(name, DEFAULT_PORT) if name else ""
    except SettingsError:
        return ""
