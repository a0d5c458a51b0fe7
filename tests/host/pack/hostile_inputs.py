"""Hostile workflows, plans, folders and agents as graphs for the real host.

Widgets come from the host's description of every node, so a new widget is tested without a change here. Each graph is
valid except for a single value, which causes the error.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..graphs.attempt_pairs import pair
from ..graphs.klein import Graph, node, story
from ..graphs.replies import verdict

MARK = "hostile-escape"
"""Part of every name that would be written outside: a file with it anywhere else is an escape."""
LONG = "x" * 1_000_000
NAN, INFINITE = float("nan"), float("inf")
HALF = "\ud800"

INTS: tuple[Any, ...] = ("word", 10**30, -(10**30), NAN, INFINITE, None, [1, 2, 3], {"a": 1}, 1.5)
FLOATS: tuple[Any, ...] = ("word", 1e308, -1e308, NAN, INFINITE, -INFINITE, None, [0.5], {"a": 1})
BOOLEANS: tuple[Any, ...] = ("perhaps", None, NAN, [True, False, True], 10**30)
CHOICES: tuple[Any, ...] = (
    "no such choice",
    "",
    None,
    5,
    LONG,
    f"../../{MARK}",
    ["a", "b", "c"],
    {"a": 1},
    HALF,
)
TEXTS: tuple[Any, ...] = (
    None,
    5,
    NAN,
    LONG,
    "\x00\x07\x1b[31m\r\n\x7f\u202e",
    HALF,
    ["a"],
    {"__value__": ["a", "b"]},
)
NAMES: tuple[Any, ...] = (
    *TEXTS, "", " ", ".", "..", f"../../{MARK}", f"/tmp/{MARK}", f"C:\\{MARK}", f"\\\\server\\share\\{MARK}", f"~/{MARK}",
    f"a/../../../{MARK}", f"%2e%2e/{MARK}", f"file:///tmp/{MARK}", "CON", "$(touch x)", "{{7*7}}", "%year%/../..", "-rf",
)  # fmt: skip
NAME_LIKE = frozenset(
    {
        "filename_prefix",
        "hub_id",
        "base_url",
        "model",
        "key_variable",
        "pipeline",
        "url",
        "story",
        "agent",
        "adapter",
    }
)
LINKED: dict[str, tuple[tuple[str, Any], ...]] = {
    # On a wire the host does not look at a number's bounds, nor at a text at all.
    "INT": (("PrimitiveInt", 2**62), ("PrimitiveInt", -(2**62))),
    "FLOAT": (("PrimitiveFloat", NAN), ("PrimitiveFloat", 1e300), ("PrimitiveFloat", -1.0)),
    "STRING": (("PrimitiveString", f"../../{MARK}"), ("PrimitiveString", LONG[:300_000])),
}
LEFT_OUT = frozenset({("InterleaveRemoteAgent", "timeout"), ("InterleaveLoadAgent", "download")})
"""Without a request to a server there is nothing that they could break."""


@dataclass(frozen=True)
class Hostile:
    """One hostile graph, named after its fault."""

    kind: str
    name: str
    graph: Graph


def widgets(info: dict[str, Any], story_name: str, service: str) -> Iterator[Hostile]:
    """Yield every widget of every node of `info` (/object_info) with values of a wrong type, size or meaning."""
    turns: dict[str, itertools.cycle[Any]] = {
        kind: itertools.cycle(values)
        for kind, values in (("INT", INTS), ("FLOAT", FLOATS), ("BOOLEAN", BOOLEANS), ("COMBO", CHOICES), ("STRING", TEXTS))
    }  # fmt: skip
    for class_type, (graph, key) in whole_graphs(story_name, service).items():
        inputs = info[class_type]["input"]
        for name, (kind, options) in {**inputs.get("required", {}), **inputs.get("optional", {})}.items():
            if kind not in turns or (class_type, name) in LEFT_OUT:
                continue
            if name in NAME_LIKE:
                values = list(NAMES)
            else:
                values = [next(turns[kind]) for _ in range(3 if kind in ("INT", "FLOAT") else 2)]
            for value in values:
                label = f"{class_type}.{name} = {value!r:.40}"
                yield Hostile("widget", label, with_value(graph, key, name, value))
            if options.get("socketless") or (kind == "STRING" and name in ("base_url", "url", "model")):
                continue
            for source, value in LINKED.get(kind, ()):
                label = f"{class_type}.{name} <- {value!r:.40}"
                linked = with_value(graph, key, name, ["wire", 0]) | {"wire": node(source, value=value)}
                yield Hostile("wire", label, linked)


def with_value(graph: Graph, key: str, name: str, value: Any) -> Graph:
    """The graph with one widget set."""
    return {**graph, key: {**graph[key], "inputs": {**graph[key]["inputs"], name: value}}}


def whole_graphs(story_name: str, service: str) -> dict[str, tuple[Graph, str]]:
    """Return for every node with widgets a graph that runs, and the key of the node in it."""
    drawn = story("hostile", ["a"], (16, 16), steps=1)
    by_service = {name: drawn[name] for name in ("plan", "loop", "report")} | {
        "generator": node(
            "InterleaveServiceGenerator", url=service, width=16, height=16, steps=1, guidance=-1.0
        )
    }
    by_pipeline = by_service | {
        "generator": node(
            "InterleaveDiffusersGenerator",
            pipeline="", download=False, width=16, height=16, steps=1, guidance=-1.0,
        )
    }  # fmt: skip
    tried = pair("hostile", 1, 1)
    judged = judging(agent(json.dumps([verdict(True)])))
    loaded = {"load": node("InterleaveLoadTrajectory", story=story_name)}
    moving = loaded | {
        "list": node("InterleaveClipList", trajectory="@load", family="LTX", seconds=0.5, only_missing=False),
        "frames": node("ImageBatch", image1=["list", 1], image2=["list", 2]),
        "add": node("InterleaveAddClips", trajectory="@list", fps=["list", 7], frames="@frames"),
        "out": node("PreviewAny", source=["add", 1]),
    }
    return {
        # Without an instruction the Judge ends right after opening the agent, before any request.
        "InterleaveLoadAgent": (judging(node("InterleaveLoadAgent", agent="tiny world critic"), ""), "agent"),
        "InterleaveRemoteAgent": (
            judging(node("InterleaveRemoteAgent", base_url="http://127.0.0.1:9/v1", model="m", key_variable=""), ""),
            "agent",
        ),
        "InterleavePlanner": (planning(agent(json.dumps([PLAN] * 2))), "planner"),
        "InterleaveEditPlan": (by_hand("1. a"), "edit"),
        "InterleaveCast": (with_cast(by_hand("1. a")), "cast"),
        "InterleaveStepGenerator": (drawn, "generator"),
        "InterleaveDiffusersGenerator": (by_pipeline, "generator"),
        "InterleaveServiceGenerator": (by_service, "generator"),
        "InterleaveCriticLoop": (by_service, "loop"),
        "InterleaveTryOpen": (tried, "open"),
        "InterleaveTryClose": (tried, "close"),
        "InterleaveJudge": (judged, "judge"),
        "InterleaveSaveTrajectory": (
            loaded | {"out": node("InterleaveSaveTrajectory", trajectory="@load", filename_prefix="hostile/kept")},
            "out",
        ),
        "InterleaveLoadTrajectory": (shown(story_name), "load"),
        "InterleaveStoryboard": (shown(story_name), "out"),
        "InterleaveExport": (
            loaded
            | {
                "out": node(
                    "InterleaveExport",
                    trajectory="@load", format="GIF", filename_prefix="hostile/story", seconds=1.0, attempts=False,
                )
            },
            "out",
        ),
        "InterleaveClipList": (moving, "list"),
        "InterleaveAddClips": (moving, "add"),
        "InterleaveFeedback": (
            loaded
            | {
                "out": node(
                    "InterleaveFeedback",
                    trajectory="@load", step=1, attempt=0, word="better prompt", better_prompt="b", reason="",
                )
            },
            "out",
        ),
    }  # fmt: skip


def agent(replies: str) -> dict[str, Any]:
    """Return a scripted agent with these replies (a JSON list)."""
    return node("InterleaveTestAgent", replies=replies)


def planning(speaker: dict[str, Any], **inputs: Any) -> Graph:
    """Return a graph with a Planner that uses this agent."""
    return {
        "agent": speaker,
        "planner": node("InterleavePlanner", agent="@agent", request="a boat", **inputs),
        "out": node("PreviewAny", source=["planner", 1]),
    }


def judging(speaker: dict[str, Any], instruction: str = "a black page") -> Graph:
    """Return a graph with a Judge that uses this agent."""
    return {
        "agent": speaker,
        "after": node("EmptyImage", width=16, height=16, batch_size=1, color=0),
        "judge": node(
            "InterleaveJudge", agent="@agent", after="@after", instruction=instruction, accept_at=0.0
        ),
    }


def looping(speaker: dict[str, Any], request: str) -> Graph:
    """A Critic Loop of one step that has this agent judge two attempts."""
    graph = story(request, ["a"], (16, 16), steps=1, max_attempts=2)
    graph["loop"]["inputs"]["critic"] = ["agent", 0]
    return graph | {"agent": speaker}


def with_cast(graph: Graph) -> Graph:
    """Return a graph of Edit Plan with a connected Cast."""
    edit = {**graph["edit"], "inputs": {**graph["edit"]["inputs"], "cast": ["cast", 0]}}
    return graph | {"edit": edit, "cast": node("InterleaveCast", name="Mia", kind="prop", traits="red")}


def by_hand(text: str, **inputs: Any) -> Graph:
    """An Edit Plan without a planner."""
    return {
        "edit": node("InterleaveEditPlan", edits=text, **inputs),
        "out": node("PreviewAny", source=["edit", 1]),
    }


def shown(story_name: str) -> Graph:
    """A story loaded and laid out on a sheet."""
    return {
        "load": node("InterleaveLoadTrajectory", story=story_name),
        "report": node("PreviewAny", source=["load", 1]),
        "out": node(
            "InterleaveStoryboard", trajectory="@load", show="attempts", columns=0, cell=48, captions=True
        ),
    }


def step(number: Any, **fields: Any) -> dict[str, Any]:
    """Return one step of a plan as JSON."""
    return {"step_number": number, "step_name": "s", "prompt": "a", "auxiliary_text": "t"} | fields


def plan_reply(*steps: Any) -> str:
    """A planner's reply with these steps."""
    return f"<think>so</think><answer>{json.dumps({'execution_plan': steps})}</answer>"


PLAN = plan_reply(step(1))

PLAN_TEXTS: tuple[str, ...] = (
    "{", "[", "]", "{}", "[]", "[[]]", "null", "[null]", "{\"execution_plan\": null}", "{\"execution_plan\": {}}",
    "[1, 2]", "[\"a\"]", "[{}]", "[{\"prompt\": \"a\"}", "[{\"prompt\": \"a\",}]", "[{'prompt': 'a'}]", "[NaN]",
    "[{\"step_number\": NaN, \"prompt\": \"a\"}]", "[{\"step_number\": 1e400, \"prompt\": \"a\"}]",
    "[{\"step_number\": 10000000000000000000000000, \"prompt\": \"a\"}]", "[{\"step_number\": " + "9" * 5000 + "}]",
    "[{\"step_number\": -1, \"prompt\": \"a\"}]", "[{\"step_number\": true, \"prompt\": \"a\"}]",
    "[{\"prompt\": \"a\", \"prompt\": \"b\"}]", "[{\"prompt\": \"a\", \"__proto__\": {}}]",
    json.dumps([step(1), step(1), step(1)]), json.dumps([step(n) for n in range(1, 10_001)]),
    json.dumps([step(3), step(2), step(1)]), json.dumps([step(1, prompt=LONG[:200_000])]),
    "[" * 1000 + "]" * 1000, "{\"execution_plan\":" * 1000 + "1" + "}" * 1000, "[" * 200_000,
    "\n".join(f"{n}. a" for n in range(1, 10_001)), "1. a\n1. b\n1. c", "0. a", "-1. a", "9" * 400 + ". a",
    "1. a\n\ndraw: b\ndraw: c", "draw: a", "| a", "1.", "1. \n", "made from: zzzzzzzz", "1. a\nmade from: " + "0" * 8,
    "1. a\nmade from: " + "00000000 " * 200, "1. \\\"", "1. \\\"\\ud800\"", "1. a [locked] [locked]",
    "一. 家", "1。 家", "1. دار\n   draw: بيت أحمر", "١. a", "1. 🏠\n   draw: 👩‍👩‍👧\u200d\ufe0f", "1. \u202eevil\u202c",
    "1. {text_input}\n draw: {original_instruction} {0} {__class__} %s %(x)s ${x} {{7*7}}",
    "1. <image>\n draw: <image> <think></think><answer>{}</answer> <|im_end|>", ("1. ../../etc/passwd\n "
                                                                                "draw: ") + f"/tmp/{MARK}",
    "1. a\x00b", "1. a\x1b[2J\x07", "\ufeff1. a", "1. a\r2. b\r\n3. c", "1. a" + " " * 500_000, "\n" * 900_000, LONG, LONG + "x",
    "<script>alert(1)</script>", "1. <img src=x onerror=alert(1)>", "x: y", "1. a\nfoo: bar",
)  # fmt: skip

SWALLOWED = plan_reply(step(1, prompt="a None}, {'step_number': 2, 'prompt': 'b"))
PLANNER_REPLIES: tuple[Any, ...] = (
    "", " ", "\n\n", "no plan at all", "<think>", "</think>", "<answer>", "<answer></answer>", "<answer>{}</answer>",
    "<answer>[]</answer>", "<answer>null</answer>", "<answer>{'execution_plan': []}</answer>",
    "<answer>{'execution_plan': 'a'}</answer>", "<answer>{'execution_plan': [5]}</answer>",
    "</answer>" + PLAN + "<answer>", "<answer>" + PLAN, PLAN + PLAN.replace('"a"', '"b"'), PLAN[:-30],
    plan_reply(step("one")), plan_reply(step(0)), plan_reply(step(10**40)), plan_reply(step(1), step(1)),
    plan_reply(step(2), step(1)), plan_reply(*[step(n) for n in range(1, 500)]), plan_reply(step(1, prompt=5)),
    plan_reply(step(1, prompt=None, auxiliary_text=None)), plan_reply(step(1, prompt="a" * 200_000)), SWALLOWED,
    "word " * 100_000, "{" * 100_000, "[" * 100_000, "<answer>" * 5_000, "<think>" * 50_000, "{\"a\":" * 20_000,
    "\x00" * 1000, "<answer>{'execution_plan': [" + "{'step_number': 1, 'prompt': 'a'}," * 3000,
)  # fmt: skip


def said(value: Any, refined: Any = "b") -> str:
    """A critic's reply with this verdict."""
    answer = json.dumps({"previous_step_success": value, "refine_prompt": refined})
    return f"<think>so</think><answer>{answer}</answer>"


CRITIC_REPLIES: tuple[Any, ...] = (
    "", "What a lovely picture!", "true", "{", "<answer>true</answer>", "<answer>{\"previous_step_success\"}</answer>",
    said("maybe"), said(None), said(1), said(0.5), said([True]), said({}), said("True "), said(False, 5), said(False, [1]),
    said(False, "r" * 200_000), said(True) + said(False), "<answer>" + said(True)[::-1], said(False)[:-14],
    "</think></answer>" + said(True) + "<think><answer>", ("<answer>{'success': True, "
                                                          "'previous_step_success': False}</answer>"),
    "<answer>{'success': __import__('os').system('touch " + MARK + "')}</answer>", "so " * 20_000, "{\"success\":" * 30_000,
    "<answer>{'success': " + "(" * 5000 + "True" + ")" * 5000 + "}</answer>", "<answer>{'success': " + "9" * 6000 + "}</answer>",
    "\x00<answer>{\"success\": true}</answer>\x1b]0;x\x07", "{'success': True, " * 2000,
)  # fmt: skip
SCRIPTS: tuple[str, ...] = ("[]", json.dumps([{"text": said(True), "probability": 0.0}]))
