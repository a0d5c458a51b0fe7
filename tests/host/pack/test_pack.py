"""The pack in the running host: old workflows, texts and help pages, another folder, missing internals."""

from __future__ import annotations

import json
import subprocess
import zipfile
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from support.host_home import HostHome
from support.languages import LANGUAGES
from support.published_files import published, write_archive

from interleave_thinker.nodes.node_texts import node_names
from interleave_thinker.nodes.sampling.families.registry import FURTHER_CHOICES

from ..graphs.attempt_pairs import pair
from ..graphs.examples import id_of, need_checkpoints, twin
from ..graphs.stories import Graph, changed, planned, reply, story, verdict
from ..graphs.template_names import FILE_NAMES
from ..server.comfy_server import PACK, ROOT, ComfyServer, running
from ..server.rigs import RIGS, environment
from ..server.runs import failure, journal, ran_in

FOUND_HERE = {
    ("InterleaveLoadAgent", "agent"), ("InterleaveDiffusersGenerator", "lora"),
    ("InterleaveLoadAgent", "adapter"), ("InterleaveLoadAgent", "prompts"),
    ("InterleaveLoadAgent", "notes"), ("InterleaveHostAgent", "prompts"),
    ("InterleaveRemoteAgent", "prompts"), ("InterleaveLoadTrajectory", "story"),
}  # fmt: skip
"""Lists that show the contents of a folder and a few fixed values of the pack."""
HOSTS_OWN = {("InterleaveStepGenerator", "sampler"), ("InterleaveStepGenerator", "scheduler")}
"""Lists of the host's names, which are the same in all languages."""
OFFERED_IF_INSTALLED = {"8-bit", "4-bit"}
WIDGETS = {"INT": (int,), "FLOAT": (int, float), "STRING": (str,), "BOOLEAN": (bool,), "COMBO": (str,)}
"""Types of inputs that are widgets, with those of their values."""


def read(*parts: str) -> Any:
    return json.loads(ROOT.joinpath(*parts).read_text(encoding="utf-8"))


# A workflow of an earlier version

FORMER = {"every try": "seed_rule", "as asked": "captions"}
"""Values of choices that a list lacks today, and that a node accepts."""


def widgets(node: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    """Return name, type and options of every widget in the order of saved values.

    A seed's is followed by its control_after_generate.
    """
    found = []
    for group in ("required", "optional"):
        for name in node["input_order"].get(group, []):
            kind, *more = node["input"][group][name]
            options = dict(more[0]) if more else {}
            if isinstance(kind, list):
                options["options"], kind = kind, "COMBO"
            if kind not in WIDGETS or options.get("forceInput"):
                continue
            found.append((name, kind, options))
            if options.get("control_after_generate"):
                found.append(("", "COMBO", {"options": ["fixed", "increment", "decrement", "randomize"]}))
    return found


def test_a_workflow_of_an_earlier_version_loads_unchanged(host: ComfyServer) -> None:
    nodes = host.get("/object_info")
    ours = [
        node
        for node in read("tests", "data", "workflow.json")["nodes"]
        if node["type"].startswith("Interleave")
    ]
    assert len(ours) == 10
    for saved in ours:
        node = nodes[saved["type"]]
        today = widgets(node)
        named = [one["name"] for one in saved.get("inputs", []) if "widget" in one]
        assert [name for name, _, _ in today if name][: len(named)] == named, saved["type"]
        for value, (name, kind, options) in zip(saved.get("widgets_values") or [], today, strict=False):
            assert isinstance(value, WIDGETS[kind]), (saved["type"], name, value)
            if options.get("options") and (saved["type"], name) not in FOUND_HERE:
                assert value in options["options"] or FORMER.get(value) == name, (saved["type"], name, value)
            if kind in ("INT", "FLOAT"):
                assert options["min"] <= value <= options["max"], (saved["type"], name, value)
        sockets = {one["name"].partition(".")[0] for one in saved.get("inputs", []) if "widget" not in one}
        assert sockets <= {*node["input"].get("required", {}), *node["input"].get("optional", {})}
        outputs = [one["type"] for one in saved.get("outputs", [])]
        assert node["output"][: len(outputs)] == outputs, saved["type"]


def test_former_values_of_choices_run_and_others_do_not(host: ComfyServer) -> None:
    host.run(planned(reply("a boat"), request="planned as before", captions="as asked"))
    graph = story("told as before", ["a boat"], seed_rule="every try")
    host.run(graph)
    told = json.loads((journal(host, "told as before") / "trajectory.json").read_text(encoding="utf-8"))
    assert told["settings"]["seed_rule"] == "every attempt"
    failure(host, changed(graph, "loop", seed_rule="every tries"), "seed_rule")


# Texts and help pages


@pytest.fixture(scope="module")
def nodes(host: ComfyServer) -> dict[str, Any]:
    """The host's descriptions of the pack's nodes, without those that only expansions use."""
    return {
        name: node
        for name, node in host.get("/object_info").items()
        if node["python_module"] == f"custom_nodes.{PACK}" and not node.get("dev_only")
    }


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
        ours = read("locales", language, "nodeDefs.json")
        assert {node: served[language]["nodeDefs"][node] for node in ours} == ours, language


def test_the_english_texts_are_those_of_the_nodes(nodes: dict[str, Any]) -> None:
    english = read("locales", "en", "nodeDefs.json")
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
            assert tip and words["inputs"][one].get("tooltip", tip) == tip, (name, one)
        outputs = dict(zip(map(str, range(len(node["output"]))), node["output_tooltips"], strict=True))
        assert {one: entry["tooltip"] for one, entry in words["outputs"].items()} == outputs, name
        for one, options in inputs.items():
            offered = set(options.get("options") or ())
            labelled = set(words["inputs"][one].get("options") or ())
            if (name, one) in HOSTS_OWN:
                assert not labelled
            elif (name, one) not in FOUND_HERE:
                # Names of model families are the same in all languages.
                assert labelled - OFFERED_IF_INSTALLED <= offered <= labelled | {*FURTHER_CHOICES}, (
                    name,
                    one,
                )


def test_every_node_has_its_help_page(host: ComfyServer, nodes: dict[str, Any]) -> None:
    for name in nodes:
        for page in (f"{name}.md", f"{name}/zh.md"):
            answer = host.answer(f"/extensions/{PACK}/docs/{page}").raise_for_status()
            assert answer.text == (ROOT / "web" / "docs" / page).read_text(encoding="utf-8")


# The published archive in a folder with another name, with spaces and dots, as after a manual copy

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
    with running(server):
        known = server.get("/object_info")
        assert set(node_names()) <= set(known), set(node_names()) - set(known)
        for name, title in node_names().items():
            assert known[name]["python_module"] == f"custom_nodes.{FOLDER}"
            assert known[name]["display_name"] == title
        assert set(server.get("/workflow_templates")[FOLDER]) == set(FILE_NAMES.values())
        assert [one for one in server.get("/global_subgraphs").values() if FOLDER in str(one)]
        ours = f"/extensions/{quote(FOLDER)}/"
        scripts = [name for name in server.get("/extensions") if name.startswith(ours)]
        files = [name for name in published() if name.startswith("web/") and name.endswith(".js")]
        assert len(scripts) == len(files), scripts
        assert "InterleaveCriticLoop" in server.get("/i18n")["zh"]["nodeDefs"]
        graph = twin("tiny_world_story")
        assert len(server.run(graph)[id_of(graph, "InterleaveCriticLoop")]["images"]) >= 3


# Internals of the host are missing: the log explains it, and everything else works

TAKEN = ("execution.IsChangedCache", "comfy.model_management.current_loaded_models")
LINES = (
    "this ComfyUI does not have execution.IsChangedCache: with --cache-none, Attempt End generates images",
    "this ComfyUI does not have comfy.model_management.current_loaded_models: an agent stays on the GPU",
)


def painted(host: ComfyServer, graph: Graph) -> int:
    """Run a graph and return the number of generated images."""
    before = ran_in(host).count("paint")
    assert host.run(graph)["out"]["images"]
    return ran_in(host).count("paint") - before


def test_loading_the_pack_imports_nothing_that_it_does_not_need_before_a_run(host_home: HostHome) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(RIGS)!r}); import host_modules; before = set(sys.modules)\n"
        "from interleave_thinker.nodes import InterleaveThinkerExtension\n"
        "new = [name.removeprefix('interleave_thinker.') for name in set(sys.modules) - before]\n"
        "print('IMPORTED', *{name.partition('.')[0] for name in new})"
    )
    command = [str(host_home.python), "-c", code, str(host_home.folder), str(ROOT)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=240)
    found = done.stdout.partition("IMPORTED")[2].split()
    assert found and set(found) <= {"PIL", "backend", "nodes"}, done.stderr


def test_without_internals_little_is_drawn(host_home: HostHome, host: ComfyServer, tmp_path: Path) -> None:
    """Without a cache, where they matter most."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INTERLEAVE_TEST_WITHOUT", ",".join(TAKEN))
        with running(ComfyServer(host_home, tmp_path / "base", "--cache-none")) as bare:
            assert all(bare.log().count(f"InterleaveThinker: {line}") == 1 for line in LINES)
            for words, kind, again in (("watching", "Watching", 2), ("plain", "Tint", 0)):
                graph = pair(words, replies=[verdict(False, "better"), verdict(True)] * 2)
                graph["tint"] = {**graph["tint"], "class_type": f"InterleaveTest{kind}"}
                assert [painted(bare, graph) for _ in range(2)] == [2, again]
            assert len(bare.run(story("without", ["a", "b"]))["out"]["images"]) == 2
    assert "InterleaveThinker: this ComfyUI does not have" not in host.log(), "say so in the docs"
