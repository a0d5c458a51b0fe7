"""`data trajectories` converts prompts to runs, with any interruption in between."""

from __future__ import annotations

import errno
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from support.small_teachers import SmallTeachers, records, until, write_prompts

from interleave_thinker import JournalError, SettingsError, load_trajectory
from interleave_thinker.backend.story.execution_record.reader import read_record
from interleave_thinker.research.data import trajectories as engine_of_runs
from interleave_thinker.research.data.trajectories import (
    PromptFile,
    PromptRow,
    Shard,
    Trajectories,
    TrajectoriesReport,
    TrajectoryOptions,
    read_outcome,
    seconds_of,
)


def make(
    prompts: Path,
    out: Path,
    teachers: SmallTeachers = SmallTeachers(),  # noqa: B008 - frozen
    limit: int | None = None,
    **options: object,
) -> TrajectoriesReport:
    settings = TrajectoryOptions.model_validate(options)
    engine = Trajectories(out, teachers, settings, 3, log=lambda line: None)
    return engine.make(PromptFile(prompts, limit=limit))


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    return write_prompts(tmp_path / "prompts.jsonl", 8)


def test_every_prompt_has_a_run_and_a_published_record(prompts: Path, tmp_path: Path) -> None:
    made = make(prompts, tmp_path / "runs")
    assert made.totals.whole + made.totals.given_up == 8 and made.totals.whole > 0
    folders = sorted((tmp_path / "runs").glob("p*"))
    assert folders[0].name == "p0000_story_0"
    for folder in folders:
        trajectory, record = load_trajectory(folder), read_record(folder)
        attempts = [attempt for result in trajectory.results for attempt in result.attempts]
        assert [entry.success for entry in record.entries] == [
            one.verdict and one.verdict.success for one in attempts
        ]
        assert all(entry.target and not entry.target.missing for entry in record.entries)
        sample = read_outcome(folder)
        assert sample and sample.split == "train" and sample.generator == "fake 0"
        assert seconds_of(folder) >= 0
    assert len({load_trajectory(folder).settings.seed for folder in folders}) == 8


def test_an_unaccepted_step_ends_its_trajectory(prompts: Path, tmp_path: Path) -> None:
    strict = make(prompts, tmp_path / "a", max_attempts=2)
    given_up = [one for one in (tmp_path / "a").glob("p*") if read_outcome(one).state == "given up"]  # type: ignore[union-attr]
    assert given_up and strict.totals.given_up == len(given_up)
    ends = [load_trajectory(one).results[-1].stop_reason.value for one in given_up]
    assert set(ends) == {"attempts used up"}
    make(prompts, tmp_path / "b", max_attempts=2, go_on=True)
    assert all(len(load_trajectory(one).results) == 3 for one in (tmp_path / "b").glob("p*"))
    bounded = make(prompts, tmp_path / "c", max_draws=3, max_attempts=3, go_on=True)
    counts = [len(list((one / "attempts").iterdir())) for one in (tmp_path / "c").glob("p*")]
    assert max(counts) == 3 and bounded.totals.given_up > 0


def test_a_repeated_command_generates_nothing(prompts: Path, tmp_path: Path) -> None:
    log = tmp_path / "draws.log"
    first = make(prompts, tmp_path / "runs", SmallTeachers(log), limit=5)
    assert first.totals.prompts == 5
    drawn = log.read_text().split()
    make(prompts, tmp_path / "runs", SmallTeachers(log))
    again = log.read_text().split()
    assert again[: len(drawn)] == drawn and len(set(again)) == len(again)
    assert make(prompts, tmp_path / "runs", SmallTeachers(log)).totals.to_do == 0
    assert log.read_text().split() == again


def test_shards_are_disjoint_and_complete(prompts: Path, tmp_path: Path) -> None:
    teachers = SmallTeachers(generators=2)
    make(prompts, tmp_path / "whole", teachers)
    used = [read_outcome(one) for one in (tmp_path / "whole").glob("p*")]
    assert {one.generator for one in used if one} == {"fake 0", "fake 1"}
    for number in range(3):
        make(prompts, tmp_path / "shards", teachers, shard=f"{number}/3")
    assert records(tmp_path / "whole") == records(tmp_path / "shards")
    assert (tmp_path / "shards" / "report.0-of-3.json").exists()
    for text in ("3/3", "1", "-1/2", "0/0"):
        with pytest.raises(SettingsError):
            Shard.read(text)


def test_failures_are_recorded_and_retried_on_request(prompts: Path, tmp_path: Path) -> None:
    out = tmp_path / "runs"
    bad = SmallTeachers(nonsense="story 2", down="story 5")
    made = make(prompts, out, bad)
    assert made.totals.failed == 2 and made.totals.to_do == 0
    failed = [one for path in sorted(out.glob("p*")) if (one := read_outcome(path)) and one.state == "failed"]
    assert [(one.id, one.where) for one in failed] == [("p0002", "planner"), ("p0005", "planner")]
    assert "down" in failed[1].reason
    assert make(prompts, out).totals.failed == 2
    make(prompts, out, retry_failed=True)
    make(prompts, tmp_path / "undisturbed")
    assert records(out) == records(tmp_path / "undisturbed")


def test_an_outage_ends_the_call_and_loses_nothing(tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path / "many.jsonl", 30)
    log = tmp_path / "draws.log"
    assert make(prompts, tmp_path / "runs", SmallTeachers(log), limit=4).totals.to_do == 0
    made = make(prompts, tmp_path / "runs", SmallTeachers(log, down="story"))
    assert "consecutive prompts failed" in made.stopped and "retry_failed" in made.stopped
    assert made.totals.failed >= 20 and made.totals.whole + made.totals.given_up == 4
    made = make(prompts, tmp_path / "runs", SmallTeachers(log), retry_failed=True)
    assert made.totals.to_do == made.totals.failed == 0
    drawn = log.read_text().split()
    make(prompts, tmp_path / "undisturbed")
    assert records(tmp_path / "runs") == records(tmp_path / "undisturbed")
    assert len(drawn) == len(set(drawn))


def test_a_full_disk_blames_no_prompt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prompts = write_prompts(tmp_path / "prompts.jsonl", 6)
    calls = 0
    whole = engine_of_runs.write_record

    def full(*given: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls > 2:
            raise JournalError("It cannot be written.") from OSError(errno.ENOSPC, "No space left on device")
        return whole(*given)

    monkeypatch.setattr(engine_of_runs, "write_record", full)
    made = make(prompts, tmp_path / "runs")
    assert made.stopped == "the disk is full. It cannot be written." and not made.totals.failed
    monkeypatch.undo()
    assert make(prompts, tmp_path / "runs").totals.to_do == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_killed_run_resumes_at_the_same_attempt(prompts: Path, tmp_path: Path) -> None:
    out, log = tmp_path / "runs", tmp_path / "draws.log"
    for wanted in (3, 9, 14):
        child = os.fork()
        if child == 0:
            try:
                make(prompts, out, SmallTeachers(log, 0.03))
            finally:
                os._exit(0)
        until(lambda wanted=wanted: log.exists() and len(log.read_text().split()) >= wanted)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        recorded = {path.stem for path in out.glob("*/attempts/*.json")}
        before = len(log.read_text().split())
        time.sleep(0.01)
    make(prompts, out, SmallTeachers(log, 0.0))
    assert not recorded & set(log.read_text().split()[before:]), "generated recorded images again"
    make(prompts, tmp_path / "undisturbed")
    assert records(out) == records(tmp_path / "undisturbed")


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ('{"id": "../up", "user_input": "a"}', "id"),
        ('{"id": "a", "user_input": ""}', "user_input"),
        ('{"id": "a", "user_input": "\\ud800"}', "user_input"),
        ('{"id": "a", "user_input": "x", "user_input_image": "../../etc/passwd"}', "user_input_image"),
        ('{"id": "P0000", "user_input": "again"}', "id"),
        ("[1]", "row"),
        ("nonsense", "row"),
    ],
)
def test_a_prompt_file_of_strangers(line: str, field: str, tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path / "prompts.jsonl", 2)
    with prompts.open("a") as file:
        file.write(line + "\n")
    lines: list[str] = []
    engine = Trajectories(tmp_path / "runs", SmallTeachers(), TrajectoryOptions(), log=lines.append)
    made = engine.make(PromptFile(prompts))
    assert made.left_out == 1 and made.totals.prompts == 2
    assert any(one.startswith(f"  line 3, {field}") for one in lines), lines
    assert {path.name for path in tmp_path.iterdir()} == {"prompts.jsonl", "runs"}


def test_prompts_are_read_by_their_content(tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl"
    for image in ("", [], [""], None):
        path.write_text(json.dumps([{"id": "a", "user_input": "a boat", "user_input_image": image}]))
        (prompt,), problems = PromptFile(path).read()
        assert prompt.row.user_input_image == () and not problems


def test_folders_have_the_published_names() -> None:
    def name(text: str) -> str:
        return PromptRow.model_validate({"id": 7, "user_input": text}).folder

    assert name("Draw: a cat,  then\na dog-house!") == "7_Draw__a_cat__then_a_dog-house_"
    assert name("Explain it both visually and textually.") == "7_Explain_it_"
    assert len(name("word " * 60)) == len("7_") + 80
    assert len(name("图" * 300).encode()) < 255
