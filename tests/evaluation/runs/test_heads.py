"""The lines above a table, and data that must not enter one."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from support.cli_calls import Scripts, call
from support.small_agents import STORY
from support.small_benchmarks import MINIATURES

from interleave_thinker.backend.answers.reading import write_plan
from interleave_thinker.backend.errors import SettingsError
from interleave_thinker.evaluation.benchmarks import open_benchmark
from interleave_thinker.evaluation.benchmarks.base.benchmark import BenchmarkData
from interleave_thinker.evaluation.benchmarks.wise import items as wise
from interleave_thinker.evaluation.licences import UNKNOWN, licences_of


def rows(folder: Path, **more: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "merge.json"
    row = {"Prompt": "what it is", "Explanation": "it", "prompt_id": 1, **more}
    path.write_text(json.dumps([row]))
    return path


def test_the_first_version_of_wise_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    benchmark = open_benchmark("wise")
    assert benchmark.items(BenchmarkData(rows(tmp_path / "a", Category="time", prompt_id=520)))
    for number, (place, more) in enumerate(
        (
            ("b", {"Category": "time", "prompt_id": 521}),
            ("c", {"Category": "Biology", "prompt_id": 761}),
            ("WISE_legacy/data", {}),
        )
    ):
        with pytest.raises(SettingsError, match="first version"):
            benchmark.items(BenchmarkData(rows(tmp_path / str(number) / place, **more)))
    digest = hashlib.blake2b(b"what it is", digest_size=8).hexdigest()
    monkeypatch.setattr(wise, "LEGACY_PROMPTS", frozenset({digest}))
    with pytest.raises(SettingsError, match="first version"):
        benchmark.items(BenchmarkData(rows(tmp_path / "d")))
    results = tmp_path / "results.jsonl"
    results.write_text('{"prompt_id": 1, "consistency": 2, "realism": 1, "aesthetic_quality": 2}\n')
    with pytest.raises(SettingsError, match="first version"):
        benchmark.values(tmp_path, results, [])


def test_licenses_are_read_from_a_models_own_folder(tmp_path: Path) -> None:
    model_card = tmp_path / "model" / "README.md"
    model_card.parent.mkdir()
    spec = f"transformers:{model_card.parent}"
    models = {"planner": spec, "critic": "none", "generator": "images:x@https://api.example.com"}
    for text, expected in (
        ("---\nlanguage: en\nlicense: apache-2.0\n---\nlicense: mit\n", "apache-2.0"),
        ('---\nlicense: other\nlicense_name: "flux-dev"\n---\n', "flux-dev"),
        ("license: mit\n", UNKNOWN),
        ("---\nlicense:\n  - mit\n---\n", UNKNOWN),
        ("", UNKNOWN),
    ):
        model_card.write_text(text)
        assert licences_of(models) == {"planner": expected, "critic": "no model", "generator": UNKNOWN}
    model_card.write_bytes(b"\xff---\nlicense: \xff\n---\n")
    assert licences_of({"planner": spec}) == {"planner": UNKNOWN}


def test_a_table_of_several_folders_shows_what_differs(tmp_path: Path) -> None:
    data = MINIATURES["wise"](tmp_path).path
    planner = Scripts(tmp_path).planner(*[write_plan(STORY)] * 20)
    out = [tmp_path / f"out{attempts}" for attempts in (1, 2)]
    for folder, limit in zip(out, (2, 2), strict=True):
        made = call(
            *("benchmark", "wise", "--data", data, "--out", folder, "--limit", limit, "--critic", "none"),
            *(*planner, "--generator", "fake:64", "--max-attempts", folder.name[-1]),
        )
        assert made.exit_code == 0, made.output
        assert call("benchmark", "collect", folder).exit_code == 0
    refused = call("benchmark", "score", out[0], "--judge", "fake:1", "--results", data)
    assert refused.exit_code == 2 and "--results cannot be combined" in refused.output
    assert call("benchmark", "score", out[0], "--repeats", 2).exit_code == 2
    hosted = call("benchmark", "score", out[0], "--judge", "openai:x@https://api.example.com/v1")
    assert hosted.exit_code == 3 and "2 questions" in hosted.output, hosted.output
    for folder in out:
        scored = call("benchmark", "score", folder, "--judge", "fake:1", "--repeats", 2)
        assert scored.exit_code == 0 and "not comparable with published tables" in scored.output
        assert "variation of the judge between repeats, right: 1.000, 1.000" in scored.output
    shown = call("benchmark", "table", *out)
    assert shown.exit_code == 0, shown.output
    assert (
        "| folder | max attempts | right | attempts per item | seconds per item | not accepted | items |"
        in shown.output
    )
    assert "| out2 | 2 | 1.000 (0.342 to 1.000) |" in shown.output and "no critic" in shown.output
    assert call("benchmark", "table", out[0]).exit_code == 2
