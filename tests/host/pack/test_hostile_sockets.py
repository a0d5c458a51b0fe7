"""Wrong values at sockets, and hostile requests, give one line of the pack in the real host.

tests/stress/test_hostile_inputs.py has all of them.
"""

from __future__ import annotations

import httpx
from support.image_service import image_service

from ..server.comfy_server import ComfyServer
from .hostile_requests import fault_of_answer, requests
from .hostile_runs import a_run, drive
from .hostile_sockets import sockets

SHARE = 13
"""Every 13th case is run. A socket does not have 13 values, so each one is tested with other values."""


def test_every_socket_of_every_node(host: ComfyServer, story_name: str) -> None:
    with image_service() as service:
        cases = list(sockets(host.get("/object_info"), story_name, service.url))
        ends = drive(host, cases[::SHARE])
    assert len(cases) >= 2000 and ends["error"] >= len(cases) // SHARE // 2


def test_hostile_requests_get_clear_answers(host: ComfyServer) -> None:
    run, picture = a_run(host)
    with httpx.Client(base_url=host.url, timeout=60) as client:
        asked = list(requests(run, picture))
        faults = [f"{one.name}: {fault}" for one in asked if (fault := fault_of_answer(client, one))]
    assert len(asked) >= 300 and not faults, "\n".join(faults)
