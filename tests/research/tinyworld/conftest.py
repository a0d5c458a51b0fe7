"""Makes the package importable under its public name for processes that tests start."""

from __future__ import annotations

from pathlib import Path

import pytest

from interleave_thinker.research.tinyworld.ablation import jobs as jobs_module


@pytest.fixture
def importable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let processes of a test import the package under its public name, even if it is not installed."""
    package = Path(jobs_module.__file__).parents[3]
    (tmp_path / "importable").mkdir()
    (tmp_path / "importable" / "interleave_thinker").symlink_to(package, target_is_directory=True)
    monkeypatch.syspath_prepend(tmp_path / "importable")
