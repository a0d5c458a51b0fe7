"""What newer hosts let a node say of itself beyond what the oldest one knows.

Decision: found out from the host's own schema, never from a version: an older host gets the same node without
it.
"""

from __future__ import annotations

import inspect
from typing import Any

from comfy_api.latest import io

STORY_NODE = "Image Generation"
"""Where the front end's short list of nodes, for who begins, shows those that tell a story."""


def offered(**options: Any) -> dict[str, Any]:
    """Those of these options that `io.Schema` takes in this host."""
    known = inspect.signature(io.Schema).parameters
    return {name: value for name, value in options.items() if name in known}


def essential() -> dict[str, Any]:
    """For `io.Schema`: list this node among those for who begins, where the host has such a list."""
    return offered(essentials_category=STORY_NODE)
