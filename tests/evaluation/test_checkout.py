"""The commit stored with figures is that of this package's checkout and no other."""

from __future__ import annotations

import subprocess
from pathlib import Path

from interleave_thinker.evaluation.checkout import UNKNOWN, commit


def test_a_checkout_names_its_commit_and_a_folder_inside_another_one_does_not(tmp_path: Path) -> None:
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], check=True, timeout=30)
    assert commit(tmp_path) == UNKNOWN
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], check=True, timeout=30)
    assert len(commit(tmp_path)) == 40
    inner = tmp_path / "custom_nodes" / "pack"
    inner.mkdir(parents=True)
    assert commit(inner) == UNKNOWN
