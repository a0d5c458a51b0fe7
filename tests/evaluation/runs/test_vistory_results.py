"""ViStoryBench's own loaders, unchanged, read the same as ours from our miniature and submission.

INTERLEAVE_EVALUATORS names a folder with a checkout called ViStoryBench; its loaders need pandas, yaml and
natsort. Its evaluators need weights and are not run here.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from support.collected_benchmark import collected

from interleave_thinker.evaluation.benchmarks.vistory.shots import (
    LANGUAGE,
    METHOD,
    MODE,
    STORIES,
    TIMESTAMP,
    shots_in,
)
from interleave_thinker.evaluation.runs.scores import opened, score
from interleave_thinker.evaluation.runs.submission import SUBMISSION

CHECKOUT = Path(os.environ.get("INTERLEAVE_EVALUATORS", "")) / "ViStoryBench"
LOADERS = "vistorybench.dataset_loader"


@pytest.fixture
def official(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import a module of the checkout."""
    if not os.environ.get("INTERLEAVE_EVALUATORS") or not CHECKOUT.is_dir():
        pytest.skip("needs a checkout: INTERLEAVE_EVALUATORS=FOLDER with ViStoryBench")
    for package in ("pandas", "yaml", "natsort"):
        pytest.importorskip(package)
    monkeypatch.syspath_prepend(str(CHECKOUT))
    yield import_module
    for name in [name for name in sys.modules if name.split(".")[0] == "vistorybench"]:
        del sys.modules[name]


def test_official_loaders_read_our_data_and_submission(official: Any, tmp_path: Path) -> None:
    out = collected("vistory", tmp_path)
    items = opened(out).items
    dataset = official(f"{LOADERS}.dataset_load").StoryDataset(str(tmp_path / "data" / "ViStory"))
    outputs = official(f"{LOADERS}.read_outputs").load_outputs(
        str(out / SUBMISSION), methods=METHOD, modes=MODE, languages=LANGUAGE, return_latest=False
    )
    assert dataset.get_story_name_list() == [item.id for item in items]
    manager = official("vistorybench.result_management.manager").ResultManager(
        METHOD, MODE, LANGUAGE, timestamp="20260101_000000", base_path=str(tmp_path / "results")
    )
    for at, item in enumerate(items):
        story = dataset.load_story(item.id, LANGUAGE)
        assert [int(shot["index"]) for shot in story["shots"]] == item.row["shots"]
        merged = dataset.story_prompt_merge(story, mode="image")
        assert {Path(path) for paths in merged for path in paths} == set(item.images)
        found = {number: Path(path) for number, path in outputs[item.id]["shots"].items()}
        assert found == shots_in(out / SUBMISSION / STORIES / item.id)
        assert set(found) == set(item.row["shots"][:3]) and TIMESTAMP in str(found[1])
        manager.save_story_result("cids", item.id, {"metrics": {"cids_cross_mean": at / 10, "occm": 50.0}})
        manager.save_story_result("csd", item.id, {"self_csd": 0.5, "cross_csd": 0.25})
    manager.compute_and_save_summary()
    scores = score(out, tmp_path / "results")
    for at, item in enumerate(items):
        share = len(outputs[item.id]["shots"]) / item.steps
        values = scores.values[item.id]
        assert values["cids cross"] == pytest.approx(share * at / 10)
        assert values["characters counted"] == values["style self"] == pytest.approx(share * 0.5)
