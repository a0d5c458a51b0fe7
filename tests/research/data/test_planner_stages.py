"""Planner rows, checklists and sequences from trajectories, prompts and CoMM, and what is left out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from support.made_runs import grey_page, made_run

from interleave_thinker import Attempt, ChatError, Picture, Plan, Reply, SettingsError
from interleave_thinker.backend.core.answers.reading import read_plan
from interleave_thinker.backend.core.prompts.prompt_set import default_prompt_set
from interleave_thinker.backend.core.types import Request, Step, StepResult, StopReason, Trajectory, Verdict
from interleave_thinker.backend.story.journal.copy import save_trajectory
from interleave_thinker.research.data.planner_rl import make_planner_rl
from interleave_thinker.research.data.planner_rows import (
    KINDS,
    PlannerReport,
    PlannerRowsData,
    make_planner_rows,
)
from interleave_thinker.research.data.sequences import easy, hard, make_sequences
from interleave_thinker.research.data.trajectories import PromptFile
from interleave_thinker.training.rows.rl import StepRange, read_planner_rl
from interleave_thinker.training.rows.sft import SftRow, check_rows

torch = pytest.importorskip("torch")


def quiet(line: str) -> None:
    """Log nothing."""


def story(
    folder: Path,
    text: str = "Tell a story of a boat.",
    words: bool = True,
    prompts: tuple[str | None, ...] = ("a boat", "add a sun", None, "add a fish"),
    accepted: bool = True,
    judged: bool = True,
    given: int = 0,
) -> Path:
    steps, results = [], []
    for number, prompt in enumerate(prompts, 1):
        said = f"Words {number}." if words or prompt is None else None
        step = Step(number=number, name=f"step {number}", prompt=prompt, auxiliary_text=said)
        verdict = Verdict(success=accepted, refined_prompt=prompt or "")
        attempt = Attempt(
            prompt=prompt or "", seed=0, image=grey_page(number * 20), verdict=verdict if judged else None
        )
        stop = StopReason.accepted if accepted else StopReason.attempts_used_up
        stop = stop if judged else StopReason.unjudged
        drawn = StepResult(step=step, attempts=(attempt,), chosen=0, stop_reason=stop)
        steps.append(step)
        results.append(drawn if prompt else StepResult(step=step, stop_reason=StopReason.text_only))
    return save_trajectory(
        Trajectory(
            request=Request(text=text, images=tuple(grey_page(200 + n) for n in range(given))),
            plan=Plan(steps=tuple(steps), reasoning="a boat, then a sun"),
            results=tuple(results),
        ),
        folder,
    )


def made(runs: Sequence[Path], tmp_path: Path, **more: Any) -> tuple[PlannerReport, list[SftRow]]:
    comm = more.pop("comm", None)
    settings = PlannerRowsData(**more)
    report = make_planner_rows(runs, tmp_path / "data", default_prompt_set(), settings, comm, quiet)
    return report, check_rows(tmp_path / "data" / "planner_sft.json")[0]


def test_every_kind_of_row(tmp_path: Path) -> None:
    story(tmp_path / "runs" / "a", given=1)
    report, rows = made([tmp_path / "runs"], tmp_path)
    assert report.rows == dict.fromkeys(sorted(KINDS), 1)
    text, continuation, description, count = rows
    assert [step.number for step in read_plan(text.messages[1].content).steps] == [1, 2, 3, 4]
    assert read_plan(text.messages[1].content).reasoning == "a boat, then a sun"
    for row in (continuation, count):
        plan, question = read_plan(row.messages[1].content), row.messages[0].content
        first = plan.steps[0].number
        assert first > 1 and [step.number for step in plan.steps] == list(range(first, 5))
        assert plan.reasoning == ""
        drawn_before = sum(number != 3 for number in range(1, first))
        assert len(row.images) == 1 + drawn_before
        asked = question.rpartition("The request:")[2]
        assert all(f"Words {number}." in asked for number in range(1, first))
    left = len(read_plan(count.messages[1].content).steps)
    assert (f"{left} steps" if left > 1 else "1 step") in count.messages[0].content
    answer = read_plan(description.messages[1].content)
    assert len(description.images) == len(answer.steps) == 3
    assert [step.auxiliary_text for step in answer.steps] == ["Words 1.", "Words 2.", "Words 4."]
    assert all(step.prompt is None and step.instruction is None for step in answer.steps)


def test_the_start_of_a_continuation_depends_on_the_id(tmp_path: Path) -> None:
    for number in range(12):
        story(tmp_path / "runs" / f"r{number}")
    _, rows = made([tmp_path / "runs"], tmp_path, kinds="continuation")
    firsts = [read_plan(row.messages[1].content).steps[0].number for row in rows]
    assert set(firsts) == {2, 3, 4}
    assert len({row.messages[0].content.strip().rpartition("\n")[2] for row in rows}) >= 3
    assert made([tmp_path / "runs"], tmp_path, kinds="continuation")[1] == rows


def test_unaccepted_or_unclear_plans_give_no_rows(tmp_path: Path) -> None:
    story(tmp_path / "runs" / "good")
    story(tmp_path / "runs" / "refused", accepted=False)
    story(tmp_path / "runs" / "unjudged", judged=False)
    for number, prompt in enumerate(["Step 2: a sun", "add a sun (2)", "as in the previous image, a sun"]):
        story(tmp_path / "runs" / f"bad{number}", prompts=("a boat", prompt))
    report, rows = made([tmp_path / "runs"], tmp_path, kinds="text")
    assert len(rows) == 1
    assert report.left_out == {
        "a prompt refers to its step's number or to a previous image": 3,
        "not every step was accepted": 1,
        "a step was not judged": 1,
    }


def test_prompts_of_another_split_are_held_out_and_other_files_stay(tmp_path: Path) -> None:
    for name, split in (("a", "train"), ("b", "held out")):
        folder = story(tmp_path / "runs" / name)
        (folder / "sample.json").write_text(json.dumps({"id": name, "split": split}))
    report, rows = made([tmp_path / "runs"], tmp_path)
    assert report.held_out == len(rows) == 4
    assert len(check_rows(tmp_path / "data" / "planner_sft_held_out.json")[0]) == 4
    (tmp_path / "data" / "mine.txt").write_text("mine")
    with pytest.raises(SettingsError, match="other files"):
        made([tmp_path / "runs"], tmp_path)
    assert (tmp_path / "data" / "mine.txt").read_text() == "mine"
    with pytest.raises(SettingsError, match="unknown kind"):
        made([tmp_path / "runs"], tmp_path, kinds="text,novel")


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
    if name.endswith("pth"):
        torch.save(list(items), folder / name)
    else:
        (folder / name).write_text(json.dumps(list(items)))
    return folder


THREE = [
    [part("Take a sheet."), part(image="a/0.png"), part(image="a/3.png")],
    [part("Fold it.\n"), part(image="a/1.png")],
    [part("Let it rest over night.")],
    [part(image="a/2.png"), part("Done <image>.")],
]


def made_comm(tmp_path: Path, **settings: Any) -> tuple[PlannerReport, list[SftRow]]:
    return made([], tmp_path, comm=tmp_path / "comm", **settings)


@pytest.mark.parametrize("name", ["train_data.pth", "train.json"])
def test_images_of_comm_are_described_in_text(name: str, tmp_path: Path) -> None:
    comm(tmp_path / "comm", item("crane", THREE), name=name)
    report, (row,) = made_comm(tmp_path)
    assert report.rows == {"description": 1}
    plan = read_plan(row.messages[1].content)
    assert [step.auxiliary_text for step in plan.steps] == ["Take a sheet.", "Fold it.", "Done image."]
    assert all(step.prompt is None for step in plan.steps)
    pictures = [Picture.open(tmp_path / "data" / image) for image in row.images]
    assert pictures == [grey_page(10), grey_page(11), grey_page(12)]


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
    report, _ = made_comm(tmp_path)
    assert report.left_out == {
        "an item that is not in CoMM's format": 2,
        "an item with an image that is missing or damaged": 2,
        "an item without images": 1,
        "an item with fewer than two images that have texts": 1,
    }
    report, _ = made_comm(tmp_path, comm_limit=7)
    assert report.rows == {"description": 1}


def test_the_test_file_is_rejected_by_name(tmp_path: Path) -> None:
    folder = comm(tmp_path / "comm", item("n", THREE))
    (folder / "train_data.pth").rename(folder / "test_data.pth")
    with pytest.raises(SettingsError, match="exactly one file of CoMM's training items"):
        made_comm(tmp_path)
    with pytest.raises(SettingsError, match="test file"):
        made([], tmp_path, comm=folder / "test_data.pth")


IMAGE = "<image><img_token></image>.\n"


def attempt(grey: int, success: bool, refined: str) -> Attempt:
    verdict = Verdict(success=success, refined_prompt=refined, reasoning=f"saw {grey}")
    return Attempt(prompt="a boat", seed=0, image=grey_page(grey), verdict=verdict)


def sequence_story(
    text: str = "a boat, please", given: int = 0, end: StopReason = StopReason.accepted
) -> Trajectory:
    steps = (
        Step(number=1, prompt="a boat", auxiliary_text="Ahoy."),
        Step(number=2, auxiliary_text="The end."),
    )
    attempts = (attempt(10, False, "a red boat"), attempt(20, True, "a red boat"))
    return Trajectory(
        request=Request(text=text, images=tuple(grey_page(200 + n) for n in range(given))),
        plan=Plan(steps=steps, reasoning="one boat"),
        results=(
            StepResult(step=steps[0], attempts=attempts, chosen=1, stop_reason=StopReason.accepted),
            StepResult(step=steps[1], stop_reason=StopReason.text_only),
        ),
    )


def test_a_sequence_has_the_final_sequence_story() -> None:
    row = easy(sequence_story(given=1))
    assert row.user == f"{IMAGE}a boat, please"
    assert row.text == (
        "<gthink>\none boat\n</gthink>\n<plan>\na boat\n</plan>\n"
        f"{IMAGE}<info>\nAhoy.\n</info>\n<info>\nThe end.\n</info>\n"
    )
    assert row.images == (grey_page(200), grey_page(20))
    assert easy(sequence_story("<IMAGE>. Draw it", given=1)).user == "<image><img_token></image>.. Draw it"


def test_a_sequence_has_every_attempt_with_its_verdict() -> None:
    row = hard(sequence_story())
    first = (
        '<critic>\n<think>\nsaw 10\n</think>\n{"success": false, "refine_prompt": "a red boat"}\n</critic>\n'
    )
    second = '<critic>\n<think>\nsaw 20\n</think>\n{"success": true, "refine_prompt": ""}\n</critic>\n'
    assert f"</plan>\n{IMAGE}{first}{IMAGE}{second}<info>" in row.text
    assert row.images == (grey_page(10), grey_page(20))


def test_sequence_files(tmp_path: Path) -> None:
    save_trajectory(sequence_story(given=1), tmp_path / "runs" / "a")
    made_run(tmp_path / "runs" / "b", [(10, False, None)])
    counts = make_sequences([tmp_path / "runs"], tmp_path / "out", log=quiet)
    assert counts == {"sequences_easy.json": 1, "sequences_hard.json": 1}
    (row,) = json.loads((tmp_path / "out" / "sequences_hard.json").read_text())
    marks = sum(turn["content"].count("<img_token>") for turn in row["messages"])
    assert marks == len(row["images"]) == 3
    assert all((tmp_path / "out" / name).is_file() for name in row["images"])
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["left_out"] == {"not every step was accepted": 1}
    with pytest.raises(SettingsError, match="No sequences"):
        make_sequences([tmp_path / "runs" / "b"], tmp_path / "none", log=quiet)
    assert not (tmp_path / "none").exists()


class ListTeacher:
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
    source = PromptFile(prompts(tmp_path, *texts, image="red.png"))
    teacher = ListTeacher()
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


def test_a_teacher_that_is_down_for_a_while_wrote_no_nonsense(tmp_path: Path) -> None:
    teacher, source = ListTeacher(lasts=2), PromptFile(prompts(tmp_path, "one", "two", "three"))
    report = make_planner_rl(source, teacher, tmp_path / "out", 1, quiet)
    assert report.rows == 2 and report.left_out == {"the teacher did not answer": 1}
    again = make_planner_rl(source, ListTeacher(), tmp_path / "again", 1, quiet)
    assert again.rows == 3 and not again.left_out


def test_a_stopped_command_repeats_no_request(tmp_path: Path) -> None:
    source = PromptFile(prompts(tmp_path, *(f"request {number}" for number in range(20))))
    first = ListTeacher(lasts=7)
    with pytest.raises(ChatError, match="down"):
        make_planner_rl(source, first, tmp_path / "out", 1, print)
    assert not (tmp_path / "out").exists()
    second = ListTeacher()
    assert make_planner_rl(source, second, tmp_path / "out", 1, print).rows == 20
    assert len(second.asked) == 13 and not set(first.asked) & set(second.asked)
    (tmp_path / "out" / "mine.txt").write_text("x")
    with pytest.raises(SettingsError, match="other files"):
        make_planner_rl(source, second, tmp_path / "out", 1, print)
