"""Miniature data of the known benchmarks in their official formats, for tests."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from interleave_thinker.backend.core.pictures import Picture
from interleave_thinker.backend.models.generators.fake import FakeGenerator
from interleave_thinker.research.benchmarks.benchmark import AnswerStep, BenchmarkData, ItemAnswer

TEXTS = ("Bake (1) hour at [high] heat, 5 < 6 (2 cups)", "Cool it (3)", "", "Serve ‘warm’ — 温かい")
"""Texts that loaders have trouble with."""


def picture(number: int, size: int = 16) -> Picture:
    """Return an image, a different one for every number."""
    return FakeGenerator(size).draw(f"picture {number}", None, number)


def answer(number: int, steps: int = 3) -> ItemAnswer:
    """Return an answer with this number of steps, each with an image, and texts that are hard to store."""
    return ItemAnswer(
        tuple(AnswerStep(TEXTS[(number + at) % len(TEXTS)], picture(10 * number + at)) for at in range(steps))
    )


def image(path: Path, number: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(picture(number).png())


def wise(folder: Path) -> BenchmarkData:
    ids = (1, 2, 400, 401, 521, 641, 761, 881, 1000)
    rows = [
        {
            "Prompt": f"what number {n} is",
            "Explanation": "it",
            "Category": "c",
            "Subcategory": "s",
            "prompt_id": n,
        }
        for n in ids
    ]
    (folder / "merge.json").write_text(json.dumps(rows))
    return BenchmarkData(folder)


def ueval(folder: Path) -> BenchmarkData:
    tasks = ("art", "life", "space", "paper")
    rows = [
        {
            "id": str(n),
            "task": tasks[n % 4],
            "prompt": f"Explain {n} both visually and textually.",
            "text_rubrics": ["it says so"],
            "image_rubrics": ["it shows so"],
        }
        for n in range(8)
    ]
    (folder / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return BenchmarkData(folder / "test.jsonl")


def rise(folder: Path) -> BenchmarkData:
    kinds = ("temporal_reasoning", "causal_reasoning", "spatial_reasoning", "logical_reasoning")
    rows = []
    for n in range(8):
        name = f"{kinds[n % 4]}_images/{n}.png"
        image(folder / name, n)
        rows.append(
            {
                "index": f"{kinds[n % 4]}_{n}",
                "category": kinds[n % 4],
                "instruction": f"age it {n}",
                "image": name,
            }
        )
    (folder / "data.json").write_text(json.dumps(rows))
    return BenchmarkData(folder / "data.json")


def specv(folder: Path) -> BenchmarkData:
    inner = folder / "eval_data" / "interleave"
    for n in (1, 2):
        image(inner / "images" / f"comp_001_{n}.png", n)
    first = {
        "id": "comp_001",
        "dimension": "interleaved_completion",
        "question": "Go on from [IMAGE2], then from [IMAGE1].",
        "question_img": ["images/comp_001_1.png", "images/comp_001_2.png"],
    }
    rows = [
        {"id": f"stru_{n:03}", "dimension": "structured_tutorial", "question": f"How to {n}?"}
        for n in range(5)
    ]
    (inner / "interleaved_completion.jsonl").write_text(json.dumps(first) + "\n")
    (inner / "structured_tutorial.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return BenchmarkData(folder)


def comm(folder: Path) -> BenchmarkData:
    rows = []
    for n in range(4):
        steps = []
        for at in range(4 - n % 2):
            image(folder / "images" / f"{n}_{at}.png", 4 * n + at)
            words = {"type": "text", "content": f"Step {at} (1) of [{n}]"}
            steps.append([words, {"type": "image", "image_path": f"images/{n}_{at}.png"}])
        rows.append({"data_id": f"manual{n}", "dataset_type": "x", "title": f"Thing {n}", "step_info": steps})
    rows.append({"data_id": "short", "dataset_type": "x", "title": "One step", "step_info": [steps[0]]})
    (folder / "comm.json").write_text(json.dumps(rows))
    return BenchmarkData(folder / "comm.json")


def tinyworld(folder: Path) -> BenchmarkData:
    return BenchmarkData()


MINIATURES: dict[str, Callable[[Path], BenchmarkData]] = {
    "tinyworld": tinyworld,
    "wise": wise,
    "ueval": ueval,
    "rise": rise,
    "specv": specv,
    "comm": comm,
}
