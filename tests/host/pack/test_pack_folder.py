"""The pack as it is published: the files of the repository without those that .comfyignore names.

They are laid into a folder of another name, with spaces and dots, as a ZIP or a copy by hand leaves it.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from urllib.parse import quote

import pytest
from support.host_home import HostHome

from interleave_thinker.nodes.legacy_stubs import NODE_IDS

from ..graphs.examples import NAMES, id_of, need_checkpoints, twin
from ..server.comfy_server import PACK, ROOT, ComfyServer

FOLDER = "Interleave Thinker v1.0 (copy)"
LEFT_OUT = {
    ".ci",
    ".gitattributes",
    ".github",
    ".pre-commit-config.yaml",
    "benchmarks",
    "justfile",
    "tests",
    "typings",
    "uv.lock",
}
ALL = ("--cached", "--others")
LARGEST = 40_000_000


def listed(*options: str) -> set[str]:
    """Files of the repository; skips where there is none."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", *options]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        pytest.skip("Only a git checkout says what is published.")
    return {name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()}


def repository() -> set[str]:
    """Also what was not committed yet."""
    return listed(*ALL, "--exclude-standard")


def published() -> set[str]:
    return repository() - listed(*ALL, "--ignored", f"--exclude-from={ROOT / '.comfyignore'}")


def test_all_that_runs_is_published_and_nothing_else() -> None:
    whole, packed = repository(), published()
    assert {name.split("/")[0] for name in packed} & LEFT_OUT == set()
    left_out = {name for name in whole - packed if name.split("/")[0] not in LEFT_OUT}
    assert left_out == {"docs/host-tests.md"}
    assert sum((ROOT / name).stat().st_size for name in packed) < LARGEST
    for name in NAMES:
        assert {f"workflows/{name}.json", f"workflows/{name}.jpg"} <= packed


def test_the_published_files_in_a_folder_of_another_name_tell_a_story(
    host_home: HostHome, tmp_path: Path
) -> None:
    need_checkpoints()
    server = ComfyServer(host_home, tmp_path / "base")
    server.lay_out()
    packs = server.base / "custom_nodes"
    (packs / PACK).unlink()
    for name in published():
        copy = packs / FOLDER / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, copy)
    try:
        server.start()
        known = server.get("/object_info")
        assert set(NODE_IDS) <= set(known), set(NODE_IDS) - set(known)
        for name, title in NODE_IDS.items():
            assert known[name]["python_module"] == f"custom_nodes.{FOLDER}"
            assert known[name]["display_name"] == title
        assert set(server.get("/workflow_templates")[FOLDER]) == set(NAMES)
        assert [one for one in server.get("/global_subgraphs").values() if FOLDER in str(one)]
        scripts = [
            name for name in server.get("/extensions") if name.startswith(f"/extensions/{quote(FOLDER)}/")
        ]
        assert len(scripts) == sum(
            name.startswith("web/") and name.endswith(".js") for name in published()
        ), scripts
        assert "InterleaveCriticLoop" in server.get("/i18n")["zh"]["nodeDefs"]
        graph = twin("tiny_world_story")
        outputs = server.run(graph)
        assert len(outputs[id_of(graph, "InterleaveCriticLoop")]["images"]) >= 3
    finally:
        server.stop()
