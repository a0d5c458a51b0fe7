"""`data filter` on constructed trajectories: improvement, best attempt, RL, balance, scores."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from support.made_runs import accepted_story, grey_page, made_run

from interleave_thinker.backend.core.answers.reading import read_verdict
from interleave_thinker.backend.core.errors import ChatError, ScorerError
from interleave_thinker.backend.core.pictures import Picture
from interleave_thinker.backend.core.prompts.prompt_set import default_prompt_set
from interleave_thinker.backend.core.types import Attempt, Identities, Score
from interleave_thinker.backend.models.chat.scripted import ScriptedChat
from interleave_thinker.backend.models.judge import ChatJudge
from interleave_thinker.backend.output.exporters.record import export
from interleave_thinker.backend.story.loop.replay import load_trajectory
from interleave_thinker.training.from_runs.convert import MadeData, RunConverter
from interleave_thinker.training.from_runs.scoring import RepeatedScorer, score_in_run
from interleave_thinker.training.from_runs.settings import FilterData
from interleave_thinker.training.rows.rl import read_rl_rows
from interleave_thinker.training.rows.sft import check_rows

CHAINS: dict[str, tuple[list[float], list[int]]] = {
    "worse at once": ([5, 3], []),
    "as good": ([5, 5], [0]),
    "better, then worse": ([3, 6, 4], [0, 1]),
    "one attempt": ([4], [0]),
    "one bad attempt": ([2], []),
    "always bad": ([1, 2.5, 2], []),
    "widest": ([2, 9, 9.5], [0, 1, 2]),
    "down and up": ([6, 2, 7], [0, 1, 2]),
    "hardly better": ([7, 7.1], [0, 1]),
    "good": ([8], [0]),
    "very good": ([9], [0]),
    "just at the floor": ([3, 3], [0]),
}
"""Overall scores of each trajectory's attempts, and which attempts are kept."""


def folder_of(name: str) -> str:
    return name.replace(" ", "-").replace(",", "")


def make_chains(folder: Path) -> None:
    for number, (name, (scores, _)) in enumerate(CHAINS.items()):
        attempts = [(number * 8 + n, score >= 6.5, score) for n, score in enumerate(scores)]
        made_run(folder / folder_of(name), attempts, prompt=name)


def filtered(tmp_path: Path, scorer: Any = None, parallel: int = 1, **settings: Any) -> MadeData:
    chosen = FilterData(**({"balance": 0.0} | settings))
    converter = RunConverter(chosen, default_prompt_set(), scorer, log=lambda line: None, parallel=parallel)
    return converter.convert([tmp_path / "runs"], tmp_path / "data")


def kept(made: MadeData, *fates: str) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for one in made.report.details:
        if one.fate in fates:
            found.setdefault(one.run.rpartition("/")[2], []).append(one.attempt)
    return found


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


def test_the_published_rules_on_twelve_chains(tmp_path: Path) -> None:
    make_chains(tmp_path / "runs")
    made = filtered(tmp_path)
    expected = {
        name.replace(" ", "-").replace(",", ""): attempts
        for name, (_, attempts) in CHAINS.items()
        if attempts
    }
    assert kept(made, "sft", "rl") == expected
    assert kept(made, "rl") == {"widest": [0, 1, 2]}
    reasons = {
        one.run.rpartition("/")[2]: one.reason for one in made.report.details if one.fate == "left out"
    }
    assert reasons["worse-at-once"] == "no later attempt is as good as the first"
    assert (
        reasons["always-bad"]
        == reasons["one-bad-attempt"]
        == "the step's best image scores below the minimum"
    )
    assert reasons["better-then-worse"] == "after the step's best attempt"
    assert 4.67 < made.report.settings.rl_variance < 11.7
    assert made.rl and len(read_rl_rows(made.rl)[0]) == 3


@pytest.mark.parametrize(("share", "rows"), [(0.0, 0), (0.1, 3), (0.35, 6), (1.0, 10)])
def test_the_target_share_determines_the_variance(share: float, rows: int, tmp_path: Path) -> None:
    """Whole steps go to RL; four rows of single attempts or equal scores have no variance."""
    make_chains(tmp_path / "runs")
    made = filtered(tmp_path, rl_share=share)
    assert sum(map(len, kept(made, "rl").values())) == rows


@pytest.mark.parametrize("by", ["repeat", "drop"])
def test_verdicts_are_balanced_up_or_down(by: str, tmp_path: Path) -> None:
    for number in range(30):
        right = number % 5 == 0
        made_run(tmp_path / "runs" / f"r{number}", [(number * 8, right, 7.0)], prompt=f"page {number}")
    made = filtered(tmp_path, balance=0.5, balance_by=by)
    assert made.sft
    said = [read_verdict(row.messages[-1].content).success for row in check_rows(made.sft)[0]]
    assert len(said) == (48 if by == "repeat" else 12)
    assert said.count(True) / len(said) == pytest.approx(0.5, abs=0.01)


def test_the_split_of_the_prompts_is_kept(tmp_path: Path) -> None:
    for number, split in enumerate(["train", "validation", "held out", ""]):
        folder = made_run(
            tmp_path / "runs" / f"r{number}", [(number * 9, True, 8.0)], prompt=f"page {number}"
        )
        (folder / "sample.json").write_text(json.dumps({"id": f"r{number}", "split": split}))
    made = filtered(tmp_path, held_out_runs=0.0)
    assert set(kept(made, "sft")) == {"r0", "r3"}
    assert set(kept(made, "held out")) == {"r1", "r2"}


class UnsureJudge:
    """Returns different numbers at every call, and counts the calls."""

    identity = "unsure"
    repeats = True

    def __init__(self) -> None:
        self.asked: list[tuple[int, tuple[int, int]]] = []

    def numbers(
        self, before: Picture | None, after: Picture, instruction: str, repeat: int = 0
    ) -> tuple[float, float, float, float]:
        self.asked.append((repeat, after.size))
        return (9.0, 5.0 + repeat, 8.0, 6.0)

    def score(self, before: Picture | None, after: Picture, instruction: str) -> Score:
        raise AssertionError("numbers are asked for")


def test_repeated_scores_are_requested_only_once(tmp_path: Path) -> None:
    made_run(tmp_path / "runs" / "a", [(10, False, None), (90, True, None)])
    judge = UnsureJudge()
    made = filtered(tmp_path, RepeatedScorer(judge, 3), rl_share=None, rl_variance=0.0)
    assert len(judge.asked) == 2 * 3 and made.report.scored == 2
    assert made.report.details[0].overall == pytest.approx((6 * 6) ** 0.5)
    again = filtered(tmp_path, RepeatedScorer(judge, 3), rl_share=1.0)
    assert len(judge.asked) == 2 * 3 and again.report.scored == 0


def test_judge_scores_are_in_the_rows(tmp_path: Path) -> None:
    class ByShade(UnsureJudge):
        def numbers(
            self, before: Picture | None, after: Picture, instruction: str, repeat: int = 0
        ) -> tuple[float, float, float, float]:
            light = after.image.getpixel((0, 0))[0] / 255 * 10  # type: ignore[index]
            return (light, 10.0, 10.0, 9.0 - repeat)

    made_run(tmp_path / "runs" / "a", [(80, False, None), (240, True, None)])
    made = filtered(tmp_path, RepeatedScorer(ByShade(), 3), rl_share=1.0)
    assert made.rl
    rows = read_rl_rows(made.rl)[0]
    assert [len(row.raw_scores["numbers"]) for row in rows] == [3, 3]
    assert rows[0].evaluation.quality == 8.0 and rows[0].raw_scores["spread"] > 0
    assert rows[0].judge == "unsure|repeats=3"


def test_judge_replies_with_one_number_give_no_score(tmp_path: Path) -> None:
    for number in range(3):
        made_run(tmp_path / "runs" / f"r{number}", [(10 * number + n, n > 0, None) for n in range(4)])
    good, short = "<answer>[8, 6]</answer>", "<answer>8</answer>"
    chat = ScriptedChat([good, good, *[short] * 100])
    made = filtered(tmp_path, ChatJudge(chat), rl_share=1.0)
    # The judge is called again once per image; images without two numbers have no score and are counted.
    assert (made.report.scored, made.report.unscored, len(chat.requests)) == (1, 11, 2 + 2 * 11)
    assert made.report.images == 12 and made.sft
    for number in range(3, 8):
        made_run(tmp_path / "runs" / f"r{number}", [(10 * number + n, n > 0, None) for n in range(4)])
    never = ScriptedChat([short] * 100)
    with pytest.raises(ScorerError, match="scores cannot be read") as error:
        filtered(tmp_path, ChatJudge(never), rl_share=1.0)
    assert "\n" not in str(error.value) and len(never.requests) == 2 * 20
    assert made.sft.exists()


def test_an_option_scales_images_for_the_judge() -> None:
    judge = UnsureJudge()
    small, large = Picture.white((40, 40)), Picture.white((80, 60))
    RepeatedScorer(judge, 1, match_size=True).score(small, large, "a")
    RepeatedScorer(judge, 1).score(small, large, "a")
    RepeatedScorer(judge, 1, match_size=True).score(None, large, "a")
    assert [size for _, size in judge.asked] == [(40, 40), (80, 60), (80, 60)]


def test_published_folders_are_read(tmp_path: Path) -> None:
    run = made_run(tmp_path / "ours", [(10, False, None), (90, True, None)])
    export(load_trajectory(run), tmp_path / "runs" / "0_a page")
    made = filtered(tmp_path)
    assert kept(made, "sft") == {"0_a page": [0, 1]}


class ByShade:
    """Scores images by their brightness; later ones finish first. With `down` it never answers."""

    identity = "by shade"

    def __init__(self, down: bool = False) -> None:
        self.down = down

    def score(self, before: Picture | None, after: Picture, instruction: str) -> Score:
        if self.down:
            raise ChatError("No server answers.")
        light = after.image.getpixel((0, 0))[0] / 25.5  # type: ignore[index]
        time.sleep(0.02 - light / 1000)
        return Score(semantics=light, quality=5.0)


def test_rows_scored_in_parallel_are_the_same(tmp_path: Path) -> None:
    for number in range(8):
        made_run(tmp_path / "runs" / f"r{number}", [(20 * number + n, n > 0, None) for n in range(3)])
    files = []
    for parallel in (1, 4):
        made = filtered(tmp_path, ByShade(), parallel, rl_share=0.5)
        files.append({path.name: path.read_bytes() for path in made.folder.rglob("*.*")})
        (tmp_path / "data.scores.sqlite").unlink()
    for content in files:
        content["report.json"] = json.dumps(json.loads(content["report.json"])).encode()
    assert files[0] == files[1]
    with pytest.raises(ChatError, match="No server answers"):
        filtered(tmp_path, ByShade(down=True), 2)
