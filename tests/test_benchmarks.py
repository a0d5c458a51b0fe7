"""Every experiment is listed in its README, and the document named there cites it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from interleave_thinker.backend.core.prompts.prompt_set import default_prompt_set
from interleave_thinker.backend.models.vram.shapes import SHAPES, AgentShape, agent_shape
from interleave_thinker.research.experiments.agents import median_interval
from interleave_thinker.research.experiments.agents_loops import MODELS, build

FOLDER = Path(__file__).resolve().parents[1] / "research" / "experiments"
ROW = re.compile(r"^\| `(\w+)`(?: \(with `(\w+)\.py`\))? \| (.+) \|$", re.MULTILINE)
ROWS = ROW.findall((FOLDER / "README.md").read_text(encoding="utf-8"))


def test_the_list_is_complete() -> None:
    listed = {name for row in ROWS for name in row[:2] if name}
    there = {
        path.stem for path in FOLDER.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert listed == there - {"__init__"}


@pytest.mark.parametrize(("name", "produces"), [(name, produces) for name, _, produces in ROWS])
def test_every_benchmark_is_cited_in_a_document(name: str, produces: str) -> None:
    linked = re.search(r"\]\(((?:\.\./\.\./docs|notes)/[\w/-]+\.md)\)", produces)
    assert linked
    text = (FOLDER / linked[1]).resolve().read_text(encoding="utf-8")
    assert re.search(rf"\bexperiments[./]{name}\b", text), f"{linked[1]} does not cite {name}"


def test_real_proportions_are_those_of_the_published_model(tmp_path: Path) -> None:
    """The vision tower relative to the language layers: weights, and the cost of one token of an image."""
    folder = build(tmp_path / "model", default_prompt_set(), MODELS["real-proportions"], [])
    ours = agent_shape(json.loads((folder / "config.json").read_text(encoding="utf-8")))
    published = agent_shape(SHAPES["Qwen/Qwen3-VL-8B-Instruct"])
    weights = [shape.vision_weights / shape.layer_weights for shape in (ours, published)]
    assert weights[0] == pytest.approx(weights[1], rel=0.25)
    assert image_token_cost(ours) == pytest.approx(image_token_cost(published), rel=0.1)


def image_token_cost(shape: AgentShape) -> float:
    """Weights that one token of an image meets in the tower, relative to those in the language layers.

    Four patches pass through the blocks, and what they become through the mergers.
    """
    merged = shape.vision_width * shape.merge**2
    mergers = (1 + shape.deepstack) * merged * (merged + shape.width)
    blocks = shape.vision_weights - mergers
    return (blocks * shape.merge**2 + mergers) / shape.layer_weights


@pytest.mark.parametrize(
    ("values", "interval"),
    [
        ([1.0, 2.0, 3.0, 4.0, 5.0], None),
        ([6.0, 1.0, 2.0, 3.0, 4.0, 5.0], [1.0, 6.0]),
        ([float(value) for value in range(9)], [1.0, 7.0]),
        ([float(value) for value in range(20)], [5.0, 14.0]),
    ],
)
def test_a_median_has_an_exact_interval(values: list[float], interval: list[float] | None) -> None:
    """Six values are all on one side of the median with a probability of 2/64: the table of the sign test."""
    assert median_interval(values) == interval
