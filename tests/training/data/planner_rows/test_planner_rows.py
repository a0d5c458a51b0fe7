"""`data planner-rows`: which rows a trajectory gives, and what is left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.made_runs import grey_page

from interleave_thinker.backend.answers.reading import read_plan, write_verdict
from interleave_thinker.backend.errors import InterleaveError, SettingsError
from interleave_thinker.backend.journal.copy import save_trajectory
from interleave_thinker.backend.prompts import PromptSet, default_prompt_set
from interleave_thinker.backend.types import (
    Attempt,
    Plan,
    Request,
    Step,
    StepResult,
    StopReason,
    Trajectory,
    Verdict,
)
from interleave_thinker.training.data.planner_rows.kinds import PlannerQuestion
from interleave_thinker.training.data.planner_rows.make import OutsideSets, PlannerReport, PlannerRows
from interleave_thinker.training.data.planner_rows.settings import KINDS, PlannerRowsData
from interleave_thinker.training.data.rows.sft import SftRow, check_rows
from interleave_thinker.training.data.trajectories.outcomes import PromptOutcome, write_sample


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


def made(tmp_path: Path, *outside: Path, **settings: Any) -> tuple[PlannerReport, list[SftRow]]:
    lines: list[str] = []
    maker = PlannerRows(PlannerRowsData(**settings), default_prompt_set(), log=lines.append)
    runs = [tmp_path / "runs"] if (tmp_path / "runs").exists() else []
    report = maker.make(runs, tmp_path / "data", OutsideSets(files=outside))
    return report, check_rows(tmp_path / "data" / "planner_sft.json")[0]


def test_every_kind_of_row(tmp_path: Path) -> None:
    story(tmp_path / "runs" / "a", given=1)
    report, rows = made(tmp_path)
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
    _, rows = made(tmp_path, kinds="continuation")
    firsts = [read_plan(row.messages[1].content).steps[0].number for row in rows]
    assert set(firsts) == {2, 3, 4}
    assert len({row.messages[0].content.strip().rpartition("\n")[2] for row in rows}) >= 3
    assert made(tmp_path, kinds="continuation")[1] == rows


def test_a_template_that_places_its_image_gets_no_second_mark(tmp_path: Path) -> None:
    story(tmp_path / "runs" / "a", prompts=("a boat", None))
    placing = PromptSet(
        planner_text="Plan: {text_input}", planner_images="Page: <image> Plan: {text_input}", critic=""
    )
    PlannerRows(PlannerRowsData(), placing, log=lambda line: None).make(
        [tmp_path / "runs"], tmp_path / "data"
    )
    rows, problems = check_rows(tmp_path / "data" / "planner_sft.json")
    assert not problems and len(rows) == 3
    assert all(row.messages[0].content.count("<image>") == len(row.images) for row in rows)


def test_a_continuation_may_keep_the_reasoning_of_the_plan(tmp_path: Path) -> None:
    story(tmp_path / "runs" / "a")
    _, rows = made(tmp_path, kinds="continuation", think="own")
    assert read_plan(rows[0].messages[1].content).reasoning == "a boat, then a sun"


def test_unaccepted_or_unclear_plans_give_no_rows(tmp_path: Path) -> None:
    story(tmp_path / "runs" / "good")
    story(tmp_path / "runs" / "refused", accepted=False)
    story(tmp_path / "runs" / "unjudged", judged=False)
    for number, prompt in enumerate(["Step 2: a sun", "add a sun (2)", "as in the previous image, a sun"]):
        story(tmp_path / "runs" / f"bad{number}", prompts=("a boat", prompt))
    report, rows = made(tmp_path, kinds="text")
    assert len(rows) == 1
    assert report.left_out == {
        "a prompt refers to its step's number or to a previous image": 3,
        "not every step was accepted": 1,
        "a step was not judged": 1,
    }


def test_unrequested_captions_are_listed(tmp_path: Path) -> None:
    story(tmp_path / "runs" / "asked")
    story(tmp_path / "runs" / "unasked", text="A red boat at sea, and then the sun.")
    story(tmp_path / "runs" / "wordless", text="A red boat at sea.", words=False, prompts=("a boat",))
    report, _ = made(tmp_path)
    assert report.unasked_words == ["runs/unasked"]


def test_prompts_of_another_split_are_held_out(tmp_path: Path) -> None:
    for name, split in (("a", "train"), ("b", "held out")):
        folder = story(tmp_path / "runs" / name)
        write_sample(folder, PromptOutcome(id=name, folder=name, state="whole", split=split))
    report, rows = made(tmp_path)
    assert report.held_out == len(rows) == 4
    assert len(check_rows(tmp_path / "data" / "planner_sft_held_out.json")[0]) == 4


def test_valid_outside_rows_are_added_and_bad_ones_skipped(tmp_path: Path) -> None:
    grey_page(3).image.save(tmp_path / "a.png")
    turns = [
        {"role": "user", "content": "<image> Plan"},
        {"role": "assistant", "content": "<answer>{}</answer>"},
    ]
    rows = [{"messages": turns, "images": ["a.png"]}, {"messages": turns, "images": ["../../etc/passwd"]}, 7]
    (tmp_path / "other.json").write_text(json.dumps(rows))
    report, found = made(tmp_path, tmp_path / "other.json")
    assert report.rows == {"outside": 1} and len(found) == 1
    assert found[0].images == [f"images/{grey_page(3).digest}.png"]
    verdict = write_verdict(Verdict(success=True, refined_prompt="a", reasoning="so"))
    rows[0] = {"messages": [turns[0], turns[1] | {"content": verdict}], "images": ["a.png"]}
    (tmp_path / "critics.json").write_text(json.dumps(rows[:1]))
    with pytest.raises(SettingsError, match="are for train critic-sft"):
        made(tmp_path, tmp_path / "critics.json")


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    story(tmp_path / "runs" / "a")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mine.txt").write_text("mine")
    with pytest.raises(SettingsError, match="other files"):
        made(tmp_path)
    assert (tmp_path / "data" / "mine.txt").read_text() == "mine"
    with pytest.raises(SettingsError, match="unknown kind"):
        made(tmp_path, kinds="text,novel")


def test_long_rows_are_cut_between_steps(tmp_path: Path) -> None:
    story(tmp_path / "runs" / "a", prompts=("a boat", "add a sun", "add a fish", "add a bird", "add a cloud"))
    _, whole = made(tmp_path)
    most = 2

    def fits(question: PlannerQuestion) -> bool:
        return len(question.images) <= most

    maker = PlannerRows(PlannerRowsData(), default_prompt_set(), log=lambda line: None, fits=fits)
    report = maker.make([tmp_path / "runs"], tmp_path / "cut")
    rows, _ = check_rows(tmp_path / "cut" / "planner_sft.json")
    assert report.rows == dict.fromkeys(sorted(KINDS), 1)
    assert max(len(row.images) for row in whole) > most >= max(len(row.images) for row in rows)
    assert report.cut == sum(len(row.images) > most for row in whole)
    for row in rows[1:]:
        plan = read_plan(row.messages[1].content)
        steps = [step.number for step in plan.steps]
        first = 1 if row is rows[2] else len(row.images) + 1
        assert steps == list(range(first, 3 if row is rows[2] else 6))
    most = 0
    report = maker.make([tmp_path / "runs"], tmp_path / "cut")
    assert report.rows == {"text": 1}
    assert report.left_out == {"rows that are too long even when shortened": 3}


def test_lengths_use_the_planners_tokenizer(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from interleave_thinker.tinyworld.runtime import checkpoint
    from interleave_thinker.training.data.planner_rows.fit import TokenFit
    from interleave_thinker.training.data.rows.lengths import row_lengths, shown_of
    from interleave_thinker.training.trainer.model_loading import load_processor

    story(tmp_path / "runs" / "a", given=1)
    _, rows = made(tmp_path)
    shown = [shown_of(row, tmp_path / "data") for row in rows]
    lengths = row_lengths(shown, load_processor(checkpoint("planner")), 10**6)
    most = sorted(length for length in lengths if isinstance(length, int))[1]
    fits = TokenFit(checkpoint("planner"), most)
    maker = PlannerRows(PlannerRowsData(), default_prompt_set(), log=lambda line: None, fits=fits)
    report = maker.make([tmp_path / "runs"], tmp_path / "cut")
    assert report.cut or report.left_out
    cut = [shown_of(row, tmp_path / "cut") for row in check_rows(tmp_path / "cut" / "planner_sft.json")[0]]
    found = row_lengths(cut, load_processor(checkpoint("planner")), 10**6)
    assert all(isinstance(length, int) and length <= most for length in found)
    with pytest.raises(InterleaveError):
        TokenFit(tmp_path, 100)
