"""Text encoders of the host that Agent from CLIP accepts: those that can generate text about images."""

from __future__ import annotations

import re
from typing import Any

import pytest
from support.host_home import HostHome

from ..server.rigs import results_of


@pytest.fixture(scope="module")
def rig(host_home: HostHome) -> dict[str, Any]:
    """Results of `writing_rig.py` by text encoder, without those that the host does not have."""
    return results_of(host_home, "writing_rig")


@pytest.mark.parametrize(
    ("encoder", "reason"),
    [
        ("sd1", "no generate"),
        ("qwen_2.5_vl_7b", "its stop token|no generate"),
        ("qwen_3_4b (klein)", "has no vision|no generate"),
        ("qwen_3_4b (z-image)", "has no vision|no generate"),
        ("ideogram 4, text alone", "has no vision"),
        ("joyimage", "replaced by the one for text"),
        ("minimax", "replaced by the one for text|layers are removed"),
    ],
)
def test_encoders_that_cannot_write_about_images_are_rejected(
    rig: dict[str, Any], encoder: str, reason: str
) -> None:
    if encoder not in rig:
        pytest.skip("this ComfyUI does not know it")
    refused = rig[encoder]["refused"]
    assert re.search(f"{reason}|cannot generate text with a text encoder", refused), refused
    assert "Load Agent" in refused and "\n" not in refused


@pytest.mark.parametrize("encoder", ["qwen3vl_4b", "qwen3vl_8b", "boogu", "krea2", "mage flow", "ideogram 4"])
def test_every_qwen3_vl_is_accepted_and_sees_images_in_order(rig: dict[str, Any], encoder: str) -> None:
    if encoder not in rig:
        pytest.skip("this ComfyUI does not know it")
    assert rig[encoder] == {"refused": "", "seen": 2, "marks": True}


def test_qwen3_5_is_taken(rig: dict[str, Any]) -> None:
    if "qwen3.5" not in rig:
        pytest.skip("this ComfyUI does not know it")
    assert rig["qwen3.5"]["refused"] == ""
