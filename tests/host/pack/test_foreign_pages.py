"""A page of another site gets no answer from the pack's routes, whether or not the host accepts it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.host_home import HostHome
from support.small_agents import OneInThree, OnePlan

from interleave_thinker.backend.core.types import Plan, Request, Step
from interleave_thinker.backend.models.generators.fake import FakeGenerator
from interleave_thinker.backend.story.journal.choices import read_choices
from interleave_thinker.backend.story.journal.journal import Journal
from interleave_thinker.backend.story.loop.collaborators import Collaborators
from interleave_thinker.backend.story.loop.loop import run

from ..server.comfy_server import ComfyServer

ROUTE = "/interleave-thinker"
RUN = "foreign-pages-abcd1234"
FRIEND = "http://friend.example"


@pytest.fixture(scope="module")
def open_host(host_home: HostHome, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ComfyServer]:
    """A host whose own check of origins is off, since one page of another site is allowed."""
    base = tmp_path_factory.mktemp("open") / "base"
    server = ComfyServer(host_home, base, "--enable-cors-header", FRIEND)
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="module")
def lan_host(host_home: HostHome, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ComfyServer]:
    """A host that listens for other machines, too."""
    server = ComfyServer(host_home, tmp_path_factory.mktemp("lan") / "base", "--listen", "0.0.0.0")
    try:
        server.start()
        yield server
    finally:
        server.stop()


def a_run(host: ComfyServer) -> Path:
    folder = host.base / "output" / "interleave-thinker" / RUN
    if not folder.exists():
        request = Request(text="a story that pages want")
        for _ in run(
            request, Collaborators(OnePlan(), FakeGenerator(), OneInThree()), journal=Journal(folder)
        ):
            pass
    return folder


def requests_of(host: ComfyServer) -> list[tuple[str, str, Any]]:
    picture = next((a_run(host) / "pictures").iterdir()).stem
    return [
        ("POST", "redraw", {"run": RUN, "step": 1, "prompt": "a house"}),
        ("POST", "choice", {"run": RUN, "step": 1, "picture": picture}),
        ("POST", "feedback", {"run": RUN, "feedback": {"step": 1, "attempt": 0, "accepted": False}}),
        ("GET", "run", {"run": RUN}),
        ("GET", "thumbnail", {"run": RUN, "picture": picture}),
    ]


def statuses(host: ComfyServer, headers: dict[str, str]) -> set[int]:
    found = set()
    for method, name, given in requests_of(host):
        more: Any = {"params": given} if method == "GET" else {"json": given}
        answer = httpx.request(method, f"{host.url}{ROUTE}/{name}", headers=headers, timeout=30, **more)
        found.add(answer.status_code)
    return found


def own(host: ComfyServer) -> list[dict[str, str]]:
    """Headers of browsers and programs that are allowed."""
    port = host.url.rpartition(":")[2]
    return [
        {},
        {"Origin": host.url, "Sec-Fetch-Site": "same-origin"},
        {"Origin": f"http://localhost:{port}", "Host": f"localhost:{port}"},
        {"Origin": f"http://[::1]:{port}", "Host": f"[::1]:{port}"},
        {"Origin": "http://192.168.1.5:9000", "Host": "192.168.1.5:9000"},
        {
            "Origin": "https://comfy.example.org",
            "Host": "10.0.0.5:8188",
            "X-Forwarded-Host": "comfy.example.org",
        },
    ]


def by_name(host: ComfyServer) -> list[dict[str, str]]:
    """The same where ComfyUI listens for other machines, which call it by a name."""
    port = host.url.rpartition(":")[2]
    return [
        {"Origin": f"http://studio.lan:{port}", "Host": f"studio.lan:{port}"},
        {"Origin": "https://comfy.example.org", "Host": "comfy.example.org"},
        {"Host": "studio.lan"},
    ]


FOREIGN = [
    {"Origin": "http://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://evil.example", "Host": "studio.lan:8188"},
    {"Origin": "http://studio.lan.evil.example:8188", "Host": "studio.lan:8188"},
    {"Origin": "http://studio.lan:3000", "Host": "studio.lan:8188"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "cross-site", "Origin": "http://studio.lan:8188", "Host": "studio.lan:8188"},
]
REBOUND = [
    {"Host": "evil.example"},
    {"Host": "evil.example:8188", "Origin": "http://evil.example:8188", "Sec-Fetch-Site": "same-origin"},
    {"Host": "localhost.evil.example"},
    {"Host": "evil.example", "X-Forwarded-Host": "localhost"},
    {"Host": "studio.lan:8188", "Origin": "http://studio.lan:8188"},
    {"Host": "["},
    {"Host": ""},
]
"""Headers sent by a page whose host name was made to resolve to this machine (DNS rebinding)."""


@pytest.mark.parametrize("which", ["host", "open_host"])
def test_pages_of_other_sites_are_rejected(which: str, request: pytest.FixtureRequest) -> None:
    host: ComfyServer = request.getfixturevalue(which)
    folder = a_run(host)
    for headers in FOREIGN:
        assert statuses(host, headers) == {403}, headers
    assert not (folder / "choices.json").exists() and not (folder / "feedback.jsonl").exists()
    for headers in own(host):
        assert statuses(host, headers) == {200}, headers
    decided = read_choices(folder)
    assert decided.steps and decided.redraws


def test_host_names_of_other_machines_are_rejected_on_a_local_server(
    host: ComfyServer, open_host: ComfyServer
) -> None:
    folder = a_run(host)
    before = {path: path.read_bytes() for path in folder.glob("*.json*")}
    for headers in REBOUND:
        assert statuses(host, headers) == {403}, headers
    answer = httpx.get(f"{host.url}{ROUTE}/run", params={"run": RUN}, headers=REBOUND[0])
    assert "was called as 'evil.example'" in answer.json()["error"] and "--listen" in answer.json()["error"]
    assert {path: path.read_bytes() for path in folder.glob("*.json*")} == before
    a_run(open_host)
    named = {"Host": "friend.example", "Origin": FRIEND}
    assert statuses(open_host, named) == {200}, "a proxy's name, given with --enable-cors-header"


def test_a_host_that_listens_for_others_is_called_as_they_like(lan_host: ComfyServer) -> None:
    a_run(lan_host)
    for headers in (*own(lan_host), *by_name(lan_host)):
        assert statuses(lan_host, headers) == {200}, headers
    for headers in FOREIGN:
        assert statuses(lan_host, headers) == {403}, headers


def test_the_origin_that_the_user_allowed_is_answered(host: ComfyServer, open_host: ComfyServer) -> None:
    friend = {"Origin": FRIEND, "Sec-Fetch-Site": "cross-site"}
    assert statuses(open_host, friend) == {200}
    assert statuses(host, friend) == {403}


def test_forty_parallel_picks_are_all_kept(host: ComfyServer) -> None:
    picture = next((a_run(host) / "pictures").iterdir()).stem
    plan = Plan(steps=tuple(Step(number=number, prompt="a house") for number in range(1, 41)))
    (a_run(host) / "plan.json").write_text(plan.model_dump_json())

    def pick(step: int) -> int:
        body = {"run": RUN, "step": step, "picture": picture}
        return httpx.post(f"{host.url}{ROUTE}/choice", json=body, timeout=60).status_code

    with ThreadPoolExecutor(40) as pool:
        assert set(pool.map(pick, range(1, 41))) == {200}
    assert set(range(1, 41)) <= set(read_choices(a_run(host)).steps)
