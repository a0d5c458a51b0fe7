"""Tokens in file names: replaced like those of ComfyUI's own save nodes, and never a way out of a folder."""

from __future__ import annotations

from datetime import datetime

import pytest

from interleave_thinker.nodes.inputs.name_tokens import named_nodes, with_tokens

NOW = datetime(2026, 3, 7, 9, 5, 8)
PROMPT = {
    "3": {"class_type": "KSampler", "inputs": {"seed": 42, "cfg": 2.0, "model": ["1", 0]}},
    "7": {
        "class_type": "InterleavePlanner",
        "inputs": {"request": "a/b: ..\\c?"},
        "_meta": {"title": "Plan"},
    },
}
WORKFLOW = {"nodes": [{"id": 3, "title": "Mine", "properties": {"Node name for S&R": "Sampler one"}}]}


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("%date:yyyy-MM-dd%/story", "2026-03-07/story"),
        ("%date:yy.M.d-hhmmss%", "26.3.7-090508"),
        ("%date:hh:mm%", "09_05"),
        ("%date:yyyy/MM%/x", "2026/03/x"),
        ("%Sampler one.seed%", "42"),
        ("%Mine.cfg%", "2"),
        ("%Plan.request%", "a_b_ .._c_"),
        ("%InterleavePlanner.request%", "a_b_ .._c_"),
        ("%Mine.model%", "%Mine.model%"),
        ("%Nobody.seed%", "%Nobody.seed%"),
        ("%year%/100%", "%year%/100%"),
        ("%width%", "%width%"),
        ("plain", "plain"),
    ],
)
def test_tokens_are_replaced_as_in_the_front_end(text: str, meant: str) -> None:
    assert with_tokens(text, NOW, named_nodes(PROMPT, WORKFLOW)) == meant


@pytest.mark.parametrize("graph", [None, [], {}, {"nodes": 3}, {"nodes": [None, {"id": None}]}])
def test_a_missing_graph_fills_in_nothing(graph: object) -> None:
    assert with_tokens("%A.b%", NOW, named_nodes(graph if graph != [] else None, graph)) == "%A.b%"
