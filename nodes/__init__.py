"""The node pack: V3 nodes as thin adapters around the backend.

Decision: nodes translate between sockets and the backend and decide nothing. `host` is the only package that
touches `comfy`; libraries that may be missing or too old are imported when a node runs, so the pack always
loads. The nodes themselves are imported when the host asks for them: what needs no host here can be used, and
tested, without one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .pack import InterleaveThinkerExtension

__all__ = ["InterleaveThinkerExtension"]


def __getattr__(name: str) -> Any:
    if name != "InterleaveThinkerExtension":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .pack import InterleaveThinkerExtension

    return InterleaveThinkerExtension
