"""Every experiment of benchmarks/ is listed in its README, and the document named there cites it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from interleave_thinker.backend.answers.reading import write_verdict
from interleave_thinker.backend.prompts import default_prompt_set
from interleave_thinker.backend.types import Verdict
from interleave_thinker.backend.vram.agent_shapes import AgentShape, agent_shape, published_fields
from interleave_thinker.benchmarks.agents.model import MODELS, build
from interleave_thinker.benchmarks.agents.relative import median_interval
from interleave_thinker.benchmarks.turns.verdicts import PARTS, PageAnswers, causes, changes, sampled

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks"
ROW = re.compile(r"^\| `(\w+)`(?: \(with `(\w+)\.py`\)| \(a module\))? \| (.+) \|$", re.MULTILINE)
ROWS = ROW.findall((FOLDER / "README.md").read_text(encoding="utf-8"))


def test_the_list_is_complete() -> None:
    listed = {name for row in ROWS for name in row[:2] if name}
    there = {
        path.stem for path in FOLDER.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert listed == there - {"__init__"}


@pytest.mark.parametrize(("name", "produces"), [(name, produces) for name, _, produces in ROWS])
def test_every_benchmark_is_cited_in_a_document(name: str, produces: str) -> None:
    linked = re.search(r"\]\(\.\./(docs/[\w/-]+\.md)\)", produces) or re.search(r"`([\w/]+\.py)`", produces)
    assert linked
    text = (FOLDER.parent / linked[1]).read_text(encoding="utf-8")
    assert re.search(rf"\bbenchmarks[./]{name}\b", text), f"{linked[1]} does not cite {name}"


def test_real_proportions_are_those_of_the_published_model(tmp_path: Path) -> None:
    """The vision tower relative to the language layers: weights, and the cost of one token of an image."""
    folder = build(tmp_path / "model", default_prompt_set(), MODELS["real-proportions"], [])
    ours = agent_shape(json.loads((folder / "config.json").read_text(encoding="utf-8")))
    published = agent_shape(published_fields("Qwen/Qwen3-VL-8B-Instruct"))
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


CELLS_SEEN = "was page sea want page sea see page sea yes; was left {} want left {} see left {}: {}"
EXACT = CELLS_SEEN.format("nothing", "red boat", "blue boat", "red blue no, boat boat yes; so no")


@pytest.mark.parametrize(
    ("cell", "misread"),
    [
        (("nothing", "red boat", "red boat"), ["seen"]),
        (("nothing", "blue boat", "blue boat"), ["wanted"]),
        (("red tree", "red tree", "red tree"), list(PARTS)),
        (("nothing", "red boat", "blue boat"), ["conclusion"]),
    ],
)
def test_a_wrong_verdict_is_traced_to_what_was_misread(cell: tuple[str, ...], misread: list[str]) -> None:
    def answered(success: bool, cell: tuple[str, ...]) -> str:
        reasoning = CELLS_SEEN.format(*cell, "; so")
        return write_verdict(Verdict(success=success, refined_prompt="", reasoning=reasoning))

    right = answered(False, ("nothing", "red boat", "blue boat"))
    found = PageAnswers(answers=[answered(True, cell), right], truth=[False, False], exact=[EXACT] * 2)
    counted = causes(found)
    assert [part for part, count in counted.items() if count] == ["wrong verdicts", *misread]
    assert counted["wrong verdicts"] == 1
    before = found.model_copy(update={"answers": [right, right]})
    assert {name: count for name, count in changes(before, found).items() if count} == {
        "wrong images, lost": 1
    }


def test_groups_show_whether_right_verdicts_are_rewarded_more(tmp_path: Path) -> None:
    def group(truth: bool, right: int, reward: float) -> list[dict]:
        return [
            {"truth": truth, "accuracy": float(place < right), "overall": reward if place < right else 0.5}
            for place in range(8)
        ]

    samples = [*group(False, 6, 0.9), *group(False, 2, 0.1), *group(False, 0, 0.9), *group(True, 8, 0.9)]
    text = "\n".join(map(json.dumps, samples))
    (tmp_path / "step_000000.jsonl").write_text(text, encoding="utf-8")
    found = sampled([tmp_path], slice(None), truth=False)
    assert (found["groups"], found["right"]) == (3, pytest.approx(8 / 24))
    assert found["mixed"] == pytest.approx(2 / 3) and found["lost"] == pytest.approx(1 / 3)
    assert found["wrong mode"] == pytest.approx(2 / 3) and found["pushed"] == 0.5
    # Two of the eight right verdicts have the lower reward of their group.
    assert found["punished"] == pytest.approx(2 / 8)
    assert sampled([tmp_path], slice(None), truth=True)["mixed"] == 0
