"""Conversion of runs and annotations to training data of a critic: what is read, written and refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.made_runs import PROMPT, made_run, say
from support.small_agents import OneInThree, OnePlan
from support.stories import make_trajectory

from interleave_thinker import AttemptJudged, Picture, Request, RunSettings, Verdict, load_trajectory
from interleave_thinker.backend.core.answers.reading import read_verdict
from interleave_thinker.backend.core.errors import JournalError, SettingsError
from interleave_thinker.backend.core.prompts.prompt_set import default_prompt_set
from interleave_thinker.backend.models.generators.fake import FakeGenerator
from interleave_thinker.backend.output.exporters.record import export
from interleave_thinker.backend.story.journal.copy import save_trajectory
from interleave_thinker.backend.story.journal.journal import Journal
from interleave_thinker.backend.story.loop.collaborators import Collaborators
from interleave_thinker.backend.story.loop.loop import run
from interleave_thinker.training.from_runs.convert import MadeData, RunConverter, RunsReport
from interleave_thinker.training.from_runs.run_folders import find_runs
from interleave_thinker.training.from_runs.settings import RunsData
from interleave_thinker.training.rows.rl import read_rl_rows
from interleave_thinker.training.rows.sft import check_rows


def data_of(tmp_path: Path, *given: Path, out: Path | None = None, **settings: Any) -> MadeData:
    skip_bad = settings.pop("skip_bad", False)
    chosen = RunsData(**({"balance": 0.0, "held_out_runs": 0.0} | settings))
    converter = RunConverter(chosen, default_prompt_set(), skip_bad=skip_bad, log=lambda line: None)
    return converter.convert(given or [tmp_path / "runs"], out or tmp_path / "data")


def verdicts(path: Path | None) -> list[Verdict]:
    assert path is not None
    return [read_verdict(row.messages[-1].content) for row in check_rows(path)[0]]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_feedback_overrides_scores_and_scores_from_a_threshold_the_critic(tmp_path: Path) -> None:
    folder = made_run(tmp_path / "runs" / "a", [(1, False, 2.0), (2, True, 9.0), (3, False, 1.0)])
    made_run(tmp_path / "runs" / "b", [(4, True, 3.0)], prompt="b")
    say(folder, 0, True)
    say(folder, 1, False, better_prompt="a really light page")
    say(folder, 2, False, note="It is dark.")
    made = data_of(tmp_path, rl_variance=100, success_at=8.0)
    first, second, third, scored = verdicts(made.sft)
    assert (first.success, first.refined_prompt, first.reasoning) == (True, PROMPT, "")
    assert (second.success, second.refined_prompt, second.reasoning) == (False, "a really light page", "")
    assert (third.success, third.reasoning) == (False, "It is dark.")
    assert (scored.success, scored.reasoning) == (False, "")
    rows = made.report.files["critic_sft.json"]
    assert (rows.human, rows.scorer, rows.overruled, rows.without_reasoning) == (3, 1, 3, 3)
    assert "3 of the 3 rows that overrule" in " ".join(made.report.warnings)
    assert verdicts(data_of(tmp_path, rl_variance=100).sft)[-1].success is True


def test_feedback_on_a_missing_image_is_ignored(tmp_path: Path) -> None:
    folder = made_run(tmp_path / "runs" / "a", [(1, True, None)])
    say(folder, 0, False, image="0" * 40)
    made = data_of(tmp_path)
    assert [one.success for one in verdicts(made.sft)] == [True]
    assert made.report.words_gone == 1 and "no longer" in " ".join(made.report.warnings)


def test_rows_of_reinforcement_name_the_published_white_image(tmp_path: Path) -> None:
    made_run(tmp_path / "runs" / "a", [(1, False, 2.0), (2, True, 9.0)], source=None)
    made = data_of(tmp_path)
    assert made.rl is not None
    for line in made.rl.read_text().splitlines():
        before = json.loads(line)["origin_image_path"]
        assert before.endswith("data/interleave/white.png") and Picture.open(made.folder / before).is_white
    rows, problems = read_rl_rows(made.rl)
    assert not problems and [row.evaluation.success for row in rows] == [False, True]
    assert [row.origin_image_path for row in rows] == [None, None]
    assert (rows[0].evaluation.semantics, rows[1].prompt_used) == (2.0, f"{PROMPT} 1")
    assert data_of(tmp_path).rl == made.rl, "the folder is still recognized as output, and replaced"
    assert data_of(tmp_path, rl_variance=100).rl is None


REMEDIES = {
    # What people said of three attempts (accepted, better prompt); the source of each refined prompt.
    # The critic's first refined prompt, "a light page 1", was generated and rejected.
    "a later accepted attempt": (
        [(False, None), (False, None), (True, None)],
        [("later attempt", f"{PROMPT} 2"), ("later attempt", f"{PROMPT} 2"), (None, f"{PROMPT} 2")],
    ),
    "a person's prompt": (
        [(False, "a really light page"), (True, None)],
        [("person", "a really light page"), (None, f"{PROMPT} 1")],
    ),
    "a prompt that failed too": ([(False, None), (False, "a b")], [("none", PROMPT), ("person", "a b")]),
    "the critic's": ([(False, None)], [("critic", f"{PROMPT} 1")]),
}


@pytest.mark.parametrize("name", REMEDIES)
def test_the_refined_prompt_has_a_source(name: str, tmp_path: Path) -> None:
    said, expected = REMEDIES[name]
    folder = made_run(tmp_path / "runs" / "a", [(n, n == 2, None) for n in range(len(said))])
    for attempt, (accepted, better) in enumerate(said):
        say(folder, attempt, accepted, **({"better_prompt": better} if better else {}))
    made = data_of(tmp_path)
    sources = [one.remedy for one in made.report.details if one.fate == "sft"]
    assert list(zip(sources, [one.refined_prompt for one in verdicts(made.sft)], strict=True)) == expected
    counted = made.report.files["critic_sft.json"].remedies
    assert all(counted[source] == sources.count(source) for source in counted)
    assert made.sft is not None
    taken = [
        [row.messages[-1].content[start:end] for start, end in row.not_learned]
        for row in check_rows(made.sft)[0]
    ]
    assert taken == [[prompt] if source == "none" else [] for source, prompt in expected], "not learned"
    assert (
        "refined prompts by source | person | teacher | later attempt"
        in (made.folder / "report.md").read_text()
    )


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


def test_runs_of_every_ending_and_published_folders_are_read(tmp_path: Path) -> None:
    save_trajectory(make_trajectory(4, cut_short=True), tmp_path / "runs" / "a")
    made = data_of(tmp_path)
    assert made.report.runs == 1 and made.report.undrawn == 1
    assert "the right verdict is unknown" in made.report.left_out
    ours = made_run(tmp_path / "ours", [(10, False, None), (90, True, None)])
    export(load_trajectory(ours), tmp_path / "published" / "0_a page")
    assert len(verdicts(data_of(tmp_path, tmp_path / "published").sft)) == 2


def test_an_unfinished_run_is_read_up_to_its_last_record(tmp_path: Path) -> None:
    agents = Collaborators(OnePlan(), FakeGenerator(32), OneInThree())
    settings = RunSettings(max_attempts=2, seed=3)
    events = run(Request(text="x"), agents, settings, Journal(tmp_path / "runs" / "a"))
    judged = next(event for event in events if isinstance(event, AttemptJudged))
    events.close()  # type: ignore[attr-defined]
    assert judged.record.image is not None and not (tmp_path / "runs" / "a" / "trajectory.json").exists()
    assert [one.image for one in data_of(tmp_path).report.details] == [judged.record.image.digest]


def test_damaged_runs_are_errors_or_listed(tmp_path: Path) -> None:
    for name in "abcd":
        made_run(tmp_path / "runs" / name, [(2, True, None)], prompt=name)
    (tmp_path / "runs" / "b" / "trajectory.json").write_text('{"version": 1, "plan": 3}')
    (tmp_path / "runs" / "c" / "feedback.jsonl").write_text("nonsense\n")
    next((tmp_path / "runs" / "d" / "pictures").iterdir()).write_bytes(b"no picture")
    with pytest.raises(JournalError, match=r"'runs/b'.*--skip-bad"):
        data_of(tmp_path)
    assert names(tmp_path) == ["runs"]
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
    for place in (tmp_path / "data", data_of(tmp_path, out=tmp_path / "again").folder):
        place.mkdir(exist_ok=True)
        (place / "mine.txt").write_text("mine")
        with pytest.raises(SettingsError, match=r"other files \('mine.txt'\)"):
            data_of(tmp_path, out=place)
        assert (place / "mine.txt").read_text() == "mine"


def test_what_cannot_be_in_a_row_is_left_out_or_named(tmp_path: Path) -> None:
    made_run(tmp_path / "runs" / "a", [(1, True, None)], prompt="a page <image>")
    folder = made_run(tmp_path / "runs" / "b", [(1, False, 2.0), (2, True, 9.0)])
    assert data_of(tmp_path).report.left_out == {"its text is not allowed in a row": 1}
    ended = folder / "trajectory.json"
    stored = json.loads(ended.read_text().replace('"seed": 1,', '"seed": -5,'))
    ended.write_text(json.dumps({name: one for name, one in stored.items() if name != "checksum"}))
    with pytest.raises(SettingsError, match=r"runs/b, step 1, attempt 2 cannot be .*, field 'seed'"):
        data_of(tmp_path, out=tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_an_impossible_output_path_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made_run(tmp_path / "runs" / "a", [(1, True, None)])
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    monkeypatch.chdir(tmp_path / "real")
    for place in (Path("."), Path(".."), tmp_path / "link", tmp_path / "runs" / "a" / "run.json"):
        with pytest.raises(SettingsError):
            data_of(tmp_path, out=place)
    assert names(tmp_path) == ["link", "real", "runs"]


def test_a_full_disk_keeps_the_earlier_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made_run(tmp_path / "runs" / "a", [(1, True, None)])
    data_of(tmp_path)
    before = (tmp_path / "data" / "report.json").read_text()

    def full(*paths: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(SettingsError, match="No space left"):
        data_of(tmp_path)
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
    data_of(tmp_path)
    made_run(tmp_path / "runs" / "b", [(2, True, None)], prompt="b")
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", killed)
        with pytest.raises(Killed):
            data_of(tmp_path)
    kept = RunsReport.model_validate_json((tmp_path / "data" / "report.json").read_text())
    assert kept.runs == 2 and len(check_rows(tmp_path / "data" / "critic_sft.json")[0]) == 2
    (tmp_path / "data" / ".DS_Store").touch()
    assert data_of(tmp_path).report == kept
    assert names(tmp_path) == ["data", "runs"]
