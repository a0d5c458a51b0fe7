"""Starts programs in the host's own Python without its server, and finds the templates installed with it."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support.host_home import HostHome

from .comfy_server import PACK, ROOT, SHIM_PACK

RIGS = Path(__file__).parents[1] / "rigs"
RESULTS = "RESULTS "


def results_of(home: HostHome, rig: str) -> dict[str, Any]:
    """Run the rig of this name (a file in `rigs/`) and return its printed results."""
    command = [str(home.python), str(RIGS / f"{rig}.py"), str(home.folder), str(ROOT)]
    ended = subprocess.run(
        command, cwd=home.folder, env=environment(), capture_output=True, text=True, timeout=240
    )
    lines = [line for line in ended.stdout.splitlines() if line.startswith(RESULTS)]
    assert lines, ended.stderr[-3000:]
    return json.loads(lines[0].removeprefix(RESULTS))


def environment() -> dict[str, str]:
    """Return the environment of every program of the host: one thread, no downloads."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}


def answers_of(
    home: HostHome, folder: Path, scenarios: dict[str, dict[str, Any]]
) -> dict[str, list[dict[str, Any]]]:
    """The answers of `cache_rig.py` by scenario."""
    base = folder / "base"
    packs = base / "custom_nodes"
    packs.mkdir(parents=True)
    (packs / PACK).symlink_to(ROOT, target_is_directory=True)
    shutil.copytree(SHIM_PACK, packs / "zz_tiny_weights")
    for name in ("output", "input", "temp", "user"):
        (base / name).mkdir()
    source, target = folder / "scenarios.json", folder / "results.json"
    source.write_text(json.dumps(list(scenarios.values())))
    command = [
        str(home.python), str(RIGS / "cache_rig.py"), str(source), str(target), str(home.folder),
        "--cpu", "--base-directory", str(base), "--disable-api-nodes",
        "--database-url", f"sqlite:///{base / 'host.db'}",
    ]  # fmt: skip
    done = subprocess.run(
        command, cwd=home.folder, env=environment(), capture_output=True, text=True, timeout=1800
    )
    assert target.exists(), f"{done.stdout[-3000:]}\n{done.stderr[-5000:]}"
    (folder / "rig.log").write_text(done.stdout + done.stderr)
    return dict(zip(scenarios, json.loads(target.read_text()), strict=True))


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
