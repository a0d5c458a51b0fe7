"""Internals of the host are missing: the log explains it, and everything else works."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.host_home import HostHome

from ..graphs.attempt_pairs import pair
from ..graphs.klein import Graph, story
from ..graphs.replies import verdict
from ..server.comfy_server import ComfyServer
from ..server.runs import ran_in

TAKEN = ("execution.IsChangedCache", "comfy.model_management.current_loaded_models")
LINES = (
    "this ComfyUI does not have execution.IsChangedCache: with --cache-none, Attempt End generates images",
    "this ComfyUI does not have comfy.model_management.current_loaded_models: an agent stays on the GPU",
)


@pytest.fixture(scope="module")
def bare(host_home: HostHome, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ComfyServer]:
    """Start a server without these internals and without a cache, where they matter most."""
    server = ComfyServer(host_home, tmp_path_factory.mktemp("bare") / "base", "--cache-none")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INTERLEAVE_TEST_WITHOUT", ",".join(TAKEN))
        server.start()
    try:
        yield server
    finally:
        server.stop()


def tinted(words: str, kind: str) -> Graph:
    """Return a pair accepted at attempt 2 whose node after the sampler has this class."""
    graph = pair(words, None, replies=[verdict(False, "better"), verdict(True)] * 2)
    return {**graph, "tint": {**graph["tint"], "class_type": kind}}


def painted(host: ComfyServer, graph: Graph) -> int:
    """Run a graph and return the number of generated images."""
    before = ran_in(host).count("paint")
    outputs = host.run(graph)
    assert outputs["out"]["images"]
    return ran_in(host).count("paint") - before


def test_the_log_reports_the_missing_internals(bare: ComfyServer, host: ComfyServer) -> None:
    log = bare.log_path.read_text(errors="replace")
    assert all(log.count(f"InterleaveThinker: {line}") == 1 for line in LINES), log
    whole = host.log_path.read_text(errors="replace")
    assert "InterleaveThinker: this ComfyUI does not have" not in whole, (
        "this host lacks something: say so in the docs"
    )


def test_only_nodes_that_detect_changes_generate_again(bare: ComfyServer) -> None:
    watching, plain = tinted("watching", "InterleaveTestWatching"), tinted("plain", "InterleaveTestTint")
    assert [painted(bare, watching) for _ in range(2)] == [2, 2]
    assert [painted(bare, plain) for _ in range(2)] == [2, 0]


def test_a_story_is_generated(bare: ComfyServer) -> None:
    assert len(bare.run(story("without", ["a", "b"], (64, 64)))["out"]["images"]) == 2
