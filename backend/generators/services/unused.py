"""What a service says that it made no use of, shown once to whoever asked for it.

Decision: a service that lacks an option draws all the same, since clients of the published services send
theirs to every model. Its answer names what it left out, and that is shown where the run is watched: an
image that silently lacks what was asked for would be taken for the model's fault.
"""

from __future__ import annotations

import logging
from typing import Any

from ...remote.server import RemoteServer

MAX_NAMES, MAX_NAME = 10, 60
LOG = logging.getLogger(__name__)


class UnusedOptions:
    """The names that were shown already, for one generator and all its copies."""

    def __init__(self) -> None:
        self._shown: set[str] = set()

    def show(self, server: RemoteServer, said: Any) -> None:
        """Log the names of an answer's list, each once; whatever is no such list says nothing."""
        if not isinstance(said, list):
            return
        names = [server.quote(name[:MAX_NAME]) for name in said[:MAX_NAMES] if isinstance(name, str)]
        new = [name for name in names if name not in self._shown]
        room = MAX_NAMES - len(self._shown)
        if new and room > 0:
            self._shown.update(new[:room])
            LOG.warning("%s makes no use of: %s.", server.url, ", ".join(new[:room]))
