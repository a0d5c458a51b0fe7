"""Rows of other tools, and files for another command, are read as intended or rejected with a hint."""

from __future__ import annotations

import json
import runpy
import textwrap
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from typer.testing import CliRunner

from interleave_thinker import Plan, SettingsError, Step, Verdict
from interleave_thinker.backend.core.answers.reading import write_plan, write_verdict
from interleave_thinker.research.data.data_files import rows_of
from interleave_thinker.training.rows.rl import read_planner_rl, read_rl_rows
from interleave_thinker.training.rows.sft import check_rows, read_rows

PLAN = write_plan(Plan(steps=(Step(number=1, prompt="a boat"),), reasoning="so"))
VERDICT = write_verdict(Verdict(success=False, refined_prompt="a red boat", reasoning="so"))
USER = {"role": "user", "content": "<image> Is it right?"}
ROWS: dict[str, dict[str, Any]] = {
    "planner-sft": {"messages": [USER, {"role": "assistant", "content": PLAN}], "images": ["a.png"]},
    "critic-sft": {"messages": [USER, {"role": "assistant", "content": VERDICT}], "images": ["a.png"]},
    "planner-grpo": {"request": "a boat", "checklist": ["a boat is there"]},
    "critic-grpo": {
        "origin_prompt": "a boat",
        "edited_image_path": "a.png",
        "evaluation": {"success": False, "semantics": 4, "quality": 4},
    },
}
READERS = {
    "planner-sft": check_rows,
    "critic-sft": check_rows,
    "planner-grpo": read_planner_rl,
    "critic-grpo": read_rl_rows,
}


def as_list(rows: list[Any]) -> str:
    return "\n" + json.dumps(rows, indent=1)


def as_lines(rows: list[Any]) -> str:
    return "\n".join(map(json.dumps, rows)) + "\n"


def written(folder: Path, *rows: dict[str, Any], name: str = "rows.json", form: Any = as_list) -> Path:
    Image.new("RGB", (40, 30), "blue").save(folder / "a.png")
    path = folder / name
    path.write_text(form(list(rows)), encoding="utf-8")
    return path


FORMS = [("rows.json", as_list, ""), ("rows.jsonl", as_list, "\ufeff"), ("rows.json", as_lines, "\ufeff")]


@pytest.mark.parametrize(("name", "form", "mark"), FORMS)
@pytest.mark.parametrize("command", ROWS)
def test_a_file_is_read_by_its_content(command: str, name: str, form: Any, mark: str, tmp_path: Path) -> None:
    path = written(tmp_path, ROWS[command], ROWS[command], name=name, form=form)
    path.write_text(mark + path.read_text(encoding="utf-8"), encoding="utf-8")
    rows, problems = READERS[command](path)
    places = ["row 0", "row 1"] if form is as_list else [f"line {n + 1}" for n in range(2)]
    assert [row.place for row in rows] == places and not problems
    assert list(rows_of(path, ())) == [ROWS[command]] * 2


@pytest.mark.parametrize("text", ["", "[]", "\n \n", '{"messages": [\n]}', "[1", '[{"a": 1},'])
@pytest.mark.parametrize("read", [check_rows, read_rl_rows])
def test_a_file_without_rows_is_an_error(read: Any, text: str, tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text(text)
    with pytest.raises(SettingsError):
        read(tmp_path / "rows.json")


OTHERS = [("planner-sft", "critic-grpo"), ("planner-grpo", "planner-sft"), ("critic-grpo", "critic-sft")]
OTHERS += [("critic-sft", "planner-sft"), ("planner-sft", "planner-grpo")]


@pytest.mark.parametrize(("given", "command"), OTHERS)
def test_rows_for_another_command_name_it(command: str, given: str, tmp_path: Path) -> None:
    pytest.importorskip("trl", reason='training needs: pip install ".[training]"')
    from interleave_thinker.cli.train.command import app

    path = written(tmp_path, ROWS[given], ROWS[given])
    told = ["--out", str(tmp_path / "out"), "--data", str(path), "--init", "tinyworld:critic"]
    if command == "critic-grpo":
        told += ["--generator", "tinyworld", "--scorer", "tinyworld"]
    told += ["--judge", "tinyworld"] if command == "planner-grpo" else []
    error = CliRunner().invoke(app, [command, *told]).exception
    assert isinstance(error, SettingsError), error
    named = "planner-sft or critic-sft" if given.endswith("sft") and not command.endswith("sft") else given
    assert f"train {named}" in (error.hint or ""), error
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", ["planner-sft", "critic-sft"])
def test_held_out_rows_of_the_other_agent_are_rejected(command: str, tmp_path: Path) -> None:
    pytest.importorskip("trl", reason='training needs: pip install ".[training]"')
    from interleave_thinker.cli.train.command import app

    other = "critic-sft" if command == "planner-sft" else "planner-sft"
    data = written(tmp_path, ROWS[command])
    held = written(tmp_path, ROWS[other], name="held.json")
    told = ["--data", str(data), "--held-out", str(held), "--init", "tinyworld:critic"]
    error = CliRunner().invoke(app, [command, *told, "--out", str(tmp_path / "out")]).exception
    assert isinstance(error, SettingsError) and f"train {other}" in (error.hint or ""), error


def test_a_system_text_is_the_first_turn(tmp_path: Path) -> None:
    row = ROWS["critic-sft"] | {"system": "You judge.", "tools": "[]"}
    (found,), _ = check_rows(written(tmp_path, row))
    assert found.messages[0].content == "You judge."
    assert [one.role for one in found.messages] == ["system", "user", "assistant"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"tools": '[{"name": "draw"}]'}, "tools"),
        ({"tools": [{"name": "draw"}]}, "tools"),
        ({"system": 5}, "content"),
        (
            {
                "system": "One.",
                "messages": [{"role": "system", "content": "Two."}, *ROWS["critic-sft"]["messages"]],
            },
            "it has 'system' and a system turn",
        ),
    ],
)
def test_foreign_content_is_rejected(more: dict[str, Any], said: str, tmp_path: Path) -> None:
    path = written(tmp_path, ROWS["critic-sft"] | more)
    with pytest.raises(SettingsError, match=said):
        check_rows(path)


def test_conversations_of_sharegpt_are_read(tmp_path: Path) -> None:
    turns = [{"from": "human", "value": "<image> Is it right?"}, {"from": "gpt", "value": VERDICT}]
    plain = read_rows(written(tmp_path, ROWS["critic-sft"]))
    for images in ({"images": ["a.png"]}, {"image": "a.png"}):
        assert read_rows(written(tmp_path, {"conversations": turns, **images})) == plain
    text_alone = [{"from": "human", "value": "A boat."}, {"from": "gpt", "value": PLAN}]
    (row,) = read_rows(written(tmp_path, {"conversations": text_alone, "images": None}))
    assert row.images == [] and row.messages[0].content == "A boat."
    called = [turns[0], {"from": "function_call", "value": "{}"}, turns[1]]
    with pytest.raises(SettingsError, match=r"row 0, row: the role 'function_call' is not supported"):
        check_rows(written(tmp_path, {"conversations": called, "images": ["a.png"]}))


def test_parquet_is_rejected_with_advice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets", reason='needs: pip install ".[research]"')
    file = tmp_path / "FILE.parquet"
    columns = datasets.Features(
        {
            "messages": datasets.List(
                {"role": datasets.Value("string"), "content": datasets.Value("string")}
            ),
            "images": datasets.List(datasets.Image()),
        }
    )
    picture = Image.new("RGB", (40, 30), "blue")
    row = {"messages": ROWS["critic-sft"]["messages"], "images": [picture]}
    datasets.Dataset.from_list([row], features=columns).to_parquet(str(file))
    with pytest.raises(SettingsError, match=r"(?s)is parquet.*make-rows\.md, Convert Parquet into rows"):
        check_rows(file)
    guides = Path(__file__).parents[3] / "docs" / "how-to" / "training"
    document = (guides / "make-rows.md").read_text(encoding="utf-8")
    section = document.split("## Convert Parquet into rows\n")[1].split("\n## ")[0]
    script = "\n".join(line for line in section.splitlines() if line.startswith("    ") or not line)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "convert.py").write_text(textwrap.dedent(script), encoding="utf-8")
    runpy.run_path(str(tmp_path / "convert.py"))
    (found,), _ = check_rows(tmp_path / "rows" / "rows.jsonl")
    assert found.messages[-1].content == VERDICT and found.images == ["images/0_0.png"]


def scored(*scores: tuple[bool, float, float]) -> list[dict[str, Any]]:
    fields = ("success", "semantics", "quality")
    return [ROWS["critic-grpo"] | {"evaluation": dict(zip(fields, one, strict=True))} for one in scores]


@pytest.mark.parametrize("rows", [scored((True, 1, 1), (False, 0, 1)), scored((False, 0.4, 0.9))])
def test_scores_on_another_scale_are_rejected(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"(?s)are between 0 and 1, .*0 to 10.*Multiply both by 10"):
        read_rl_rows(written(tmp_path, *rows))


@pytest.mark.parametrize(
    "rows", [scored((False, 0, 1), (False, 1, 0)), scored((True, 0.5, 1), (False, 2, 0))]
)
def test_low_scores_are_taken(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    assert len(read_rl_rows(written(tmp_path, *rows))[0]) == len(rows)
