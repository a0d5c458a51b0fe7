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


NO_EYES = "has no vision|no generate"
CANNOT = "cannot generate text with a text encoder"
ENCODERS = {
    "sd1": "no generate",
    "qwen_2.5_vl_7b": "its stop token|no generate",
    "qwen_3_4b (klein)": NO_EYES,
    "qwen_3_4b (z-image)": NO_EYES,
    "ideogram 4, text alone": NO_EYES,
    "joyimage": "replaced by the one for text",
    "minimax": "replaced by the one for text|layers are removed",
    **dict.fromkeys(("qwen3vl_4b", "qwen3vl_8b", "boogu", "krea2", "mage flow", "ideogram 4", "qwen3.5"), ""),
}
"""Why a text encoder is rejected; empty: it is accepted."""


@pytest.mark.parametrize("encoder", ENCODERS)
def test_encoders_that_can_write_about_images_are_accepted(rig: dict[str, Any], encoder: str) -> None:
    if encoder not in rig:
        pytest.skip("this ComfyUI does not know it")
    found, reason = rig[encoder], ENCODERS[encoder]
    if reason:
        assert re.search(f"{reason}|{CANNOT}", found["refused"]), found
        assert "Load Agent" in found["refused"] and "\n" not in found["refused"]
    else:
        # Its tokens have both images in order, unless its tokenizer needs weights.
        assert found in ({"refused": "", "seen": 2, "marks": True}, {"refused": ""})
