"""Benchmarks judged by our own questions, with a judge whose answers are known."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.small_benchmarks import MINIATURES
from support.small_teachers import SmallTeachers

from interleave_thinker.backend.chat.protocol import Message, Reply, ReplySettings
from interleave_thinker.backend.errors import ChatError, SettingsError
from interleave_thinker.backend.pictures import Picture
from interleave_thinker.evaluation.benchmarks import open_benchmark
from interleave_thinker.evaluation.benchmarks.base.question import QUESTIONS_VERSION
from interleave_thinker.evaluation.judges import BenchmarkJudge, open_judge
from interleave_thinker.evaluation.runs.comparison import compare
from interleave_thinker.evaluation.runs.own_questions import JUDGED
from interleave_thinker.evaluation.runs.own_scoring import OwnScoring, score, to_ask
from interleave_thinker.evaluation.runs.running import BenchmarkRun
from interleave_thinker.evaluation.runs.scores import BenchmarkScores, as_lines, read_scores
from interleave_thinker.evaluation.runs.settings import (
    BenchmarkOptions,
    BenchmarkSettings,
    digest_of,
    items_of,
    take_folder,
)
from interleave_thinker.evaluation.runs.submission import collect
from interleave_thinker.training.data.executors.threads import ThreadExecutor
from interleave_thinker.training.data.trajectories.options import TrajectoryOptions

CALLS = {"wise": 9, "ueval": 16, "rise": 22, "specv": 12, "comm": 54}


def more(name: str, data: Path) -> None:
    """Write the official data that our questions need in addition."""
    if name != "specv":
        return
    for dimension, names in (
        ("interleaved_completion", ["comp_001"]),
        ("structured_tutorial", [f"stru_{n:03}" for n in range(5)]),
    ):
        for one in names:
            path = data / "eval_checklist" / "interleave" / dimension / f"{one}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            lines = [
                {"id": at, "question": f"Is it {at}?", "expected_answer": expected}
                for at, expected in enumerate(("Yes", "No"), 1)
            ]
            path.write_text(json.dumps(lines))


def collected(name: str, folder: Path, down: str = "") -> Path:
    data, out = folder / "data", folder / f"out{len(list(folder.iterdir()))}"
    data.mkdir(exist_ok=True)
    given = MINIATURES[name](data)
    more(name, data)
    benchmark = open_benchmark(name)
    setting = BenchmarkSettings(
        benchmark=name,
        data=str(given.path),
        data_digest=digest_of(benchmark.items(given)),
        models={"planner": "small", "critic": "small", "generator": "fake"},
        preset="ours",
        settings=BenchmarkOptions(max_attempts=1).run_settings(),
        version="1",
        commit="0123456789abcdef",
    )
    take_folder(out, setting)
    run = BenchmarkRun(
        out,
        SmallTeachers(down=down),
        setting.settings,
        TrajectoryOptions(go_on=True),
        ThreadExecutor(2),
        lambda line: None,
    )
    run.carry_out(items_of(benchmark, setting))
    collect(out, with_gaps=True, log=lambda line: None)
    return out


class Saying:
    """A judge that answers with a function of the text and images, and counts."""

    prompt_set = None

    def __init__(self, say: Callable[[str, list[Picture], int], str], identity: str = "saying") -> None:
        self._say, self.identity = say, identity
        self.asked = 0

    def reply(
        self,
        messages: Sequence[Message],
        settings: ReplySettings,
        on_token: Callable[[str], None] | None = None,
    ) -> Reply:
        self.asked += 1
        parts = messages[0].content
        words = "\n".join(one for one in parts if isinstance(one, str))
        text = self._say(words, [one for one in parts if isinstance(one, Picture)], settings.seed)
        return Reply(text=text, tokens=1)


@contextmanager
def judged(chat: Saying, out: Path) -> Iterator[BenchmarkJudge]:
    one = BenchmarkJudge(chat, out / "answers.sqlite")
    try:
        yield one
    finally:
        one.close()


def scored(chat: Saying, out: Path, repeats: int = 1, order_swap: bool = False) -> BenchmarkScores:
    with judged(chat, out) as judge:
        return score(to_ask(out), OwnScoring(judge, repeats, order_swap, 4), lambda line: None)


@pytest.mark.parametrize("name", JUDGED)
def test_the_best_and_the_worst_judge_give_the_extreme_scores(name: str, tmp_path: Path) -> None:
    out = collected(name, tmp_path)
    for rate, expected in (("1", 1.0), ("0", 0.0)):
        judge = open_judge(f"fake:{rate}", out / "answers.sqlite")
        asked = to_ask(out)
        scoring = OwnScoring(judge, parallel=4)
        assert asked.calls(scoring) == CALLS[name]
        found = score(asked, scoring, lambda line: None)
        judge.close()
        half = name == "specv"  # one of its two lines expects a no
        assert all(one.items.mean == (0.5 if half else expected) for one in found.figures)
        assert found.judged.unread == 0 and found.judged.questions == CALLS[name]
    head = as_lines(found)
    assert any(one.startswith("own questions, not comparable with published tables") for one in head)
    assert any(f"questions version {QUESTIONS_VERSION}; judge: fake:0" in one for one in head)
    assert any("(0123456789ab)" in one for one in head)


def test_text_and_image_rubrics_are_scored_separately(tmp_path: Path) -> None:
    out = collected("ueval", tmp_path)
    found = scored(Saying(lambda words, pictures, seed: "no" if pictures else "yes"), out)
    means = {one.metric: one.items.mean for one in found.figures}
    assert means == {"both": 0.5, "text": 1.0, "image": 0.0}


def test_unread_answers_count_zero_and_are_reported(tmp_path: Path) -> None:
    out = collected("wise", tmp_path)
    found = scored(Saying(lambda words, pictures, seed: "perhaps" if "number 401" in words else "Yes."), out)
    assert found.judged.unread == 1 and found.figures[0].items.mean == pytest.approx(8 / 9)
    assert any("unread: perhaps" in line for line in as_lines(found))
    other = collected("wise", tmp_path)
    with pytest.raises(
        SettingsError, match=r"None of the answers of saying could be read. The first was: hm"
    ):
        scored(Saying(lambda words, pictures, seed: "hm"), other)


def test_a_missing_image_is_not_judged_and_counts_zero(tmp_path: Path) -> None:
    out = collected("specv", tmp_path, down="How to 3?")
    chat = Saying(lambda words, pictures, seed: "yes" if "Is it 1?" in words else "no")
    found = scored(chat, out)
    assert found.gaps == 1 and chat.asked == 10
    assert found.figures[0].items.mean == pytest.approx(5 / 6)


def test_interrupted_scoring_continues_without_repeating_questions(tmp_path: Path) -> None:
    out = collected("ueval", tmp_path)

    def down(words: str, pictures: list[Picture], seed: int) -> str:
        if "Explain 5" in words:
            raise ChatError("The judge is down.")
        return "yes"

    first, second = Saying(down), Saying(lambda words, pictures, seed: "yes")
    with pytest.raises(ChatError, match="is down"):
        scored(first, out)
    kept = first.asked - 2  # a failed question is sent twice
    scored(second, out)
    assert 0 <= kept < 16 and second.asked <= 16 - kept + 4
    third = Saying(lambda words, pictures, seed: "yes")
    scored(third, out)
    assert third.asked == 0


def test_one_failure_stops_questions_about_all_items(tmp_path: Path) -> None:
    out = collected("comm", tmp_path)

    def down_for_one(words: str, pictures: list[Picture], seed: int) -> str:
        if threading.current_thread().name == "judge_0":
            raise ChatError("The judge is down.")
        time.sleep(0.2)
        return "10"

    chat = Saying(down_for_one)
    with pytest.raises(ChatError, match="is down"):
        scored(chat, out)
    assert chat.asked - 2 < 3 * 6, "started items are not finished"


def test_repeats_show_the_judges_consistency(tmp_path: Path) -> None:
    out = collected("wise", tmp_path)
    found = scored(
        Saying(lambda words, pictures, seed: "yes" if seed < 2 or "401" in words else "no"), out, 3
    )
    assert found.judged.repeats == {"right": [1.0, 1.0, pytest.approx(1 / 9)]}
    assert found.judged.repeats_differ == (8, 9) and found.figures[0].items.mean == 1.0
    assert any("range 0.889" in line for line in as_lines(found))


def test_compared_images_are_judged_in_both_orders(tmp_path: Path) -> None:
    out = collected("rise", tmp_path)

    def partial(words: str, pictures: list[Picture], seed: int) -> str:
        return "4" if len(pictures) == 2 and words.index("Image after") < words.index("Image before") else "5"

    alone = scored(Saying(partial), out)
    both = scored(Saying(partial), out, order_swap=True)
    assert alone.figures[0].items.mean == 1.0 and both.figures[0].items.mean == 0.0
    assert both.judged.orders_differ == (16, 16) and "both orders" in both.judged.settings


def test_folders_judged_differently_are_not_compared(tmp_path: Path) -> None:
    one, other = collected("rise", tmp_path), collected("rise", tmp_path)
    scored(Saying(lambda words, pictures, seed: "5"), one)
    scored(Saying(lambda words, pictures, seed: "5"), other, order_swap=True)
    with pytest.raises(SettingsError, match="judged differently"):
        compare(one, other)
    scored(Saying(lambda words, pictures, seed: "5", "another"), other)
    with pytest.raises(SettingsError, match="judged differently"):
        compare(one, other)
    scored(Saying(lambda words, pictures, seed: "5"), other)
    assert compare(one, other)[0].difference == 0.0


def test_specv_needs_its_checklists(tmp_path: Path) -> None:
    out = collected("specv", tmp_path)
    path = tmp_path / "data" / "eval_checklist"
    (path / "interleave" / "structured_tutorial" / "stru_001.json").write_text('[{"question": 1}]')
    with pytest.raises(SettingsError, match="lacks question or expected_answer"):
        to_ask(out)
    path.rename(tmp_path / "elsewhere")
    with pytest.raises(SettingsError, match=r"checklists .* were not found"):
        to_ask(out)


def test_scores_of_another_version_of_the_questions_are_not_compared(tmp_path: Path) -> None:
    one, other = collected("rise", tmp_path), collected("rise", tmp_path)
    for out in (one, other):
        scored(Saying(lambda words, pictures, seed: "5"), out)
    assert compare(one, other)[0].difference == 0.0
    path = other / "scores.json"
    stored = json.loads(path.read_text())
    assert stored["judged"].pop("questions_version") == QUESTIONS_VERSION > 1
    path.write_text(json.dumps(stored))
    assert read_scores(other).judged.questions_version == 1, "scores from before the field are still read"
    with pytest.raises(SettingsError, match=r"judged differently.*version 2.*version 1"):
        compare(one, other)
