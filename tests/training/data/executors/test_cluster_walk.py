"""The walk-through of docs/how-to/training/cluster.md, with a node killed during the trajectories."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]
ROWS = 24


@pytest.mark.stress
@pytest.mark.timeout(1500)
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds the processes of a node in /proc")
def test_a_killed_node_changes_nothing(tmp_path: Path) -> None:
    for name, extra in (("ray.serve", "ray"), ("fastapi", "serve"), ("trl", "training")):
        pytest.importorskip(name, reason=f"the extra {extra!r} is not installed")
    command = [
        sys.executable,
        "-m",
        "benchmarks.cluster",
        "--out",
        str(tmp_path / "walk"),
        "--rows",
        str(ROWS),
    ]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=1400,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert "raylet" in found["killed"] and any("_Worker" in title for title in found["killed"])
    assert any("ServeReplica" in title for title in found["killed"]) and found["in_progress"]
    assert found["runs"] == ROWS and not found["failed"]
    assert found["files"] > ROWS and found["unequal"] == found["unequal_rows"] == []
    assert found["row_files"] > 10 and found["distributed"] == "distributed: FSDP over 2 processes"
    assert found["equal_weights"]
    assert (tmp_path / "walk" / "grpo" / "final" / "model.safetensors").is_file()
