"""Judges: each question is asked once under all circumstances; answer formats of the fake judge."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from PIL import Image

from interleave_thinker.backend.chat.protocol import Message, Reply, ReplySettings
from interleave_thinker.backend.errors import ChatError, SettingsError
from interleave_thinker.backend.pictures import Picture
from interleave_thinker.evaluation.judges import BenchmarkJudge, open_judge

GREEDY = ReplySettings(max_tokens=100)


class Answers:
    """A chat that gives these texts in order, or raises these errors, after `wait` seconds each."""

    identity = "answers"
    prompt_set = None

    def __init__(self, *texts: str | Exception, wait: float = 0.0) -> None:
        self.texts, self.wait, self.seeds = list(texts), wait, []

    def reply(self, messages: Sequence[Message], settings: ReplySettings, on_token=None) -> Reply:
        self.seeds.append(settings.seed)
        until = time.monotonic() + self.wait
        while time.monotonic() < until:
            time.sleep(0.01)
            on_token("")
        text = self.texts.pop(0)
        if isinstance(text, Exception):
            raise text
        return Reply(text=text)


def question(*parts: str | Picture) -> list[Message]:
    return [Message(role="user", content=parts)]


def picture(color: tuple[int, int, int]) -> Picture:
    return Picture(Image.new("RGB", (8, 8), color))


def test_each_question_is_sent_once_and_a_second_judge_reads_the_cache(tmp_path: Path) -> None:
    asked = question("Is it red?", picture((255, 0, 0)))
    chat = Answers("<think>Hm.</think>yes", "no", "drawn")
    judge = BenchmarkJudge(chat, tmp_path / "answers.sqlite")
    assert [judge.ask(asked, GREEDY) for _ in range(3)] == ["yes"] * 3
    # Other pixels, other settings and another answer to the same question are separate questions.
    assert judge.ask(question("Is it red?", picture((254, 0, 0))), GREEDY) == "no"
    assert judge.ask(asked, GREEDY, repeat=2) == "drawn"
    assert (judge.asked, judge.remembered, chat.seeds) == (3, 2, [0, 0, 2])
    judge.close()
    again = BenchmarkJudge(Answers(), tmp_path / "answers.sqlite")
    assert (again.ask(asked, GREEDY), again.ask(asked, GREEDY, repeat=2), again.asked) == ("yes", "drawn", 0)


def test_parallel_equal_questions_share_one_answer(tmp_path: Path) -> None:
    judge = BenchmarkJudge(Answers("yes", wait=0.2), tmp_path / "answers.sqlite")
    found: list[str] = []
    threads = [
        threading.Thread(target=lambda: found.append(judge.ask(question("?"), GREEDY))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (found, judge.asked) == (["yes"] * 8, 1)


def test_a_failed_attempt_is_repeated_once(tmp_path: Path) -> None:
    judge = BenchmarkJudge(Answers(ChatError("down"), "yes"), tmp_path / "a.sqlite")
    assert (judge.ask(question("?"), GREEDY), judge.asked) == ("yes", 2)
    down = BenchmarkJudge(Answers(*[ChatError("down")] * 3, "late"), tmp_path / "b.sqlite")
    with pytest.raises(ChatError, match="down"):
        down.ask(question("?"), GREEDY)
    assert down.ask(question("?"), GREEDY) == "late", "a fault is not kept"


def test_a_judge_that_hangs_ends_at_its_deadline(tmp_path: Path) -> None:
    judge = BenchmarkJudge(Answers("never", wait=60), tmp_path / "answers.sqlite", deadline=0.1)
    with pytest.raises(ChatError, match=r"did not finish its answer within 0\.1 s"):
        judge.ask(question("?"), GREEDY)
    assert judge.asked == 2


@pytest.mark.parametrize("text", ["", "<think>On and on", "<think>done</think>  "])
def test_reasoning_without_an_answer_is_an_error(tmp_path: Path, text: str) -> None:
    judge = BenchmarkJudge(Answers(text, text), tmp_path / "answers.sqlite")
    with pytest.raises(ChatError, match="without an answer"):
        judge.ask(question("?"), GREEDY)


def test_the_fake_judge_uses_the_requested_format_and_rate(tmp_path: Path) -> None:
    judge = open_judge("fake:0.25", tmp_path / "answers.sqlite")
    found = [
        json.loads(judge.ask(question(f'Return "criteria_met". Rubric {number}'), GREEDY))["criteria_met"]
        for number in range(400)
    ]
    assert 70 < sum(found) < 130
    checklist = f"[Checklist]:\n{json.dumps([{'id': number, 'question': '?'} for number in range(400)])}\n"
    answers = json.loads(judge.ask(question(checklist), GREEDY))
    assert [one["id"] for one in answers] == list(range(400))
    assert 70 < sum(one["answer"] == "Yes" for one in answers) < 130


@pytest.mark.parametrize(
    ("asked", "good"),
    [
        ("Return Score: 0 or Score: 1.", "Score: 1"),
        ("From **1 to 5**. **Final Score:** **X**", "**Final Score:** **5**"),
        ("Score 1 if alike. **Final Score**: **X**", "**Final Score:** **1**"),
        ("Is it good?", "yes"),
    ],
)
def test_formats_of_single_answers(tmp_path: Path, asked: str, good: str) -> None:
    judge = open_judge("fake:1", tmp_path / "answers.sqlite")
    assert judge.ask(question(asked), GREEDY) == good


def test_a_fake_judge_with_known_answers_fails_for_others(tmp_path: Path) -> None:
    known = [
        {"text": "cat", "met": True},
        {"pictures": 1, "color": [200, 0, 0], "met": True},
        {"pictures": 1, "color": [0, 200, 0], "met": False},
    ]
    (tmp_path / "known.json").write_text(json.dumps(known))
    judge = open_judge(f"fake:{tmp_path / 'known.json'}", tmp_path / "answers.sqlite")
    assert judge.ask(question("A cat?"), GREEDY) == "yes"
    assert judge.ask(question("This?", picture((198, 2, 1))), GREEDY) == "yes"
    assert judge.ask(question("This?", picture((1, 199, 3))), GREEDY) == "no"
    with pytest.raises(ChatError, match="does not cover the question"):
        judge.ask(question("A dog?", picture((9, 9, 9))), GREEDY)


@pytest.mark.parametrize("spec", ["fake:2", "fake:-1", "fake:nan", "fake:", "fake:/nowhere.json", "nobody:x"])
def test_unknown_judges_are_rejected(tmp_path: Path, spec: str) -> None:
    with pytest.raises(SettingsError):
        open_judge(spec, tmp_path / "answers.sqlite")


def test_an_unusable_answer_cache_is_reported(tmp_path: Path) -> None:
    (tmp_path / "answers.sqlite").write_text("no database, whatever its name says" * 100)
    with pytest.raises(SettingsError, match="The judge's answers"):
        open_judge("fake:1", tmp_path / "answers.sqlite")
