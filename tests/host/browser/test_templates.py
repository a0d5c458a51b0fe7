"""The example graphs and the subgraph in a real browser: complete, tidy, readable, run, and as an app."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from PIL import Image
from support.host_home import HostHome

from ..graphs.examples import KLEIN_AGENT, REQUEST, need_checkpoints, need_models, requirements, twin
from ..graphs.template_names import NAMES, template_path
from ..server.comfy_server import PACK, ComfyServer, running
from .page import clean, fitted, front_end, keeps_progress, opened, ran, sent, version

CHANGE = """changes => changes.forEach(([type, title, values]) => app.graph._nodes
  .filter(node => node.type === type && (title === null || node.title === title))
  .forEach(node => Object.entries(values).forEach(([name, value]) => {
    const widget = node.widgets.find(one => one.name === name);
    widget.value = value;
    widget.callback?.(value);
  })))"""
OWN_CRITIC = """name => {
  delete app.ownCritic;
  const links = app.graph.links;
  const link = id => (links instanceof Map ? links.get(id) : links[id]);
  for (const node of app.graph._nodes) {
    const slot = node.inputs?.findIndex(input => input.name === 'critic') ?? -1;
    const from = slot < 0 ? null : app.graph.getNodeById(link(node.inputs[slot].link)?.origin_id);
    if (from?.type !== 'InterleaveLoadAgent' || from.widgets[0].value !== name) continue;
    const critic = LiteGraph.createNode('InterleaveLoadAgent');
    app.graph.add(critic);
    critic.widgets[0].value = 'tiny world critic';
    critic.connect(0, node, slot);
    app.ownCritic = {critic, back: () => from.connect(0, node, slot)};
  }
}"""
WITHOUT_OWN_CRITIC = """() => {
  if (!app.ownCritic) return;
  app.ownCritic.back();
  app.graph.remove(app.ownCritic.critic);
  delete app.ownCritic;
}"""
"""Like `judged_by_the_critic`, for the duration of a run."""
SHOWING = """() => app.graph._nodes.filter(node => node.mode === 0 && node.type !== 'LoadImage' &&
    (node.imgs?.length ?? 0) > 0)
  .map(node => node.type)"""
SHOWN_KINDS = {"InterleaveStoryboard", "PreviewImage", "SaveImage"}
SHOWS = f"kinds => {{ const shown = ({SHOWING})(); return kinds.every(kind => shown.includes(kind)) }}"
"""Wait for images, which are fetched only when the node is painted, slowly on a busy machine."""
CHOOSE_NEWEST = """() => {
  const widget = app.graph._nodes.find(node => node.type === 'InterleaveLoadTrajectory').widgets[0];
  widget.value = widget.options.values.find(name => name.includes('saved/feedback'));
}"""
BETTER = "Add a yellow sun at the top left corner"
BOXES = """() => app.graph._nodes.map(node => {
  const title = LiteGraph.NODE_TITLE_HEIGHT;
  return {name: node.title, box: [node.pos[0], node.pos[1] - title, node.size[0], node.size[1] + title]};
})"""
VUE_BOXES = """() => {
  const {scale, offset} = app.canvas.ds;
  const titles = new Map(app.graph._nodes.map(node => [String(node.id), node.title]));
  return [...document.querySelectorAll('.lg-node')].map(element => {
    const box = element.getBoundingClientRect();
    const left = box.left / scale - offset[0], top = box.top / scale - offset[1];
    const size = [box.width / scale, box.height / scale];
    return {name: titles.get(element.dataset.nodeId), box: [left, top, ...size]};
  });
}"""
GROUPS = "() => app.graph._groups.map(group => ({name: group.title, box: Array.from(group._bounding)}))"
BACKWARDS = """() => Array.from(app.graph.links.values()).map(link => [
  app.graph.getNodeById(link.origin_id), app.graph.getNodeById(link.target_id),
]).filter(([from, to]) => from.pos[0] > to.pos[0]).map(([from, to]) => `${from.title} -> ${to.title}`)"""
Box = list[float]


def gap(one: Box, other: Box) -> float:
    """Return the distance of two boxes, below 0 if they overlap."""
    across = max(other[0] - one[0] - one[2], one[0] - other[0] - other[2])
    down = max(other[1] - one[1] - one[3], one[1] - other[1] - other[3])
    return max(across, down)


def inside(one: Box, other: Box) -> bool:
    ends = (one[0] + one[2], one[1] + one[3]), (other[0] + other[2], other[1] + other[3])
    return one[0] >= other[0] and one[1] >= other[1] and ends[0][0] <= ends[1][0] and ends[0][1] <= ends[1][1]


def faults(nodes: list[dict[str, Any]], groups: list[dict[str, Any]], least: float = 0) -> list[str]:
    """Nodes that are closer than `least`, and nodes across the border of a group."""
    found = [
        f"{one['name']} touches {other['name']}"
        for index, one in enumerate(nodes)
        for other in nodes[index + 1 :]
        if gap(one["box"], other["box"]) < least
    ]
    return found + [
        f"{one['name']} is across the border of {group['name']}"
        for one in nodes
        for group in groups
        if gap(one["box"], group["box"]) < 0 and not inside(one["box"], group["box"])
    ]


def is_tidy(page: Any) -> bool:
    """Assert that nothing overlaps or crosses the border of a group, and that all links run to the right."""
    assert faults(page.evaluate(BOXES), page.evaluate(GROUPS)) == []
    assert page.evaluate(BACKWARDS) == [], "wires lead to the left"
    return True


def is_twin(page: Any, name: str) -> bool:
    """Assert that the front end sends what was exported.

    Left out: inputs that a newer host has added to its own nodes, the shown text of Preview Any, which older
    front ends send as an input, names of packs that newer ones add, and a story that was chosen because the
    template has none.
    """
    wanted = twin(name)

    def known(node: dict[str, Any], twin: dict[str, Any] | None) -> dict[str, Any]:
        skipped = {"preview", "previewMode"} if node["class_type"] == "PreviewAny" else set()
        if twin is not None and twin["inputs"].get("story") == "(no story yet)":
            skipped.add("story")
        of_host = twin is not None and not node["class_type"].startswith("Interleave") and not skipped
        return {
            key: value
            for key, value in node["inputs"].items()
            if key not in skipped and (not of_host or key in (twin or {})["inputs"])
        }

    def comparable(graph: dict[str, Any]) -> dict[str, Any]:
        return {
            number: (node["class_type"], node["_meta"]["title"], known(node, wanted.get(number)))
            for number, node in graph.items()
        }

    assert comparable(sent(page)) == comparable(wanted)
    return True


@pytest.mark.parametrize("name", NAMES)
def test_a_template_opens_tidily_and_runs(same_page: Any, host: ComfyServer, name: str) -> None:
    page = same_page
    with requirements(host, name) as changes:
        opened(page, name)
        fitted(page, name)
        assert is_tidy(page) and is_twin(page, name)
        need_models(host, name)
        page.evaluate(CHANGE, [[change.class_type, change.title, change.inputs] for change in changes])
        page.evaluate(OWN_CRITIC, KLEIN_AGENT)
        ran(page)
        page.evaluate(WITHOUT_OWN_CRITIC)
        kinds = {node["class_type"] for node in twin(name).values()} & SHOWN_KINDS
        page.wait_for_function(SHOWS, arg=sorted(kinds))
    fitted(page, f"{name}-done")
    assert is_tidy(page) and page.locator(".p-dialog").count() == 0 and page.outside == []


def test_feedback_is_saved_and_shown_again(page: Any, host: ComfyServer) -> None:
    """Follow the template's note: run, unmute the last group, choose the story, run."""
    name = "feedback_round_trip"
    with requirements(host, name):
        opened(page, name)
        ran(page, settle_ms=1500)
        data = host.base / "output" / "interleave-thinker" / "feedback" / "critic_sft.json"
        assert BETTER not in data.read_text(encoding="utf-8")
        page.evaluate("() => app.graph._nodes.forEach(node => { node.mode = 0 })")
        page.evaluate("() => app.refreshComboInNodes()")
        page.wait_for_timeout(500)
        page.evaluate(CHOOSE_NEWEST)
        ran(page)
        page.wait_for_function(SHOWS, arg=["InterleaveStoryboard"])
    fitted(page)
    assert page.evaluate(SHOWING).count("InterleaveStoryboard") == 1
    assert BETTER in data.read_text(encoding="utf-8")


# On a small screen, and as an app

READABLE = 8 / 14
"""Scale below which the canvas shows no text."""
AT = "() => [app.canvas.ds.scale, ...app.canvas.ds.offset]"
LABELS = """() => app.graph._nodes.flatMap(node => (node.inputs ?? [])
  .filter(input => input.name.startsWith('images.'))
  .map(input => input.label ?? input.localized_name ?? input.name))"""
LOAD = "async graph => await app.loadGraphData(graph, true, true, 'mine')"


def read(name: str) -> dict[str, Any]:
    return json.loads(template_path(name).read_text(encoding="utf-8"))


def test_every_template_is_readable_on_a_small_screen(canvas: tuple[Any, str], host: ComfyServer) -> None:
    """With Nodes 2.0 nodes are taller."""
    host.put_input(Image.new("RGB", (512, 512), (200, 90, 40)), "example.png")
    page, way = canvas
    page.set_viewport_size({"width": 1280, "height": 720})
    wrong = {}
    for name in NAMES:
        opened(page, name)
        page.wait_for_timeout(1500 if way == "vue" else 300)
        scale = page.evaluate(AT)[0]
        found = [] if scale >= READABLE else [f"opens at {scale:.3f}"]
        found += faults(page.evaluate(VUE_BOXES), page.evaluate(GROUPS), 5.5) if way == "vue" else []
        if found:
            wrong[name] = found
    assert wrong == {}
    # A view that a person saved stays.
    graph = read("tiny_world_story")
    graph["extra"]["ds"] = {"scale": 0.4, "offset": [150, 180]}
    page.evaluate(LOAD, graph)
    page.wait_for_timeout(500)
    assert page.evaluate(AT) == [0.4, 150, 180]


def test_a_workflow_that_was_saved_with_ids_as_labels_shows_the_names(page: Any) -> None:
    graph = read("guided_continuation")
    for node in graph["nodes"]:
        for one in node.get("inputs", []):
            if one["name"].startswith("images."):
                one["label"] = one["name"].partition(".")[2]
    page.evaluate(LOAD, graph)
    page.wait_for_timeout(500)
    assert page.evaluate(LABELS) == ["image 1", "image 2", "image 3"]


WITH_TEXT = """text => [...document.querySelectorAll('textarea')]
  .some(one => one.value === text && one.getBoundingClientRect().width > 100)"""
PICTURES = """() => [...document.querySelectorAll('img')].filter(one =>
  one.src.includes('/view?') && one.naturalWidth > 300 && one.getBoundingClientRect().width > 100).length"""


def test_a_template_is_an_app(page: Any) -> None:
    need_checkpoints()
    opened(page, "tiny_world_story")
    if version(page) < (1, 41):
        pytest.skip("This front end's App mode does not read templates.")
    page.evaluate("() => app.extensionManager.command.execute('Comfy.ToggleLinear')")
    nodes = twin("tiny_world_story").values()
    (request,) = [one["inputs"]["request"] for one in nodes if one["class_type"] == "InterleavePlanner"]
    page.wait_for_function(WITH_TEXT, arg=request)
    page.get_by_role("button", name="Skip").click()  # the tour of who comes for the first time
    for name in ("story request", "steps (0 = auto)", "base seed"):
        page.get_by_text(name, exact=True).first.wait_for()
    page.wait_for_timeout(1000)
    ran(page, settle_ms=2500)
    page.wait_for_function(PICTURES)
    assert page.outside == []


# A hosted node. Nothing is run: a run is billed. All other tests run with a stand-in, compared here.


@pytest.fixture
def hosted(host_home: HostHome, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ComfyServer]:
    base = tmp_path_factory.mktemp("hosted") / "base"
    with running(ComfyServer(host_home, base, api_nodes=True)) as server:
        yield server


def test_the_template_of_a_hosted_node_opens_with_the_real_node(browser: Any, hosted: ComfyServer) -> None:
    name, kind = "hosted_node", "GeminiImage2Node"
    real = hosted.get(f"/object_info/{kind}")[kind]
    assert real["api_node"], "not the stand-in"
    with front_end(browser, hosted, "hosted-node-real") as page:
        opened(page, name)
        assert is_tidy(page) and is_twin(page, name) and page.faults == []
    inputs = hosted.inputs_of(kind)
    (given,) = [node["inputs"] for node in twin(name).values() if node["class_type"] == kind]
    assert set(real["input"]["required"]) <= set(given) <= set(inputs)
    for one in ("model", "aspect_ratio", "resolution", "response_modalities"):
        declared, options = inputs[one]
        assert given[one] in (options["options"] if declared == "COMBO" else declared), one
    assert real["output"] == ["IMAGE", "STRING"]


# The whole pipeline as one node: found in the node library, placed, connected and run

BLUEPRINT = "Interleaved Story"
WIRE = """async request => {
  const node = app.graph._nodes.find(one => one.isSubgraphNode?.());
  node.pos = [700, 100];
  const wire = async (type, values, outputs, x, y) => {
    const from = LiteGraph.createNode(type);
    from.pos = [x, y];
    app.graph.add(from);
    for (const [name, value] of Object.entries(values)) from.widgets.find(w => w.name === name).value = value;
    outputs.forEach(([slot, input]) => from.connect(slot, node, node.findInputSlot(input)));
  };
  await wire('UNETLoader', {unet_name: 'flux-2-klein-4b-fp8.safetensors'}, [[0, 'model']], 100, 100);
  await wire('CLIPLoader', {clip_name: 'qwen_3_4b.safetensors', type: 'flux2'}, [[0, 'clip']], 100, 260);
  await wire('VAELoader', {vae_name: 'flux2-vae.safetensors'}, [[0, 'vae']], 100, 440);
  await wire('InterleaveLoadAgent', {agent: 'tiny world planner'}, [[0, 'planner']], 100, 560);
  await wire('InterleaveLoadAgent', {agent: 'tiny world critic'}, [[0, "critic"]], 100, 980);
  const preview = LiteGraph.createNode('PreviewImage');
  preview.pos = [1240, 100];
  app.graph.add(preview);
  node.connect(node.findOutputSlot('images'), preview, 0);
  const values = {request, width: 128, height: 128, steps: 2, max_attempts: 2};
  for (const [name, value] of Object.entries(values)) node.widgets.find(w => w.name === name).value = value;
  return node.widgets.map(widget => widget.name);
}"""
SAID = """() => app.graph._nodes.find(node => node.isSubgraphNode?.()).widgets
  .find(widget => widget.name === '$$node-text-preview')?.value"""
EXPOSED = """() => {
  const node = app.graph._nodes.find(one => one.isSubgraphNode?.());
  const shown = node.serialize().properties;
  return (shown.previewExposures ?? shown.proxyWidgets).map(one => one.sourcePreviewName ?? one[1]);
}"""
INSIDE = {
    "InterleavePlanner", "InterleaveStepGenerator", "InterleaveCriticLoop", "InterleaveStoryboard",
    "PreviewImage",
}  # fmt: skip


def test_the_pipeline_blueprint_is_one_node(page: Any, host: ComfyServer) -> None:
    entries = [one for one in host.get("/global_subgraphs").values() if PACK in one["info"]["node_pack"]]
    assert [one["name"] for one in entries] == [BLUEPRINT]
    with requirements(host, "flux2_klein_4b_story"):
        page.evaluate("() => app.graph.clear()")
        box = page.locator(".comfy-vue-node-search-container input, input[placeholder='Add a node...']").first
        for _ in range(20):
            # On a busy machine the canvas may take the two clicks for single ones.
            page.mouse.dblclick(900, 700)
            page.wait_for_timeout(1500)
            if box.is_visible():
                break
        box.press_sequentially(BLUEPRINT, delay=20)
        page.locator(".p-autocomplete-option, [data-testid=result-item]", has_text=BLUEPRINT).first.click()
        page.wait_for_function("() => app.graph._nodes.some(node => node.isSubgraphNode?.())")
        names = page.evaluate(WIRE, REQUEST)
        assert names[:3] == ["request", "step_count", "width"] and "seed" in names
        output = sent(page)
        assert {node["class_type"] for key, node in output.items() if ":" in key} == INSIDE
        by_class = {node["class_type"]: node["inputs"] for node in output.values()}
        assert by_class["InterleavePlanner"]["request"] == REQUEST
        assert by_class["InterleaveStepGenerator"]["width"] == 128
        whole = {node["class_type"]: set(node["inputs"]) for node in twin("flux2_klein_4b_story").values()}
        for name in INSIDE - {"PreviewImage"}:
            assert set(by_class[name]) == whole[name], f"{name} has other inputs than in the template"
        ran(page, settle_ms=1500)
    fitted(page)
    assert (
        page.evaluate("() => app.graph._nodes.find(node => node.type === 'PreviewImage').imgs?.length") == 2
    )
    assert "$$canvas-image-preview" in page.evaluate(EXPOSED)
    if keeps_progress(page):
        assert page.evaluate(SAID).startswith("2 steps"), "messages of an inner node are also shown outside"
    assert clean(page)
