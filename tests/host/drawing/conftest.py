"""Photographs for the families' graphs."""

from __future__ import annotations

import pytest

from ..server.comfy_server import ComfyServer
from ..server.pixels import PHOTO_SIZE, photograph


@pytest.fixture(scope="module")
def photos(host: ComfyServer) -> tuple[str, str, str]:
    first, second, third = (
        host.put_input(photograph(PHOTO_SIZE, seed), f"family-{seed}.png") for seed in (21, 22, 23)
    )
    return first, second, third


@pytest.fixture(scope="module")
def known_families(host: ComfyServer) -> list[str]:
    """The families of the shim pack whose classes this host has."""
    known = host.get("/object_info/InterleaveTestFamily")["InterleaveTestFamily"]
    return known["input"]["required"]["family"][0]
