"""Our readers of submissions compared with the official loaders, on randomly damaged submissions.

The loaders are imported without changes from the user's checkouts; nothing of them is in this repository. Our
readers may be stricter (an image that is not RGB, or damaged where the loader does not look), but never more
lenient: everything that a loader would fail at or skip must be a fault. INTERLEAVE_EVALUATORS names a folder
with checkouts called SpecV and CoMM.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from support.small_benchmarks import MINIATURES, answer

from interleave_thinker.research.benchmarks import open_benchmark
from interleave_thinker.research.benchmarks.benchmark import BenchmarkItem, SubmissionPlace

pytestmark = [pytest.mark.stress, pytest.mark.timeout(3600)]

FOLDER = os.environ.get("INTERLEAVE_EVALUATORS", "")
COUNT = 500
"""Number of damaged submissions of each benchmark."""
Reads = Callable[[Path, BenchmarkItem], bool]


def loaded(path: Path) -> Any:
    """Return a module of a checkout."""
    spec = importlib.util.spec_from_file_location(f"official_{path.stem}", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def specv_reads(checkout: Path) -> Reads:
    """Return whether SpecV's evaluator would send an item to its judge."""
    module = loaded(checkout / "eval" / "interleave" / "run_eval.py")

    def reads(folder: Path, item: BenchmarkItem) -> bool:
        path = folder / item.id / "response.json"
        if not path.exists():
            return False
        try:
            content = json.loads(path.read_text(encoding="utf-8")).get("content", [])
            parts, fault = (
                module.build_interleaved_output_parts(content, path.parent) if content else (None, "")
            )
        except Exception:  # noqa: BLE001 - any exception of the official loader is a rejection
            return False
        return bool(parts) and fault is None

    return reads


def comm_reads(checkout: Path) -> Reads:
    """Return whether CoMM's evaluator would show an item completely: all images, and no text cut off."""
    module = loaded(checkout / "eval" / "utils.py")

    def reads(folder: Path, item: BenchmarkItem) -> bool:
        path = folder / item.id
        try:
            content = json.loads((path / "results.json").read_text(encoding="utf-8"))
            given = [str(path / "origin" / name) for name in content["input_image_list"]]
            predicted = [str(path / name) for name in content["prediction_image_list"]]
            steps, count = module.data_format(content["model_input"], given, str(path), 0, 10)
            if count >= 10:
                return False
            further, used = module.data_format(content["model_output"], predicted, str(path), count, 10)
            parts = [part for step in [*steps, *further] for part in step if part["type"] == "image"]
            for part in parts:
                # The client of its judge opens them later; an error there drops the sample.
                with Image.open(part["content"]) as image:
                    image.load()
        except Exception:  # noqa: BLE001 - any exception of the official loader is a rejection
            return False
        return bool(further) and used == len(predicted) and len(parts) == count + used

    return reads


def mutated(folder: Path, chance: random.Random) -> str:
    """Damage one thing and return its name."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    path = chance.choice(files)
    what = chance.choice(["nothing", "remove", "empty", "half", "folder", "text", "list"])
    if what == "remove":
        path.unlink()
    elif what == "empty":
        path.write_bytes(b"")
    elif what == "half":
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    elif what == "folder":
        shutil.rmtree(path.parent)
    elif path.suffix == ".json" and what in ("text", "list"):
        text = path.read_text(encoding="utf-8")
        options = [
            text.replace("<IMAGE>", "", 1),
            text.replace('"content"', '"contents"', 1),
            text.replace('"1.png"', '"9.png"', 1),
            text.replace('"type": "image"', '"type": "text"', 1),
            text.replace("predict_", "pict_", 1),
            text.replace('"prediction_image_list"', '"images"', 1),
            '{"content": []}',
        ]
        path.write_text(chance.choice(options), encoding="utf-8")
    return what


def hold(name: str, reads: Reads, count: int) -> dict[str, int]:
    """Count how often both readers agree on an item of a damaged submission, and which one was stricter."""
    chance, found = random.Random(0), Counter[str]()
    with tempfile.TemporaryDirectory() as scratch:
        data = Path(scratch) / "data"
        data.mkdir()
        benchmark = open_benchmark(name)
        items = benchmark.items(MINIATURES[name](data))
        whole = Path(scratch) / "whole"
        whole.mkdir()
        benchmark.write(SubmissionPlace(whole, whole), ((item, answer(n)) for n, item in enumerate(items)))
        for _ in range(count):
            broken = Path(scratch) / "broken"
            shutil.copytree(whole, broken)
            what = mutated(broken, chance)
            read = benchmark.read(broken, items)
            faults = {fault.item for fault in read}
            for item in items:
                with contextlib.redirect_stderr(io.StringIO()):
                    theirs = reads(broken, item)
                ours = item.id not in faults
                if ours != theirs:
                    reason = next((fault.reason for fault in read if fault.item == item.id), "read by us")
                    print(f"{name}, {item.id}, {what}: {reason}", file=sys.stderr)
                found["equal" if ours == theirs else "ours stricter" if theirs else "ours more lenient"] += 1
            shutil.rmtree(broken)
    return {"submissions": count, **found}


READERS = {"specv": ("SpecV", specv_reads), "comm": ("CoMM", comm_reads)}


@pytest.mark.parametrize("name", READERS)
def test_our_loader_is_never_more_lenient_than_the_official_one(name: str) -> None:
    folder, reads = READERS[name]
    checkout = Path(FOLDER) / folder
    if not FOLDER or not checkout.is_dir():
        pytest.skip(f"needs a checkout: INTERLEAVE_EVALUATORS=FOLDER with {folder}")
    found = hold(name, reads(checkout), COUNT)
    print(json.dumps(found))
    assert found["equal"] > 0
    assert "ours more lenient" not in found
