"""The Put Back node in the real host."""

from __future__ import annotations

import numpy
import pytest
from support.made_edits import difference, far_from_change, textured, tinted, with_change

from ..graphs.klein import Graph, node
from ..server.comfy_server import ComfyServer, HostError


def graph_of(before: str, after: str) -> Graph:
    return {
        "before": node("LoadImage", image=before),
        "after": node("LoadImage", image=after),
        "back": node("InterleavePutBack", before="@before", after="@after"),
        "saved": node("SaveImage", images="@back", filename_prefix="put-back"),
        "report": node("PreviewAny", source=["back", 1]),
    }


def test_pixels_are_put_back(host: ComfyServer) -> None:
    before = host.put_input(textured(), "put-before.png")
    after = host.put_input(tinted(with_change(textured())), "put-after.png")
    outputs = host.run(graph_of(before, after))
    assert "The edit changed" in outputs["report"]["text"][0]
    (file,) = outputs["saved"]["images"]
    image = host.image(file)
    assert difference(image, textured())[far_from_change()].max() <= 1
    assert numpy.asarray(image)[130, 150].tolist() == pytest.approx([230, 30, 60], abs=8)


def test_other_edits_are_returned_with_the_reason(host: ComfyServer) -> None:
    before = host.put_input(textured(), "put-before.png")
    after = host.put_input(textured(5), "put-other.png")
    outputs = host.run(graph_of(before, after))
    assert "Nothing was put back" in outputs["report"]["text"][0]
    (file,) = outputs["saved"]["images"]
    assert difference(host.image(file), textured(5)).max() == 0


def test_batches_of_different_lengths_are_an_error(host: ComfyServer) -> None:
    graph = {
        "before": node("EmptyImage", width=64, height=64, batch_size=2, color=0),
        "after": node("EmptyImage", width=64, height=64, batch_size=3, color=0),
        "back": node("InterleavePutBack", before="@before", after="@after"),
        "report": node("PreviewAny", source=["back", 1]),
    }
    with pytest.raises(HostError, match="2 images before and 3 images after"):
        host.run(graph)
