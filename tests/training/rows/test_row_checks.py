"""Rows that cannot be shown to the model are found before it is loaded, by every stage.

They are named, or left out on request.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason='training needs: pip install ".[training]"')

from PIL import Image
from typer.testing import CliRunner

from interleave_thinker import Plan, SettingsError, Step, Verdict
from interleave_thinker.backend.core.answers.reading import write_plan, write_verdict
from interleave_thinker.cli.train.command import app
from interleave_thinker.tinyworld import checkpoint
from interleave_thinker.training.rows.lengths import row_lengths
from interleave_thinker.training.rows.rl import CriticRlRow, read_planner_rl, read_rl_rows
from interleave_thinker.training.rows.sft import check_rows
from interleave_thinker.training.stages import grpo, sft


class Reached(Exception):
    """The model would be loaded here, after every row was checked."""


@pytest.fixture(autouse=True)
def no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(*arguments: Any) -> None:
        raise Reached

    for stage in (sft, grpo):
        monkeypatch.setattr(stage, "load_policy", load)


def pages(folder: Path) -> None:
    for name, size in (("a.png", (96, 96)), ("b.png", (96, 96)), ("flat.png", (3000, 5))):
        Image.new("RGB", size, "white").save(folder / name)


def sft_row(
    before: str = "a.png", word: str = "", told: str = "", role: str = "critic-sft"
) -> dict[str, Any]:
    reasoning = f"so {told}".strip()
    if role == "critic-sft":
        answer = write_verdict(Verdict(success=True, refined_prompt="b", reasoning=reasoning))
    else:
        answer = write_plan(Plan(steps=(Step(number=1, prompt="a boat"),), reasoning=reasoning))
    asked = {"role": "user", "content": f"<image><image> Is it right? {word}"}
    return {"messages": [asked, {"role": "assistant", "content": answer}], "images": [before, "b.png"]}


def rl_row(success: bool, before: str = "a.png", word: str = "", told: str = "") -> dict[str, Any]:
    return {
        "origin_prompt": f"a boat {word}",
        "rewritten_prompt": f"a red boat {told}",
        "origin_image_path": before,
        "edited_image_path": "b.png",
        "evaluation": {"success": success, "semantics": 4, "quality": 4},
    }


BAD: dict[str, tuple[dict[str, str], str]] = {
    "the placeholder of an image": ({"word": "<|image_pad|>"}, r"<\|image_pad\|>"),
    "the end of a turn": ({"told": "<|im_end|>"}, r"<\|im_end\|>"),
    "a text without end": ({"word": "boat " * 3000}, r"length: \d+ tokens"),
}
COMMON = "--config tiny --out {out} --data {data} --set tensorboard=false"


def sft_call(folder: Path, command: str, rows: list[dict[str, Any]], *more: str) -> Any:
    (folder / "rows.json").write_text(json.dumps(rows), encoding="utf-8")
    told = COMMON.format(out=folder / "out", data=folder / "rows.json").split()
    return CliRunner().invoke(app, [command, *told, *more])


def rl_call(folder: Path, bad: dict[str, Any], *more: str, held_out: bool = False) -> Any:
    good = [rl_row(number % 2 == 0) | {"edited_image_path": f"{number}.png"} for number in range(12)]
    for number in range(12):
        Image.new("RGB", (96, 96), (number, 0, 0)).save(folder / f"{number}.png")
    lists = {"data.jsonl": good if held_out else [*good[:2], bad, *good[2:]], "held.jsonl": [*good[:2], bad]}
    for name, rows in lists.items():
        (folder / name).write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    told = COMMON.format(out=folder / "out", data=folder / "data.jsonl").split()
    held = ["--held-out", str(folder / "held.jsonl")] if held_out else []
    small = "--set prompts=2 --num-generations 4 --set per_device_train_batch_size=8 --set check_rows=4"
    told += [*small.split(), "--set", "max_prompt_length=1024"]
    return CliRunner().invoke(app, ["critic-grpo", *told, *held, *more])


@pytest.mark.parametrize(("name", "command"), zip(BAD, ["planner-sft", "critic-sft"] * 3, strict=False))
def test_fine_tuning_reports_or_skips_bad_rows(name: str, command: str, tmp_path: Path) -> None:
    pages(tmp_path)
    how, said = BAD[name]
    rows = [sft_row(role=command), sft_row(**how, role=command), sft_row("flat.png", role=command)]
    result = sft_call(tmp_path, command, rows)
    assert isinstance(result.exception, SettingsError)
    with pytest.raises(SettingsError, match=rf"(?s)Row 1, .*{said}.*--skip-bad"):
        raise result.exception
    result = sft_call(tmp_path, command, rows, "--skip-bad")
    assert isinstance(result.exception, Reached), result.output
    assert "left out 1 of 3 rows" in result.output and "row 1, " in result.output


@pytest.mark.parametrize(("name", "held_out"), zip(BAD, [False, True] * 2, strict=False))
def test_reinforcement_reports_or_skips_bad_rows(name: str, held_out: bool, tmp_path: Path) -> None:
    pages(tmp_path)
    how, said = BAD[name]
    bad, where = rl_row(False, **how), "Held-out l" if held_out else "L"
    result = rl_call(tmp_path, bad, held_out=held_out)
    assert isinstance(result.exception, SettingsError), result.output
    with pytest.raises(SettingsError, match=rf"(?s)^{where}ine 3, .*{said}.*--skip-bad"):
        raise result.exception
    result = rl_call(tmp_path, bad, "--skip-bad", held_out=held_out)
    assert isinstance(result.exception, Reached), result.output
    assert "left out 1 of " in result.output and "line 3, " in result.output


def test_the_length_of_a_question_counts_the_models_whole_input(tmp_path: Path) -> None:
    from interleave_thinker.backend.core.prompts.prompt_set import prompt_set_of
    from interleave_thinker.training.trainer.model_loading import load_processor

    pages(tmp_path)
    processor = load_processor(checkpoint("critic"))
    prompts = prompt_set_of(checkpoint("critic"))
    assert prompts is not None
    for before in ("a.png", None):
        row = CriticRlRow.model_validate(rl_row(True) | {"origin_image_path": before})
        asked = row.question(tmp_path, tmp_path / "shown", prompts)
        text = processor.apply_chat_template(asked["prompt"], tokenize=False, add_generation_prompt=True)
        images = [Image.open(path) for path in asked["images"]]
        whole = len(processor(text=[text], images=[images])["input_ids"][0])
        assert row_lengths([row.shown(tmp_path, prompts)], processor, limit=1) == [whole]


def test_a_planners_held_out_rows_are_not_trained_on(tmp_path: Path) -> None:
    plan_row = partial(sft_row, role="planner-sft")
    pages(tmp_path)
    held, data = tmp_path / "held.json", tmp_path / "data.json"
    held.write_text(json.dumps([plan_row(word="one"), plan_row(word="two")]))
    data.write_text(json.dumps([plan_row(word="three"), plan_row(word="two")]))
    shared = ["planner-sft", "--config", "tiny", "--out", str(tmp_path / "out"), "--held-out", str(held)]
    refused = CliRunner().invoke(app, [*shared, "--data", str(data)])
    assert isinstance(refused.exception, SettingsError) and "1 of 2 held-out rows" in str(refused.exception)
    data.write_text(json.dumps([plan_row(word="three")]))
    taken = CliRunner().invoke(
        app, [*shared, "--data", str(data), "--set", "loss_rows=2", "--set", "early_stopping_patience=1"]
    )
    assert isinstance(taken.exception, Reached), taken.output


@pytest.mark.parametrize("read", [check_rows, read_rl_rows, read_planner_rl])
@pytest.mark.parametrize("kind", ["a pipe", "a device", "another encoding", "a key twice"])
def test_an_unreadable_file_is_one_error(read: Callable[[Path], object], kind: str, tmp_path: Path) -> None:
    import os

    path = tmp_path / "rows"
    if kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a device":
        path.symlink_to("/dev/zero")
    else:
        text = '[{"a": 1, "a": 2}]'
        path.write_bytes(text.encode("utf-16" if kind == "another encoding" else "utf-8"))
    with pytest.raises(SettingsError):
        read(path)
