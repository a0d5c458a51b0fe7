"""Hostile widgets, sockets, plans, replies and requests for the real host.

Widgets and sockets come from the host's description of every node, so a new one is tested without a change
here. Each graph is valid except for a single value, which causes the error.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from ..graphs.attempt_pairs import pair
from ..graphs.official import CLIP, MODEL, VAE, loaded
from ..graphs.stories import (
    EXPORT,
    Graph,
    edited,
    loaders,
    node,
    of_file,
    scripted,
    shown,
    step_generator,
    story,
    verdict,
)

MARK = "hostile-escape"
"""Part of every name that would be written outside: a file with it anywhere else is an escape."""
LONG, HALF = "x" * 1_000_000, "\ud800"
NAN, INFINITE = float("nan"), float("inf")

VALUES: dict[str, tuple[Any, ...]] = {
    "INT": ("word", 10**30, -(10**30), NAN, INFINITE, None, [1, 2, 3], {"a": 1}, 1.5),
    "FLOAT": ("word", 1e308, -1e308, NAN, INFINITE, -INFINITE, None, [0.5], {"a": 1}),
    "BOOLEAN": ("perhaps", None, NAN, [True, False, True], 10**30),
    "COMBO": ("no such choice", "", None, 5, LONG, f"../../{MARK}", ["a", "b", "c"], {"a": 1}, HALF),
    "STRING": (None, 5, NAN, LONG, "\x00\x07\x1b[31m\r\n\x7f\u202e", HALF, ["a"], {"__value__": ["a", "b"]}),
}
NAMES: tuple[Any, ...] = (
    *VALUES["STRING"], "", "..", f"../../{MARK}", f"/tmp/{MARK}", f"C:\\{MARK}", f"\\\\server\\share\\{MARK}", f"~/{MARK}",
    f"%2e%2e/{MARK}", f"file:///tmp/{MARK}", "CON", "$(touch x)", "{{7*7}}", "%year%/../..", "-rf",
)  # fmt: skip
NAME_LIKE = frozenset(
    [
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
    ]
)
LINKED: dict[str, tuple[tuple[str, Any], ...]] = {
    # On a wire the host does not look at a number's bounds, nor at a text at all.
    "INT": (("PrimitiveInt", 2**62), ("PrimitiveInt", -(2**62))),
    "FLOAT": (("PrimitiveFloat", NAN), ("PrimitiveFloat", 1e300), ("PrimitiveFloat", -1.0)),
    "STRING": (("PrimitiveString", f"../../{MARK}"), ("PrimitiveString", LONG[:300_000])),
}
LEFT_OUT = frozenset({("InterleaveRemoteAgent", "timeout"), ("InterleaveLoadAgent", "download")})
"""Without a request to a server there is nothing that they could break."""
OF_A_KIND = "COMFY_AUTOGROW_V3"
NAMES_OF_MANY = {"references": "references.reference_1", "images": "images.image0"}


class Hostile(NamedTuple):
    """One hostile graph, named after its fault."""

    name: str
    graph: Graph


def with_value(graph: Graph, key: str, name: str, value: Any) -> Graph:
    """The graph with one input set."""
    return {**graph, key: {**graph[key], "inputs": {**graph[key]["inputs"], name: value}}}


def declared(info: dict[str, Any], class_type: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield name, type and options of every input of a node of `info` (/object_info)."""
    inputs = info[class_type]["input"]
    for name, (kind, *options) in {**inputs.get("required", {}), **inputs.get("optional", {})}.items():
        yield name, kind if isinstance(kind, str) else "COMBO", options[0] if options else {}


def widgets(info: dict[str, Any], story_name: str, service: str) -> Iterator[Hostile]:
    """Yield every widget of every node with values of a wrong type, size or meaning."""
    turns = {kind: itertools.cycle(values) for kind, values in VALUES.items()}
    for class_type, (graph, key) in whole_graphs(story_name, service).items():
        for name, kind, options in declared(info, class_type):
            if kind not in turns or (class_type, name) in LEFT_OUT:
                continue
            few = 3 if kind in ("INT", "FLOAT") else 2
            values = NAMES if name in NAME_LIKE else [next(turns[kind]) for _ in range(few)]
            for value in values:
                yield Hostile(f"{class_type}.{name} = {value!r:.40}", with_value(graph, key, name, value))
            if options.get("socketless") or (kind == "STRING" and name in ("base_url", "url", "model")):
                continue
            for source, value in LINKED.get(kind, ()):
                linked = with_value(graph, key, name, ["wire", 0]) | {"wire": node(source, value=value)}
                yield Hostile(f"{class_type}.{name} <- {value!r:.40}", linked)


def sockets(info: dict[str, Any], story_name: str, service: str) -> Iterator[Hostile]:
    """Yield every socket of every node with the wrong values of the shim pack, and with some right ones."""
    odd = [name for name in info["InterleaveTestOddValue"]["input"]["required"]["name"][0] if name != "given"]
    given = [({}, {"name": value}, value) for value in odd]
    given += [
        (parts, {"name": "given", "given": link}, f"a {kind}")
        for kind, (parts, link) in real_values(story_name).items()
    ]
    for class_type, (graph, key) in graphs_with_sockets(story_name, service).items():
        for name, kind, _ in declared(info, class_type):
            if kind in VALUES:
                continue
            name = NAMES_OF_MANY.get(name, name) if kind == OF_A_KIND else name
            for parts, inputs, value in given:
                wired = with_value(graph, key, name, ["odd", 0])
                wired["odd"] = node("InterleaveTestOddValue", **inputs)
                yield Hostile(f"{class_type}.{name} <- {value}", parts | wired)


def whole_graphs(story_name: str, service: str) -> dict[str, tuple[Graph, str]]:
    """Return for every node with widgets a graph that runs, and the key of the node in it."""
    sizes = {"width": 16, "height": 16, "steps": 1, "guidance": -1.0}
    served = node("InterleaveServiceGenerator", url=service, **sizes)
    piped = node("InterleaveDiffusersGenerator", pipeline="", download=False, **sizes)
    by_service, by_pipeline = (story("hostile", ["a"], generator=one) for one in (served, piped))
    remote = {"base_url": "http://127.0.0.1:9/v1", "model": "m", "key_variable": ""}
    cast = node("InterleaveCast", name="Mia", kind="prop", traits="red")
    tried = pair("hostile", 1, 1)
    moving = {
        "load": node("InterleaveLoadTrajectory", story=story_name),
        "list": node("InterleaveClipList", trajectory="@load", family="LTX", seconds=0.5, only_missing=False),
        "frames": node("ImageBatch", image1=["list", 1], image2=["list", 2]),
        "add": node("InterleaveAddClips", trajectory="@list", fps=["list", 7], frames="@frames"),
        "out": shown("add", 1),
    }
    word = {"step": 1, "attempt": 0, "word": "better prompt", "better_prompt": "b", "reason": ""}
    export = EXPORT | {"format": "GIF", "filename_prefix": "hostile/story"}
    sheet = loaded_story(story_name)
    return {
        # Without an instruction the Judge ends right after opening the agent, before any request.
        "InterleaveLoadAgent": (judging(node("InterleaveLoadAgent", agent="tiny world critic"), ""), "agent"),
        "InterleaveRemoteAgent": (judging(node("InterleaveRemoteAgent", **remote), ""), "agent"),
        "InterleavePlanner": (planning(scripted([PLAN] * 2)), "planner"),
        "InterleaveEditPlan": (edited("1. a"), "edit"),
        "InterleaveCast": (with_value(edited("1. a"), "edit", "cast", ["cast", 0]) | {"cast": cast}, "cast"),
        "InterleaveStepGenerator": (story("hostile", ["a"], (16, 16), steps=1), "generator"),
        "InterleaveDiffusersGenerator": (by_pipeline, "generator"),
        "InterleaveServiceGenerator": (by_service, "generator"),
        "InterleaveCriticLoop": (by_service, "loop"),
        "InterleaveTryOpen": (tried, "open"),
        "InterleaveTryClose": (tried, "close"),
        "InterleaveJudge": (judging(scripted([verdict(True)])), "judge"),
        "InterleaveSaveTrajectory": (
            of_file(story_name, "InterleaveSaveTrajectory", filename_prefix="hostile/kept"), "out"
        ),
        "InterleaveLoadTrajectory": (sheet, "load"),
        "InterleaveStoryboard": (sheet, "out"),
        "InterleaveExport": (of_file(story_name, "InterleaveExport", **export), "out"),
        "InterleaveClipList": (moving, "list"),
        "InterleaveAddClips": (moving, "add"),
        "InterleaveFeedback": (of_file(story_name, "InterleaveFeedback", **word), "out"),
    }  # fmt: skip


def graphs_with_sockets(story_name: str, service: str) -> dict[str, tuple[Graph, str]]:
    """Return for every node with sockets a graph that runs, and the key of the node in it."""
    models = {"model": MODEL, "clip": CLIP, "vae": VAE, "options": "@options"}
    noised = {"steps": 1, "cfg": 2.0, "scheduler": "normal", "edit": "image to image", "denoise": 0.5}
    generator = step_generator((64, 64), **models, **noised)
    edits = story("hostile parts", ["a", "b"], generator=generator) | loaded("sd15")
    hosted = loaders() | judging(node("InterleaveHostAgent", clip="@clip"), "a page")
    return whole_graphs(story_name, service) | {
        "InterleaveHostAgent": (hosted, "agent"),
        "InterleaveStepOptions": (edits | {"options": node("InterleaveStepOptions")}, "options"),
        "InterleaveTryOpen": (pair("", 1, 1, step=1), "open"),
    }


def real_values(story_name: str) -> dict[str, tuple[Graph, Any]]:
    """A value of every kind of socket, and the nodes that make it."""
    made = {
        "AGENT": scripted([]),
        "GENERATOR": node("InterleaveTinyWorldGenerator"),
        "OPTIONS": node("InterleaveStepOptions"),
        "CAST": node("InterleaveCast", name="Mia", kind="prop", traits="red"),
        "PLAN": edited("1. a\n   draw: a")["edit"],
        "TRAJECTORY": node("InterleaveLoadTrajectory", story=story_name),
        "TRY": node("InterleaveTryOpen", prompt="a", step=0, seed=1),
        "IMAGE": node("EmptyImage", width=16, height=16, batch_size=1, color=0),
        "CONDITIONING": node("CLIPTextEncode", clip="@clip", text="a"),
        "NOISE": node("RandomNoise", noise_seed=1),
        "SAMPLER": node("KSamplerSelect", sampler_name="euler"),
    }
    real = {kind: ({"real": one}, ["real", 0]) for kind, one in made.items()}
    return real | {name.upper(): ({}, [name, 0]) for name in ("model", "clip", "vae")}


def planning(speaker: dict[str, Any]) -> Graph:
    """Return a graph with a Planner that uses this agent."""
    planner = node("InterleavePlanner", agent="@agent", request="a boat")
    return {"agent": speaker, "planner": planner, "out": shown("planner", 1)}


def judging(speaker: dict[str, Any], instruction: str = "a black page") -> Graph:
    """Return a graph with a Judge that uses this agent."""
    inputs = {"instruction": instruction, "accept_at": 0.0}
    return {
        "agent": speaker,
        "after": node("EmptyImage", width=16, height=16, batch_size=1, color=0),
        "judge": node("InterleaveJudge", agent="@agent", after="@after", **inputs),
    }


def loaded_story(name: str) -> Graph:
    """A story loaded and laid out on a sheet."""
    return of_file(name, "InterleaveStoryboard", show="attempts", columns=0, cell=48, captions=True)


def step(number: Any, **fields: Any) -> dict[str, Any]:
    """Return one step of a plan as JSON."""
    return {"step_number": number, "step_name": "s", "prompt": "a", "auxiliary_text": "t"} | fields


def plan_reply(*steps: Any) -> str:
    """A planner's reply with these steps."""
    return f"<think>so</think><answer>{json.dumps({'execution_plan': steps})}</answer>"


def said(value: Any, refined: Any = "b") -> str:
    """A critic's reply with this verdict."""
    answer = json.dumps({"previous_step_success": value, "refine_prompt": refined})
    return f"<think>so</think><answer>{answer}</answer>"


PLAN = plan_reply(step(1))
PLAN_TEXTS: tuple[str, ...] = (
    "{", "{}", "[[]]", "[null]", '{"execution_plan": null}', '["a"]', '[{"prompt": "a",}]', "[NaN]",
    '[{"step_number": 1e400, "prompt": "a"}]', '[{"step_number": ' + "9" * 5000 + "}]",
    '[{"step_number": true, "prompt": "a"}]', '[{"prompt": "a", "prompt": "b"}]', '[{"prompt": "a", "__proto__": {}}]',
    json.dumps([step(1)] * 3), json.dumps([step(n) for n in range(1, 10_001)]), json.dumps([step(1, prompt=LONG[:200_000])]),
    '{"execution_plan":' * 1000 + "1" + "}" * 1000, "[" * 200_000, "\n".join(f"{n}. a" for n in range(1, 10_001)),
    "0. a", "9" * 400 + ". a", "1. a\n\ndraw: b\ndraw: c", "draw: a", "1.", "1. a\nmade from: " + "00000000 " * 200,
    '1. "\\ud800"', "1. دار\n   draw: بيت أحمر", "1. 🏠\n   draw: 👩‍👩‍👧\u200d\ufe0f", "1. \u202eevil\u202c",
    "1. {text_input}\n draw: {original_instruction} {0} {__class__} %s %(x)s ${x} {{7*7}}",
    "1. <image>\n draw: <image> <think></think><answer>{}</answer> <|im_end|>", f"1. ../../etc/passwd\n draw: /tmp/{MARK}",
    "1. a\x00b", "1. a\x1b[2J\x07", "\ufeff1. a", "1. a\r2. b\r\n3. c", "\n" * 900_000, LONG + "x", "1. a\nfoo: bar",
)  # fmt: skip
PLANNER_REPLIES: tuple[Any, ...] = (
    "", "no plan at all", "<think>", "<answer>{}</answer>", "<answer>{'execution_plan': [5]}</answer>",
    "</answer>" + PLAN + "<answer>", PLAN + PLAN.replace('"a"', '"b"'), PLAN[:-30], plan_reply(step("one")),
    plan_reply(step(10**40)), plan_reply(step(2), step(1)), plan_reply(*[step(n) for n in range(1, 500)]),
    plan_reply(step(1, prompt=None, auxiliary_text=None)), plan_reply(step(1, prompt="a" * 200_000)),
    plan_reply(step(1, prompt="a None}, {'step_number': 2, 'prompt': 'b")), "word " * 100_000, "{" * 100_000,
    "<think>" * 50_000, '{"a":' * 20_000, "\x00" * 1000,
    "<answer>{'execution_plan': [" + "{'step_number': 1, 'prompt': 'a'}," * 3000,
)  # fmt: skip
CRITIC_REPLIES: tuple[Any, ...] = (
    "", "What a lovely picture!", "<answer>true</answer>", said("maybe"), said(None), said(0.5), said([True]), said(False, 5),
    said(False, "r" * 200_000), said(True) + said(False), said(False)[:-14],
    "<answer>{'success': True, 'previous_step_success': False}</answer>",
    f"<answer>{{'success': __import__('os').system('touch {MARK}')}}</answer>", "so " * 20_000, '{"success":' * 30_000,
    "<answer>{'success': " + "(" * 5000 + "True" + ")" * 5000 + "}</answer>",
    '\x00<answer>{"success": true}</answer>\x1b]0;x\x07',
)  # fmt: skip


def replies() -> Iterator[Hostile]:
    """Yield every reply at a Planner, a Judge, and some at a Critic Loop."""
    for text in PLANNER_REPLIES:
        yield Hostile(f"planner {text!r:.60}", planning(scripted([text] * 3)))
    for index, text in enumerate(CRITIC_REPLIES):
        yield Hostile(f"judge {text!r:.60}", judging(scripted([text] * 4)))
        if index % 4 == 0:
            critic = scripted([text] * 4)
            looped = story(f"hostile critic {index}", ["a"], (16, 16), critic=critic, steps=1, max_attempts=2)
            yield Hostile(f"loop {text!r:.60}", looped)
    yield Hostile("no reply", judging(scripted([])))


def plan_texts() -> Iterator[Hostile]:
    """Yield every text of an Edit Plan, some on a wire, and its request."""
    for index, text in enumerate(PLAN_TEXTS):
        yield Hostile(f"{text!r:.60}", edited(text))
        if index % 4 == 0:
            wired = with_value(edited(""), "edit", "edits", ["wire", 0])
            yield Hostile(f"<- {text!r:.60}", wired | {"wire": node("PrimitiveString", value=text)})
    for text in ("", "\x00", LONG, HALF, f"../{MARK}"):
        yield Hostile(f"request {text!r:.60}", edited("1. a", request=text))


# Requests to the pack's routes

ASKED: tuple[Any, ...] = (
    None, True, -1, 10**30, 1.5, NAN, "", "word", "..", f"../{MARK}", f"/tmp/{MARK}", "a\0b", "\x1b[31m", HALF, LONG, [], ["a"],
    {}, {"a": {"a": {}}},
)  # fmt: skip
BODIES: tuple[bytes, ...] = (
    b"", b"null", b'"a"', b"[]", b"{", b"\xff\xfe", b"[" * 100_000, b'{"a":' * 50_000, b"NaN",
    b'{"run": "a", "run": "b"}', b"{}" + b" " * 300_000, b'{"unknown": 1}',
)  # fmt: skip


class Asked(NamedTuple):
    """One request: a query for GET, a body for POST."""

    name: str
    route: str
    body: bytes = b""
    query: dict[str, str] | None = None


def requests(run: str, picture: str) -> Iterator[Asked]:
    """Requests about a run that is there, each wrong in one place or not at all a request."""
    feedback = {
        "step": 1, "attempt": 0, "accepted": True, "better_prompt": "b", "note": "n", "image": picture,
    }  # fmt: skip
    member = {"name": "Mia", "kind": "prop", "traits": ["red"], "images": ["a.png"]}
    whole: dict[str, dict[str, Any]] = {
        "choice": {"run": run, "step": 1, "picture": picture},
        "feedback": {"run": run, "feedback": feedback},
        "decision": {"run": run, "step": 1, "digest": picture, "skip": False},
        "plan": {"text": "1. a", "cast": [member]},
    }
    changed = [
        (route, name, {**body, name: value})
        for route, body in whole.items()
        for name in body
        for value in ASKED
    ]
    for value in ASKED:
        words = {name: {"run": run, "feedback": {**feedback, name: value}} for name in feedback}
        casts = {name: {"text": "1. a", "cast": [{**member, name: value}]} for name in member}
        changed += [("feedback", name, body) for name, body in words.items()]
        changed += [("plan", name, body) for name, body in casts.items()]
        text = str(value)[:60_000].replace(HALF, "%ED%A0%80")
        for route, query in (
            ("run", {"run": text}),
            ("live", {"node": text}),
            ("live", {"node": "1", "workflow": text}),
        ):
            yield Asked(f"{route}?{[*query]}={text:.30}", route, query=query)
    for route, name, body in changed:
        yield Asked(f"{route}.{name} = {body.get(name, '')!r:.30}", route, json.dumps(body).encode())
    for route in whole:
        yield from (Asked(f"{route} {one[:30]!r}", route, one) for one in BODIES)
