"""The Cast node in the real host: the same story as a cast in the text, cached, reused, or one error."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ..graphs.cast import with_cast
from ..graphs.families import Graph, ours
from ..graphs.klein import node
from ..graphs.plans import edited, planned
from ..graphs.replies import reply
from ..server.comfy_server import ComfyServer, HostError
from ..server.pixels import PHOTO_SIZE as SIZE
from ..server.pixels import pixels
from ..server.runs import journals, made

WRITTEN = """character: Mia
   trait: short black hair
   trait: red coat
   image: {mia}

prop: lantern
   trait: brass"""
STEPS = """

1. One
   draw: Mia at the mill

2. Two
   draw: an empty field

3. Three
   draw: the lantern on a table
   cast: Mia, lantern"""


def story(request: str, edits: str = STEPS) -> Graph:
    """Return a story of a model that accepts reference images, written in Edit Plan."""
    graph = ours("flux2 dev", request, ["x"], SIZE, seed=5, scheduler="flux2")
    del graph["plan"]
    graph["edit"] = node("InterleaveEditPlan", edits=edits.strip(), request=request)
    graph["loop"]["inputs"]["plan"] = ["edit", 0]
    return graph


def with_nodes(graph: Graph, photo: str) -> Graph:
    """Return the graph with the same cast as nodes; the traits are typed carelessly."""
    return with_cast(graph, photo, "short black hair\n\n red  coat\n")


def attempts(host: ComfyServer, name: str) -> list[dict[str, Any]]:
    (folder,) = journals(host, name)
    results = json.loads((folder / "trajectory.json").read_text(encoding="utf-8"))["results"]
    return [result["attempts"][0] for result in results]


def test_a_connected_cast_acts_like_a_written_one(host: ComfyServer, photos: tuple[str, str, str]) -> None:
    written = host.run(story("cast in the text", WRITTEN.format(mia=photos[1]) + STEPS))
    outputs = host.run(with_nodes(story("cast by nodes"), photos[1]))
    assert (pixels(host, outputs) == pixels(host, written)).all()
    first, second, third = attempts(host, "cast-by-nodes")
    told = attempts(host, "cast-in-the-text")
    assert [one.get("cast") for one in (first, second, third)] == [one.get("cast") for one in told]
    assert first["cast"]["text"] == "Mia: short black hair, red coat. Mia appears exactly once."
    assert first["cast"]["names"] == ["Mia"] and len(first["beside"]) == 1
    assert "cast" not in second and "beside" not in second
    assert third["cast"]["text"].startswith("Mia: short black hair, red coat. lantern: brass. Exactly 1 char")
    (folder,) = journals(host, "cast-by-nodes")
    (image,) = json.loads((folder / "plan.json").read_text(encoding="utf-8"))["cast"][0]["images"]
    assert (folder / image["name"]).is_file(), "the plan can be run again in its folder"


def test_a_changed_member_generates_only_its_steps_again(
    host: ComfyServer, photos: tuple[str, str, str]
) -> None:
    graph = with_nodes(story("cast changed"), photos[1])
    host.run(graph)
    before = made(host, "cast changed")
    host.run(graph)
    assert made(host, "cast changed") == before
    graph["lantern"]["inputs"]["traits"] = "silver"
    host.run(graph)
    after = made(host, "cast changed")
    assert {name: after[name] for name in before} == before
    assert len(set(after) - set(before)) == 2, "the attempt of the third step and its image"


def test_a_member_of_the_text_replaces_the_connected_one(
    host: ComfyServer, photos: tuple[str, str, str]
) -> None:
    own = "character: mia\n   trait: blue hat\n\nplace: mill\n   trait: three wings"
    graph = with_nodes(story("cast of both", own + STEPS), photos[1])
    graph["text"] = node("PreviewAny", source=["edit", 1])
    outputs = host.run(graph)
    first, second, third = attempts(host, "cast-of-both")
    assert first["cast"]["text"] == "mia: blue hat. mill: three wings. mia appears exactly once."
    assert first["cast"]["names"] == ["mia"], "it keeps the connected image"
    assert third["cast"]["text"].startswith("mia: blue hat. lantern: brass.")
    shown = outputs["text"]["text"][0]
    assert [line for line in shown.splitlines() if line.startswith(("char", "prop", "place"))] == [
        "character: mia",
        "prop: lantern",
        "place: mill",
    ]
    assert "image:" not in shown, "a connected image is not a file that a text can name"
    graph["edit"]["inputs"]["edits"] = shown
    assert host.run(graph)["text"]["text"][0] == shown
    assert attempts(host, "cast-of-both") == [first, second, third]


def test_the_planners_plan_gets_the_cast(host: ComfyServer) -> None:
    graph = edited("", planned(reply("Mia sleeps", "a field"), request="planned with a cast"))
    graph["edit"]["inputs"]["cast"] = ["mia", 0]
    graph["mia"] = node("InterleaveCast", name="Mia", kind="character", traits="red coat")
    graph |= tiny_loop()
    host.run(graph)
    (folder,) = journals(host, "planned-with-a-cast")
    found = json.loads((folder / "trajectory.json").read_text(encoding="utf-8"))
    assert found["plan"]["cast"] == [{"name": "Mia", "kind": "character", "traits": ["red coat"]}]
    assert not found["identities"]["planner"].endswith("edited by hand")
    assert [one["attempts"][0].get("cast", {}).get("text") for one in found["results"]] == [
        "Mia: red coat. Mia appears exactly once.",
        None,
    ]


def test_the_list_editor_gets_the_cast_with_thumbnails(
    host: ComfyServer, photos: tuple[str, str, str]
) -> None:
    graph = with_nodes(story("cast shown"), photos[1])
    (shown,) = host.run(graph)["edit"]["interleave_plan"]
    mia, lantern = shown["cast"]
    small = mia.pop("thumbnail")
    assert mia == {"name": "Mia", "kind": "character", "traits": ["short black hair", "red coat"]}
    assert small.startswith("data:image/webp;base64,UklG") and len(small) < 20_000
    assert lantern == {"name": "lantern", "kind": "prop", "traits": ["brass"]}
    asked = {"text": "1. a\n   draw: a\n   cast: Mia, Tom"}
    refused = host.post("/interleave-thinker/plan", asked).json()
    assert "'Mia', who is not in the cast" in refused["error"]
    read = host.post("/interleave-thinker/plan", asked | {"cast": [mia]}).json()
    assert not read["error"] and "cast" not in read["plan"], "the text has no member of its own"
    asked = {"text": "1. Mia\n2. without Mia\n3. @mia", "cast": [mia]}
    assert host.post("/interleave-thinker/plan", asked).json()["casts"] == [
        {"step": 1, "names": ["Mia"], "marked": False},
        {"step": 2, "names": [], "marked": False},
        {"step": 3, "names": ["Mia"], "marked": True},
    ]
    wrong = {
        "The cast, member 'A, B', name: a name is one line": [mia, {"name": "A, B"}],
        "The cast, member 'Mia', kind: ": [mia | {"kind": "5"}],
        "The cast: ": [{"name": f"M{number}"} for number in range(17)],
    }
    for error, cast in wrong.items():
        refused = host.post("/interleave-thinker/plan", asked | {"cast": cast}).json()
        assert refused["error"].startswith(error), refused


def tiny_loop() -> Graph:
    return {
        "generator": node("InterleaveTinyWorldGenerator"),
        "loop": node(
            "InterleaveCriticLoop", plan="@edit", generator="@generator", max_attempts=1, accept_at=0.0,
            keep="best", source="previous", on_failure="keep", seed=0,
        ),
    }  # fmt: skip


def cast_of(*names: str, **inputs: Any) -> Graph:
    """Return chained Cast nodes, the last of which is connected to Edit Plan."""
    graph = edited("1. a mill", request="wrong cast") | tiny_loop()
    for index, name in enumerate(names):
        before = {"cast": [f"member{index - 1}", 0]} if index else {}
        graph[f"member{index}"] = node(
            "InterleaveCast", **{"name": name, "kind": "character", "traits": "", **before, **inputs}
        )
    graph["edit"]["inputs"]["cast"] = [f"member{len(names) - 1}", 0]
    return graph


@pytest.mark.parametrize(
    ("graph", "reason"),
    [
        (cast_of("Mia", "Tom", " mia"), r"Cast: the cast has two members named 'mia'\. Give each member"),
        (cast_of(*(f"M{number}" for number in range(17))), "Cast: 'M16' is member 17; the maximum is 16"),
        (cast_of("Mia", traits="a\nb\nc\nd\ne"), "Cast, 'Mia': 5 traits; at most 4 are allowed"),
        (cast_of("Mia", traits="x" * 201), "Cast, 'Mia': a trait has 201 characters; at most 200"),
        (
            cast_of("Mia", **{"images.image0": ["images", 0]})
            | {"images": node("EmptyImage", width=64, height=64, batch_size=5, color=0)},
            "Cast, 'Mia': 5 images; at most 4 are allowed",
        ),
        (
            cast_of("Mia")
            | {"edit": node("InterleaveEditPlan", edits="1. a\n draw: a\n cast: Tom", cast="@member0")},
            "step 1 names 'Tom', who is not in the cast",
        ),
    ],
    ids=["twice", "seventeen", "traits", "long", "images", "unknown"],
)
def test_a_wrong_cast_gives_one_line(host: ComfyServer, graph: Graph, reason: str) -> None:
    with pytest.raises(HostError, match=reason):
        host.run(graph)


@pytest.mark.parametrize(
    ("name", "reason"),
    [("Mia, Tom", "contains ','"), (" ", "the name is empty"), ("x" * 61, "has 61 characters")],
)
def test_a_wrong_name_is_rejected_before_anything_runs(host: ComfyServer, name: str, reason: str) -> None:
    with pytest.raises(HostError) as refused:
        host.queue(cast_of(name))
    (error,) = json.loads(refused.value.details)["node_errors"]["member0"]["errors"]
    assert reason in error["details"] and error["extra_info"]["input_name"] == "name"
    typed = cast_of(name) | {"typed": node("PrimitiveString", value=name)}
    typed["member0"]["inputs"]["name"] = ["typed", 0]
    with pytest.raises(HostError, match=reason):
        host.run(typed)
