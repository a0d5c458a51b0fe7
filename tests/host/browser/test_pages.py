"""Parts of the page in a real browser: languages, files, notices, menus, and missing host parts."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ..graphs.stories import EXPORT, Graph, accepted, node, reply, story, verdict
from ..graphs.template_names import template_path
from ..server.comfy_server import ROOT, ComfyServer
from .page import (
    FINISHED,
    LAID_OUT,
    NODE,
    PLANNED,
    READY,
    SET_LANGUAGE,
    SET_TEXT,
    close_up,
    opened,
    opened_graph,
    ran,
)  # fmt: skip

# Languages

OUTSIDE = """() => [...document.querySelectorAll('.it-live button, .it-live .it-badge, .itp-plan button')]
  .filter(one => one.offsetParent && one.scrollWidth > one.clientWidth + 1).map(one => one.textContent)"""
TITLE = f"() => {NODE.format('InterleaveEditPlan')}.title"
NAMED = {"de": "en", "ko": "ko", "pt-BR": "pt-BR", "zh-tw": "zh-TW", "zh-HK": "zh"}
"""The language that newer front ends take for the value of the setting."""


def button(page: Any, name: str) -> Any:
    return page.get_by_role("button", name=name, exact=True)


def test_a_story_is_generated_in_french(french: Any) -> None:
    page = french
    replies = [verdict(False, "a red house with a door", 0.25), verdict(True, "", 0.9)]
    replies += [verdict(False, "a tree", 0.1)] * 4
    opened_graph(page, story("in french", ["a house", "a tree"], critic=replies, max_attempts=2))
    page.get_by_text("Les étapes apparaissent ici").wait_for()
    ran(page, FINISHED)
    page.get_by_text("2 étapes · 4 images générées · 1 images sur 2 acceptées").first.wait_for()
    cards = page.locator(".it-card-state").all_text_contents()
    assert cards[0] == "Accepté à l'essai 2" and cards[1].startswith("Jamais accepté : 2 essais"), cards
    page.locator(".it-card-head").first.click()
    words = page.locator(".it-attempt-word").all_text_contents()
    assert words[0].startswith("refusé · probabilité de réussite 25 % · ") and words[1].startswith(
        "accepté"
    ), words
    page.locator(".it-attempt").nth(0).locator("summary").click()
    page.wait_for_timeout(500)
    assert page.evaluate(OUTSIDE) == []
    page.get_by_text("Utiliser cet essai").first.click()
    page.get_by_text("Votre choix pour l'étape 1 prend effet à la prochaine exécution.").wait_for()


def test_the_language_changes_with_the_setting(french: Any) -> None:
    page = french
    page.evaluate(PLANNED, [json.dumps([reply("a house", "a tree", thought="french")]), "a story in french"])
    ran(page)
    button(page, "Ajouter une étape").click()
    page.get_by_text("L'étape 3 a été ajoutée.").wait_for()
    assert page.evaluate(OUTSIDE) == []
    # A language that the pack does not support is shown in English, like its node texts.
    for language, words in (("en", "Add step"), ("zh", "添加步骤"), ("ar", "Add step")):
        page.evaluate(SET_LANGUAGE, language)
        button(page, words).wait_for()


@pytest.mark.parametrize("locale", NAMED, indirect=True)
def test_labels_and_views_are_in_one_language(locale: str, page: Any) -> None:
    page.wait_for_timeout(1000)
    kept = page.evaluate("() => app.extensionManager.setting.get('Comfy.Locale')") == locale
    language = NAMED[locale]
    if kept and locale not in (language, "de"):
        pytest.skip("this front end knows a language only as it writes it")
    page.evaluate(PLANNED, ["[]", "a story"])
    nodes = json.loads((ROOT / "locales" / language / "nodeDefs.json").read_text(encoding="utf-8"))
    words = ROOT / "web" / "words" / f"{language}.json"
    views = json.loads(words.read_text(encoding="utf-8"))["view"] if words.exists() else {}
    button(page, views.get("Add step", "Add step")).wait_for()
    assert page.evaluate(TITLE) == nodes["InterleaveEditPlan"]["display_name"]
    assert page.evaluate(OUTSIDE) == []


# Texts that are missing, and a plan that is too long: one line, and the page works

EDIT_PLAN = """() => {
  const ours = () => app.graph._nodes.length === 1 && app.graph._nodes[0].type === 'InterleaveEditPlan';
  if (!ours()) { app.graph.clear(); app.graph.add(LiteGraph.createNode('InterleaveEditPlan')) }
  return document.querySelector('.itp-plan') !== null;
}"""


def edit_plan(page: Any) -> None:
    """Have one Edit Plan; again, where the front end opened its first graph only now."""
    page.wait_for_function(EDIT_PLAN, polling=500)
    page.wait_for_timeout(1500)
    page.wait_for_function(EDIT_PLAN, polling=500)


def lines_of(page: Any) -> list[str]:
    """Return the list of the pack's later console lines."""
    said: list[str] = []
    page.on("console", lambda line: said.append(line.text) if "InterleaveThinker:" in line.text else None)
    return said


def test_a_language_is_english_until_its_texts_load(french: Any) -> None:
    page = french
    said = lines_of(page)
    page.route("**/words/fr.json", lambda route: route.fulfill(body='{"view": {"Add step": "Schri'))
    page.reload()
    page.wait_for_function(READY)
    edit_plan(page)
    button(page, "Add step").wait_for()
    assert said and all("cannot load the texts for fr: " in line for line in said), said
    page.unroute("**/words/fr.json")
    page.evaluate("async () => await app.loadGraphData(app.graph.serialize())")
    button(page, "Ajouter une étape").wait_for()
    page.route("**/words/es.json", lambda route: route.abort())
    page.evaluate(SET_LANGUAGE, "es")
    button(page, "Add step").wait_for()


def test_a_plan_that_is_too_large_shows_one_line_and_can_be_fixed(page: Any) -> None:
    edit_plan(page)
    long, deep = "1. a\n   draw: " + "x" * 5_000_000, "[" * 100_000
    for text, line in (
        (long, "The plan is too long for the list"),
        (deep, "The plan cannot be read as JSON"),
    ):
        page.evaluate(SET_TEXT, text)
        page.locator(".itp-fault", has_text=line).wait_for()
        assert page.locator(".itp-step").count() == 0
    page.evaluate(SET_TEXT, "1. House\n   draw: a house")
    page.locator(".itp-step").wait_for()
    assert page.locator(".itp-fault").count() == 0


# Unofficial parts of the front end are missing: the console explains it, and everything else works

WITHOUT_NAMES = """
const hidden = new Set(NAMES);
const real = window.comfyAPI.app.app;
export const app = new Proxy(real, {get: (one, name) => {
  if (hidden.has(name)) return undefined;
  const value = one[name];
  return typeof value === 'function' ? value.bind(one) : value;
}});
"""
WITHOUT_MODE = """
let shown;
Object.defineProperty(window, 'LiteGraph', {configurable: true, get: () => shown, set: real => {
  shown = new Proxy(real, {get: (one, name) => name === 'vueNodesMode' ? undefined : one[name]});
}});
"""
WITHOUT_DRAWING = (
    "() => delete LiteGraph.registered_node_types.InterleaveCriticLoop.prototype.onDrawBackground"
)
LINES = (
    "a setting for the language", "vueNodesMode", "processMouseWheel", "onDrawBackground",
    "registerSidebarTab",
)  # fmt: skip


def reloaded_without(page: Any, *names: str) -> list[str]:
    """Reload the page with these parts missing in `app`. Return the list of later console lines."""
    said = lines_of(page)
    body = WITHOUT_NAMES.replace("NAMES", json.dumps(names))
    script = {"body": body, "content_type": "application/javascript"}
    page.route("**/scripts/app.js", lambda route: route.fulfill(**script))
    page.reload()
    page.wait_for_function(READY)
    return said


@pytest.mark.parametrize("name", ["ui", "extensionManager"])
def test_both_settings_apis_give_the_language(french: Any, name: str) -> None:
    said = reloaded_without(french, name)
    opened_graph(french, story("host parts", ["a"]))
    french.get_by_text("Les étapes apparaissent ici").first.wait_for()
    assert [one for one in said if "registerSidebarTab" not in one] == []


def test_without_the_host_parts_a_story_runs_in_english(french: Any) -> None:
    page = french
    page.add_init_script(WITHOUT_MODE)
    said = reloaded_without(page, "ui", "extensionManager", "canvas", "rootGraph")
    page.evaluate(WITHOUT_DRAWING)
    opened_graph(page, story("host parts", ["a", "b"], critic=accepted(2)))
    ran(page, FINISHED)
    assert page.locator(".it-card").count() == 2
    assert [sum(line in one for one in said) for line in LINES] == [1] * len(LINES), said
    assert len(said) == len(LINES)


# Files: the button on Export, a dropped story, and the notice about a plan

PICTURES = {
    "GIF": ("image/gif", ".gif"),
    "WebP": ("image/webp", ".webp"),
    "contact sheet (PNG)": ("image/png", ".png"),
}
PAGE, VIDEO = "page (HTML)", "video (MP4)"
EXPORTS = """() => app.graph._nodes.filter(node => node.type === 'InterleaveExport').map(node => {
  const button = node.widgets.find(widget => widget.name === 'interleave_open');
  const [left, top] = node.pos;
  const [x, y] = app.canvas.ds.convertOffsetToCanvas([left + 120, top + (button?.last_y ?? 0) + 8]);
  const format = node.widgets.find(widget => widget.name === 'format').value;
  return [format, button && {label: button.label, address: button.address, x, y}];
})"""
DROP = """async ([address, name, type]) => {
  app.graph.clear();
  const content = await (await fetch(address)).blob();
  const data = new DataTransfer();
  data.items.add(new File([content], name, {type}));
  const options = {bubbles: true, cancelable: true, dataTransfer: data, clientX: 700, clientY: 500};
  const canvas = document.querySelector('#graph-canvas') ?? document.querySelector('canvas');
  for (const kind of ['dragenter', 'dragover', 'drop']) canvas.dispatchEvent(new DragEvent(kind, options));
}"""
SHOWN = """() => {
  const nodes = app.graph._nodes.filter(node => node.type === 'InterleaveExport');
  const drawn = node => document.querySelector(`[data-node-id="${node.id}"]`) ?? {querySelectorAll: () => []};
  const loaded = node => [...(node.imgs ?? []), ...drawn(node).querySelectorAll('img')]
    .some(image => image.naturalWidth > 64);
  return nodes.filter(loaded).map(node => node.widgets.find(widget => widget.name === 'format').value);
}"""
PLAYS = """() => [...document.querySelectorAll('video')]
  .some(one => one.currentSrc.includes('.mp4') && one.videoWidth > 64)"""
HAS_STORY = "() => app.graph._nodes.filter(node => node.type === 'InterleaveExport').length === 5"


@pytest.fixture
def exported(canvas: tuple[Any, str]) -> tuple[Any, str, dict[str, Any]]:
    """A page with a story that was exported in five formats, and the buttons of the nodes."""
    page, how = canvas
    graph: Graph = story(f"Exports {how}", ["a house", "a tree"])
    for name in ("report", "board", "out"):
        del graph[name]
    places = []
    for number, format in enumerate([*PICTURES, PAGE, VIDEO]):
        values = EXPORT | {
            "format": format,
            "filename_prefix": "shown/%date:yyyy%-%InterleaveCriticLoop.seed%/story",
        }
        graph[f"export{number}"] = node("InterleaveExport", trajectory=["loop", 2], **values)
        left, top = (number * 380, 0) if number < 4 else (0, 600)
        places.append(["InterleaveExport", format, left, top, 350, 320])
    page.evaluate(LAID_OUT, [graph, places, 0.75, 200, 200])
    ran(page)
    return page, how, dict(page.evaluate(EXPORTS))


def test_a_button_opens_the_export(exported: tuple[Any, str, dict[str, Any]]) -> None:
    page, kind, buttons = exported
    labels = {format: one["label"] for format, one in buttons.items()}
    assert labels == {**dict.fromkeys(PICTURES, "Open"), PAGE: "Download", VIDEO: "Open"}
    page.wait_for_function(f"() => ({SHOWN})().length === {len(PICTURES)}")
    assert page.evaluate(SHOWN) == [*PICTURES]
    page.wait_for_function(PLAYS)
    nodes = page.locator(".lg-node").filter(has_text=re.compile("filename[_ ]prefix"))
    for number, (format, (media_type, _)) in enumerate(PICTURES.items()):
        place = buttons[format]
        with page.context.expect_page() as opening:
            if kind == "canvas":
                page.mouse.click(place["x"], place["y"])
            else:
                button(nodes.nth(number), "Open").click()
        opened = opening.value
        opened.wait_for_load_state()
        assert opened.url.endswith(place["address"].removeprefix("/api")) or place["address"] in opened.url
        assert opened.evaluate("() => document.contentType") == media_type
        opened.close()
    kinds = {}
    for format in (VIDEO, PAGE):
        address = page.evaluate("one => new URL(one, location).href", buttons[format]["address"])
        kinds[format] = page.request.get(address).headers["content-type"]
    # A page from elsewhere never runs as one of the host's own.
    assert kinds[VIDEO] == "video/mp4" and "text/html" not in kinds[PAGE]
    saved = page.evaluate("() => JSON.stringify(app.graph.serialize())")
    assert "interleave_open" not in saved, "the button is saved"


def test_a_dropped_file_opens_its_graph(exported: tuple[Any, str, dict[str, Any]]) -> None:
    page, _, buttons = exported
    for format, (media_type, ending) in PICTURES.items():
        page.evaluate(DROP, [buttons[format]["address"], f"story{ending}", media_type])
        page.wait_for_function(HAS_STORY, timeout=20_000)
        prompts = page.evaluate("() => JSON.stringify(app.graph.serialize())")
        assert "a house" in prompts and "InterleaveCriticLoop" in prompts, format


def test_a_plan_of_another_length_shows_one_notice(page: Any) -> None:
    replies = [reply("a", "b", thought="a notice"), reply("a", thought="a notice")]
    page.evaluate(PLANNED, [json.dumps(replies), "told in a notice"])
    planner = NODE.format("InterleavePlanner")
    page.evaluate(f"() => {{ {planner}.widgets.find(one => one.name === 'step_count').value = 3 }}")
    ran(page)
    # The node's own line, where it stays, begins otherwise.
    notice = page.get_by_text(re.compile("^3 steps were requested, but the planner wrote 2 and then 1"))
    notice.wait_for()
    notice.locator("xpath=ancestor::*[.//button][1]").get_by_role("button").first.click()
    notice.wait_for(state="detached")
    ran(page, settle_ms=1500)
    assert notice.count() == 0, "a cached result shows it again"


# A missing agent before a run

AGENT, TEMPLATE = "Qwen3-VL-4B-Instruct", "flux2_klein_4b_story"
LOADER = NODE.format("InterleaveLoadAgent")
CHOOSE = f"""([name, value]) => {{
  const widget = {LOADER}.widgets.find(one => one.name === name);
  widget.value = value;
  widget.callback?.(value, app.canvas, {LOADER});
}}"""
TOUCHES = f"""() => {{
  const box = {LOADER}.boundingRect;
  return app.graph._nodes.filter(one => one.title !== {LOADER}.title).filter(one => {{
    const other = one.boundingRect;
    return box[0] < other[0] + other[2] && other[0] < box[0] + box[2] && box[1] < other[1] + other[3]
      && other[1] < box[1] + box[3];
  }}).map(one => one.title);
}}"""


@pytest.fixture
def agent(host: ComfyServer) -> Iterator[Path]:
    """The folder of the templates' agent, which is missing; other tests put a link in its place."""
    folder = host.base / "models" / "interleave_agents" / AGENT

    def remove() -> None:
        if folder.is_symlink():
            folder.unlink()
        shutil.rmtree(folder, ignore_errors=True)

    remove()
    yield folder
    remove()


def install(agent: Path) -> None:
    """Put a folder there that the list of agents accepts."""
    agent.mkdir(parents=True)
    config = {"architectures": ["Qwen3VLForConditionalGeneration"], "model_type": "qwen3_vl"}
    (agent / "config.json").write_text(json.dumps(config), encoding="utf-8")


def test_a_missing_agent_is_explained_until_it_is_there(canvas: tuple[Any, str], agent: Path) -> None:
    page, how = canvas
    opened(page, TEMPLATE)
    notice = page.locator(".it-missing")
    notice.wait_for()
    said = f"{AGENT} is missing. Put its folder into models/interleave_agents and press R."
    assert said in notice.inner_text()
    command = f"hf download Qwen/{AGENT} --local-dir {shlex.quote(str(agent))}"
    assert notice.locator("code").inner_text() == command
    graph = json.loads(template_path(TEMPLATE).read_text(encoding="utf-8"))
    (saved,) = [node["widgets_values"] for node in graph["nodes"] if node["type"] == "InterleaveLoadAgent"]
    values = page.evaluate(f"() => {LOADER}.serialize().widgets_values")
    assert values[: len(saved)] == saved and values[len(saved) :] in ([], ["from the agent"])
    if how == "canvas":
        assert page.evaluate(TOUCHES) == [], "the template has room for the notice"
    close_up(page, "InterleaveLoadAgent")
    page.wait_for_timeout(800)

    def choose(name: str, value: Any, state: str) -> None:
        page.evaluate(CHOOSE, [name, value])
        notice.wait_for(state=state)

    choose("agent", "tiny world planner", "detached")
    choose("agent", AGENT, "visible")
    page.evaluate(CHOOSE, ["hub_id", f"Qwen/{AGENT}"])
    choose("download", True, "detached")
    page.evaluate(CHOOSE, ["download", False])
    choose("hub_id", "", "visible")
    install(agent)
    page.evaluate("async () => await app.refreshComboInNodes()")
    notice.wait_for(state="detached")
    assert page.faults == []


def test_an_installed_agent_has_no_notice(page: Any, agent: Path) -> None:
    install(agent)
    opened(page, TEMPLATE)
    page.wait_for_timeout(1000)
    assert page.locator(".it-missing").count() == 0 and page.faults == []


@pytest.mark.parametrize(
    ("locale", "line", "title", "help"),
    [
        ("en", f"{AGENT} is missing.", "# Load Agent", "Help"),
        ("zh", f"缺少 {AGENT}。", "# 加载智能体", "帮助"),
    ],
    indirect=["locale"],
)
def test_a_button_opens_help(locale: str, page: Any, agent: Path, line: str, title: str, help: str) -> None:
    opened(page, TEMPLATE)
    notice = page.locator(".it-missing")
    notice.wait_for()
    assert line in notice.inner_text()
    close_up(page, "InterleaveLoadAgent")
    page.wait_for_timeout(500)
    with page.expect_popup() as popup:
        notice.get_by_text(help).click()
    popup.value.wait_for_load_state()
    shown = popup.value.inner_text("body")
    assert shown.startswith(title) and "models/interleave_agents" in shown


# The Step Generator's menu of recommended settings

ADD = """() => {
  app.graph.clear();
  const node = LiteGraph.createNode('InterleaveStepGenerator');
  node.pos = [400, 200];
  app.canvas.ds.scale = 1;
  app.canvas.ds.offset[0] = 100;
  app.canvas.ds.offset[1] = 100;
  app.graph.add(node);
  app.canvas.setDirty(true, true);
}"""
VALUES = """() => Object.fromEntries(app.graph._nodes[0].widgets.map(one => [one.name, one.value]))"""
KEPT = "() => app.graph.serialize().nodes[0].widgets_values"


def test_recommended_settings_are_taken_from_the_menu(canvas: tuple[Any, str]) -> None:
    page, _ = canvas
    page.evaluate(ADD)
    page.wait_for_timeout(500)
    before, kept = page.evaluate(VALUES), page.evaluate(KEPT)
    assert (before["steps"], before["scheduler"], before["edit"]) == (4, "flux2", "auto")
    # The title bar of the node.
    page.mouse.click(600, 290, button="right")
    page.get_by_text("Recommended settings…").first.click()
    page.get_by_text("FLUX.2 klein, dev: klein, base").wait_for()
    page.get_by_placeholder("Search models").fill("sdxl")
    (row,) = [one for one in page.locator(".it-setting").all() if one.is_visible()]
    assert "25 steps · cfg 7 · dpmpp_2m · karras · image to image" in row.inner_text()
    row.click()
    page.wait_for_timeout(300)
    taken = {"steps": 25, "cfg": 7, "sampler": "dpmpp_2m", "scheduler": "karras", "edit": "image to image"}
    assert page.evaluate(VALUES) == before | taken
    assert len(page.evaluate(KEPT)) == len(kept), "nothing more is saved"
    assert page.faults == []
