"""A story's nodes run again although nothing changed, as with --force-output-rerun or after caches are freed.

Nothing is generated, judged or overwritten: the loop answers from its run folder, and a save or an export is
written under the next number.
"""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

from ..graphs.examples import need_checkpoints, twin
from ..server.comfy_server import ComfyServer

PREFIX = "again"


def files_of(folder: Path) -> dict[str, str]:
    """Return the digest of every file below a folder by its path."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_running_again_changes_no_file(host: ComfyServer) -> None:
    need_checkpoints()
    graph = twin("feedback_round_trip")
    (loop,) = (key for key, one in graph.items() if one["class_type"] == "InterleaveCriticLoop")
    (save,) = (key for key, one in graph.items() if one["class_type"] == "InterleaveSaveTrajectory")
    graph[save]["inputs"]["filename_prefix"] = f"{PREFIX}/saved"
    story = {"trajectory": [loop, 2]}
    graph["page"] = {
        "class_type": "InterleaveExport",
        "inputs": {
            **story,
            "filename_prefix": f"{PREFIX}/page",
            "format": "Markdown",
            "seconds": 1.0,
            "attempts": False,
        },
    }
    graph["board"] = {
        "class_type": "InterleaveStoryboard",
        "inputs": {**story, "show": "attempts", "columns": 0, "cell": 64, "captions": True},
    }
    output = host.base / "output"
    first = host.run(graph)
    before = files_of(output)
    second, added = first, set[str]()
    for _ in range(5):
        # The host frees its caches between two prompts, at a moment of its own.
        host.post("/free", {"unload_models": True, "free_memory": True})
        time.sleep(2)
        second = host.run(graph)
        added = files_of(output).keys() - before.keys()
        if added:
            break
    after = files_of(output)
    assert {name: after.get(name) for name in before} == before
    assert {name.split("_00002_")[0] for name in added} == {f"{PREFIX}/saved", f"{PREFIX}/page"}
    assert second.keys() == first.keys()
