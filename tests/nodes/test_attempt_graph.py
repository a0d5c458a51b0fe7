"""The nodes between Attempt Start and Attempt End: expansion and identity, without the host."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from interleave_thinker.backend.core.errors import SettingsError
from interleave_thinker.nodes.attempt_loop.subgraph import (
    AGAIN,
    HELD,
    HOLD,
    NEXT,
    FurtherAttempt,
    body_digest,
    find_body,
    lay_out,
)

Graph = dict[str, dict[str, Any]]
SHOWS = {"PreviewImage", "SaveImage", "InterleaveTryClose"}


def node(class_type: str, **inputs: Any) -> dict[str, Any]:
    return {"class_type": class_type, "inputs": inputs}


def graph(**more: dict[str, Any]) -> Graph:
    """Return the graph loader -> sampler (prompt, seed) -> decode -> close, with a loader outside."""
    return {
        "loader": node("Loader", name="a.safetensors"),
        "open": node("InterleaveTryOpen", prompt="a boat", step=0, seed=1),
        "text": node("Encode", clip=["loader", 1], text=["open", 1]),
        "sampler": node("Sampler", model=["loader", 0], positive=["text", 0], seed=["open", 2], steps=4),
        "decode": node("Decode", samples=["sampler", 0], vae=["loader", 2]),
        "close": node("InterleaveTryClose", image=["decode", 0], opened=["open", 0], max_attempts=5),
        "save": node("SaveImage", images=["close", 0]),
        **more,
    }


def body_of(nodes: Graph, closed: str = "close"):
    return find_body(nodes, closed, SHOWS.__contains__)


def test_the_body_is_between_attempt_start_and_the_image() -> None:
    body = body_of(graph(other=node("Encode", clip=["loader", 1], text="unrelated")))
    assert body.nodes == body.producers == ("decode", "sampler", "text")
    assert body.outside == (("loader", 0), ("loader", 1), ("loader", 2))
    assert not body.edits and not body.has_previews


def test_ids_of_further_attempts_do_not_name_a_subgraph() -> None:
    nodes = {f"75:{name}": one for name, one in graph().items()}
    for one in nodes.values():
        links = {key: value for key, value in one["inputs"].items() if isinstance(value, list)}
        one["inputs"] |= {key: [f"75:{name}", slot] for key, (name, slot) in links.items()}
    further = FurtherAttempt(prefix="75:close.1.2.", opened="opened", carried="carried", hold=True)
    new, end = lay_out(nodes, body_of(nodes, "75:close"), further, str.upper)
    assert end in new and not [name for name in new if ":" in name]
    assert {link[0] for one in new.values() for link in one["inputs"].values() if isinstance(link, list)} <= {
        *new,
        "75:loader",
    }
    assert new[end]["override_display_id"] == "75:CLOSE"


def test_previews_and_their_inputs_belong_to_the_body() -> None:
    body = body_of(
        graph(
            small=node("Scale", image=["decode", 0]),
            look=node("PreviewImage", images=["small", 0]),
            words=node("PreviewImage", images=["open", 1]),
            after=node("PreviewImage", images=["close", 0]),
            both=node("PreviewImage", images=["decode", 0], second=["close", 0]),
            unused=node("Scale", image=["decode", 0]),
        )
    )
    assert set(body.nodes) - set(body.producers) == {"small", "look", "words"}


def test_pairs_in_sequence_are_allowed() -> None:
    nodes = graph(
        open2=opened(prompt="", story=["close", 5]),
        edit=node("Edit", image=["open2", 3], text=["open2", 1], model=["loader", 0], first=["close", 0]),
        close2=closed("edit", opened="open2"),
    )
    assert body_of(nodes).nodes == ("decode", "sampler", "text")
    second = body_of(nodes, "close2")
    assert second.nodes == ("edit",) and second.edits
    assert second.outside == (("close", 0), ("loader", 0))


def closed(image: str, slot: int = 0, opened: str = "open") -> dict[str, Any]:
    return node("InterleaveTryClose", image=[image, slot], opened=[opened, 0])


def opened(**inputs: Any) -> dict[str, Any]:
    return node("InterleaveTryOpen", seed=2, **inputs)


WRONG = {
    "not connected to an Attempt Start": graph(close=closed("decode", opened="loader")),
    "no image": graph(close=node("InterleaveTryClose", opened=["open", 0])),
    "does not depend on": graph(close=closed("loader")),
    "every attempt would be the same": graph(close=closed("open", 3)),
    "Two Attempt End": graph(close2=closed("sampler")),
    "two Attempt Start": graph(
        open2=opened(prompt="b"), sampler=node("Sampler", positive=["text", 0], seed=["open2", 2])
    ),
    "inside this pair": graph(
        open2=opened(source_image=["decode", 0]),
        edit=node("Edit", image=["open2", 3]),
        close2=closed("edit", opened="open2"),
        close=closed("close2"),
    ),
}


@pytest.mark.parametrize("reason", WRONG)
def test_an_invalid_body_raises_an_error(reason: str) -> None:
    with pytest.raises(SettingsError, match=reason):
        body_of(WRONG[reason])


def laid_out(nodes: Graph, **options: Any) -> tuple[Graph, str]:
    further = FurtherAttempt(prefix="close.1.2.", opened="opened", carried="carried", **options)
    return lay_out(nodes, body_of(nodes), further, str.upper)


def test_a_further_attempt_keeps_its_links_to_outside_nodes() -> None:
    new, end = laid_out(graph(look=node("PreviewImage", images=["decode", 0])))
    assert set(new) == {
        f"close.1.2.{name}" for name in ("open", "text", "sampler", "decode", "look", "close")
    }
    assert new["close.1.2.open"]["class_type"] == AGAIN
    assert new["close.1.2.open"]["inputs"] == {"opened": "opened"}
    assert new["close.1.2.sampler"]["inputs"] == {
        "model": ["loader", 0],
        "positive": ["close.1.2.text", 0],
        "seed": ["close.1.2.open", 2],
        "steps": 4,
    }
    assert end == "close.1.2.close" and new[end]["class_type"] == NEXT
    assert new[end]["inputs"] == {"image": ["close.1.2.decode", 0], "carried": "carried"}
    assert new["close.1.2.look"]["override_display_id"] == "LOOK"


def test_without_a_cache_outside_nodes_run_once() -> None:
    nodes = graph()
    first, end = laid_out(nodes, hold=True)
    assert nodes == graph(), "the original is not changed"
    (holder,) = {name for name, one in first.items() if "'loader'" in str(one["inputs"])}
    assert first[holder]["class_type"] == HOLD
    assert first[end]["inputs"]["held"] == [holder, 0]
    later, end = laid_out(nodes, hold=True, held="box")
    assert not any(one["class_type"] == HOLD for one in later.values())
    boxes = [one["inputs"] for one in later.values() if one["class_type"] == HELD]
    assert [box["index"] for box in boxes] == [0, 1, 2] and {box["box"] for box in boxes} == {"box"}
    assert later[end]["inputs"]["held"] == "box"
    assert not any(value == ["loader", 0] for one in later.values() for value in one["inputs"].values())


def digest(nodes: Graph, **options: Any) -> str | None:
    return body_digest(nodes, body_of(nodes), **options)


def changed(which: str, /, **inputs: Any) -> Graph:
    nodes = graph()
    nodes[which]["inputs"] |= inputs
    return nodes


def test_the_digest_covers_the_nodes_of_the_image() -> None:
    same = digest(graph())
    assert same and same == digest(graph())
    assert same == digest(changed("open", prompt="a house", seed=5))
    assert same == digest(changed("close", max_attempts=9))
    assert same == digest(graph(look=node("PreviewImage", images=["decode", 0])))
    assert same != digest(changed("sampler", steps=5))
    assert same != digest(changed("loader", name="b.safetensors"))
    assert same != digest(changed("decode", vae=["loader", 0]))
    assert same != digest(changed("text", text=["open", 5]))
    assert same != digest(graph(), stamp=lambda text: "1 2" if text == "a.safetensors" else None)


def test_ids_are_not_part_of_the_digest() -> None:
    renamed = {f"n-{name}": copy.deepcopy(one) for name, one in graph().items()}
    for one in renamed.values():
        for key, value in one["inputs"].items():
            if isinstance(value, list):
                one["inputs"][key] = [f"n-{value[0]}", value[1]]
    assert body_digest(renamed, body_of(renamed, "n-close")) == digest(graph())


def test_always_changing_or_unnamed_nodes_have_no_digest() -> None:
    nodes = graph()
    nodes["loader"]["is_changed"] = [float("nan")]
    assert digest(nodes) is None
    nodes["loader"]["is_changed"] = ["abc"]
    assert digest(nodes) not in (None, digest(graph()))
    assert digest(changed("sampler", model=object())) is None


def test_a_long_chain_is_no_problem() -> None:
    nodes = graph(step0=node("Scale", image=["decode", 0]))
    for number in range(1, 3000):
        nodes[f"step{number}"] = node("Scale", image=[f"step{number - 1}", 0])
    nodes["close"]["inputs"]["image"] = ["step2999", 0]
    assert len(body_of(nodes).nodes) == 3003 and digest(nodes)
