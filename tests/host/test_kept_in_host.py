"""The Step Generator encodes a prompt and a source once: equal images, counted work, in the host's own
parts."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from .comfy_server import ROOT, HostHome


@pytest.fixture(scope="module")
def rig(host_home: HostHome) -> dict[str, Any]:
    """What `kept_rig.py` drew and counted."""
    command = [
        str(host_home.python),
        str(Path(__file__).parent / "kept_rig.py"),
        str(host_home.folder),
        str(ROOT),
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    ended = subprocess.run(
        command, cwd=host_home.folder, env=environment, capture_output=True, text=True, timeout=240
    )
    lines = [line for line in ended.stdout.splitlines() if line.startswith("RESULTS ")]
    assert lines, ended.stderr[-3000:]
    return json.loads(lines[0].removeprefix("RESULTS "))


# Six draws: three different prompts, and four edits of two sources; with guidance the negative is encoded as
# well.
@pytest.mark.parametrize(("family", "encodes_a_draw", "prompts"), [("flux2 dev", 1, 3), ("sd15", 2, 4)])
def test_prompts_and_sources_are_encoded_once(
    rig: dict[str, Any], family: str, encodes_a_draw: int, prompts: int
) -> None:
    kept, plain = rig[family]["kept"], rig[family]["plain"]
    assert kept["images"] == plain["images"]
    assert len(set(plain["images"])) == 5
    counts, without = kept["counts"], plain["counts"]
    assert (without["text_encodes"], without["text_kept"]) == (6 * encodes_a_draw, 0)
    assert (counts["text_encodes"], counts["text_kept"]) == (prompts, 6 * encodes_a_draw - prompts)
    assert (without["image_encodes"], without["latents_kept"]) == (4, 0)
    assert (counts["image_encodes"], counts["latents_kept"]) == (2, 2)
    assert counts["sampler_steps"] == without["sampler_steps"] == 12
