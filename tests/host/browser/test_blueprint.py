"""The whole pipeline as one node: found in the node library, placed, connected and run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..graphs.examples import REQUEST, requirements, twin
from ..server.comfy_server import PACK, ComfyServer
from .page import keeps_progress, photographed, ran

NAME = "Interleaved Story"
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
SHOWN = "() => app.graph._nodes.find(node => node.type === 'PreviewImage').imgs?.length"
SAID = """() => app.graph._nodes.find(node => node.isSubgraphNode?.()).widgets
  .find(widget => widget.name === '$$node-text-preview')?.value"""
EXPOSED = """() => {
  const node = app.graph._nodes.find(one => one.isSubgraphNode?.());
  const shown = node.serialize().properties;
  return (shown.previewExposures ?? shown.proxyWidgets).map(one => one.sourcePreviewName ?? one[1]);
}"""


def found_by_name(page: Any) -> None:
    """Put the blueprint on the canvas through the search box."""
    box = page.locator(".comfy-vue-node-search-container input, input[placeholder='Add a node...']").first
    for _ in range(20):
        # On a busy machine the canvas may take the two clicks for single ones.
        page.mouse.dblclick(900, 700)
        page.wait_for_timeout(1500)
        if box.is_visible():
            break
    box.press_sequentially(NAME, delay=20)
    page.locator(".p-autocomplete-option, [data-testid=result-item]", has_text=NAME).first.click()


def test_the_host_serves_the_blueprint(host: ComfyServer) -> None:
    ours = [
        entry
        for entry in host.get("/global_subgraphs").values()
        if entry["info"]["node_pack"] == f"custom_nodes.{PACK}"
    ]
    assert [entry["name"] for entry in ours] == [NAME]


def test_the_pipeline_blueprint_is_one_node(page: Any, host: ComfyServer, tmp_path: Path) -> None:
    with requirements(host, "flux2_klein_4b_story"):
        page.evaluate("() => app.graph.clear()")
        found_by_name(page)
        page.wait_for_function("() => app.graph._nodes.some(node => node.isSubgraphNode?.())", timeout=90_000)
        names = page.evaluate(WIRE, REQUEST)
        assert names[:3] == ["request", "step_count", "width"] and "seed" in names
        sent = page.evaluate("async () => (await app.graphToPrompt()).output")
        inside = {node["class_type"] for key, node in sent.items() if ":" in key}
        assert inside == {
            "InterleavePlanner",
            "InterleaveStepGenerator",
            "InterleaveCriticLoop",
            "InterleaveStoryboard",
            "PreviewImage",
        }
        by_class = {node["class_type"]: node["inputs"] for node in sent.values()}
        assert by_class["InterleavePlanner"]["request"] == REQUEST
        assert by_class["InterleaveStepGenerator"]["width"] == 128
        whole = {node["class_type"]: set(node["inputs"]) for node in twin("flux2_klein_4b_story").values()}
        for name in inside - {"PreviewImage"}:
            assert set(by_class[name]) == whole[name], f"{name} has other inputs than in the template"
        ran(page, settle_ms=1500)
    photographed(page, "blueprint", tmp_path)
    assert page.evaluate(SHOWN) == 2
    assert "$$canvas-image-preview" in page.evaluate(EXPOSED)
    if keeps_progress(page):
        assert page.evaluate(SAID).startswith("2 steps"), "messages of an inner node are also shown outside"
    assert page.faults == []
