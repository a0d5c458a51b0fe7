"""A page of another site gets no answer from the pack's routes, whether or not the host accepts it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

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

from ..server.comfy_server import ROUTE, ComfyServer, running

RUN = "foreign-pages-abcd1234"
FRIEND = "http://friend.example"
Headers = dict[str, str]


@pytest.fixture(scope="module")
def open_host(host_home: HostHome, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ComfyServer]:
    """A host whose own check of origins is off, since one page of another site is allowed."""
    base = tmp_path_factory.mktemp("open") / "base"
    with running(ComfyServer(host_home, base, "--enable-cors-header", FRIEND)) as server:
        yield server


def a_run(host: ComfyServer) -> Path:
    folder = host.base / "output" / "interleave-thinker" / RUN
    if not folder.exists():
        request = Request(text="a story that pages want")
        agents = Collaborators(OnePlan(), FakeGenerator(), OneInThree())
        for _ in run(request, agents, journal=Journal(folder)):
            pass
    return folder


def statuses(host: ComfyServer, headers: Headers) -> set[int]:
    """The status of every route to these headers."""
    picture = next((a_run(host) / "pictures").iterdir()).stem
    word = {"step": 1, "attempt": 0, "accepted": False}
    posted = {
        "redraw": {"run": RUN, "step": 1, "prompt": "a house"},
        "choice": {"run": RUN, "step": 1, "picture": picture},
        "feedback": {"run": RUN, "feedback": word},
    }
    asked = {"run": {"run": RUN}, "thumbnail": {"run": RUN, "picture": picture}}
    more = {"headers": headers, "timeout": 30}
    url = f"{host.url}{ROUTE}"
    found = {httpx.post(f"{url}/{name}", json=body, **more).status_code for name, body in posted.items()}
    return found | {
        httpx.get(f"{url}/{name}", params=query, **more).status_code for name, query in asked.items()
    }


def own(host: ComfyServer) -> list[Headers]:
    """Headers of browsers and programs that are allowed."""
    port = host.url.rpartition(":")[2]
    proxy = {"Host": "10.0.0.5:8188", "X-Forwarded-Host": "comfy.example.org"}
    return [
        {},
        {"Origin": host.url, "Sec-Fetch-Site": "same-origin"},
        {"Origin": f"http://[::1]:{port}", "Host": f"[::1]:{port}"},
        {"Origin": "http://192.168.1.5:9000", "Host": "192.168.1.5:9000"},
        {"Origin": "https://comfy.example.org", **proxy},
    ]


BY_NAME: list[Headers] = [
    {"Origin": "https://comfy.example.org", "Host": "comfy.example.org"},
    {"Host": "studio.lan"},
]
"""The same where ComfyUI listens for other machines, which call it by a name."""
FOREIGN: list[Headers] = [
    {"Origin": "http://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://studio.lan.evil.example:8188", "Host": "studio.lan:8188"},
    {"Origin": "http://studio.lan:3000", "Host": "studio.lan:8188"},
    {"Sec-Fetch-Site": "cross-site", "Origin": "http://studio.lan:8188", "Host": "studio.lan:8188"},
]
REBOUND: list[Headers] = [
    {"Host": "evil.example"},
    {"Host": "evil.example:8188", "Origin": "http://evil.example:8188", "Sec-Fetch-Site": "same-origin"},
    {"Host": "localhost.evil.example"},
    {"Host": "evil.example", "X-Forwarded-Host": "localhost"},
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
    friend = {"Origin": FRIEND, "Sec-Fetch-Site": "cross-site"}
    assert statuses(host, friend) == {200 if which == "open_host" else 403}, (
        "the origin that the user allowed"
    )


def test_names_of_other_machines_are_rejected(host: ComfyServer, open_host: ComfyServer) -> None:
    for headers in REBOUND:
        assert statuses(host, headers) == {403}, headers
    answer = httpx.get(f"{host.url}{ROUTE}/run", params={"run": RUN}, headers=REBOUND[0])
    assert "was called as 'evil.example'" in answer.json()["error"] and "--listen" in answer.json()["error"]
    named = {"Host": "friend.example", "Origin": FRIEND}
    assert statuses(open_host, named) == {200}, "a proxy's name, given with --enable-cors-header"


def test_a_host_that_listens_for_others_is_called_as_they_like(host_home: HostHome, tmp_path: Path) -> None:
    with running(ComfyServer(host_home, tmp_path / "base", "--listen", "0.0.0.0")) as lan_host:
        for headers in (*own(lan_host), *BY_NAME):
            assert statuses(lan_host, headers) == {200}, headers
        for headers in FOREIGN:
            assert statuses(lan_host, headers) == {403}, headers


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
