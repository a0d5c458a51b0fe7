"""Logs, once, which options a service ignored.

A service without an option generates anyway, because clients of the published services send their options to
every model. Its answer lists the ignored options, and the log shows them. Otherwise an image that silently
lacks an option would look like a fault of the model.
"""

from __future__ import annotations

import logging
from typing import Any

from ...remote.server import RemoteServer

MAX_NAMES, MAX_NAME = 10, 60
LOG = logging.getLogger(__name__)


class UnusedOptions:
    """The names that were logged already, for a generator and all its copies."""

    def __init__(self) -> None:
        self._shown: set[str] = set()

    def show(self, server: RemoteServer, said: Any) -> None:
        """Log the names in an answer's list, each once. Anything but a list is ignored."""
        if not isinstance(said, list):
            return
        names = [server.quote(name[:MAX_NAME]) for name in said[:MAX_NAMES] if isinstance(name, str)]
        new = [name for name in names if name not in self._shown]
        room = MAX_NAMES - len(self._shown)
        if new and room > 0:
            self._shown.update(new[:room])
            LOG.warning("%s ignores these options: %s.", server.url, ", ".join(new[:room]))
