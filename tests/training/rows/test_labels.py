"""Labelled pairs become rows of a critic; no image of a held-out row is trained on."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image
from support.cli_calls import call

from interleave_thinker import Picture, SettingsError
from interleave_thinker.backend.core.prompts.prompt_set import default_prompt_set
from interleave_thinker.backend.story.agents.critic import critic_message
from interleave_thinker.training.rows.labels import (
    LabelSettings,
    LabelSource,
    LabelsReport,
    as_lines,
    held_out_of,
    import_labels,
)
from interleave_thinker.training.rows.rl import read_rl_rows
from interleave_thinker.training.rows.sft import read_rows, truth_of


def image(path: Path, shade: int) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (16, 16), (shade, 0, 0)).save(path)
    return path.name


def table(folder: Path, lines: list[str], name: str = "labels.csv") -> Path:
    folder.mkdir(exist_ok=True)
    for shade in range(12):
        image(folder / f"{shade}.png", 20 * shade)
    (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder / name


LINES = [
    "before,after,prompt,ok,reason,refined,kind,semantics,quality",
    "0.png,1.png,make it red,yes,It is red.,,color,9,8",
    '2.png,3.png,"make it blue, please",no,It is red.,make it blue; blue!,color,,',
    ",4.png,a red page,OK,,,start,,",
    "5.png,6.png,add a moon,0,,,add,,",
]


def imported(path: Path, out: Path, **settings: object) -> Path:
    import_labels(LabelSource(path), out, default_prompt_set(), LabelSettings.model_validate(settings))
    return out


def test_a_row_asks_as_the_critic_is_asked_and_learns_only_what_was_given(tmp_path: Path) -> None:
    out = imported(table(tmp_path / "in", LINES), tmp_path / "out", held_out_share=0)
    rows, (rl, problems) = read_rows(out / "critic_sft.json"), read_rl_rows(out / "critic_rl.jsonl")
    assert [truth_of(row) for row in rows] == [True, False, True, False] and not problems
    assert [row.kind for row in rows] == ["color", "color", "start", "add"]
    blank, prompt = Picture.white((1, 1)), "make it blue, please"
    asked = critic_message(default_prompt_set(), (blank, blank), prompt, prompt)
    said = "".join(part if isinstance(part, str) else "<image>" for part in asked.content)
    assert rows[1].messages[0].content == said and "blue; blue!" in rows[1].messages[1].content
    assert [bool(row.not_learned) for row in rows] == [False, False, False, True]
    assert Picture.open(out / rows[2].images[0]).is_white and rl[2].origin_image_path is None
    assert rl[0].evaluation.score is not None and rl[1].evaluation.score is None
    report = LabelsReport.model_validate_json((out / "report.json").read_text())
    assert (report.without_reason, report.without_score) == (2, 3)
    assert len(as_lines(report)) == 6
    report.rows["critic_sft.json"]["wrong"] = 0
    assert as_lines(report)[6].startswith("WARNING: the rows to train on are all right")


def test_a_white_image_from_text_is_held_out_or_not_like_others(tmp_path: Path) -> None:
    path = table(tmp_path / "in", [*LINES, ",white.png,an empty page,yes,,,,,"])
    Image.new("RGB", (16, 16), "white").save(path.parent / "white.png")
    out = imported(path, tmp_path / "out", held_out_share=0.4)
    assert [len(read_rows(out / f"critic_sft{name}.json")) for name in ("", "_held_out")] == [3, 2]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("0.png,1.png,p,maybe,,,,,", "line 3, ok: .*'maybe' is not one of true"),
        ("0.png,1.png,p,,,,,,", "line 3, ok"),
        ("0.png,gone.png,p,no,,,,,", "line 3.*'gone.png' was not found"),
        ("0.png,../labels.csv,p,no,,,,,", "line 3.*was not found below.*--images"),
        ("0.png,1.png,,no,,,,,", "line 3, prompt"),
        ("0.png,1.png,p,no,,,,11,", "line 3, semantics"),
        ("0.png,1.png,p,no,,,,,,more", "line 3.*more cells"),
        ("0.png,1.png,make it red,no,,,,,", "line 3, ok: it contradicts line 2"),
        ('0.png,1.png,"p,no', "is not CSV after line 2"),
    ],
)
def test_a_bad_row_is_an_error_with_its_line(line: str, said: str, tmp_path: Path) -> None:
    path = table(tmp_path / "in", [*LINES[:2], line])
    with pytest.raises(SettingsError, match=said):
        imported(path, tmp_path / "out", held_out_share=0)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "\ufeffvor;nach;Text;gut\n0.png;1.png;rot, bitte;ja\n".replace(";ja", ";1")),
        ("a.tsv", "vor\tnach\tText\tgut\n0.png\t1.png\trot, bitte\tTRUE\n"),
        ("a.jsonl", '{"vor": "0.png", "nach": "1.png", "Text": "rot, bitte", "gut": true}\n'),
        ("a.json", '[{"vor": "0.png", "nach": "1.png", "Text": "rot, bitte", "gut": 1}]'),
    ],
)
def test_columns_and_forms(name: str, text: str, tmp_path: Path) -> None:
    path = table(tmp_path / "in", [text.rstrip("\n")], name)
    columns = {"before": "vor", "after": "nach", "prompt": "Text", "ok": "gut"}
    (row,) = read_rows(imported(path, tmp_path / "out", held_out_share=0, **columns) / "critic_sft.json")
    assert "rot, bitte" in row.messages[0].content and truth_of(row)
    if name.endswith("csv"):
        with pytest.raises(SettingsError, match=r"no column before, after.*it has 'vor'.*--before COLUMN"):
            imported(path, tmp_path / "other")


def test_rows_that_share_an_image_stay_together() -> None:
    chain = [(f"i{n}", f"i{n + 1}") for n in range(5)]
    alone = [(f"a{n}", f"b{n}") for n in range(15)]
    held = held_out_of([*chain, *alone], 0.2, 0)
    assert len(held) == 4 and min(held) >= 5, "the chain has more rows than are held out"
    assert held == held_out_of([*chain, *alone], 0.2, 0) != held_out_of([*chain, *alone], 0.2, 1)
    reversed_rows = [*alone[::-1], *chain[::-1]]
    images = [*chain, *alone]
    assert {images[at] for at in held} == {reversed_rows[at] for at in held_out_of(reversed_rows, 0.2, 0)}
    with pytest.raises(SettingsError, match="No rows can be held out"):
        held_out_of(chain, 0.2, 0)


def test_editjudge_bench_is_read_in_its_layout(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [
        {
            "sample_id": f"s{number}",
            "instruction_pos": "Move the shelf right.",
            "instruction_neg_list": ["Move the shelf left.", "Remove the lamp."],
            "instruction_neg_types": ["direction"] if number else ["direction", "object"],
        }
        for number in range(3)
    ]
    for number in range(3):
        for at, name in enumerate(("before", "after")):
            image(tmp_path / "bench" / "images" / f"s{number}" / f"{name}.jpg", 40 * number + 20 * at)
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "bench" / "benchmark.parquet")
    found = read_rows(imported(tmp_path / "bench", tmp_path / "out", held_out_share=0.4) / "critic_sft.json")
    held = read_rows(tmp_path / "out" / "critic_sft_held_out.json")
    assert (len(found), len(held)) == (6, 3) and [truth_of(row) for row in held] == [True, False, False]
    assert sorted(row.kind for row in [*held, *found])[:3] == ["", "", "direction"], "a kind may be missing"
    with pytest.raises(SettingsError, match=r"benchmark\.parquet.*no such file"):
        imported(tmp_path / "out", tmp_path / "none")


def test_a_table_given_to_a_training_names_the_command(tmp_path: Path) -> None:
    path = table(tmp_path / "in", LINES)
    done = call(
        "train", "critic-sft", "--init", "tinyworld:critic", "--data", path, "--out", tmp_path / "run"
    )
    assert done.exit_code == 2 and f"data import {path}" in " ".join(done.output.split())
