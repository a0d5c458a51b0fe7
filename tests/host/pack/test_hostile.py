"""Hundreds of hostile inputs in the real host: it survives, reports one line, and writes nowhere else.

tests/stress/test_hostile_inputs.py has all sockets.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from support.image_service import image_service
from support.stories import make_trajectory

from interleave_thinker.backend.story.journal.copy import save_trajectory

from ..server.comfy_server import ComfyServer
from .hostile_folders import make_folders
from .hostile_graphs import (
    Hostile,
    loaded_story,
    plan_texts,
    replies,
    requests,
    sockets,
    widgets,
)
from .hostile_runs import a_run, drive, fault_of_answer

SHARE = 13
"""Every 13th socket is run. A socket does not have 13 values, so each one is tested with other values."""


@pytest.fixture(scope="module")
def story_name(host: ComfyServer) -> Iterator[str]:
    """A valid story for Load Story."""
    folder = host.base / "input" / "hostile-good"
    save_trajectory(make_trajectory(3, request="Hostile"), folder)
    yield "input/hostile-good"
    shutil.rmtree(folder)


def test_every_widget_of_every_node(host: ComfyServer, story_name: str) -> None:
    with image_service() as service:
        cases = list(widgets(host.get("/object_info"), story_name, service.url))
        ends = drive(host, cases)
    assert len(cases) >= 300 and ends["refused"] >= 100


def test_every_socket_of_every_node(host: ComfyServer, story_name: str) -> None:
    with image_service() as service:
        cases = list(sockets(host.get("/object_info"), story_name, service.url))
        ends = drive(host, cases[::SHARE])
    assert len(cases) >= 1900 and ends["error"] >= len(cases) // SHARE // 2


def test_plan_texts_and_replies_of_agents(host: ComfyServer) -> None:
    drive(host, [*plan_texts(), *replies()])


def test_folders_of_stories(host: ComfyServer, tmp_path: Path) -> None:
    outside = tmp_path / "outside.json"
    outside.write_text("{}")
    parent = host.base / "input" / "hostile"
    try:
        names = make_folders(parent, make_trajectory(3, request="Spoiled"), outside)
        ends = drive(host, [Hostile(name, loaded_story(f"input/hostile/{name}")) for name in names])
    finally:
        shutil.rmtree(parent)
    assert outside.read_text() == "{}" and ends["error"] + ends["refused"] >= 30


def test_requests_get_clear_answers(host: ComfyServer) -> None:
    run, picture = a_run(host)
    with httpx.Client(base_url=host.url, timeout=60) as client:
        asked = list(requests(run, picture))
        faults = [f"{one.name}: {fault}" for one in asked if (fault := fault_of_answer(client, one))]
    assert len(asked) >= 300 and not faults, "\n".join(faults)
