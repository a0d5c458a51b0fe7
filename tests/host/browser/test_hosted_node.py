"""The template with a hosted node opens in a host that has hosted nodes. Nothing is run: a run is billed.

All other tests run without hosted nodes, with a stand-in. Its inputs and outputs are compared here.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.host_home import HostHome

from ..graphs.examples import twin
from ..server.comfy_server import ComfyServer
from .page import opened, photographed
from .tidy import assert_tidy, comparable

NAME, NODE = "hosted_node", "GeminiImage2Node"


@pytest.fixture(scope="module")
def host(host_home: HostHome, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ComfyServer]:
    """A host with its hosted nodes."""
    server = ComfyServer(host_home, tmp_path_factory.mktemp("hosted") / "base", api_nodes=True)
    try:
        server.start()
        yield server
    finally:
        server.stop()


def test_it_opens_with_the_real_node(page: Any, host: ComfyServer, tmp_path: Path) -> None:
    assert host.get(f"/object_info/{NODE}")[NODE]["api_node"], "not the stand-in"
    opened(page, NAME)
    photographed(page, "hosted-node-real", tmp_path)
    assert_tidy(page)
    sent = page.evaluate("async () => (await app.graphToPrompt()).output")
    wanted = twin(NAME)
    assert comparable(sent, wanted) == comparable(wanted, wanted)
    assert page.faults == []


def test_the_values_and_sockets_are_those_of_the_real_node(host: ComfyServer) -> None:
    real = host.get(f"/object_info/{NODE}")[NODE]
    inputs = {**real["input"]["required"], **real["input"]["optional"]}
    (sent,) = [node["inputs"] for node in twin(NAME).values() if node["class_type"] == NODE]
    assert set(real["input"]["required"]) <= set(sent) <= set(inputs)
    for name in ("model", "aspect_ratio", "resolution", "response_modalities"):
        kind, options = inputs[name]
        assert sent[name] in (options["options"] if kind == "COMBO" else kind), name
    assert real["output"] == ["IMAGE", "STRING"]
