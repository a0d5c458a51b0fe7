"""Plug-in packages in the real host: listed by the nodes, used by name, and one that is broken."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.host_home import HostHome
from support.plugin_package import install, install_documented

from ..graphs.klein import Graph, node
from ..server.comfy_server import ComfyServer, HostError


@pytest.fixture(scope="module")
def host(host_home: HostHome, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ComfyServer]:
    """A host whose Python has the document's package and one that cannot be imported."""
    site = tmp_path_factory.mktemp("site-packages")
    install_documented(site, "pyproject.toml", "interleave_stripes")
    install(
        site, "broken-package", "[interleave_thinker.generators]\nbroken = broken_one\n", broken_one="1 / 0"
    )
    server = ComfyServer(host_home, tmp_path_factory.mktemp("plugins") / "base")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(site))
        server.start()
    try:
        yield server
    finally:
        server.stop()


def story(plugin: str, argument: str) -> Graph:
    return {
        "planned": node("InterleaveTestPlan", request="a boat", prompts="a red boat\na blue boat"),
        "generator": node("InterleavePluginGenerator", plugin=plugin, argument=argument),
        "loop": node(
            "InterleaveCriticLoop", plan="@planned", generator="@generator", max_attempts=1,
            accept_at=0.0, keep="best", source="previous", on_failure="keep", seed=0,
        ),
        "export": node(
            "InterleaveExport", trajectory=["loop", 2], format="captions", filename_prefix="told/boat",
            seconds=1.0, attempts=False,
        ),
    }  # fmt: skip


def test_the_nodes_list_plugins_and_use_them(host: ComfyServer) -> None:
    info = host.get("/object_info")
    generator = info["InterleavePluginGenerator"]["input"]["required"]["plugin"][1]["options"]
    assert generator == ["broken", "stripes"]
    formats = info["InterleaveExport"]["input"]["required"]["format"][1]["options"]
    assert formats[0] == "page (HTML)" and formats[-1] == "captions"
    outputs = host.run(story("stripes", "48"))
    assert [host.image(one).size for one in outputs["loop"]["images"]] == [(48, 48)] * 2
    text = Path(outputs["export"]["text"][0]).read_text(encoding="utf-8")
    assert len(text.splitlines()) == 2


def test_a_broken_plugin_is_an_error_of_its_node(host: ComfyServer) -> None:
    with pytest.raises(HostError) as error:
        host.run(story("broken", ""))
    assert "the package broken-package: ZeroDivisionError" in str(error.value.details)
    host.run(story("stripes", "32"))
