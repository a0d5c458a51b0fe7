"""The pack in a folder of another name: with spaces and dots, as a ZIP or a copy by hand leaves it."""

from __future__ import annotations

from pathlib import Path

from interleave_thinker.nodes.old_host import NODE_IDS

from .comfy_server import PACK, ComfyServer, HostHome
from .example_graphs import NAMES, id_of, need_checkpoints, twin

FOLDER = "Interleave Thinker v1.0 (copy)"


def test_a_folder_with_spaces_and_dots_has_every_node_and_tells_a_story(
    host_home: HostHome, tmp_path: Path
) -> None:
    need_checkpoints()
    server = ComfyServer(host_home, tmp_path / "base")
    server.lay_out()
    packs = server.base / "custom_nodes"
    (packs / PACK).rename(packs / FOLDER)
    try:
        server.start()
        known = server.get("/object_info")
        assert set(NODE_IDS) <= set(known), set(NODE_IDS) - set(known)
        for name, title in NODE_IDS.items():
            assert known[name]["python_module"] == f"custom_nodes.{FOLDER}"
            assert known[name]["display_name"] == title
        assert set(server.get("/workflow_templates")[FOLDER]) == set(NAMES)
        graph = twin("tiny_world_story")
        outputs = server.run(graph)
        assert len(outputs[id_of(graph, "InterleaveCriticLoop")]["images"]) >= 3
    finally:
        server.stop()
