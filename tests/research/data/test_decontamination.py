"""The guard finds changed copies of benchmarks, lets other rows pass, and contains no readable text."""

from __future__ import annotations

import json
import pickle
import sqlite3
import zipfile
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageDraw
from support.cli_calls import call
from support.made_runs import accepted_story, made_run
from support.stories import drawing

from interleave_thinker import Picture, SettingsError
from interleave_thinker.backend.core.prompts.prompt_set import default_prompt_set
from interleave_thinker.backend.story.journal.copy import save_trajectory

pytest.importorskip("datasketch")
pytest.importorskip("imagehash")

from interleave_thinker.research.data.decontamination import data_files
from interleave_thinker.research.data.decontamination.benchmark_index import (
    FRAME_ITEMS,
    BenchmarkIndex,
    IndexedItem,
)
from interleave_thinker.research.data.decontamination.data_files import parts_of, rows_of
from interleave_thinker.research.data.decontamination.guard import (
    add_benchmark,
    check_file,
    check_training_source,
    open_guard,
)
from interleave_thinker.research.data.pack import CardData, Packing
from interleave_thinker.research.data.planner_rows import OtherSources, PlannerRowsData, make_planner_rows
from interleave_thinker.research.data.sequences import make_sequences

PROMPT = (
    "Show how a glass blower makes a striped vase, from the glowing gather to the cooled piece on a shelf."
)
SHORT = "Traditional boats of the Kerala backwaters, dawn"
STEPS = [[{"type": "text", "content": "Soak the reeds over night in cold river water, then split each."}]]
ROWS: dict[str, dict[str, Any]] = {
    "ueval": {"id": 1, "task": "art", "prompt": PROMPT, "text_rubrics": []},
    "wise": {"Prompt": PROMPT, "Explanation": "...", "prompt_id": 1},
    "rise": {"index": "a_1", "category": "causal", "instruction": PROMPT, "image": "absent.png"},
    "specv": {"id": "c_1", "question": PROMPT, "question_img": ["absent.png"]},
    "comm": {"data_id": "wiki_12", "title": PROMPT, "step_info": STEPS, "summary_info": None},
}
KNOWN = "a paper mill whose wooden wheel drives seven hammers in a narrow valley"
OTHER = "a lighthouse keeper who paints the lamp room blue before the autumn storms"


def scene(shift: int = 0, size: int = 256) -> Picture:
    """Return an image of shapes, optionally scaled or with other colors."""
    image = Image.new("RGB", (256, 256), (240, 235, 220 - shift))
    draw = ImageDraw.Draw(image)
    draw.ellipse((30, 40, 140, 150), fill=(200, 40 + shift, 30))
    draw.rectangle((120, 130, 230, 240), fill=(20, 60, 160))
    draw.line((0, 250, 250, 10), fill=(0, 0, 0), width=9)
    return Picture(image.resize((size, size)))


@pytest.fixture
def index(tmp_path: Path) -> Path:
    path = tmp_path / "guard.sqlite"
    with BenchmarkIndex.create(path) as opened:
        opened.add("own", [IndexedItem((PROMPT,), images=(scene(),)), IndexedItem((SHORT,))], "one")
        opened.add("comm", [IndexedItem(titles=("Lemon Cake",), ids=("comm_0007",))], "two")
    return path


@pytest.mark.parametrize(
    ("text", "how"),
    [
        (PROMPT.upper().replace(",", " --"), "same words"),
        (f"For my class: {PROMPT} Use chalk.", "same words"),
        (PROMPT.replace("striped", "spotted"), "same words"),
        (f"A page about this, please: {SHORT}, in ink.", "same words"),
        (SHORT.replace("Traditional", "Wooden"), "similar text"),
        ("Lemon cake!", "same title"),
        ("", None),
        ("Show how a potter makes a bowl, from the lump of clay to the fired piece.", None),
        ("Lemon cake with my aunt", None),
    ],
)
def test_copies_are_found_and_others_pass(index: Path, text: str, how: str | None) -> None:
    with BenchmarkIndex.open(index) as opened:
        finding = opened.finding(text, [Picture.white((64, 64))])
    assert (finding and finding.how) == how


def test_images_and_ids_are_found(index: Path) -> None:
    with BenchmarkIndex.open(index) as opened:
        for picture in (scene(), scene(shift=12), scene(size=97)):
            finding = opened.finding("", [picture])
            assert finding is not None and (finding.benchmark, finding.how) == ("own", "similar image")
        assert opened.finding("", [Picture(scene().image.rotate(90))]) is None
        assert str(opened.finding("another text altogether", ids=["comm_0007"])) == "comm: same id"
        assert opened.known_ids(["comm_0007", "x"], "comm") == 1


def test_the_common_frame_of_benchmark_questions_does_not_match(tmp_path: Path) -> None:
    frame = "answer the following question with several images and short texts about"
    words = [f"{first}{last}" for first in ("ot", "ca", "qui", "ti", "fe") for last in ("ter", "nal")]
    items = [IndexedItem((f"{frame} {one} and what {one} mean to people in {one} towns",)) for one in words]
    assert len(items) > FRAME_ITEMS
    with BenchmarkIndex.create(tmp_path / "g.sqlite") as opened:
        opened.add("own", items, "one")
        other = f"{frame} the long winter road that my grandmother took over the frozen lake to market"
        assert opened.finding(other) is None
        assert opened.finding(items[0].texts[0]) is not None


def test_a_file_is_indexed_once_without_its_text(index: Path) -> None:
    with BenchmarkIndex.create(index) as opened:
        assert opened.add("own", [IndexedItem((PROMPT,))], "one") is None
        assert [source.benchmark for source in opened.sources] == ["own", "comm"]
    content = index.read_bytes().lower()
    assert not any(word in content for word in (b"glowing", b"kerala", b"lemon", b"comm_0007"))


def test_foreign_files_raise_one_sentence(tmp_path: Path, index: Path) -> None:
    (tmp_path / "text").write_text("hello")
    (tmp_path / "torn").write_bytes(index.read_bytes()[:5000])
    endless = sqlite3.connect(tmp_path / "view")
    endless.executescript(
        "CREATE TABLE about (name, value); INSERT INTO about VALUES ('format', '1');"
        "CREATE VIEW sources AS WITH RECURSIVE c(x) AS "
        "(SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c;"
    )
    endless.close()
    for name, said in (
        ("none", "cannot be read"),
        ("text", "not a guard index"),
        ("torn", "Create it again"),
        ("view", "views or triggers"),
    ):
        with pytest.raises(SettingsError, match=said):
            BenchmarkIndex.open(tmp_path / name)


@pytest.mark.parametrize("kind", ROWS)
def test_every_benchmark_is_read_in_every_form(tmp_path: Path, kind: str) -> None:
    datasets = pytest.importorskip("datasets")
    plain = {name: value for name, value in ROWS[kind].items() if value not in ([], None)}
    (tmp_path / "data.json").write_text(json.dumps([ROWS[kind]]))
    (tmp_path / "object.json").write_text(json.dumps({"data": [ROWS[kind]]}, indent=1))
    (tmp_path / "data.jsonl").write_text(f"{json.dumps(ROWS[kind])}\n")
    datasets.Dataset.from_list([plain]).to_parquet(tmp_path / "data.parquet")
    for path in tmp_path.iterdir():
        (parts,) = map(parts_of, rows_of(path))
        assert PROMPT in (*parts.texts, *parts.titles), path
        assert bool(parts.ids) == (kind == "comm")
        assert len(parts.images) == (kind in ("rise", "specv"))


class Harm:
    def __reduce__(self) -> Any:
        return Path.touch, (Path("harmed"),)


def test_only_plain_torch_files_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    torch.save([ROWS["comm"], "b"], "new.pth")
    torch.save({"a": ROWS["comm"], "b": "b"}, "old.pt", _use_new_zipfile_serialization=False)
    assert list(rows_of(Path("new.pth"))) == list(rows_of(Path("old.pt"))) == [ROWS["comm"], "b"]
    torch.save([Harm()], "harm.pth")
    Path("plain.pth").write_bytes(pickle.dumps([Harm()]))
    Path("cut.pth").write_bytes(Path("new.pth").read_bytes()[:90])
    torch.save(7, "number.pth")
    for name in ("harm.pth", "plain.pth", "cut.pth", "number.pth"):
        with pytest.raises(SettingsError, match=name.replace(".", r"\.")):
            list(rows_of(Path(name)))
    assert not Path("harmed").exists()


def test_an_unpacked_torch_file_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    torch.save(["x" * 4_000_000], tmp_path / "plain.pth")
    packed = tmp_path / "packed.pth"
    with zipfile.ZipFile(tmp_path / "plain.pth") as plain, zipfile.ZipFile(packed, "w") as archive:
        for entry in plain.infolist():
            archive.writestr(entry.filename, plain.read(entry), zipfile.ZIP_DEFLATED)
    assert len(list(rows_of(packed))) == 1 and packed.stat().st_size < 100_000
    monkeypatch.setattr(data_files, "MAX_FILE", 1_000_000)
    with pytest.raises(SettingsError, match="is not a list of up to"):
        list(rows_of(packed))


def test_rows_of_every_kind_are_checked(tmp_path: Path) -> None:
    with BenchmarkIndex.create(tmp_path / "guard.sqlite") as opened:
        for kind in ("wise", "comm"):
            source = tmp_path / f"{kind}.json"
            source.write_text(json.dumps([ROWS[kind], {"other": 1}]))
            assert add_benchmark(opened, kind, source).without_texts == 1
        (tmp_path / "empty.json").write_text('[{"other": 1}]')
        with pytest.raises(SettingsError, match="None of the rows"):
            add_benchmark(opened, "own", tmp_path / "empty.json")
        rows = [
            {"id": "a", "user_input": f"Please: {PROMPT}"},
            {"id": "b", "user_input": "A stone bridge is built over a stream."},
            {"messages": [{"role": "user", "content": "Go on."}, {"role": "assistant", "content": PROMPT}]},
            {"origin_prompt": PROMPT, "origin_image_path": "none.png"},
            {"data_id": "wiki_12", "title": "x", "step_info": []},
        ]
        file = tmp_path / "rows.jsonl"
        file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        report = check_file(opened, file)
        assert [one["row"] for one in report["found"]] == [1, 3, 4, 5] and report["rows"] == 5
        with pytest.raises(SettingsError, match="test file"):
            check_training_source(tmp_path / "comm_test.json", [])
        with pytest.raises(SettingsError, match=r"1 known items of CoMM"):
            check_training_source(tmp_path / "comm_train.json", ["wiki_12", "wiki_13"], opened)
        check_training_source(tmp_path / "latest.json", ["wiki_13"], opened)


def test_on_the_command_line(tmp_path: Path) -> None:
    source, rows, index = tmp_path / "w.json", tmp_path / "rows.jsonl", tmp_path / "g.sqlite"
    source.write_text(json.dumps([ROWS["wise"]]))
    rows.write_text(json.dumps({"id": "a", "user_input": PROMPT}) + "\n")
    for said in ("1 items, 0 images", "already in the index"):
        result = call("data", "guard", "add", "wise", source, "--index", index)
        assert (result.exit_code, said in result.output) == (0, True), result.output
    report = tmp_path / "report.json"
    result = call("data", "guard", "check", rows, "--index", index, "--report", report)
    assert result.exit_code == 3 and "wise 1" in result.output
    assert json.loads(report.read_text())[str(rows)]["found"][0]["benchmark"] == "wise"


@pytest.fixture
def wise(tmp_path: Path) -> Path:
    with BenchmarkIndex.create(tmp_path / "wise.sqlite") as opened:
        opened.add("wise", [IndexedItem(texts=(f"Draw {KNOWN}, at noon.",), images=(drawing(4),))], "one")
    return tmp_path / "wise.sqlite"


def findings(index: Path, *files: Path) -> int:
    with BenchmarkIndex.open(index) as opened:
        return sum(sum(check_file(opened, file)["by_benchmark"].values()) for file in files)


def test_the_filter_and_packing_leave_out_benchmark_content(wise: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    for name, prompt in (("known", KNOWN), ("other", OTHER)):
        made_run(runs / name, [(20, False, 4.0), (90, True, 6.0)], prompt=prompt)
    told = ["data", "filter", runs, "--set", "balance=0", "--set", "rl_share=0", "--set", "held_out_runs=0"]
    for name, more in (("all", []), ("guarded", ["--guard", str(wise)])):
        result = call(*told, "--out", tmp_path / name, *more)
        assert result.exit_code == 0, result.output
    assert findings(wise, tmp_path / "all" / "critic_sft.json") == 2
    rows = tmp_path / "guarded" / "critic_sft.json"
    assert findings(wise, rows) == 0 and len(json.loads(rows.read_text())) == 2
    assert json.loads((tmp_path / "guarded" / "report.json").read_text())["guard"] == {
        "benchmarks": {"wise": 1},
        "left_out": {"wise": 1},
        "found": {"runs/known": "wise: same words (8 in a row)"},
    }
    packing = Packing(CardData(), [runs], guard=wise, log=lambda line: None)
    assert packing.pack([tmp_path / "all"], tmp_path / "packed") == {"critic_sft": {"train": 2}}
    card = (tmp_path / "packed" / "README.md").read_text()
    assert "for every row: compared with wise (1 items); left out: wise" in card
    assert "critic_sft.json, row 0: wise: same words" in card
    Packing(CardData(), log=lambda line: None).pack([tmp_path / "guarded"], tmp_path / "again")
    card = (tmp_path / "again" / "README.md").read_text()
    assert "when `guarded` was created: compared with wise (1 items); left out: wise 1" in card


def test_planner_rows_and_sequences_are_screened(wise: Path, tmp_path: Path) -> None:
    for name, stage in (("known", 4), ("other", 1)):
        save_trajectory(accepted_story(drawing(stage)), tmp_path / "runs" / name)
    runs = [tmp_path / "runs"]
    made = make_planner_rows(
        runs,
        tmp_path / "planner",
        default_prompt_set(),
        PlannerRowsData(),
        OtherSources(wise),
        lambda line: None,
    )
    assert made.rows == {"text": 1} and made.left_out == {"in a benchmark: wise": 1}
    assert made.guard and set(made.guard.found) == {"runs/known"}
    counts = make_sequences(runs, tmp_path / "s", guard=wise, log=lambda line: None)
    assert counts == {"sequences_easy.json": 1, "sequences_hard.json": 1}
    assert json.loads((tmp_path / "s" / "report.json").read_text())["guard"]["left_out"] == {"wise": 1}


def test_without_an_index_everything_passes() -> None:
    with open_guard(None) as guard:
        assert guard.finds("here", [PROMPT]) == "" and guard.screened() is None
