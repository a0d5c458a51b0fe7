"""`--outside comm:` converts items of CoMM to rows, with and without a teacher."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from support.made_runs import grey_page

from interleave_thinker.backend.answers.reading import read_plan
from interleave_thinker.backend.chat.protocol import Message, Reply, ReplySettings
from interleave_thinker.backend.errors import ChatError, SettingsError
from interleave_thinker.backend.pictures import Picture
from interleave_thinker.backend.prompts import default_prompt_set
from interleave_thinker.training.data.planner_rows.make import OutsideSets, PlannerReport, PlannerRows
from interleave_thinker.training.data.planner_rows.settings import PlannerRowsData
from interleave_thinker.training.data.rows.sft import SftRow, check_rows


class Teacher:
    """Answers with its question; fails at some calls."""

    identity = "teacher"
    prompt_set = None

    def __init__(self, answer: str = "add a red kite", down: int = 0) -> None:
        self.answer, self.down = answer, down
        self.asked: list[Message] = []

    def reply(self, messages: Any, settings: ReplySettings, on_token: Any = None) -> Reply:
        self.asked.append(messages[0])
        if len(self.asked) <= self.down:
            raise ChatError("The teacher is down.", "Start it.")
        return Reply(text=f"<think>hm</think> {self.answer} {len(messages[0].content)}\n")


def part(text: str = "", image: str = "") -> dict[str, Any]:
    if image:
        return {"type": "image", "url": "https://x.example/a.png", "image_path": image}
    return {"type": "text", "content": text}


def item(name: str, steps: list[list[dict[str, Any]]], **more: Any) -> dict[str, Any]:
    made = {"data_id": name, "dataset_type": "instructables", "title": f"How to fold {name}"}
    return {**made, "summary_info": None, "step_info": steps, **more}


def comm(folder: Path, *items: Any, name: str = "train_data.pth") -> Path:
    (folder / "images" / "a").mkdir(parents=True, exist_ok=True)
    for number in range(4):
        grey_page(10 + number).image.save(folder / "images" / "a" / f"{number}.png")
    content = pickle.dumps(list(items), 2) if name.endswith("pth") else json.dumps(list(items)).encode()
    (folder / name).write_bytes(content)
    return folder


THREE = [
    [part("Take a sheet."), part(image="a/0.png"), part(image="a/3.png")],
    [part("Fold it.\n"), part(image="a/1.png")],
    [part("Let it rest over night.")],
    [part(image="a/2.png"), part("Done <image>.")],
]


def made(
    tmp_path: Path, teacher: Any = None, guard: Path | None = None, **settings: Any
) -> tuple[PlannerReport, list[SftRow]]:
    maker = PlannerRows(PlannerRowsData(**settings), default_prompt_set(), guard, log=lambda line: None)
    report = maker.make([], tmp_path / "data", OutsideSets(comm=[tmp_path / "comm"], teacher=teacher))
    return report, check_rows(tmp_path / "data" / "planner_sft.json")[0]


@pytest.mark.parametrize("name", ["train_data.pth", "train.json"])
def test_without_a_teacher_images_are_described_in_text(name: str, tmp_path: Path) -> None:
    comm(tmp_path / "comm", item("crane", THREE), name=name)
    report, (row,) = made(tmp_path)
    assert report.rows == {"description": 1} and report.outside_items == 1
    plan = read_plan(row.messages[1].content)
    assert [step.auxiliary_text for step in plan.steps] == ["Take a sheet.", "Fold it.", "Done image."]
    assert all(step.prompt is None for step in plan.steps)
    pictures = [Picture.open(tmp_path / "data" / image) for image in row.images]
    assert pictures == [grey_page(10), grey_page(11), grey_page(12)]


def test_a_teacher_writes_the_prompts_of_all_images(tmp_path: Path) -> None:
    comm(tmp_path / "comm", item("crane", THREE))
    teacher = Teacher()
    report, rows = made(tmp_path, teacher)
    assert report.rows == {"continuation": 1, "count": 1, "description": 1}
    shown = [[one for one in asked.content if isinstance(one, Picture)] for asked in teacher.asked]
    assert shown == [[grey_page(10)], [grey_page(10), grey_page(11)], [grey_page(11), grey_page(12)]]
    last = read_plan(rows[0].messages[1].content).steps[-1]
    assert (last.number, last.prompt, last.auxiliary_text) == (4, "add a red kite 3", "Done image.")
    made(tmp_path, teacher)
    assert len(teacher.asked) == 3  # no request is repeated


@pytest.mark.parametrize(
    "answer", ["(2) a kite", "as in the previous image", "", "<thought>The sheet is white and", "word " * 400]
)
def test_prompts_that_no_image_model_can_follow(answer: str, tmp_path: Path) -> None:
    comm(tmp_path / "comm", item("crane", THREE), item("boat", [[part("a"), part(image="a/0.png")]] * 2))
    teacher = Teacher(answer)
    if not answer:
        teacher.reply = lambda *a, **b: Reply(text="")  # type: ignore[method-assign]
    with pytest.raises(SettingsError, match="No training rows"):
        made(tmp_path, teacher)


def test_an_unavailable_teacher_ends_the_command_and_the_next_one_resumes(tmp_path: Path) -> None:
    stories = [
        item(f"s{n}", [[part(f"{n} {k}"), part(image=f"a/{k}.png")] for k in (0, 1)]) for n in range(12)
    ]
    comm(tmp_path / "comm", *stories)
    flaky = Teacher(down=3)
    report, _ = made(tmp_path, flaky, parallel=1)
    assert report.left_out == {"a story for which the teacher gave no answer": 3}
    assert report.outside_items == 9
    teacher = Teacher()
    teacher.reply, answers = _stops_after(teacher, 5)  # type: ignore[method-assign]
    before = (tmp_path / "data" / "planner_sft.json").read_bytes()
    (tmp_path / "data.teacher.sqlite").unlink()
    with pytest.raises(ChatError, match="down"):
        made(tmp_path, teacher, parallel=1)
    assert (tmp_path / "data" / "planner_sft.json").read_bytes() == before
    again = Teacher()
    report, _ = made(tmp_path, again, parallel=4)
    assert report.outside_items == 12 and len(again.asked) == 24 - answers()


def _stops_after(teacher: Teacher, calls: int) -> Any:
    answered = [0]

    def reply(messages: Any, settings: ReplySettings, on_token: Any = None) -> Reply:
        if answered[0] >= calls:
            raise ChatError("The teacher is down.")
        answered[0] += 1
        return Reply(text="add a kite")

    return reply, lambda: answered[0]


def test_unusable_items_give_no_row(tmp_path: Path) -> None:
    comm(
        tmp_path / "comm",
        7,
        {"data_id": "x"},
        item("gone", [[part("a"), part(image="a/9.png")]] * 2),
        item("out", [[part("a"), part(image="../../../etc/passwd")]] * 2),
        item("words", [[part("a")], [part("b")]]),
        item("wordless", [[part(image="a/0.png")], [part(image="a/1.png")]]),
        item("good", THREE, title=None, data_id=12),
    )
    report, _ = made(tmp_path)
    assert report.left_out == {
        "an item that is not in CoMM's format": 2,
        "an item with an image that is missing or damaged": 2,
        "an item without images": 1,
        "an item with fewer than two images that have texts": 1,
    }
    report, _ = made(tmp_path, outside_limit=7)
    assert report.outside_items == 1


def test_the_test_file_is_rejected_by_name_id_and_guard(tmp_path: Path) -> None:
    pytest.importorskip("datasketch")
    pytest.importorskip("imagehash")
    from interleave_thinker.training.data.decontamination.index import BenchmarkIndex
    from interleave_thinker.training.data.decontamination.items import IndexedItem

    long = "How to braid a long rope of seven straws over a winter night by the fire"
    with BenchmarkIndex.create(tmp_path / "g.sqlite") as guard:
        guard.add("comm", [IndexedItem(titles=(long,), ids=("known",))], "one")
    folder = comm(tmp_path / "comm", item("known", THREE), item("other", THREE))
    with pytest.raises(SettingsError, match="contains 1 item of CoMM's test file"):
        made(tmp_path, guard=tmp_path / "g.sqlite")
    comm(folder, *[item(f"n{n}", [[part("a")]]) for n in range(100)], item("known", THREE), item("x", THREE))
    report, _ = made(tmp_path, guard=tmp_path / "g.sqlite")
    assert report.left_out["in a benchmark: comm"] == 1 and report.rows == {"description": 1}
    comm(folder, item("n", THREE, title=long))
    with pytest.raises(SettingsError, match="No training rows"):
        made(tmp_path, guard=tmp_path / "g.sqlite")
    (folder / "train_data.pth").rename(folder / "test_data.pth")
    with pytest.raises(SettingsError, match="exactly one file of CoMM's training items"):
        made(tmp_path)
    maker = PlannerRows(PlannerRowsData(), default_prompt_set(), log=lambda line: None)
    with pytest.raises(SettingsError, match="test file"):
        maker.make([], tmp_path / "x", OutsideSets(comm=[folder / "test_data.pth"]))
