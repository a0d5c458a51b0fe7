"""The running host serves our texts and help pages, and they match its nodes."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from support.languages import LANGUAGES

from interleave_thinker.nodes.sampling.families.registry import FURTHER_CHOICES

from ..graphs.choices import FOUND_HERE
from ..server.comfy_server import PACK, ROOT, ComfyServer

HOSTS_OWN = {("InterleaveStepGenerator", "sampler"), ("InterleaveStepGenerator", "scheduler")}
"""Lists of the host's names, which are the same in all languages."""
OFFERED_IF_INSTALLED = {"8-bit", "4-bit"}
NAMES = {*FURTHER_CHOICES}
"""Names of model families, which are the same in all languages."""


@pytest.fixture(scope="module")
def nodes(host: ComfyServer) -> dict[str, Any]:
    """The host's descriptions of the pack's nodes, without those that only expansions use."""
    return {
        name: node
        for name, node in host.get("/object_info").items()
        if node["python_module"] == f"custom_nodes.{PACK}" and not node.get("dev_only")
    }


@pytest.fixture(scope="module")
def english() -> dict[str, Any]:
    return json.loads((ROOT / "locales" / "en" / "nodeDefs.json").read_text(encoding="utf-8"))


def declared_inputs(node: dict[str, Any]) -> dict[str, Any]:
    """Options of every input by its id."""
    given = {**node["input"].get("required", {}), **node["input"].get("optional", {})}
    return {name: (declared[1] if len(declared) > 1 else {}) for name, declared in given.items()}


def grown(name: str, options: dict[str, Any]) -> dict[str, str]:
    """Ids, with tooltips, of the inputs that can grow out of one, as the front end looks their words up."""
    template = options.get("template")
    if not template:
        return {}
    names = template.get("names") or [f"{template['prefix']}{number}" for number in range(template["max"])]
    ((_, inner),) = template["input"]["required"].values()
    return {f"{name}_{one}": inner["tooltip"] for one in names}


def test_all_languages_are_served_completely(host: ComfyServer) -> None:
    served = host.get("/i18n")
    for language in LANGUAGES:
        ours = json.loads((ROOT / "locales" / language / "nodeDefs.json").read_text(encoding="utf-8"))
        assert {node: served[language]["nodeDefs"][node] for node in ours} == ours, language


def test_the_english_texts_are_those_of_the_nodes(nodes: dict[str, Any], english: dict[str, Any]) -> None:
    assert set(english) == set(nodes)
    for name, node in nodes.items():
        words, inputs = english[name], declared_inputs(node)
        assert words["display_name"] == node["display_name"]
        assert words.get("description", node["description"]) == node["description"]
        tips: dict[str, str | None] = {}
        for one, options in inputs.items():
            tips |= {one: options.get("tooltip"), **grown(one, options)}
        assert set(words.get("inputs", {})) == set(tips), name
        for one, tip in tips.items():
            assert words["inputs"][one].get("tooltip", tip) == tip, (name, one)
            assert tip, (name, one)
        outputs = dict(zip(map(str, range(len(node["output"]))), node["output_tooltips"], strict=True))
        assert {one: entry["tooltip"] for one, entry in words["outputs"].items()} == outputs, name


def test_every_choice_has_a_label(nodes: dict[str, Any], english: dict[str, Any]) -> None:
    for name, node in nodes.items():
        for one, options in declared_inputs(node).items():
            offered = set(options.get("options") or ())
            labelled = set(english[name]["inputs"][one].get("options") or ())
            if (name, one) in HOSTS_OWN:
                assert not labelled
            elif (name, one) not in FOUND_HERE:
                assert labelled - OFFERED_IF_INSTALLED <= offered <= labelled | NAMES, (name, one)


def test_every_node_has_its_help_page(host: ComfyServer, nodes: dict[str, Any]) -> None:
    for name in nodes:
        for page in (f"{name}.md", f"{name}/zh.md"):
            answer = httpx.get(f"{host.url}/extensions/{PACK}/docs/{page}").raise_for_status()
            assert answer.text == (ROOT / "web" / "docs" / page).read_text(encoding="utf-8")
