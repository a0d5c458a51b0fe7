"""Finds the templates that are installed with the host."""

from __future__ import annotations

import functools
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support.host_home import HostHome


def template(home: HostHome, name: str) -> dict[str, Any]:
    """A template of the host's template packages."""
    found = [path for path in map(Path, _template_folders(home.python)) if (path / f"{name}.json").exists()]
    if not found:
        pytest.skip(f"The host has no template {name}.")
    return json.loads((found[0] / f"{name}.json").read_text(encoding="utf-8"))


@functools.cache
def _template_folders(python: Path) -> list[str]:
    code = (
        "from importlib.util import find_spec\n"
        "for kind in ('media_image', 'media_other', 'json'):\n"
        "    if found := find_spec(f'comfyui_workflow_templates_{kind}'):\n"
        "        print(found.submodule_search_locations[0] + '/templates')"
    )
    return subprocess.run([python, "-c", code], capture_output=True, text=True).stdout.split()
