"""The published archive in a folder with another name, with spaces and dots, as after a manual copy."""

from __future__ import annotations

import zipfile
from pathlib import Path
from urllib.parse import quote

from support.host_home import HostHome
from support.published_files import published, write_archive

from interleave_thinker.nodes.legacy_stubs import node_names

from ..graphs.examples import id_of, need_checkpoints, twin
from ..graphs.template_names import FILE_NAMES
from ..server.comfy_server import PACK, ComfyServer

FOLDER = "Interleave Thinker v1.0 (copy)"


def test_the_published_files_run_in_a_folder_of_another_name(host_home: HostHome, tmp_path: Path) -> None:
    need_checkpoints()
    server = ComfyServer(host_home, tmp_path / "base")
    server.lay_out()
    packs = server.base / "custom_nodes"
    (packs / PACK).unlink()
    write_archive(tmp_path / "node.zip")
    with zipfile.ZipFile(tmp_path / "node.zip") as archive:
        archive.extractall(packs / FOLDER)
    try:
        server.start()
        known = server.get("/object_info")
        assert set(node_names()) <= set(known), set(node_names()) - set(known)
        for name, title in node_names().items():
            assert known[name]["python_module"] == f"custom_nodes.{FOLDER}"
            assert known[name]["display_name"] == title
        assert set(server.get("/workflow_templates")[FOLDER]) == set(FILE_NAMES.values())
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
