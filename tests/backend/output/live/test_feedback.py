"""The user's feedback on attempts: stored with the run, converted to training rows, read by the trainer."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from support.cli_calls import call
from support.made_runs import made_run
from support.stories import make_trajectory

from interleave_thinker import Critic, InterleaveError, JournalError, Picture, SettingsError, load_trajectory
from interleave_thinker.backend.core.answers.reading import read_verdict, write_verdict
from interleave_thinker.backend.core.prompts.prompt_set import PromptSet, default_prompt_set
from interleave_thinker.backend.output.feedback_log import (
    MAX_NOTE,
    Feedback,
    ItemFeedback,
    one_writer,
    read_feedback,
    record_feedback,
)
from interleave_thinker.backend.output.sft_rows import add_feedback_rows, success_of, verdict_of_person
from interleave_thinker.backend.story.journal.copy import save_trajectory
from interleave_thinker.backend.story.journal.run_files import RunFiles
from interleave_thinker.training.rows.sft import read_rows

RUN = make_trajectory(3)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return save_trajectory(RUN, tmp_path / "run")


def word(step: int = 1, attempt: int = 0, **said: Any) -> Feedback:
    return Feedback(step=step, attempt=attempt, **said)


# Words in the run's folder


def test_the_last_feedback_on_an_attempt_counts(folder: Path) -> None:
    assert read_feedback(folder) == []
    for said in (word(accepted=True), word(2, accepted=True), word(accepted=False, note="Blue."), word(2)):
        record_feedback(folder, said)
    (kept,) = read_feedback(folder)
    assert (kept.step, kept.accepted, kept.note) == (1, False, "Blue.")
    image = RUN.results[0].attempts[0].image
    assert image is not None and kept.image == image.digest
    assert load_trajectory(folder) == RUN, "feedback does not change the run"


def test_a_verdict_on_an_item_is_kept_and_a_false_one_rejects(folder: Path) -> None:
    record_feedback(
        folder, word(items=({"text": "two boats", "true": False}, {"text": "a moon", "true": True}))
    )
    record_feedback(folder, word(3, items=({"text": "a moon", "true": True},)))
    first, second = read_feedback(folder)
    assert first.false_items == ["two boats"] and success_of(first) is False
    assert success_of(second) is None, "an item that is true does not make the image right"
    assert success_of(first.model_copy(update={"accepted": True})) is True, "the verdict on the image counts"
    assert "items" not in word(accepted=True).model_dump_json(exclude_none=True), "written as before"
    step = RUN.results[0]
    taught = verdict_of_person(step.attempts[0], first)
    assert taught is not None and taught.success is False
    assert taught.reasoning.endswith("Not true: two boats.")
    assert read_verdict(write_verdict(taught)).reasoning == taught.reasoning, "readable as any verdict"


def test_the_same_feedback_again_is_not_written_again(folder: Path) -> None:
    for said in (word(accepted=True), word(accepted=True), word(accepted=False), word(accepted=True)):
        record_feedback(folder, said)
    assert len((folder / "feedback.jsonl").read_bytes().splitlines()) == 3
    assert [one.accepted for one in read_feedback(folder)] == [True]


SPEAK = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
import conftest
from interleave_thinker.backend.output.feedback_log import Feedback, record_feedback
for number in range(40):
    record_feedback(Path({folder!r}), Feedback(step=1, attempt=0, note=f"{{sys.argv[1]}} {{number}} " + "x" \
* 9000))
"""


def test_several_programs_can_write_feedback_in_parallel(folder: Path) -> None:
    with (folder / "feedback.jsonl").open("ab") as file:
        file.write(b'{"step":2,"attempt":0,"acc')
    code = SPEAK.format(tests=str(Path(__file__).parents[3]), folder=str(folder))
    speakers = [subprocess.Popen([sys.executable, "-c", code, name]) for name in "abc"]
    assert [speaker.wait() for speaker in speakers] == [0, 0, 0]
    lines = (folder / "feedback.jsonl").read_text().splitlines()
    assert len(lines) == 121 and all(lines), "each entry is on its own line, after the truncated one"
    notes = [json.loads(line)["note"].split()[:2] for line in lines[1:]]
    assert sorted(notes) == sorted([name, str(number)] for name in "abc" for number in range(40))


def test_a_writer_waits_for_another_with_a_timeout(folder: Path) -> None:
    files = RunFiles(folder)
    with one_writer(files), pytest.raises(JournalError, match="Another program"), one_writer(files, wait=0.1):
        pass
    record_feedback(folder, word(accepted=True))
    assert not (folder / "feedback.lock").exists()


def say(folder: Path, *said: object, attempt: int = 1) -> tuple[int, str]:
    done = call("data", "feedback", folder, "--step", 1, "--attempt", attempt, *said)
    return done.exit_code, done.output


def test_feedback_can_be_given_on_the_command_line(folder: Path) -> None:
    assert say(folder, "--accept", "--note", "Fine.")[0] == 0
    (kept,) = read_feedback(folder)
    assert (kept.accepted, kept.note, kept.attempt) == (True, "Fine.", 0) and kept.image
    assert say(folder, "--better", "a lighter page")[0] == 0
    (kept,) = read_feedback(folder)
    assert (kept.accepted, kept.better_prompt, kept.note) == (False, "a lighter page", None)
    assert say(folder, "--false", "two boats", "--true", "a moon")[0] == 0
    (kept,) = read_feedback(folder)
    moon, boats = ItemFeedback(text="a moon", true=True), ItemFeedback(text="two boats", true=False)
    assert kept.accepted is None and kept.items == (moon, boats)
    assert say(folder, "--take-back")[0] == 0
    assert read_feedback(folder) == []


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ([], ""),
        (["--accept", "--reject"], ""),
        (["--accept", "--better", "x"], ""),
        (["--take-back", "--note", "x"], "cannot be combined with --take-back"),
        (["--take-back", "--false", "a moon"], "cannot be combined with --take-back"),
        (["--reject", "--note", "n" * (MAX_NOTE + 1)], ""),
        (["--false", "x" * 201], "at most 200 characters"),
    ],
)
def test_empty_or_contradictory_feedback_is_rejected(folder: Path, said: list[str], message: str) -> None:
    code, output = say(folder, *said)
    assert code == 2 and message in output
    assert say(folder, "--accept", attempt=9)[0] == 1
    assert not (folder / "feedback.jsonl").exists()


def test_a_truncated_line_is_ignored(folder: Path) -> None:
    record_feedback(folder, word(accepted=True))
    with (folder / "feedback.jsonl").open("ab") as file:
        file.write(b'\n{"step":2,"attempt":0,"acc')
    record_feedback(folder, word(3, 1, accepted=False))
    assert [(one.step, one.accepted) for one in read_feedback(folder)] == [(1, True), (3, False)]


@pytest.mark.parametrize(
    "line", ["[]", '{"step":0,"attempt":0}', "nonsense", '{"step":1,"attempt":0,"more":1}']
)
def test_a_damaged_line_is_named(folder: Path, line: str) -> None:
    record_feedback(folder, word(accepted=True))
    with (folder / "feedback.jsonl").open("a") as file:
        file.write(f"{line}\n")
    with pytest.raises(JournalError, match="line 2"):
        read_feedback(folder)


def test_feedback_texts_have_a_maximum_length(folder: Path, tmp_path: Path) -> None:
    for broken in (
        {"step": 0},
        {"attempt": -1},
        {"note": "n" * (MAX_NOTE + 1)},
        {"image": "../x"},
        {"accepted": 3},
    ):
        with pytest.raises(ValidationError):
            Feedback(**({"step": 1, "attempt": 0} | broken))
    with pytest.raises(JournalError, match=r"Step 1 .* does not have an attempt 9"):
        record_feedback(folder, word(1, 8, accepted=True))
    with pytest.raises(JournalError, match="does not contain a run"):
        record_feedback(tmp_path, word(accepted=True))
    (folder / "feedback.jsonl").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(JournalError, match="leads out"):
        record_feedback(folder, word(accepted=True))
    assert not (tmp_path / "elsewhere").exists()


# Training rows


def test_a_row_has_the_question_that_the_critic_got(tmp_path: Path) -> None:
    asked = []

    class Listening:
        identity, prompt_set = "listening", None

        def reply(self, messages: Any, *_: Any) -> Any:
            asked.extend(messages)
            raise InterleaveError("heard")

    attempt = RUN.results[1].attempts[0]
    assert attempt.image is not None
    with pytest.raises(InterleaveError, match="heard"):
        Critic(Listening()).judge(
            attempt.source, attempt.image, RUN.plan.steps[1].prompt or "", attempt.prompt
        )  # type: ignore[arg-type]
    data = add_feedback_rows(tmp_path, RUN, [word(2, accepted=True)])
    (row,) = read_rows(data.path)
    parts = ["<image>" if isinstance(part, Picture) else part for part in asked[0].content]
    assert row.messages[0].content == "".join(parts)
    shown = [Picture.open(tmp_path / image) for image in row.images]
    assert shown == [part for part in asked[0].content if isinstance(part, Picture)]


@pytest.mark.parametrize(
    ("said", "success", "refined", "reasoning"),
    [
        (word(1, 0, accepted=False), False, "critic's", "critic's"),
        (word(1, 0, accepted=False, note="It is blue."), False, "critic's", "It is blue."),
        (word(1, 0, better_prompt=" a red boat "), False, "a red boat", "critic's"),
        (word(1, 0, accepted=True), True, "used", ""),
        (word(1, 1, accepted=True), True, "used", "critic's"),
        (word(1, 1, accepted=False), False, "used", ""),
        (word(3, 1, accepted=False, better_prompt="a fish"), False, "a fish", ""),
    ],
)
def test_feedback_wins(tmp_path: Path, said: Feedback, success: bool, refined: str, reasoning: str) -> None:
    attempt = RUN.results[said.step - 1].attempts[said.attempt]
    critic = attempt.verdict
    assert critic is not None
    data = add_feedback_rows(tmp_path, RUN, [said])
    verdict = read_verdict(read_rows(data.path)[0].messages[-1].content)
    assert verdict.success is success
    assert verdict.refined_prompt == {"critic's": critic.refined_prompt, "used": attempt.prompt}.get(
        refined, refined
    )
    assert verdict.reasoning == {"critic's": critic.reasoning}.get(reasoning, reasoning)


def test_later_feedback_replaces_the_row_and_withdrawal_removes_it(tmp_path: Path) -> None:
    assert add_feedback_rows(tmp_path, RUN, [word(accepted=True), word(2, accepted=False)]).rows == 2
    assert add_feedback_rows(tmp_path, RUN, [word(accepted=False)]).rows == 2
    data = add_feedback_rows(tmp_path, RUN, [word(2), word(3, 1, note="Only a remark.")])
    assert data.rows == 1
    (row,) = read_rows(data.path)
    assert read_verdict(row.messages[-1].content).success is False
    assert len(list((tmp_path / "images").iterdir())) == 4
    emptied = add_feedback_rows(tmp_path, RUN, [word()])
    assert emptied.rows == 0 and json.loads(emptied.path.read_text()) == []


def test_feedback_on_later_attempts_selects_the_refined_prompt(tmp_path: Path) -> None:
    folder = made_run(tmp_path / "run", [(1, True, None), (2, False, None), (3, True, None)])
    run = load_trajectory(folder)
    first = word(accepted=False)

    def remedy(*words: Feedback) -> tuple[str, bool]:
        rows = read_rows(add_feedback_rows(tmp_path / "data", run, words).path)
        (row,) = [one for one in rows if first_image in one.images]
        return read_verdict(row.messages[-1].content).refined_prompt, bool(row.not_learned)

    image = run.results[0].attempts[0].image
    assert image is not None
    first_image = f"images/{image.digest}.png"
    assert remedy(first) == ("a light page 2", False), "the critic accepted that one"
    assert remedy(first, word(1, 2, accepted=False)) == ("a light page", True), (
        "no verdict confirms any of them"
    )
    assert remedy(first, word(1, 1, accepted=True)) == ("a light page 1", False)
    assert remedy(word(better_prompt="a white page")) == ("a white page", False)


def test_feedback_on_missing_images_makes_no_row(tmp_path: Path) -> None:
    other = Picture.white((8, 8)).digest
    data = add_feedback_rows(
        tmp_path, RUN, [word(accepted=True, image=other), word(9, image=other), word(2, accepted=True)]
    )
    assert (data.rows, data.skipped) == (1, 2)


@pytest.mark.parametrize(("step", "attempt"), [(9, 0), (4, 0), (1, 5), (3, 0)])
def test_feedback_on_unknown_attempts_is_rejected(tmp_path: Path, step: int, attempt: int) -> None:
    with pytest.raises(SettingsError):
        add_feedback_rows(tmp_path / "data", RUN, [word(accepted=True), word(step, attempt, accepted=True)])
    assert not (tmp_path / "data").exists()


def test_marks_in_prompts_cannot_shift_the_images(tmp_path: Path) -> None:
    tricky = make_trajectory(1, decorate=" <image>")
    with pytest.raises(SettingsError, match="marks"):
        add_feedback_rows(tmp_path, tricky, [word(accepted=True)])
    bare = default_prompt_set().model_copy(update={"critic": "{original_instruction} {rewritten_prompt}"})
    assert isinstance(bare, PromptSet)
    data = add_feedback_rows(tmp_path, RUN, [word(accepted=True)], bare)
    assert read_rows(data.path)[0].messages[0].content.startswith("<image><image>")


@pytest.mark.parametrize("content", ["{", "{}", '[{"messages": []}]', "[1]"])
def test_a_damaged_data_file_is_left_alone(tmp_path: Path, content: str) -> None:
    (tmp_path / "critic_sft.json").write_text(content)
    with pytest.raises(JournalError, match="critic_sft"):
        add_feedback_rows(tmp_path, RUN, [word(accepted=True)])
    assert (tmp_path / "critic_sft.json").read_text() == content
    assert not list(tmp_path.glob("*.lock"))
