"""The Cast node in the real host: the same story as a cast in the text, cached, or reused."""

from __future__ import annotations

import json
from typing import Any

from ..graphs.official import Graph, ours
from ..graphs.stories import changed, node, planned, reply, with_cast, written
from ..server.comfy_server import ComfyServer
from ..server.runs import PHOTO_SIZE as SIZE
from ..server.runs import PHOTOS, journal, results, same, trajectory

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
    edit = node("InterleaveEditPlan", edits=edits.strip(), request=request)
    return changed(graph | {"edit": edit}, "loop", plan="@edit")


def with_nodes(graph: Graph) -> Graph:
    """Return the graph with the same cast as nodes; the traits are typed carelessly."""
    return with_cast(graph, PHOTOS[1], "short black hair\n\n red  coat\n")


def attempts(host: ComfyServer, name: str) -> list[dict[str, Any]]:
    return [result["attempts"][0] for result in results(journal(host, name))]


def test_a_connected_cast_acts_like_a_written_one(host: ComfyServer) -> None:
    written_cast = story("cast in the text", WRITTEN.format(mia=PHOTOS[1]) + STEPS)
    same(host, with_nodes(story("cast by nodes")), written_cast)
    first, second, third = attempts(host, "cast-by-nodes")
    told = attempts(host, "cast-in-the-text")
    assert [one.get("cast") for one in (first, second, third)] == [one.get("cast") for one in told]
    assert first["cast"]["text"] == "Mia: short black hair, red coat. Mia appears exactly once."
    assert first["cast"]["names"] == ["Mia"] and len(first["beside"]) == 1
    assert "cast" not in second and "beside" not in second
    assert third["cast"]["text"].startswith("Mia: short black hair, red coat. lantern: brass. Exactly 1 char")
    folder = journal(host, "cast-by-nodes")
    (image,) = json.loads((folder / "plan.json").read_text(encoding="utf-8"))["cast"][0]["images"]
    assert (folder / image["name"]).is_file(), "the plan can be run again in its folder"


def test_a_member_of_the_text_replaces_the_connected_one(host: ComfyServer) -> None:
    own = "character: mia\n   trait: blue hat\n\nplace: mill\n   trait: three wings"
    graph = with_nodes(story("cast of both", own + STEPS))
    graph["text"] = node("PreviewAny", source=["edit", 1])
    outputs = host.run(graph)
    first, *_ = attempts(host, "cast-of-both")
    assert first["cast"]["text"] == "mia: blue hat. mill: three wings. mia appears exactly once."
    assert first["cast"]["names"] == ["mia"], "it keeps the connected image"
    shown = outputs["text"]["text"][0]
    assert "character: mia" in shown and "prop: lantern" in shown
    assert "image:" not in shown, "a connected image is not a file that a text can name"


def test_the_planners_plan_gets_the_cast(host: ComfyServer) -> None:
    request = "planned with a cast"
    graph = planned(reply("Mia sleeps", "a field"), request=request) | written(request, "")
    graph["mia"] = node("InterleaveCast", name="Mia", kind="character", traits="red coat")
    host.run(changed(graph, "edit", plan="@planner", cast="@mia", request=None))
    found = trajectory(journal(host, request))
    assert found["plan"]["cast"] == [{"name": "Mia", "kind": "character", "traits": ["red coat"]}]
    assert not found["identities"]["planner"].endswith("edited by hand")
    told = [one["attempts"][0].get("cast", {}).get("text") for one in found["results"]]
    assert told == ["Mia: red coat. Mia appears exactly once.", None]


def test_the_list_editor_gets_the_cast_with_thumbnails(host: ComfyServer) -> None:
    graph = with_nodes(story("cast shown"))
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
    refused = host.post("/interleave-thinker/plan", asked | {"cast": [mia | {"kind": "5"}]}).json()
    assert refused["error"].startswith("The cast, member 'Mia', kind: "), refused
