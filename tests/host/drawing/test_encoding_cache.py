"""The Step Generator encodes a prompt and a source once: equal images, counted calls."""

from __future__ import annotations

from typing import Any

import pytest
from support.host_home import HostHome

from ..server.rigs import results_of


@pytest.fixture(scope="module")
def rig(host_home: HostHome) -> dict[str, Any]:
    """Images and counts of `encoding_cache_rig.py`."""
    return results_of(host_home, "encoding_cache_rig")


# Six draws: three different prompts, and four edits of two sources; with guidance the negative is encoded as
# well.
@pytest.mark.parametrize(("family", "encodes_a_draw", "prompts"), [("flux2 dev", 1, 3), ("sd15", 2, 4)])
def test_prompts_and_sources_are_encoded_once(
    rig: dict[str, Any], family: str, encodes_a_draw: int, prompts: int
) -> None:
    cached, plain = rig[family]["cached"], rig[family]["plain"]
    assert cached["images"] == plain["images"]
    assert len(set(plain["images"])) == 5
    counts, without = cached["counts"], plain["counts"]
    assert (without["text_encodes"], without["text_kept"]) == (6 * encodes_a_draw, 0)
    assert (counts["text_encodes"], counts["text_kept"]) == (prompts, 6 * encodes_a_draw - prompts)
    assert (without["image_encodes"], without["latents_kept"]) == (4, 0)
    assert (counts["image_encodes"], counts["latents_kept"]) == (2, 2)
    assert counts["sampler_steps"] == without["sampler_steps"] == 12
