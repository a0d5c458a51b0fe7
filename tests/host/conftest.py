"""Fixtures of the host tests: one ComfyUI server for the whole run.

Without ComfyUI the tests skip and say how to enable them.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.host_home import HOW_TO_ENABLE, HostHome, find_host

from .server.comfy_server import ComfyServer


@pytest.fixture(scope="session")
def host_home() -> HostHome:
    home = find_host()
    if home is None:
        pytest.skip(HOW_TO_ENABLE)
    return home


@pytest.fixture(scope="session")
def host(host_home: HostHome, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ComfyServer]:
    server = ComfyServer(host_home, tmp_path_factory.mktemp("comfy") / "base")
    try:
        server.start()
        yield server
    finally:
        server.stop()
