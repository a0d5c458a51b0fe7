"""An incomplete run, queued again in the real host with each of its caches.

It is never taken from the cache, and only what is missing is generated and judged. A complete run stays
cached.
"""

from __future__ import annotations

from typing import Any

import pytest
from support.host_home import HostHome

from ..graphs.attempt_pairs import CACHES, loop, overflowing, two_attempts
from ..graphs.stories import node, renamed, verdict
from ..server.rigs import answers_of

Answers = dict[str, list[dict[str, Any]]]
REFUSED = [verdict(False, "", 0.2)] * 6
"""Replies for three steps with two judged attempts each."""


def scenarios() -> dict[str, dict[str, Any]]:
    made = {}
    for cache in CACHES:
        memory = loop(f"memory {cache}", failures=2)
        judge = loop(f"judge {cache}", replies=REFUSED, away=1, max_attempts=2, candidates=2, keep="last")
        pair = two_attempts(f"attempts {cache}", away=1)
        made |= {
            f"memory {cache}": {"cache": cache, "prompts": [memory] * 4},
            f"judge {cache}": {"cache": cache, "prompts": [judge] * 3},
            f"attempts {cache}": {"cache": cache, "prompts": [pair] * 3},
        }
    other, moved = loop("another"), loop("moved", failures=2)
    inside = renamed(moved, "loop", before="7:", after="")  # as in a subgraph
    again = loop("in between", failures=2)
    slow = loop("budget", seconds=2.5, time_budget=2.0)
    story = overflowing("", 2, max_attempts=2, plan=["plan", 0])
    story["plan"] = node("InterleaveTestPlan", request="a step overflows", prompts="a house\na tree")
    return made | {
        "in between": {"cache": "lru", "prompts": [again, other, again, other, again]},
        "moved": {"cache": "lru", "prompts": [moved, inside, inside]},
        "budget": {"cache": "classic", "prompts": [slow] * 4},
        "step overflows": {"cache": "classic", "prompts": [story]},
        "overflow": {"cache": "classic", "prompts": [overflowing("overflow", 1)] * 2},
        "all overflow": {"cache": "none", "prompts": [overflowing("all overflow", 2, max_attempts=2)] * 2},
    }


@pytest.fixture(scope="module")
def answers(host_home: HostHome, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    return answers_of(host_home, tmp_path_factory.mktemp("passing"), scenarios())


def ran(answers: Answers, name: str) -> list[list[str]]:
    """Return the nodes and attempts of every prompt of a scenario."""
    assert [answer["error"] for answer in answers[name]] == [""] * len(answers[name])
    return [answer["ran"] for answer in answers[name]]


def made(lines: list[str]) -> list[str]:
    """What was generated and judged."""
    return [line for line in lines if line.startswith(("draw", "paint", "ask"))]


MISSING = {
    "memory": (["draw a house"], ["draw a tree", "draw a tree at night"]),
    "judge": (["draw a house", "draw a tree", "draw a tree at night"] * 2 + ["ask"] * 5, ["ask"]),
    "attempts": (["paint", "paint", "ask"], ["ask"]),
}
"""What runs with full memory, or while the critic's server is away, and what with the next prompt."""


@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("kind", MISSING)
def test_what_is_missing_is_made_by_the_next_prompt(answers: Answers, kind: str, cache: str) -> None:
    first, second, *others = ran(answers, f"{kind} {cache}")
    lines = [line.split()[0] if kind == "attempts" else line for line in made(first)]
    assert sorted(lines) == sorted(MISSING[kind][0]) and made(second) == MISSING[kind][1]
    assert "tint" in second, "nodes that depend on the run execute again"
    for later in others:
        assert made(later) == [] and (cache == "none" or later == []), "a complete run is a cache hit"


def test_the_cache_does_not_return_an_incomplete_result(answers: Answers) -> None:
    first, other, again, *hits = ran(answers, "in between")
    assert made(first) == ["draw a house"] and len(made(other)) == 3
    assert made(again) == ["draw a tree", "draw a tree at night"]
    assert hits == [[], []], "complete runs of a node, one after the other"


def test_a_node_in_a_subgraph_does_not_get_an_incomplete_result(answers: Answers) -> None:
    first, second, third = ran(answers, "moved")
    assert made(first) == ["draw a house"]
    assert made(second) == ["draw a tree", "draw a tree at night"]
    assert third == []


@pytest.mark.parametrize("kind", ["memory", "attempts"])
def test_a_result_in_the_cache_names_its_run(answers: Answers, kind: str) -> None:
    shown = answers[f"{kind} classic"][-1]["outputs"]["loop" if kind == "memory" else "close"]
    assert shown["interleave_runs"][0].startswith(f"{kind}-classic-")


def test_a_non_finite_image_is_a_failed_attempt(answers: Answers) -> None:
    first, second = ran(answers, "overflow")
    assert [line.split()[0] for line in first] == ["load", "paint", "tint", "paint", "tint"]
    assert second == [], "the accepted attempt is a cache hit"
    shown = answers["overflow"][0]["outputs"]
    assert "NaN or infinite" in shown["text"]["text"][0] and shown["accepted"]["text"] == ["True"]
    assert len(shown["attempts"]["images"]) == 1


def test_attempts_without_finite_images_report_it_and_are_repeated(answers: Answers) -> None:
    failed, again = answers["all overflow"]
    assert "No image was generated" in failed["error"] and "--fp32-vae" in failed["error"]
    assert again["error"] == "" and again["outputs"]["accepted"]["text"] == ["True"]


def test_a_story_is_not_accepted_if_a_step_has_no_image(answers: Answers) -> None:
    (shown,) = (answer["outputs"] for answer in answers["step overflows"])
    assert len(shown["out"]["images"]) == 1 and shown["accepted"]["text"] == ["False"]


def test_every_run_within_a_time_budget_resumes(answers: Answers) -> None:
    runs = ran(answers, "budget")
    assert [made(lines) for lines in runs] == [
        ["draw a house"],
        ["draw a tree"],
        ["draw a tree at night"],
        [],
    ]
    assert runs[-1] == []
