"""The node pack: V3 nodes as thin adapters around the backend.

Nodes translate between sockets and the backend and contain no rules of their own. Only the package `host`
imports `comfy`. Libraries that may be missing or too old are imported when a node runs, so the pack always
loads. The node classes are imported when the host asks for them, so all other modules can be used and tested
without a host.
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
