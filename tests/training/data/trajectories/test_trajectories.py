"""`data trajectories` converts prompts to runs, with any interruption in between."""

from __future__ import annotations

import errno
import itertools
import json
import os
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.small_teachers import SmallTeachers, records, until, write_prompts

from interleave_thinker.backend.errors import JournalError, SettingsError
from interleave_thinker.backend.execution_record.reader import read_record
from interleave_thinker.backend.journal.journal import Journal
from interleave_thinker.backend.journal.store import DrawRecord
from interleave_thinker.backend.loop.replay import load_trajectory
from interleave_thinker.training.data.executors import LocalCancelToken
from interleave_thinker.training.data.executors.threads import ThreadExecutor
from interleave_thinker.training.data.trajectories import engine as engine_of_runs
from interleave_thinker.training.data.trajectories import unit
from interleave_thinker.training.data.trajectories.engine import PromptFile, Trajectories, TrajectoriesReport
from interleave_thinker.training.data.trajectories.options import TrajectoryOptions
from interleave_thinker.training.data.trajectories.outcomes import read_sample
from interleave_thinker.training.data.trajectories.prompt_rows import PromptRow, Shard, read_prompts
from interleave_thinker.training.data.trajectories.usage import Price, RunLedger, Usage, read_ledger


def make(
    prompts: Path,
    out: Path,
    teachers: SmallTeachers = SmallTeachers(),  # noqa: B008 - frozen
    prices: dict[str, Price] | None = None,
    **options: object,
) -> TrajectoriesReport:
    settings = TrajectoryOptions.model_validate(options)
    engine = Trajectories(out, teachers, settings, ThreadExecutor(3), prices or {}, log=lambda line: None)
    return engine.make(PromptFile(prompts))


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
        sample = read_sample(folder)
        assert sample and sample.split == "train" and sample.draws == len(attempts)
    assert len({load_trajectory(folder).settings.seed for folder in folders}) == 8


class OtherDisk:
    """Threads whose workers write to another folder, as on a machine without the shared disk."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def map(self, job: Any, items: Any, key: Any, stop: LocalCancelToken) -> Any:
        return ThreadExecutor(1).map(replace(job, out=self._folder), items, key, stop)


def test_workers_with_another_disk_are_an_error(
    prompts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_of_runs, "VISIBLE", 0.3)
    elsewhere = OtherDisk(tmp_path / "elsewhere")
    engine = Trajectories(tmp_path / "runs", SmallTeachers(), TrajectoryOptions(), elsewhere)
    with pytest.raises(SettingsError, match="a disk that all machines share"):
        engine.make(PromptFile(prompts))
    assert len(list((tmp_path / "elsewhere").iterdir())) < 8, (
        "it ends before all prompts are made for nothing"
    )


def test_a_step_without_an_accepted_image_ends_its_trajectory_by_default(
    prompts: Path, tmp_path: Path
) -> None:
    strict = make(prompts, tmp_path / "a", max_attempts=1 + 1)
    given_up = [one for one in (tmp_path / "a").glob("p*") if read_sample(one).state == "given up"]  # type: ignore[union-attr]
    assert given_up and strict.totals.given_up == len(given_up)
    assert all(len(load_trajectory(one).results) <= 3 for one in given_up)
    ends = [load_trajectory(one).results[-1].stop_reason.value for one in given_up]
    assert set(ends) == {"tries used up"}
    on = make(prompts, tmp_path / "b", max_attempts=2, go_on=True)
    assert on.totals.draws > strict.totals.draws
    assert all(len(load_trajectory(one).results) == 3 for one in (tmp_path / "b").glob("p*"))


def test_the_number_of_images_per_trajectory_is_bounded(prompts: Path, tmp_path: Path) -> None:
    made = make(prompts, tmp_path / "runs", max_draws=3, max_attempts=3, go_on=True)
    counts = [read_sample(one).draws for one in (tmp_path / "runs").glob("p*")]  # type: ignore[union-attr]
    assert max(counts) == 3 and made.totals.given_up > 0


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
    make(prompts, tmp_path / "whole")
    for number in range(3):
        make(prompts, tmp_path / "shards", shard=f"{number}/3")
    assert records(tmp_path / "whole") == records(tmp_path / "shards")
    assert (tmp_path / "shards" / "ledger.0-of-3.jsonl").exists()
    for text in ("3/3", "1", "-1/2", "0/0"):
        with pytest.raises(SettingsError):
            Shard.read(text)


def test_generators_are_mixed_by_id(prompts: Path, tmp_path: Path) -> None:
    made = make(prompts, tmp_path / "a", SmallTeachers(generators=2))
    assert set(made.totals.by_generator) == {"fake 0", "fake 1"}
    make(prompts, tmp_path / "b", SmallTeachers(generators=2), limit=3)
    alone, whole = records(tmp_path / "b"), records(tmp_path / "a")
    assert alone == {name: whole[name] for name in alone}


def test_failures_are_recorded_and_retried_on_request(prompts: Path, tmp_path: Path) -> None:
    out = tmp_path / "runs"
    bad = SmallTeachers(nonsense="story 2", down="story 5")
    made = make(prompts, out, bad)
    assert made.totals.failed == 2 and made.totals.to_do == 0
    failed = [json.loads(line) for line in (out / "failed.jsonl").read_text().splitlines()]
    assert [(one["id"], one["where"], one["tries"]) for one in failed] == [
        ("p0002", "planner", 1),
        ("p0005", "planner", 1),
    ]
    assert "down" in failed[1]["reason"]
    assert make(prompts, out, bad).totals.failed == 2
    make(prompts, out, bad, retry_failed=True)
    again = [json.loads(line) for line in (out / "failed.jsonl").read_text().splitlines()]
    assert [one["tries"] for one in again] == [2, 2]
    make(prompts, out, retry_failed=True)
    assert not (out / "failed.jsonl").exists()
    make(prompts, tmp_path / "undisturbed")
    assert records(out) == records(tmp_path / "undisturbed")


def test_an_outage_ends_the_call(tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path / "many.jsonl", 60)
    made = make(prompts, tmp_path / "runs", SmallTeachers(down="story"))
    assert "consecutive prompts failed" in made.stopped
    assert 20 <= made.totals.failed < 30 and made.totals.to_do > 25
    assert make(prompts, tmp_path / "runs", retry_failed=True).totals.to_do == 0


def test_an_hour_without_a_teacher_loses_nothing(tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path / "prompts.jsonl", 30)
    made = make(prompts, tmp_path / "runs", SmallTeachers(tmp_path / "draws.log"), limit=4)
    assert made.totals.to_do == 0
    made = make(prompts, tmp_path / "runs", SmallTeachers(tmp_path / "draws.log", down="story"))
    assert "--retry-failed" in made.stopped and made.totals.whole + made.totals.given_up == 4
    made = make(prompts, tmp_path / "runs", SmallTeachers(tmp_path / "draws.log"), retry_failed=True)
    assert made.totals.to_do == made.totals.failed == 0
    drawn = (tmp_path / "draws.log").read_text().split()
    make(prompts, tmp_path / "undisturbed")
    assert records(tmp_path / "runs") == records(tmp_path / "undisturbed")
    assert len(drawn) == len(set(drawn)) and not (tmp_path / "runs" / "failed.jsonl").exists()


def test_a_full_disk_ends_the_command_without_blaming_a_prompt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = write_prompts(tmp_path / "prompts.jsonl", 6)
    calls = 0
    whole = unit.write_record

    def full(*given: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls > 2:
            raise JournalError("It cannot be written.") from OSError(errno.ENOSPC, "No space left on device")
        return whole(*given)

    monkeypatch.setattr(unit, "write_record", full)
    made = make(prompts, tmp_path / "runs")
    assert made.stopped == "the disk is full. It cannot be written." and not made.totals.failed
    assert not (tmp_path / "runs" / "failed.jsonl").exists()
    monkeypatch.undo()
    assert make(prompts, tmp_path / "runs").totals.to_do == 0
    make(prompts, tmp_path / "undisturbed")
    assert records(tmp_path / "runs") == records(tmp_path / "undisturbed")


def test_a_budget_ends_the_command_and_counts_earlier_costs(prompts: Path, tmp_path: Path) -> None:
    prices = {"teacher": Price(input=1000, output=0), "fake 0": Price(image=0.01)}
    out = tmp_path / "runs"
    made = make(prompts, out, prices=prices, budget=1.0)
    spent = sum(one.cost for one in made.ledger)
    assert made.stopped == "the budget was spent" and made.totals.to_do > 0
    # Three at a time: none begins a call after the money is gone, and each may have had one under way.
    assert 1.0 <= spent < 1.0 + 3 * 0.11
    again = make(prompts, out, prices=prices, budget=1.0)
    assert sum(one.cost for one in again.ledger) == pytest.approx(spent)
    whole = make(prompts, out, prices=prices, budget=100.0)
    assert whole.totals.to_do == 0
    lines = {(one.role, one.model): one for one in read_ledger(out / "ledger.jsonl")}
    assert lines["planner", "teacher"].tokens_in == 100 * 8
    assert lines["planner", "teacher"].tokens_cached == 40 * 8
    assert lines["generator", "fake 0"].images == whole.totals.draws
    with pytest.raises(SettingsError, match="prices"):
        make(prompts, out, budget=1.0)


def test_the_time_limit_ends_the_command(prompts: Path, tmp_path: Path) -> None:
    made = make(prompts, tmp_path / "runs", SmallTeachers(seconds=0.2), stop_after="0.5s")
    assert made.stopped == "the time limit was reached" and made.totals.to_do > 0
    assert make(prompts, tmp_path / "runs").totals.to_do == 0
    make(prompts, tmp_path / "undisturbed")
    assert records(tmp_path / "runs") == records(tmp_path / "undisturbed")


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
        ('{"id": "a/b", "user_input": "a"}', "id"),
        ('{"id": "", "user_input": "a"}', "id"),
        ('{"id": "a", "user_input": ""}', "user_input"),
        ('{"id": "a", "user_input": "\\ud800"}', "user_input"),
        ('{"id": "a", "user_input": "x", "user_input_image": "../../etc/passwd"}', "user_input_image"),
        ('{"id": "p0000", "user_input": "again"}', "id"),
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
    engine = Trajectories(
        tmp_path / "runs", SmallTeachers(), TrajectoryOptions(), ThreadExecutor(1), log=lines.append
    )
    made = engine.make(PromptFile(prompts))
    assert made.left_out == 1 and made.totals.prompts == 2
    assert any(one.startswith(f"left out: line 3, {field}") for one in lines), lines
    assert {path.name for path in tmp_path.iterdir()} == {"prompts.jsonl", "runs"}


@pytest.mark.parametrize("image", ["", [], [""], None])
def test_an_empty_image_counts_as_missing(image: object, tmp_path: Path) -> None:
    row = {"id": "a", "user_input": "a boat", "user_input_image": image}
    (tmp_path / "prompts.jsonl").write_text(json.dumps(row))
    (prompt,), problems = read_prompts(tmp_path / "prompts.jsonl")
    assert prompt.row.user_input_image == () and not problems


def test_folders_have_the_published_names() -> None:
    def name(text: str) -> str:
        return PromptRow.model_validate({"id": 7, "user_input": text}).folder

    assert name("Draw: a cat,  then\na dog-house!") == "7_Draw__a_cat__then_a_dog-house_"
    assert name("Explain it both visually and textually.") == "7_Explain_it_"
    assert len(name("word " * 60)) == len("7_") + 80
    assert len(name("图" * 300).encode()) < 255


def test_sums_of_a_ledger_cut_off_by_a_kill(tmp_path: Path) -> None:
    line = Usage(role="critic", model="m", calls=1, tokens_in=5).model_dump_json(exclude={"tokens_cached"})
    (tmp_path / "ledger.jsonl").write_text(f'{line}\n{line}\n{{"role": "cri')
    assert sum(one.calls for one in read_ledger(tmp_path / "ledger.jsonl")) == 2


def test_a_ledger_continues_after_a_truncated_line(tmp_path: Path) -> None:
    ledger = RunLedger(tmp_path, {}, lambda cost: None)
    ledger.note(Usage(role="critic", model="m", calls=1))
    with (tmp_path / "ledger.jsonl").open("a") as file:
        file.write('{"role": "cri')
    ledger.note(Usage(role="critic", model="m", calls=2))
    assert [one.calls for one in read_ledger(tmp_path / "ledger.jsonl")] == [1, 2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_kill_before_an_image_is_recorded_loses_no_cost(prompts: Path, tmp_path: Path) -> None:
    """A process that dies before recording its third image has recorded its cost."""
    out = tmp_path / "runs"
    child = os.fork()
    if child == 0:
        whole, count = Journal.keep_drawn, itertools.count(1)

        def dying(journal: Journal, drawn: DrawRecord) -> None:
            if next(count) == 3:
                os._exit(7)
            whole(journal, drawn)

        try:
            Journal.keep_drawn = dying  # type: ignore[method-assign]
            make(prompts, out)
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    recorded = len(list(out.glob("*/attempts/*.json")))
    noted = [usage for path in out.glob("*/ledger.jsonl") for usage in read_ledger(path)]
    draws = sum(usage.calls for usage in noted if usage.role == "generator")
    # Each of the three threads may have died between the two.
    assert recorded + 1 <= draws <= recorded + 3
