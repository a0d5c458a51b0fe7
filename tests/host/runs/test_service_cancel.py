"""Cancel while an image service hangs: the next prompt runs at once, whichever node called the service."""

from __future__ import annotations

import pytest
from support.image_service import image_service

from ..graphs.klein import Graph, node
from ..graphs.plans import edited
from ..server.comfy_server import ComfyServer
from ..server.runs import answers_at_once, wait_until

SERVICE_WAITS = 300.0


def served(url: str, request: str) -> Graph:
    graph = edited("1. Boat\n   draw: a boat", request=request)
    graph["generator"] = node(
        "InterleaveServiceGenerator",
        url=url,
        width=0,
        height=0,
        steps=0,
        guidance=-1.0,
        timeout=SERVICE_WAITS,
    )
    graph["loop"] = node(
        "InterleaveCriticLoop",
        plan="@edit", generator="@generator", max_attempts=1, accept_at=0.0, keep="best",
        source="previous", on_failure="keep", seed=1,
    )  # fmt: skip
    graph["out"] = node("PreviewImage", images="@loop")
    return graph


@pytest.mark.parametrize("path", ["/health", "/edit"])
def test_the_next_prompt_does_not_wait_for_the_service(host: ComfyServer, path: str) -> None:
    with image_service() as service:
        service.hangs_at = path
        started = host.queue(served(service.url, f"hangs at {path[1:]}"))
        wait_until(host, service.hanging.is_set)
        answers_at_once(host, started)
