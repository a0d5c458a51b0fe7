"""Attempt Start and Attempt End in the real host: how often each node ran, with each of the host's caches.

    nodes that ran: checkpoint, sampler, the node after it     classic   lru     ram     none
    accepted at attempt 1                                      1 1 1     1 1 1   1 1 1   1 1 1
    ... queued again                                           0 0 0     0 0 0   0 0 0   0 0 0
    accepted at attempt 3 of 5                                 1 3 3     1 3 3   1 3 3   1 3 3
    ... queued again                                           0 0 0     0 0 0   0 0 0   0 0 0
    never accepted, 3 attempts                                 1 3 3     1 3 3   1 3 3   1 3 3
    ... queued again                                           0 0 0     0 0 0   0 0 0   0 0 0
    ... 5 attempts instead                                     0 2 2     0 2 2   0 2 2   1 2 2

A preview inside the body changes only --cache-none, where the host runs every preview of a graph, and with it
the first attempt, each time the graph is queued.
"""

from __future__ import annotations

from typing import Any

import pytest
from support.host_home import HostHome

from ..graphs.attempt_pairs import CACHES, count, next_pair, pair, previewed
from ..graphs.stories import Graph, changed, node, storyboard, verdict
from ..server.rigs import answers_of

EXPECTED = {
    "at 1": [(1, 1, 1), (0, 0, 0)],
    "at 3": [(1, 3, 3), (0, 0, 0)],
    "never": [(1, 3, 3), (0, 0, 0), (0, 2, 2)],
}
EXPECTED_WITHOUT_CACHE = {**EXPECTED, "never": [(1, 3, 3), (0, 0, 0), (1, 2, 2)]}
PREVIEWED_WITHOUT_CACHE = {
    "at 1": [(1, 1, 1), (1, 1, 1)],
    "at 3": [(2, 3, 3), (1, 1, 1)],
    "never": [(2, 3, 3), (1, 1, 1), (1, 3, 3)],
}
Answers = dict[str, list[dict[str, Any]]]


def scenarios() -> dict[str, dict[str, Any]]:
    """Every prompt has words of its own, so that no scenario finds the journal of another."""
    made: dict[str, dict[str, Any]] = {}
    for cache in CACHES:
        for preview in ("", " previewed"):
            name, show = f"{cache}{preview}", previewed if preview else dict
            one, three = pair(f"{name} one", 1), pair(f"{name} three", 3)
            few, more = (pair(f"{name} never", None, attempts) for attempts in (3, 5))
            made[f"{name} at 1"] = scenario(cache, *[show(one)] * 2)
            made[f"{name} at 3"] = scenario(cache, *[show(three)] * 2)
            made[f"{name} never"] = scenario(cache, show(few), show(few), show(more))
    twice = pair("changed", replies=[verdict(False, "better"), verdict(True)] * 2)
    waiting, waiting_none = (pair(words, 2, pause="every step") for words in ("paused", "paused none"))
    new = pair("always new", 2)
    new["tint"] = {**new["tint"], "class_type": "InterleaveTestAlwaysNew"}
    three, last = best_of("candidates", 3, 3, candidates=3), pair("keep last", None, 3, keep="last")
    split = node("InterleaveTestSplit", image="@tint")
    return (
        made
        | {
            "after a restart": scenario("classic", pair("classic three", 3)),
            "small lru": scenario("lru", pair("tiny", None, 3), pair("tiny", None, 5)) | {"size": 3},
            "changed": scenario("classic", twice, changed(twice, "tint", strength=0.25)),
            "always new": scenario("classic", new, new),
            "chain": scenario("classic", chain(5), chain(5), chain(4)),
            "chain none": scenario("none", chain(5, "other ")),
            "all steps": scenario("classic", *[all_steps("all")] * 2),
            "all steps none": scenario("none", all_steps("each")),
            "paused": scenario("classic", waiting, waiting),
            "paused none": scenario("none", waiting_none, waiting_none),
            "no critic": scenario("classic", changed(pair("no critic"), "close", critic=None)),
            "last": scenario("classic", last),
            "strict": scenario("classic", pair("strict", 1, accept_at=0.95)),
            "batches": scenario("classic", *[batch_of("batches", 3, 2)] * 2, batch_of("batches", 3, 4)),
            "one batch": scenario("none", *[batch_of("one batch", 4, 1)] * 2),
            "candidates": scenario("classic", three),
            "list": scenario("classic", *[listed("list", 3)] * 2),
            "list previewed": scenario("classic", previewed(listed("list previewed", 2))),
            "list none": scenario("none", listed("list none", 2)),
            "list paused": scenario("classic", listed("list paused", 2, pause="every step")),
            "list of images": scenario(
                "classic", pair("list of images", 1, image="@split") | {"split": split}
            ),
        }
        | {f"wrong {name}": scenario("classic", graph) for name, (graph, _) in WRONG.items()}
    )


def scenario(cache: str, *prompts: Graph) -> dict[str, Any]:
    return {"cache": cache, "prompts": prompts}


PAGE = node("EmptyImage", width=64, height=64, batch_size=1, color=0xFFFFFF)


def of_plan(request: str, **inputs: Any) -> Graph:
    """Return a pair for a plan, whose body edits the source image."""
    prompts = "a house\n# words\nadd a tree"
    plan = node("InterleaveTestPlan", request=request, prompts=prompts, images="@page")
    graph = pair("", plan=["plan", 0], paint={"source": ["open", 3]}, **inputs)
    return graph | {"page": PAGE, "plan": plan}


def chain(last: int, words: str = "") -> Graph:
    """Accept step 1 at attempt 2; step 3 continues from it and is never accepted in `last` attempts."""
    first = of_plan(f"{words}chain", accepted_at=2, step=1)
    second = next_pair(pair("", None, last, paint={"source": ["open", 3]}), step=3)
    return first | second | {"board": storyboard("close2", 5, cell=64)}


def all_steps(words: str) -> Graph:
    """Return one pair for the whole plan: step 1 is accepted at attempt 2, step 3 at attempt 1."""
    replies = [verdict(False, "a large house"), verdict(True), verdict(True)]
    return of_plan(f"{words} steps", replies=replies)


def best_of(words: str, size: int, attempts: int, **inputs: Any) -> Graph:
    """Return a graph that accepts none: of every `size` images, the second is the most probable."""
    replies = [verdict(False, f"better {one}", 0.4 if one % size == 1 else 0.1) for one in range(4 * size)]
    return pair(words, None, attempts, replies, **inputs)


def batch_of(words: str, size: int, attempts: int) -> Graph:
    """Return a graph whose body returns a batch of different images, `attempts` in total."""
    return best_of(words, size, attempts, paint={"batch": size, "vary": True})


def listed(words: str, attempts: int, **inputs: Any) -> Graph:
    """Attempt Start has a list of two prompts: one story is accepted at attempt 2, the other never."""
    replies = [verdict(False, "better 1"), verdict(True)]
    replies += [verdict(False, f"other {number}") for number in range(attempts)]
    graph = pair(["prompts", 0], None, attempts, replies, **inputs)
    return {**graph, "prompts": node("InterleaveTestList", words=f"{words} one\n{words} two")}


BOAT = pair("a boat", 1)


def with_big(graph: Graph, value: int) -> Graph:
    return {**graph, "big": node("PrimitiveInt", value=value)}


WRONG: dict[str, tuple[Graph, str]] = {
    "prompt": (pair("a" * 200_000, 1), "200000 characters"),
    "seed": (with_big(pair("a boat", 1, seed=["big", 0]), 2**60), "0 to 281474976710656"),
    "attempts": (with_big(changed(BOAT, "close", max_attempts=["big", 0]), 0), "max_attempts"),
    "nothing": (pair(" ", 1), "The prompt is empty"),
    "both": (changed(of_plan("x"), "open", prompt="a boat"), "Clear the prompt"),
    "step": (of_plan("x", step=9), "a step 9"),
    "text": (of_plan("x", step=2), "text only"),
    "source": (changed(BOAT, "paint", source=["open", 3]), "no image to edit"),
    "batch": (changed(BOAT, "paint", batch=17), "has 17 images"),
    "same": (changed(BOAT, "paint", prompt="x", seed=1), "every attempt would be the same"),
    "no open": (changed(BOAT, "close", opened=None), "opened"),
    "two closes": ({**BOAT, "close2": BOAT["close"]}, "Two Attempt End"),
    "two opens": (
        changed(BOAT, "paint", seed=["open2", 2]) | {"open2": BOAT["open"]}, "two Attempt Start"
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def ran(host_home: HostHome, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    return answers_of(host_home, tmp_path_factory.mktemp("attempts"), scenarios())


def text(answer: dict[str, Any], name: str) -> str:
    return answer["outputs"][name]["text"][0]


@pytest.mark.parametrize("case", EXPECTED)
@pytest.mark.parametrize("cache", CACHES)
def test_only_new_attempts_run(ran: Answers, cache: str, case: str) -> None:
    without = cache == "none"
    answers, previewed = ran[f"{cache} {case}"], ran[f"{cache} previewed {case}"]
    assert [answer["error"] for answer in answers] == [""] * len(answers)
    assert [count(answer) for answer in answers] == (EXPECTED_WITHOUT_CACHE if without else EXPECTED)[case]
    expected = (PREVIEWED_WITHOUT_CACHE if without else EXPECTED)[case]
    assert [count(answer) for answer in previewed] == expected
    assert previewed[0]["shown_at"].count("preview") == {"at 1": 1, "at 3": 3, "never": 3}[case]


def test_results_are_the_same_with_every_cache_and_queued_again(ran: Answers) -> None:
    for cache in CACHES:
        for name in (cache, f"{cache} previewed"):
            for answer in ran[f"{name} at 3"]:
                assert text(answer, "final") == "better 2"
                assert text(answer, "accepted") == "True"
                assert "Accepted at attempt 3" in text(answer, "text")
                assert len(answer["outputs"]["out"]["images"]) == 1
                assert len(answer["outputs"]["attempts"]["images"]) == 3
            raised = ran[f"{name} never"][2]
            assert text(raised, "accepted") == "False"
            assert "5 attempts used up" in text(raised, "text")
            assert len(raised["outputs"]["attempts"]["images"]) == 5


def test_every_attempt_has_its_own_prompt_and_seed(ran: Answers) -> None:
    lines = [line.split() for line in ran["classic never"][0]["ran"] if line.startswith("paint")]
    assert [" ".join(line[1:-1]) for line in lines] == ["classic never", "better 1", "better 2"]
    assert len({line[-1] for line in lines}) == 3


def test_images_in_the_output_folder_are_not_generated_again(ran: Answers) -> None:
    assert count(ran["after a restart"][0]) == (0, 0, 0)
    assert text(ran["after a restart"][0], "final") == "better 2"
    assert [count(answer)[1] for answer in ran["small lru"]] == [3, 2]


def test_a_changed_body_generates_again(ran: Answers) -> None:
    assert [count(answer)[1:] for answer in ran["changed"]] == [(2, 2), (1, 2)]


def test_a_body_that_always_changes_is_never_taken_from_the_folder(ran: Answers) -> None:
    assert [count(answer)[2] for answer in ran["always new"]] == [2, 2]


def test_chained_pairs_make_one_story(ran: Answers) -> None:
    first, again, fewer = ran["chain"]
    assert [answer["error"] for answer in (first, again, fewer)] == [""] * 3
    assert count(first) == (1, 7, 7)  # two checkpoints with one signature: the second is the first's, cached
    assert count(again) == (0, 0, 0)
    assert count(fewer)[1:] == (0, 0)
    words = text(first, "text2")
    assert "1. Step 1: Accepted at attempt 2" in words and "3. Step 3: Never accepted: 5 attempts" in words
    assert "board" in first["outputs"]
    assert count(ran["chain none"][0]) == (2, 7, 7)


def test_one_pair_generates_all_steps_of_a_plan(ran: Answers) -> None:
    first, again = ran["all steps"]
    assert first["error"] == "" and count(first) == (1, 3, 3) and count(again) == (0, 0, 0)
    assert len(first["outputs"]["out"]["images"]) == 2
    assert len(first["outputs"]["attempts"]["images"]) == 3
    assert text(first, "final") == "add a tree" and text(first, "accepted") == "True"
    assert "2. " in text(first, "text") and "Text only" in text(first, "text")
    assert count(ran["all steps none"][0]) == (1, 3, 3)


def test_the_critic_keeps_the_best_image_of_a_batch(ran: Answers) -> None:
    first, again, more = ran["batches"]
    assert [answer["error"] for answer in (first, again, more)] == [""] * 3
    assert [count(answer)[1] for answer in (first, again, more)] == [2, 0, 2], "a batch is one run"
    assert len(first["outputs"]["attempts"]["images"]) == 6
    assert "Never accepted: 6 attempts used up, attempt 5 kept" in text(first, "text")
    assert text(first, "final") == "better 1", "the best candidate's prompt is used next"
    assert len(more["outputs"]["attempts"]["images"]) == 12
    judged, again = ran["one batch"]
    assert "attempt 2 kept" in text(judged, "text") and "40% likely right" in text(judged, "text")
    assert count(again)[1] == 0 and text(again, "text") == text(judged, "text")


def test_candidates_are_generated_one_by_one_and_the_best_kept(ran: Answers) -> None:
    (answer,) = ran["candidates"]
    lines = [line.split() for line in answer["ran"] if line.startswith("paint")]
    assert len({line[-1] for line in lines}) == 3 and {line[1] for line in lines} == {"candidates"}
    assert "3 attempts used up, attempt 2 kept" in text(answer, "text")


@pytest.mark.parametrize(("name", "attempts"), [("list", 3), ("list previewed", 2), ("list none", 2)])
def test_a_list_gives_one_story_per_item(ran: Answers, name: str, attempts: int) -> None:
    first, *again = ran[name]
    assert first["error"] == "" and count(first) == (1, 2 + attempts, 2 + attempts)
    accepted, never = first["outputs"]["text"]["text"]
    assert "Accepted at attempt 2" in accepted and f"{attempts} attempts used up" in never
    assert first["outputs"]["accepted"]["text"] == ["True", "False"]
    assert len(first["outputs"]["out"]["images"]) == 2
    assert len(first["outputs"]["attempts"]["images"]) == 2 + attempts
    assert first["outputs"]["final"]["text"][0] == "better 1"
    if name != "list previewed":
        painted = [line.split(" ", 1)[1] for line in first["ran"] if line.startswith("paint")]
        assert [line.rpartition(" ")[0] for line in painted][:3] == [f"{name} one", "better 1", f"{name} two"]
    assert [count(answer) for answer in again] == [(0, 0, 0)] * len(again)


def test_a_list_of_images_for_one_attempt_is_rejected(ran: Answers) -> None:
    assert "a list of 2 batches instead of one" in ran["list of images"][0]["error"]


@pytest.mark.parametrize("name", ["paused", "paused none"])
def test_a_pause_runs_nothing_behind_it(ran: Answers, name: str) -> None:
    first, again = ran[name]
    assert [answer["error"] for answer in (first, again)] == ["", ""]
    assert count(first) == (1, 2, 2) and count(again) == (0, 0, 0)
    assert not {"out", "attempts", "text", "final"} & (first["outputs"].keys() | again["outputs"].keys())


def test_the_stories_of_a_list_wait_for_the_one_that_pauses(ran: Answers) -> None:
    (answer,) = ran["list paused"]
    assert answer["error"] == "" and count(answer) == (1, 2, 2) and "out" not in answer["outputs"]


def test_without_a_critic_one_image_is_generated(ran: Answers) -> None:
    assert count(ran["no critic"][0]) == (1, 1, 1)
    assert text(ran["no critic"][0], "accepted") == "False"


def test_keep_and_strictness_are_those_of_the_loop(ran: Answers) -> None:
    assert "attempt 3 kept" in text(ran["last"][0], "text")
    assert count(ran["strict"][0]) == (1, 5, 5)
    assert "Never accepted" in text(ran["strict"][0], "text")


@pytest.mark.parametrize("name", WRONG)
def test_impossible_graphs_raise_without_generating(ran: Answers, name: str) -> None:
    (answer,) = ran[f"wrong {name}"]
    assert WRONG[name][1] in answer["error"]
    assert count(answer)[1] <= (1 if name == "batch" else 0)
