"""What a node shows at first sight, on the canvas and in Nodes 2.0, and how its other widgets are folded."""

from __future__ import annotations

from typing import Any

from .page import clean

ALONE = """async ([type, values, former]) => {
  const node = LiteGraph.createNode(type);
  for (const widget of node.widgets) if (widget.name in values) widget.value = values[widget.name];
  // Front ends keep the values of a node's widgets by the ids of graph and node.
  const saved = {...node.serialize(), id: 1, pos: [500, 150]};
  if (former) saved.widgets_values = former;
  delete saved.widgets_values_named;
  await app.loadGraphData({id: crypto.randomUUID(), version: 0.4, last_node_id: 1, last_link_id: 0,
    nodes: [saved], links: [], groups: [], config: {}, extra: {}});
}"""
NODE = "const [node] = app.graph._nodes"
SHOWN = f"""() => {{ {NODE}; return node.widgets
  .filter(one => node.isWidgetVisible(one) && !one.name.startsWith('interleave_')).map(one => one.name) }}"""
ROWS = """() => [...document.querySelectorAll('.lg-node-widget')]
  .filter(one => one.getBoundingClientRect().height > 0 && !one.querySelector('.it-live')).length"""
TOGGLE = f"() => {{ {NODE}; node.widgets.find(one => one.name === 'interleave_more').callback() }}"
SAVED = f"() => {{ {NODE}; return [node.serialize().widgets_values, node.size[1]] }}"
NAMED = f"() => {{ {NODE}; return Object.fromEntries(node.widgets.map(one => [one.name, one.value])) }}"
LOOP = ["max_attempts", "source", "strictness", "pause"]
FIRST_SIGHT: list[tuple[str, dict[str, Any], list[str]]] = [
    ("LoadAgent", {}, ["agent", "precision"]),
    ("LoadAgent", {"strictness": "strict", "top_k": 5}, ["agent", "precision", "strictness", "top_k"]),
    ("RemoteAgent", {}, ["base_url", "model"]),
    ("HostAgent", {}, []),
    ("Planner", {}, ["request", "step_count", "style"]),
    ("StepGenerator", {}, ["width", "height"]),
    ("CriticLoop", {}, LOOP),
    ("CriticLoop", {"seed": 7, "accept_at": 0.9}, LOOP),
    ("CriticLoop", {"strictness": "custom"}, [LOOP[0], "accept_at", *LOOP[1:]]),
    ("TryClose", {}, ["max_attempts", "strictness"]),
    ("Export", {}, ["format", "title"]),
    ("Storyboard", {}, ["show"]),
]


def test_a_node_shows_what_is_changed_often_and_folds_the_rest(canvas: tuple[Any, str]) -> None:
    page, way = canvas
    for kind, values, shown in FIRST_SIGHT:
        page.evaluate(ALONE, [f"Interleave{kind}", values, None])
        if way == "vue":
            page.wait_for_function(f"count => ({ROWS})() === count", arg=len(shown))
            continue
        assert page.evaluate(SHOWN) == shown, (kind, values)
        before, height = page.evaluate(SAVED)
        page.evaluate(TOGGLE)
        after, unfolded = page.evaluate(SAVED)
        assert after == before and unfolded > height and len(page.evaluate(SHOWN)) > len(shown), kind
        page.evaluate(TOGGLE)
        assert page.evaluate(SAVED)[1] == height, kind
    assert clean(page)


def test_a_loop_of_an_older_workflow_means_the_same(page: Any) -> None:
    for former, today in (
        ([3, 0.7, "last", "first", "stop", 5, "fixed"], {"strictness": "custom", "on_failure": "stop"}),
        ([3, 0, "best", "first", "stop", 5, "fixed"], {"keep": "stop", "on_failure": "keep", "seed": 5}),
        ([3, 0, "best", "first", "keep", 5, "fixed", "every try"], {"seed_rule": "every attempt"}),
    ):
        page.evaluate(ALONE, ["InterleaveCriticLoop", {}, former])
        assert today.items() <= page.evaluate(NAMED).items()
