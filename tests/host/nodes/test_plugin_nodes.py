"""Plug-in packages in the real host: listed by the nodes, used by name, and one that is broken."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.host_home import HostHome
from support.plugin_package import install, install_documented

from ..graphs.stories import EXPORT, Graph, node, story
from ..server.comfy_server import ComfyServer, running
from ..server.runs import failure


@pytest.fixture(scope="module")
def host(host_home: HostHome, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ComfyServer]:
    """A host whose Python has the document's package and one that cannot be imported."""
    site = tmp_path_factory.mktemp("site-packages")
    install_documented(site, "pyproject.toml", "interleave_stripes")
    install(
        site, "broken-package", "[interleave_thinker.generators]\nbroken = broken_one\n", broken_one="1 / 0"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(site))
        with running(ComfyServer(host_home, tmp_path_factory.mktemp("plugins") / "base")) as server:
            yield server


def of_plugin(plugin: str, argument: str) -> Graph:
    generator = node("InterleavePluginGenerator", plugin=plugin, argument=argument)
    export = {**EXPORT, "format": "captions", "filename_prefix": "told/boat"}
    graph = story("a boat", ["a red boat", "a blue boat"], generator=generator)
    return graph | {"export": node("InterleaveExport", trajectory=["loop", 2], **export)}


def test_the_nodes_list_plugins_and_use_them(host: ComfyServer) -> None:
    assert host.inputs_of("InterleavePluginGenerator")["plugin"][1]["options"] == ["broken", "stripes"]
    formats = host.inputs_of("InterleaveExport")["format"][1]["options"]
    assert formats[0] == "page (HTML)" and formats[-1] == "captions"
    outputs = host.run(of_plugin("stripes", "48"))
    assert [host.image(one).size for one in outputs["loop"]["images"]] == [(48, 48)] * 2
    text = Path(outputs["export"]["text"][0]).read_text(encoding="utf-8")
    assert len(text.splitlines()) == 2


def test_a_broken_plugin_is_an_error_of_its_node(host: ComfyServer) -> None:
    error = failure(host, of_plugin("broken", ""), "")
    assert "the package broken-package: ZeroDivisionError" in str(error.details)
    host.run(of_plugin("stripes", "32"))
