"""Requests with checklists: written once by a teacher, cached, read back; one line per invalid row."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from interleave_thinker.backend.chat.protocol import Reply
from interleave_thinker.backend.errors import AnswerError, ChatError, SettingsError
from interleave_thinker.training.data.planner_rl.checklist import read_checklist
from interleave_thinker.training.data.planner_rl.make import PromptSelection, make_planner_rl
from interleave_thinker.training.data.rows.planner_rl import PlannerRlRow, StepRange, read_planner_rl


class Teacher:
    """Lists the items of a request; answers some with nonsense, and fails after some questions."""

    identity, prompt_set = "teacher", None

    def __init__(self, lasts: int = 1000) -> None:
        self.asked: list[str] = []
        self.lasts = lasts

    def reply(self, messages, settings, on_token=None):
        text = "".join(part for part in messages[0].content if isinstance(part, str))
        if len(self.asked) >= self.lasts:
            raise ChatError("The teacher is down.")
        self.asked.append(text)
        if "nonsense" in text:
            return Reply(text="what do you mean?")
        answer = {"checklist": ["a fox is drawn", "an owl is drawn"], "steps": [3, 2]}
        return Reply(text=f"<answer>{json.dumps(answer)}</answer>")


def prompts(folder: Path, *texts: str, image: str = "") -> Path:
    rows = [
        {"id": f"p{number}", "user_input": text, "split": "test" if "apart" in text else "train"}
        for number, text in enumerate(texts)
    ]
    if image:
        rows[0]["user_input_image"] = image
    path = folder / "prompts.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_every_request_gets_a_list_that_is_read_back(tmp_path: Path) -> None:
    Image.new("RGB", (8, 8), "red").save(tmp_path / "red.png")
    texts = ("Go on from this page.", "A fox in exactly 4 pictures.", "set apart", "nonsense")
    lines: list[str] = []
    source = PromptSelection(prompts(tmp_path, *texts, image="red.png"))
    teacher = Teacher()
    report = make_planner_rl(source, teacher, tmp_path / "out", 2, lines.append)
    assert (report.rows, report.held_out) == (2, 1) and len(teacher.asked) == 5
    assert report.left_out == {"the teacher wrote no valid checklist": 1}
    rows, problems = read_planner_rl(tmp_path / "out" / "planner_rl.jsonl")
    assert not problems and [row.id for row in rows] == ["p0", "p1"]
    assert rows[0].images and rows[0].steps == StepRange(least=2, most=3)
    assert rows[1].steps == StepRange(least=4, most=4) and rows[1].judge == "teacher"
    held, _ = read_planner_rl(tmp_path / "out" / "planner_rl_held_out.jsonl")
    assert [row.request for row in held] == ["set apart"]
    assert any("left out 1" in line for line in lines)


def test_a_copied_form_is_no_list() -> None:
    with pytest.raises(AnswerError, match="copy of the example"):
        read_checklist('<answer>{"checklist": ["...", "..."], "steps": null}</answer>')


def test_a_teacher_that_is_down_for_a_while_wrote_no_nonsense(tmp_path: Path) -> None:
    teacher, source = Teacher(lasts=2), PromptSelection(prompts(tmp_path, "one", "two", "three"))
    report = make_planner_rl(source, teacher, tmp_path / "out", 1, lambda line: None)
    assert report.rows == 2 and report.left_out == {"the teacher did not answer": 1}
    again = make_planner_rl(source, Teacher(), tmp_path / "again", 1, lambda line: None)
    assert again.rows == 3 and not again.left_out


def test_a_stopped_command_repeats_no_request(tmp_path: Path) -> None:
    source = PromptSelection(prompts(tmp_path, *(f"request {number}" for number in range(20))))
    first = Teacher(lasts=7)
    with pytest.raises(ChatError, match="down"):
        make_planner_rl(source, first, tmp_path / "out", 1, print)
    assert not (tmp_path / "out").exists()
    second = Teacher()
    assert make_planner_rl(source, second, tmp_path / "out", 1, print).rows == 20
    assert len(second.asked) == 13 and not set(first.asked) & set(second.asked)
    (tmp_path / "out" / "mine.txt").write_text("x")
    with pytest.raises(SettingsError, match="other files"):
        make_planner_rl(source, second, tmp_path / "out", 1, print)


def test_benchmark_requests_are_left_out(tmp_path: Path) -> None:
    pytest.importorskip("datasketch")
    pytest.importorskip("imagehash")
    from interleave_thinker.training.data.decontamination.index import BenchmarkIndex
    from interleave_thinker.training.data.decontamination.items import IndexedItem

    secret = "Draw the seven bridges of the old town in the order in which a postman crosses them at dawn"
    index = tmp_path / "guard.sqlite"
    with BenchmarkIndex.create(index) as guard:
        guard.add("bench", [IndexedItem(texts=(secret,))], "one")
    teacher = Teacher()
    source = PromptSelection(prompts(tmp_path, secret, "A fox."), guard=index)
    report = make_planner_rl(source, teacher, tmp_path / "out", 1, print)
    assert report.rows == 1 and len(teacher.asked) == 1 and report.left_out == {"in a benchmark: bench": 1}


GOOD = {"request": "A fox.", "checklist": ["a fox"]}
HOSTILE = [
    ({**GOOD, "checklist": []}, "neither a checklist nor a reference"),
    ({**GOOD, "request": ""}, "request"),
    ({**GOOD, "checklist": [" "]}, "checklist"),
    ({**GOOD, "checklist": ["x"] * 65}, "checklist"),
    ({**GOOD, "images": ["../../etc/passwd"]}, "images"),
    ({**GOOD, "images": ["gone.png"]}, "images.0"),
    ({**GOOD, "images": "a.png"}, "images"),
    ({**GOOD, "steps": {"least": 4, "most": 2}}, "steps"),
    ({**GOOD, "steps": {"least": 0, "most": 2}}, "steps"),
    ({**GOOD, "reference": [{"number": 1}]}, "reference"),
    ([], "row"),
    (7, "row"),
]


@pytest.mark.parametrize(("row", "field"), HOSTILE)
def test_a_hostile_row_gives_one_line(row: object, field: str, tmp_path: Path) -> None:
    path = tmp_path / "planner_rl.jsonl"
    path.write_text(f"{json.dumps(GOOD)}\n{json.dumps(row)}\n")
    with pytest.raises(SettingsError, match="line 2") as error:
        read_planner_rl(path)
    assert field in str(error.value) and "\n" not in str(error.value)
    rows, problems = read_planner_rl(path, skip_bad=True)
    assert rows == [PlannerRlRow.model_validate(GOOD)] and len(problems) == 1


@pytest.mark.parametrize("content", [b"", b"\xff\xfe{", b'{"request": NaN}\n', b"[" * 100_000 + b"\n"])
def test_a_hostile_file_gives_one_line(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "planner_rl.jsonl"
    path.write_bytes(content)
    with pytest.raises(SettingsError) as error:
        read_planner_rl(path)
    assert "\n" not in str(error.value)
