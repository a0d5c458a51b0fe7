"""Makes the repository importable under its public name, installed or not."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).resolve().parent.parent

if "interleave_thinker" not in sys.modules:
    spec = importlib.util.spec_from_file_location(
        "interleave_thinker", ROOT / "__init__.py", submodule_search_locations=[str(ROOT)]
    )
    assert spec and spec.loader
    package = importlib.util.module_from_spec(spec)
    sys.modules["interleave_thinker"] = package
    spec.loader.exec_module(package)


def pytest_configure(config: pytest.Config) -> None:
    """Tests share their cores with whatever else runs; how long one example takes says nothing about the
    code."""
    # Imported here: programs that tests start import this file for the package alone, and Hypothesis takes a
    # third of a second.
    import hypothesis

    hypothesis.settings.register_profile("shared machine", deadline=None)
    hypothesis.settings.load_profile("shared machine")
