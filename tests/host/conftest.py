"""Fixtures of the host tests: one ComfyUI server for the whole run.

Without ComfyUI the tests skip and say how to enable them.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.host_home import HOW_TO_ENABLE, HostHome, find_host

from .server.comfy_server import ComfyServer, running
from .server.listener import Listener
from .server.runs import PHOTO_SIZE, PHOTOS, photograph


@pytest.fixture(scope="session")
def host_home() -> HostHome:
    home = find_host()
    if home is None:
        pytest.skip(HOW_TO_ENABLE)
    return home


@pytest.fixture(scope="session")
def host(host_home: HostHome, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ComfyServer]:
    """The server, with photographs in its input folder."""
    with running(ComfyServer(host_home, tmp_path_factory.mktemp("comfy") / "base")) as server:
        for seed, name in enumerate(PHOTOS, 21):
            server.put_input(photograph(PHOTO_SIZE, seed), name)
        yield server


@pytest.fixture
def listener(host: ComfyServer) -> Iterator[Listener]:
    listening = Listener(host.url)
    yield listening
    listening.close()
