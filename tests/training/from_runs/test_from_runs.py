"""Conversion of runs and annotations to training data of a critic: the rules, and invalid runs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.made_runs import PROMPT, made_run, say
from support.small_agents import OneInThree, OnePlan
from support.stories import make_trajectory

from interleave_thinker.backend.core.answers.reading import read_verdict
from interleave_thinker.backend.core.errors import ChatError, JournalError, SettingsError
from interleave_thinker.backend.core.pictures import Picture
from interleave_thinker.backend.core.prompts.prompt_set import default_prompt_set
from interleave_thinker.backend.core.types import Request, RunSettings, Score, Verdict
from interleave_thinker.backend.models.generators.fake import FakeGenerator
from interleave_thinker.backend.story.journal.copy import save_trajectory
from interleave_thinker.backend.story.journal.journal import Journal
from interleave_thinker.backend.story.loop.collaborators import Collaborators
from interleave_thinker.backend.story.loop.events import AttemptJudged
from interleave_thinker.backend.story.loop.loop import run
from interleave_thinker.training.from_runs.convert import MadeData, RunConverter, RunsReport
from interleave_thinker.training.from_runs.filter import held_out_of
from interleave_thinker.training.from_runs.run_folders import find_runs
from interleave_thinker.training.from_runs.settings import RunsData
from interleave_thinker.training.rows.rl import read_rl_rows
from interleave_thinker.training.rows.sft import check_rows


def data_of(tmp_path: Path, *runs: Path, skip_bad: bool = False, **settings: Any) -> MadeData:
    said: list[str] = []
    chosen = RunsData(**({"balance": 0.0, "held_out_runs": 0.0} | settings))
    converter = RunConverter(chosen, default_prompt_set(), skip_bad=skip_bad, log=said.append)
    return converter.convert(runs or [tmp_path / "runs"], tmp_path / "data")


def fates(made: MadeData) -> list[tuple[str, str]]:
    return [(one.fate, one.reason) for one in made.report.details]


def verdicts(path: Path | None) -> list[Verdict]:
    assert path is not None
    return [read_verdict(row.messages[-1].content) for row in check_rows(path)[0]]


@pytest.mark.parametrize(
    ("scores", "kept"),
    [
        ([5, 3], []),
        ([5, 5], [0]),
        ([3, 6, 4], [0, 1]),
        ([3, 6, 6], [0, 1]),
        ([6, 2, 7], [0, 1, 2]),
        ([4], [0]),
    ],
)
def test_a_chain_without_decline_is_kept_up_to_its_best_image(
    tmp_path: Path, scores: list[float], kept: list[int]
) -> None:
    made_run(tmp_path / "runs" / "one", [(10 * n, False, score) for n, score in enumerate(scores)])
    made_run(tmp_path / "runs" / "other", [(200, True, 9.0)], prompt="another page")
    made = data_of(tmp_path, rl_variance=100)
    found = [one.attempt for one in made.report.details if one.run.endswith("one") and one.fate == "sft"]
    assert found == kept
    assert len(verdicts(made.sft)) == len(kept) + 1


def test_every_rule_can_be_switched_off(tmp_path: Path) -> None:
    made_run(tmp_path / "runs" / "a", [(1, False, 5.0), (2, False, 3.0)])
    made_run(tmp_path / "runs" / "b", [(3, False, 3.0), (4, False, 6.0), (5, False, 4.0)], prompt="b")
    made_run(tmp_path / "runs" / "c", [(6, True, 9.0)], prompt="c")
    assert len(verdicts(data_of(tmp_path, rl_variance=100).sft)) == 3
    assert len(verdicts(data_of(tmp_path, rl_variance=100, improved_only=False).sft)) == 4
    assert len(verdicts(data_of(tmp_path, rl_variance=100, improved_only=False, cut_at_best=False).sft)) == 6
    assert len(verdicts(data_of(tmp_path, rl_variance=100, single=False).sft)) == 2


def test_without_scores_the_critics_certainty_ranks(tmp_path: Path) -> None:
    made_run(tmp_path / "runs" / "a", [(1, False, None), (2, True, None), (3, False, None)])
    made_run(tmp_path / "runs" / "b", [(4, True, None), (5, False, 9.0)], prompt="b")
    assert [fate for fate, _ in fates(data_of(tmp_path))] == [
        "sft",
        "sft",
        "left out",
        "left out",
        "left out",
    ]


def test_user_feedback_overrides_critic_and_scores(tmp_path: Path) -> None:
    folder = made_run(tmp_path / "runs" / "a", [(1, False, 2.0), (2, True, 9.0), (3, False, 1.0)])
    say(folder, 0, True)
    say(folder, 1, False, better_prompt="a really light page")
    say(folder, 2, False, note="It is dark.")
    made = data_of(tmp_path, rl_variance=100, success_at=8.0)
    first, second, third = verdicts(made.sft)
    assert (first.success, first.refined_prompt, first.reasoning) == (True, PROMPT, "")
    assert (second.success, second.refined_prompt, second.reasoning) == (False, "a really light page", "")
    assert (third.success, third.reasoning) == (False, "It is dark.")
    rows = made.report.files["critic_sft.json"]
    assert (rows.human, rows.critic, rows.overruled, rows.without_reasoning) == (3, 0, 2, 2)
    assert rows.overruled_without_reasoning == 2 and "2 of the 2 rows that overrule" in " ".join(
        made.report.warnings
    )
    assert {reason for _, reason in fates(made)} == {"annotated by a person"}


def test_user_feedback_ranks_above_scores_in_the_rules(tmp_path: Path) -> None:
    folder = made_run(tmp_path / "runs" / "a", [(1, True, 9.0), (2, False, 2.0), (3, True, 8.0)])
    say(folder, 0, False)
    say(folder, 1, True)
    made = data_of(tmp_path, rl_variance=100)
    assert [fate for fate, _ in fates(made)] == ["sft", "sft", "left out"]
    assert [one.success for one in verdicts(made.sft)] == [False, True]


def test_feedback_on_a_missing_image_is_ignored(tmp_path: Path) -> None:
    folder = made_run(tmp_path / "runs" / "a", [(1, True, None)])
    say(folder, 0, False, image="0" * 40)
    made = data_of(tmp_path)
    assert [one.success for one in verdicts(made.sft)] == [True]
    assert made.report.words_gone == 1 and "no longer" in " ".join(made.report.warnings)


def test_rows_without_reasoning_can_be_left_out(tmp_path: Path) -> None:
    folder = made_run(tmp_path / "runs" / "a", [(1, True, None)])
    made_run(tmp_path / "runs" / "b", [(2, True, None)], prompt="b")
    say(folder, 0, False)
    assert [one.reasoning for one in verdicts(data_of(tmp_path).sft)] == ["", "seen 2"]
    made = data_of(tmp_path, reasoning="required")
    assert fates(made) == [("left out", "no reasoning"), ("sft", "the step's only attempt")]


def test_text_to_image_rows_name_the_published_white_image(tmp_path: Path) -> None:
    made_run(tmp_path / "runs" / "a", [(1, False, 2.0), (2, True, 9.0)], source=None)
    made = data_of(tmp_path)
    assert made.rl is not None
    for line in made.rl.read_text().splitlines():
        before = json.loads(line)["origin_image_path"]
        assert before.endswith("data/interleave/white.png") and Picture.open(made.folder / before).is_white
    assert [row.origin_image_path for row in read_rl_rows(made.rl)[0]] == [None, None]
    assert data_of(tmp_path).rl == made.rl, "the folder is still recognized as output, and replaced"


def test_samples_with_varying_scores_become_reinforcement_rows(tmp_path: Path) -> None:
    made_run(tmp_path / "runs" / "a", [(1, False, 2.0), (2, True, 9.0)])
    made_run(tmp_path / "runs" / "b", [(3, False, 5.0), (4, True, 6.0)], prompt="b", source=None)
    made = data_of(tmp_path)
    assert [fate for fate, _ in fates(made)] == ["rl", "rl", "sft", "sft"]
    assert made.rl is not None
    rows, problems = read_rl_rows(made.rl)
    assert not problems and [row.evaluation.success for row in rows] == [False, True]
    assert (rows[0].evaluation.semantics, rows[1].prompt_used) == (2.0, f"{PROMPT} 1")
    assert len(verdicts(data_of(tmp_path, both=True).sft)) == 4
    assert data_of(tmp_path, rl_variance=100).rl is None


class Judge:
    """Scores images with a given number, or not at all."""

    identity = "judge of tests"

    def __init__(self, *scores: float | None) -> None:
        self.scores = list(scores)

    def score(self, before: Picture | None, after: Picture, original_prompt: str) -> Score:
        points = self.scores.pop(0)
        if points is None:
            raise ChatError("The judge's service is busy.")
        return Score(semantics=points, quality=points)


def test_single_judge_failures_cost_scores_and_an_outage_ends_the_command(tmp_path: Path) -> None:
    for number in range(7):
        made_run(tmp_path / "runs" / f"{number}", [(number, True, None)], prompt=f"page {number}")

    lines: list[str] = []

    def scored(*scores: float | None) -> MadeData:
        chosen = RunsData(balance=0.0, success_at=8.0, held_out_runs=0.0)
        converter = RunConverter(chosen, default_prompt_set(), Judge(*scores), log=lines.append)
        return converter.convert([tmp_path / "runs"], tmp_path / "data")

    gone = None
    with pytest.raises(ChatError, match="busy"):
        scored(9.0, gone, gone, gone, gone, gone)
    made = scored(3.0, gone, gone, gone, gone, 9.0)
    assert made.report.unscored == 4, "the first one's score was kept when the judge went away"
    assert made.report.files["critic_sft.json"].scorer == 3
    assert any("4 images without a score. The first error:" in line and "busy" in line for line in lines)


def test_scores_decide_only_from_a_threshold_on(tmp_path: Path) -> None:
    made_run(tmp_path / "runs" / "a", [(1, True, 3.0)])
    assert [one.success for one in verdicts(data_of(tmp_path).sft)] == [True]
    made = data_of(tmp_path, success_at=8.0)
    (row,) = verdicts(made.sft)
    assert row.success is False and row.reasoning == ""
    assert made.report.files["critic_sft.json"].scorer == 1


def one_run_a_page(tmp_path: Path, right: int, wrong: int) -> list[Path]:
    return [
        made_run(
            tmp_path / "runs" / f"{verdict}{n}",
            [(n + 100 * (not verdict), verdict, None)],
            prompt=f"{verdict} {n}",
        )
        for verdict, count in ((True, right), (False, wrong))
        for n in range(count)
    ]


def test_balancing_removes_rows_without_feedback_of_the_more_frequent_verdict(tmp_path: Path) -> None:
    for folder in one_run_a_page(tmp_path, 6, 3)[:2]:
        say(folder, 0, True)
    made = data_of(tmp_path, balance=0.5)
    rows = made.report.files["critic_sft.json"]
    assert (rows.right, rows.wrong, rows.human, rows.repeated) == (3, 3, 2, 0)
    assert made.report.left_out == {"too many rows say True, and this one is not annotated": 3}
    again = data_of(tmp_path, balance=0.5)
    assert again.report.details == made.report.details
    assert data_of(tmp_path, balance=0.4).report.files["critic_sft.json"].right == 4


def test_balancing_keeps_feedback_and_repeats_overruling_rows_first(tmp_path: Path) -> None:
    right = one_run_a_page(tmp_path, 9, 2)
    for folder in right[:8]:
        say(folder, 0, True)
    say(right[8], 0, False, note="It is dark.")
    say(right[9], 0, False)
    made = data_of(tmp_path, balance=0.5)
    rows = made.report.files["critic_sft.json"]
    assert (rows.rows, rows.human, rows.right, rows.wrong) == (11, 10, 8, 3)
    assert rows.repeated == 5 and rows.rarer == 0.5 and not made.report.left_out
    copies = {one.run: one.copies for one in made.report.details if one.copies > 1}
    assert copies["runs/True8"] == 3 and sorted(copies.values()) == [2, 3, 3]
    said = [one.success for one in verdicts(made.sft)]
    assert said.count(True) == said.count(False) == 8
    assert data_of(tmp_path, balance=0.5, copies=1).report.files["critic_sft.json"].repeated == 0


def test_fine_tuning_and_reinforcement_share_balance_and_feedback(tmp_path: Path) -> None:
    for number in range(4):
        folder = made_run(
            tmp_path / "runs" / f"wide{number}",
            [(number, False, 1.0), (50 + number, True, 9.0)],
            prompt=f"w {number}",
        )
        say(folder, 0, False)
        say(folder, 1, True)
    for number in range(3):
        say(
            made_run(tmp_path / "runs" / f"one{number}", [(90 + number, True, 5.0)], prompt=f"o {number}"),
            0,
            True,
        )
    made = data_of(tmp_path, balance=0.5, copies=2)
    sft, rl = made.report.files["critic_sft.json"], made.report.files["critic_rl.jsonl"]
    assert (sft.rows, sft.human, rl.rows) == (11, 11, 8), "separate balancing would lose feedback in each"
    assert not made.report.left_out and sft.repeated == 3


def test_duplicate_questions_are_merged_and_contradictions_left_out(tmp_path: Path) -> None:
    for name in "abc":
        made_run(tmp_path / "runs" / name, [(1, True, None)])
    made_run(tmp_path / "runs" / "d", [(2, True, None)], prompt="d")
    say(tmp_path / "runs" / "b", 0, False)
    assert [one.success for one in verdicts(data_of(tmp_path).sft)] == [False, True]
    say(tmp_path / "runs" / "c", 0, True)
    made = data_of(tmp_path)
    assert [one.success for one in verdicts(made.sft)] == [True]
    assert made.report.left_out == {"contradicting annotations of the same image": 3}


def test_images_are_copied_once_and_the_folder_can_be_moved(tmp_path: Path) -> None:
    made_run(tmp_path / "runs" / "a", [(1, False, None), (2, True, None)])
    made_run(tmp_path / "runs" / "b", [(3, True, None)], prompt="b", source=None)
    data_of(tmp_path)
    shutil.rmtree(tmp_path / "runs")
    moved = (tmp_path / "data").rename(tmp_path / "elsewhere")
    rows, problems = check_rows(moved / "critic_sft.json")
    assert len(rows) == 3 and not problems
    assert len(list((moved / "images").iterdir())) == 5
    assert all(not Path(name).is_absolute() for row in rows for name in row.images)
    assert Picture.open(moved / rows[-1].images[0]) == Picture.white((48, 48))
    assert "used because" in (moved / "report.md").read_text()
    RunsReport.model_validate_json((moved / "report.json").read_text())


def test_runs_with_feedback_are_held_out_as_a_whole(tmp_path: Path) -> None:
    for number in range(20):
        folder = made_run(
            tmp_path / "runs" / f"{number}",
            [(number, False, None), (50 + number, True, None)],
            prompt=f"{number}",
        )
        if number < 10:
            say(folder, 0, False)
    made = data_of(tmp_path, held_out_runs=0.3)
    held = {one.run for one in made.report.details if one.fate == "held out"}
    assert len(held) >= 3 and not held & {one.run for one in made.report.details if one.fate == "sft"}
    assert held < {f"runs/{number}" for number in range(10)}
    assert len(verdicts(made.held_out)) == len(held), "only annotated attempts are held out"
    assert made.report.left_out == {"in a held-out run and not annotated": len(held)}
    assert not any("held_out" in warning for warning in made.report.warnings), "no critic is trained on them"
    other = data_of(tmp_path, held_out_runs=0.3, held_out_seed=1)
    assert {one.run for one in other.report.details if one.fate == "held out"} != held


def test_a_held_out_run_stays_held_out_with_more_runs() -> None:
    runs = [f"run {number}" for number in range(400)]
    many = held_out_of(runs, 0.2, 0)
    assert 0.15 < len(many) / 400 < 0.25
    for count in (2, 5, 30, 200):
        few = held_out_of(runs[:count], 0.2, 0)
        assert max(1, round(0.2 * count)) <= len(few) < count
        assert many & set(runs[:count]) <= few or len(few) == count - 1
    assert held_out_of(runs[:1], 0.5, 0) == held_out_of(runs, 0.0, 0) == set()


def remedies(made: MadeData) -> list[tuple[str | None, str]]:
    told = [one.remedy for one in made.report.details if one.fate == "sft"]
    return list(zip(told, [one.refined_prompt for one in verdicts(made.sft)], strict=True))


def test_the_prompt_of_a_later_accepted_attempt_becomes_the_refined_prompt(tmp_path: Path) -> None:
    folder = made_run(tmp_path / "runs" / "a", [(1, False, None), (2, False, None), (3, True, None)])
    for attempt, right in enumerate([False, False, True]):
        say(folder, attempt, right)
    made = data_of(tmp_path)
    # The critic's first refined prompt, "a light page 1", was generated and rejected.
    assert remedies(made) == [
        ("later try", f"{PROMPT} 2"),
        ("later try", f"{PROMPT} 2"),
        (None, f"{PROMPT} 2"),
    ]
    assert made.report.files["critic_sft.json"].remedies["later try"] == 2


def test_a_persons_prompt_is_the_remedy_before_any_other(tmp_path: Path) -> None:
    folder = made_run(tmp_path / "runs" / "a", [(1, False, None), (2, True, None)])
    say(folder, 0, False, better_prompt="a really light page")
    say(folder, 1, True)
    assert remedies(data_of(tmp_path))[0] == ("person", "a really light page")


def test_an_unconfirmed_prompt_is_not_trained_on(tmp_path: Path) -> None:
    overruled = made_run(tmp_path / "runs" / "a", [(1, True, None)])
    refused = made_run(tmp_path / "runs" / "b", [(2, False, None), (3, True, None)], prompt="b")
    say(overruled, 0, False)
    say(refused, 0, False)
    say(refused, 1, False, better_prompt="a b")
    made = data_of(tmp_path)
    assert remedies(made) == [("none", PROMPT), ("none", "b"), ("person", "a b")]
    assert made.sft is not None
    rows = check_rows(made.sft)[0]
    taken = [[row.messages[-1].content[start:end] for start, end in row.not_learned] for row in rows]
    assert taken == [[PROMPT], ["b"], []]
    assert "not_learned" not in json.loads(made.sft.read_text())[2]
    report = (made.folder / "report.md").read_text()
    assert "refined prompts by source | person | teacher | later attempt" in report


def test_the_critics_refined_prompt_is_kept_without_counterevidence(tmp_path: Path) -> None:
    folder = made_run(tmp_path / "runs" / "a", [(1, False, None)])
    say(folder, 0, False)
    assert remedies(data_of(tmp_path)) == [("critic", f"{PROMPT} 1")]


def test_runs_of_every_ending_are_read(tmp_path: Path) -> None:
    save_trajectory(make_trajectory(4, cut_short=True), tmp_path / "runs" / "a")
    made = data_of(tmp_path)
    assert made.report.runs == 1 and made.report.undrawn == 1
    assert "the right verdict is unknown" in made.report.left_out


def test_an_unfinished_run_is_read_up_to_its_last_record(tmp_path: Path) -> None:
    settings = RunSettings(max_attempts=2, seed=3)
    events = run(
        Request(text="x"),
        Collaborators(OnePlan(), FakeGenerator(32), OneInThree()),
        settings,
        Journal(tmp_path / "runs" / "a"),
    )
    judged = next(event for event in events if isinstance(event, AttemptJudged))
    events.close()  # type: ignore[attr-defined]
    assert judged.record.image is not None and not (tmp_path / "runs" / "a" / "trajectory.json").exists()
    assert [one.image for one in data_of(tmp_path).report.details] == [judged.record.image.digest]


def test_damaged_runs_are_errors_or_listed(tmp_path: Path) -> None:
    made_run(tmp_path / "runs" / "a", [(1, True, None)])
    for name in ("b", "c", "d"):
        made_run(tmp_path / "runs" / name, [(2, True, None)], prompt=name)
    (tmp_path / "runs" / "b" / "trajectory.json").write_text('{"version": 1, "plan": 3}')
    (tmp_path / "runs" / "c" / "feedback.jsonl").write_text("nonsense\n")
    next((tmp_path / "runs" / "d" / "pictures").iterdir()).write_bytes(b"no picture")
    with pytest.raises(JournalError, match=r"'runs/b'.*--skip-bad"):
        data_of(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]
    made = data_of(tmp_path, skip_bad=True)
    assert made.report.runs == 1 and len(made.report.damaged) == 3
    assert "line 1" in " ".join(made.report.damaged)


def test_foreign_folders_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    with pytest.raises(SettingsError, match="does not contain a run"):
        data_of(tmp_path)
    with pytest.raises(SettingsError, match="does not exist"):
        data_of(tmp_path, tmp_path / "nowhere")
    folder = made_run(tmp_path / "runs" / "deep" / "a", [(1, None, None)])
    assert find_runs([tmp_path / "runs", folder]) == [(folder, "runs/deep/a")]
    with pytest.raises(SettingsError, match="No training rows"):
        data_of(tmp_path)
    made_run(tmp_path / "runs" / "b", [(1, True, None)])
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mine.txt").write_text("mine")
    with pytest.raises(SettingsError, match="other files"):
        data_of(tmp_path)
    assert (tmp_path / "data" / "mine.txt").read_text() == "mine"


def test_feedback_that_cannot_be_in_a_row_is_left_out(tmp_path: Path) -> None:
    made_run(tmp_path / "runs" / "a", [(1, True, None)], prompt="a page <image>")
    made_run(tmp_path / "runs" / "b", [(1, True, None)])
    made = data_of(tmp_path)
    assert made.report.left_out == {"its text is not allowed in a row": 1}
    assert json.loads((tmp_path / "data" / "report.json").read_text())["images"] == 2


def test_a_seed_that_no_row_can_have_is_named(tmp_path: Path) -> None:
    folder = made_run(tmp_path / "runs" / "a", [(1, False, 2.0), (2, True, 9.0)])
    ended = folder / "trajectory.json"
    stored = json.loads(ended.read_text().replace('"seed": 1,', '"seed": -5,'))
    ended.write_text(json.dumps({name: one for name, one in stored.items() if name != "checksum"}))
    with pytest.raises(
        SettingsError, match=r"runs/a, step 1, attempt 2 cannot be converted to a row, field 'seed'"
    ):
        data_of(tmp_path)
    assert not (tmp_path / "data").exists()


def put(tmp_path: Path, place: Path) -> MadeData:
    converter = RunConverter(RunsData(), default_prompt_set(), log=lambda line: None)
    return converter.convert([tmp_path / "runs"], place)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_folder_with_other_files_is_not_replaced(tmp_path: Path) -> None:
    made_run(tmp_path / "runs" / "a", [(1, True, None)])
    put(tmp_path, tmp_path / "data")
    (tmp_path / "data" / "mine.txt").write_text("mine")
    with pytest.raises(SettingsError, match=r"other files \('mine.txt'\)"):
        put(tmp_path, tmp_path / "data")
    assert (tmp_path / "data" / "mine.txt").read_text() == "mine"


def test_an_impossible_output_path_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made_run(tmp_path / "runs" / "a", [(1, True, None)])
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    monkeypatch.chdir(tmp_path / "real")
    for place in (Path("."), Path(".."), tmp_path / "link", tmp_path / "runs" / "a" / "run.json"):
        with pytest.raises(SettingsError):
            put(tmp_path, place)
    assert names(tmp_path) == ["link", "real", "runs"]


def test_a_full_disk_keeps_the_earlier_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made_run(tmp_path / "runs" / "a", [(1, True, None)])
    put(tmp_path, tmp_path / "data")
    before = (tmp_path / "data" / "report.json").read_text()

    def full(*paths: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(SettingsError, match="No space left"):
        put(tmp_path, tmp_path / "data")
    assert (tmp_path / "data" / "report.json").read_text() == before and names(tmp_path) == ["data", "runs"]


def test_a_stop_while_the_earlier_data_is_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Killed(BaseException):
        pass

    remove = shutil.rmtree

    def killed(folder: Path, **options: Any) -> None:
        if (folder / "report.json").is_file():
            (folder / "report.json").unlink()
            raise Killed
        remove(folder, **options)

    made_run(tmp_path / "runs" / "a", [(1, True, None)])
    put(tmp_path, tmp_path / "data")
    made_run(tmp_path / "runs" / "b", [(2, True, None)], prompt="b")
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", killed)
        with pytest.raises(Killed):
            put(tmp_path, tmp_path / "data")
    kept = RunsReport.model_validate_json((tmp_path / "data" / "report.json").read_text())
    assert kept.runs == 2 and len(check_rows(tmp_path / "data" / "critic_sft.json")[0]) == 2
    (tmp_path / "data" / ".DS_Store").touch()
    assert put(tmp_path, tmp_path / "data").report == kept
    assert names(tmp_path) == ["data", "runs"]
