"""Benchmarks from the first item to the figures: runs, submissions, scores, comparisons."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from support.benchmark_runs import carry_out
from support.benchmark_runs import miniature_setting as setting_of
from support.cli_calls import Scripts, call
from support.small_agents import STORY
from support.small_benchmarks import MINIATURES
from support.small_teachers import SmallChat, SmallTeachers

from interleave_thinker import Plan, Planner, SettingsError, Step
from interleave_thinker.backend.core.answers.reading import write_plan
from interleave_thinker.research.benchmarks import open_benchmark
from interleave_thinker.research.data.trajectories import Teachers
from interleave_thinker.research.evaluation import submission as collecting
from interleave_thinker.research.evaluation.benchmark_run import UNKNOWN, commit, row_of, take_folder
from interleave_thinker.research.evaluation.scores import as_lines, compare, score
from interleave_thinker.research.evaluation.submission import collect, read_collected


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_from_items_to_figures_and_a_comparison(tmp_path: Path) -> None:
    for name, attempts in (("a", 1), ("b", 4)):
        setting = setting_of("wise", tmp_path, max_attempts=attempts)
        assert carry_out(tmp_path / name, setting).totals.to_do == 0
        collect(tmp_path / name, log=lambda line: None)
    ids = [one.id for one in read_collected(tmp_path / "a")]
    assert sorted(path.stem for path in (tmp_path / "a" / "submission").iterdir()) == sorted(ids)
    results = tmp_path / "results.jsonl"
    results.write_text("".join(json.dumps({"prompt_id": int(n), "score": int(n) % 2}) + "\n" for n in ids))
    first = score(tmp_path / "a", results)
    assert first.figures[0].items.mean == pytest.approx(6 / 9) and first.figures[0].yes_no
    assert first.draws_an_item == 3.0 and first.unscored == 0
    # One answer that the evaluator did not score, and one more that is correct.
    results.write_text("".join(json.dumps({"prompt_id": int(n), "score": 1}) + "\n" for n in ids[1:]))
    second = score(tmp_path / "b", results)
    assert second.unscored == 1 and second.figures[0].items.mean == pytest.approx(8 / 9)
    assert second.draws_an_item > 3.0 and 0 < second.forced_share < 1
    (found,) = compare(tmp_path / "a", tmp_path / "b")
    assert found.difference == pytest.approx(2 / 9) and found.changed == 4 and found.p is not None
    assert "| right | culture |" in (tmp_path / "b" / "scores.md").read_text()
    assert not any("Only a part" in line for line in as_lines(second))
    second.setting.split = "culture"
    assert any("Only a part" in line for line in as_lines(second))


def test_other_settings_and_data_are_rejected_but_more_items_are_accepted(tmp_path: Path) -> None:
    out = tmp_path / "out"
    carry_out(out, setting_of("wise", tmp_path, limit=2))
    with pytest.raises(SettingsError, match="with other settings"):
        take_folder(out, setting_of("wise", tmp_path, limit=2, max_attempts=5))
    with pytest.raises(SettingsError, match="with other models"):
        take_folder(out, setting_of("wise", tmp_path, limit=2).model_copy(update={"models": {}}))
    collect(out, log=lambda line: None)
    carry_out(out, setting_of("wise", tmp_path, limit=4))
    with pytest.raises(SettingsError, match="collect again"):
        score(out, tmp_path)
    collect(out, log=lambda line: None)
    data = tmp_path / "data" / "merge.json"
    data.write_text(data.read_text().replace("what number 2", "which number 2"))
    with pytest.raises(SettingsError, match="has changed since this folder"):
        collect(out)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("x")
    with pytest.raises(SettingsError, match="other files"):
        take_folder(tmp_path / "full", setting_of("wise", tmp_path))
    for name in ("full/mine.txt", "x" * 300):
        with pytest.raises(SettingsError, match="Cannot use the folder"):
            take_folder(tmp_path / name, setting_of("wise", tmp_path))


def test_a_submission_needs_its_own_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, setting = tmp_path / "out", setting_of("wise", tmp_path, limit=3)
    carry_out(out, setting)
    collect(out, log=lambda line: None)

    def full(*given: object) -> None:
        raise SettingsError("No space is left.")

    with monkeypatch.context() as patched:
        patched.setattr(collecting, "write_text", full)
        with pytest.raises(SettingsError, match="No space"):
            collect(out, log=lambda line: None)
    with pytest.raises(SettingsError, match="has no submission"):
        score(out, tmp_path)
    assert collect(out, log=lambda line: None) and len(read_collected(out)) == 3


@pytest.mark.parametrize("name", ["ueval", "rise", "specv", "comm"])
def test_a_gap_is_rejected_or_counts_zero(name: str, tmp_path: Path) -> None:
    out, setting = tmp_path / "out", setting_of(name, tmp_path)
    items = open_benchmark(name).items(setting.where())
    down = SmallTeachers(down=items[1].text.split("<")[0].strip())
    assert carry_out(out, setting, down).totals.failed == 1
    with pytest.raises(SettingsError, match="The teacher is down"):
        collect(out)
    assert not (out / "submission").exists()
    collect(out, with_gaps=True, log=lambda line: None)
    assert [one.id for one in read_collected(out) if one.gap] == [items[1].id]
    carry_out(out, setting, retry_failed=True)
    collect(out, log=lambda line: None)
    assert not [one for one in read_collected(out) if one.gap]


def test_a_missing_item_lowers_the_mean(tmp_path: Path) -> None:
    out, setting = tmp_path / "out", setting_of("specv", tmp_path)
    carry_out(out, setting, SmallTeachers(down="How to 3?"))
    collect(out, with_gaps=True, log=lambda line: None)
    for item in open_benchmark("specv").items(setting.where()):
        path = tmp_path / "results" / item.category / f"{item.id}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('[{"expected_answer": "Yes", "answer": "Yes"}]')
    found = score(out, tmp_path / "results")
    assert found.gaps == 1 and found.figures[0].items.mean == pytest.approx(5 / 6)
    assert found.figures[0].macro.mean == pytest.approx((1 + 4 / 5) / 2)


def test_the_tiny_world_is_judged_from_the_pixels_of_the_submission(tmp_path: Path) -> None:
    scripted = [*Scripts(tmp_path).planner(write_plan(STORY)), "--generator", "fake:64"]
    for name, models in (("true", []), ("false", scripted)):
        out = tmp_path / name
        done = call(
            "benchmark", "tinyworld", "--out", out, "--set", "split=1 page", "--limit", 1, "--critic",
            "none", *models,
        )  # fmt: skip
        assert done.exit_code == 0, done.output
        assert call("benchmark", "collect", out).exit_code == 0
        shown = call("benchmark", "score", out)
        assert shown.exit_code == 0 and "| pages | all items |" in shown.output
    compared = call("benchmark", "compare", tmp_path / "false", tmp_path / "true")
    assert compared.exit_code == 0 and "| pages | +" in compared.output
    refused = call("benchmark", "tinyworld", "--out", tmp_path / "true", "--set", "split=1 page")
    assert refused.exit_code == 2 and "with other models" in refused.output
    assert call("benchmark", "wise", "--out", tmp_path / "w").exit_code == 2


def test_the_published_input_and_ids_of_any_kind(tmp_path: Path) -> None:
    items = open_benchmark("ueval").items(MINIATURES["ueval"](tmp_path))
    assert "visually" not in row_of(items[0], published_input=True).user_input
    assert row_of(items[0]).user_input == items[0].text
    strange = [row_of(type(items[0])(name, "text")) for name in ("a b", "ä", "x" * 90, "A", "a")]
    assert len({row.folder for row in strange}) == 5


@pytest.mark.parametrize("preset", ["ours", "released"])
def test_ueval_texts_are_joined_according_to_the_preset(preset: str, tmp_path: Path) -> None:
    out, setting = tmp_path / "out", setting_of("ueval", tmp_path, preset=preset, limit=1)
    carry_out(out, setting, Telling())
    (entry,) = json.loads((collect(out, log=lambda line: None) / "ueval.json").read_text())
    numbered = "1. Bake it.\n\n2. Cool it.\n\n3. Eat it."
    # The published runner joins without separators and uses the instruction if a step has no text.
    assert entry["text_answer"] == (numbered if preset == "ours" else "Bake it. Cool it.\nEat it.")


TOLD = Plan(
    steps=(
        Step(number=1, prompt="page 1", instruction="Bake.", auxiliary_text="Bake it."),
        Step(number=2, prompt="page 2", instruction=" Cool it.\n"),
        Step(number=3, auxiliary_text="Eat it."),
    )
)


class ToldChat(SmallChat):
    """Plans that story."""

    def _answer(self, content: object) -> str:
        return write_plan(TOLD)


@dataclass(frozen=True)
class Telling(SmallTeachers):
    """Plans a story in which every step has text."""

    def __call__(self) -> Teachers:
        return replace(super().__call__(), planner=Planner(ToldChat("planner")))


def test_a_table_of_several_folders_shows_what_differs(tmp_path: Path) -> None:
    data = MINIATURES["wise"](tmp_path).path
    planner = Scripts(tmp_path).planner(*[write_plan(STORY)] * 20)
    out = [tmp_path / f"out{attempts}" for attempts in (1, 2)]
    results = tmp_path / "results.jsonl"
    results.write_text('{"prompt_id": 1, "score": 1}\n{"prompt_id": 2, "score": 1}\n')
    for folder in out:
        made = call(
            *("benchmark", "wise", "--data", data, "--out", folder, "--limit", 2, "--critic", "none"),
            *(*planner, "--generator", "fake:64", "--set", f"max_attempts={folder.name[-1]}"),
        )
        assert made.exit_code == 0, made.output
        assert call("benchmark", "collect", folder).exit_code == 0
        assert call("benchmark", "score", folder, "--results", results).exit_code == 0
    hosted = ("--official", tmp_path, "--judge", "openai:x@https://api.example.com/v1")
    assert call("benchmark", "score", out[0], *hosted).exit_code == 3
    for wrong in (("--judge", "scripted:x"), (*hosted, "--results", results)):
        refused = call("benchmark", "score", out[0], *wrong)
        assert refused.exit_code == 2 and "belong together" in refused.output
    shown = call("benchmark", "table", *out)
    assert shown.exit_code == 0, shown.output
    columns = (
        "| folder | max attempts | right | attempts per item | seconds per item | not accepted | items |"
    )
    assert columns in shown.output
    assert "| out2 | 2 | 1.000 (0.342 to 1.000) |" in shown.output and "no critic" in shown.output
    assert call("benchmark", "table", out[0]).exit_code == 2


def test_a_hosted_model_needs_consent_before_anything_is_written(tmp_path: Path) -> None:
    data = MINIATURES["wise"](tmp_path).path
    hosted = ("--planner", "openai:m@https://api.example.com/v1", "--generator", "fake:16")
    asked = call("benchmark", "wise", "--data", data, "--out", tmp_path / "out", *hosted)
    assert asked.exit_code == 3 and "9 items" in asked.output and not (tmp_path / "out").exists()


def test_a_checkout_names_its_commit_and_a_folder_inside_another_one_does_not(tmp_path: Path) -> None:
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], check=True, timeout=30)
    assert commit(tmp_path) == UNKNOWN
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], check=True, timeout=30)
    assert len(commit(tmp_path)) == 40
    inner = tmp_path / "custom_nodes" / "pack"
    inner.mkdir(parents=True)
    assert commit(inner) == UNKNOWN
