"""Scores of the images of runs: whose they are, repeated, cached, in parallel, and failures."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from support.made_runs import accepted_story, grey_page, made_run

from interleave_thinker import ChatError, Picture, ScorerError
from interleave_thinker.backend.core.prompts.prompt_set import default_prompt_set
from interleave_thinker.backend.core.types import Attempt, Identities, Score
from interleave_thinker.backend.models.chat.scripted import ScriptedChat
from interleave_thinker.backend.models.judge import ChatJudge
from interleave_thinker.training.from_runs.convert import MadeData, RunConverter
from interleave_thinker.training.from_runs.scoring import RepeatedScorer, score_in_run
from interleave_thinker.training.from_runs.settings import FilterData
from interleave_thinker.training.rows.rl import read_rl_rows


def runs(folder: Path, count: int, attempts: int, first: int = 0) -> None:
    for number in range(first, count):
        made_run(folder / "runs" / f"r{number}", [(20 * number + n, n > 0, None) for n in range(attempts)])


def filtered(tmp_path: Path, scorer: Any, parallel: int = 1, **settings: Any) -> MadeData:
    chosen = FilterData(**({"balance": 0.0, "rl_share": 1.0} | settings))
    lines = RunConverter(chosen, default_prompt_set(), scorer, log=lambda line: None, parallel=parallel)
    return lines.convert([tmp_path / "runs"], tmp_path / "data")


@pytest.mark.parametrize(
    ("own", "asked", "kept"),
    [
        ("", "judge", True),
        ("judge", None, True),
        ("judge", "judge|match size", True),
        ("judge", "judge", False),
        ("judge", "other|match size", False),
    ],
)
def test_scores_of_the_runs_scorer_are_not_mixed_with_others(own: str, asked: str | None, kept: bool) -> None:
    score = Score(semantics=3, quality=4)
    attempt = Attempt(prompt="a", seed=0, score=score)
    trajectory = accepted_story(grey_page(3)).model_copy(update={"identities": Identities(scorer=own)})
    assert score_in_run(trajectory, attempt, asked) == (score if kept else None)


class Unsure:
    """Returns different numbers at every call, by the brightness of the image; counts the calls."""

    identity = "unsure"
    repeats = True

    def __init__(self) -> None:
        self.sizes: list[tuple[int, int]] = []

    def numbers(
        self, before: Picture | None, after: Picture, instruction: str, repeat: int = 0
    ) -> tuple[float, float, float, float]:
        self.sizes.append(after.size)
        light = after.image.getpixel((0, 0))[0] / 25.5  # type: ignore[index]
        return (light, 10.0, 10.0, 9.0 - repeat)


def test_repeated_scores_are_their_median_and_requested_only_once(tmp_path: Path) -> None:
    made_run(tmp_path / "runs" / "a", [(80, False, None), (240, True, None)])
    judge = Unsure()
    made = filtered(tmp_path, RepeatedScorer(judge, 3))
    assert len(judge.sizes) == 2 * 3 and made.report.scored == 2 and made.rl
    rows = read_rl_rows(made.rl)[0]
    assert [len(row.raw_scores["numbers"]) for row in rows] == [3, 3]
    assert rows[0].evaluation.quality == 8.0 and rows[0].raw_scores["spread"] > 0
    assert rows[0].judge == "unsure|repeats=3"
    again = filtered(tmp_path, RepeatedScorer(judge, 3))
    assert len(judge.sizes) == 2 * 3 and again.report.scored == 0


def test_an_option_scales_images_for_the_judge() -> None:
    judge = Unsure()
    small, large = Picture.white((40, 40)), Picture.white((80, 60))
    for before, match_size in ((small, True), (small, False), (None, True)):
        RepeatedScorer(judge, 1, match_size=match_size).score(before, large, "a")
    assert judge.sizes == [(40, 40), (80, 60), (80, 60)]


def test_judge_replies_with_one_number_give_no_score(tmp_path: Path) -> None:
    runs(tmp_path, 3, 4)
    good, short = "<answer>[8, 6]</answer>", "<answer>8</answer>"
    chat = ScriptedChat([good, good, *[short] * 100])
    made = filtered(tmp_path, ChatJudge(chat))
    # The judge is called again once per image; images without two numbers have no score and are counted.
    assert (made.report.scored, made.report.unscored, len(chat.requests)) == (1, 11, 2 + 2 * 11)
    runs(tmp_path, 8, 4, first=3)
    never = ScriptedChat([short] * 100)
    with pytest.raises(ScorerError, match="scores cannot be read"):
        filtered(tmp_path, ChatJudge(never))
    assert len(never.requests) == 2 * 20 and made.sft and made.sft.exists()


class ByShade:
    """Scores images by their brightness; later ones finish first. With `down` it fails so many times."""

    identity = "by shade"

    def __init__(self, down: int = 0) -> None:
        self.down = down

    def score(self, before: Picture | None, after: Picture, instruction: str) -> Score:
        if self.down:
            self.down -= 1
            raise ChatError("The judge's service is busy.")
        light = after.image.getpixel((0, 0))[0] / 25.5  # type: ignore[index]
        time.sleep(0.02 - light / 1000)
        return Score(semantics=light, quality=5.0)


def test_rows_scored_in_parallel_are_the_same(tmp_path: Path) -> None:
    runs(tmp_path, 8, 3)
    files = []
    for parallel in (1, 4):
        made = filtered(tmp_path, ByShade(), parallel, rl_share=0.5)
        files.append({path.name: path.read_bytes() for path in made.folder.rglob("*.*")})
        (tmp_path / "data.scores.sqlite").unlink()
    for content in files:
        content["report.json"] = json.dumps(json.loads(content["report.json"])).encode()
    assert files[0] == files[1]


def test_single_failures_cost_scores_and_an_outage_ends_the_command(tmp_path: Path) -> None:
    runs(tmp_path, 6, 1)
    with pytest.raises(ChatError, match="busy"):
        filtered(tmp_path, ByShade(down=5), 2)
    (tmp_path / "data.scores.sqlite").unlink(missing_ok=True)
    made = filtered(tmp_path, ByShade(down=4), success_at=1.0, held_out_runs=0.0)
    assert made.report.unscored == 4 and made.report.files["critic_sft.json"].scorer == 2
