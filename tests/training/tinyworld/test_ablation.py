"""The ablation: its rows and rules, its jobs that go on after a stop, and the table that is made of what they
found."""

from __future__ import annotations

import json
import os
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from random import Random

import pytest
from pydantic import BaseModel
from support.ablation_jobs import die, fail, fill_disk, note, sleep_and_note

from interleave_thinker.backend.agents.critic import Critic
from interleave_thinker.backend.agents.planner import Planner
from interleave_thinker.backend.answers.reading import read_verdict, write_plan, write_verdict
from interleave_thinker.backend.chat.scripted import ScriptedChat
from interleave_thinker.backend.errors import SettingsError, TrainingError
from interleave_thinker.backend.files.lock import SystemLock
from interleave_thinker.backend.journal.store import InMemoryStore
from interleave_thinker.backend.tinyworld import checkpoint
from interleave_thinker.backend.tinyworld.drawing import draw
from interleave_thinker.backend.tinyworld.generator import TinyWorldGenerator, load_pipeline
from interleave_thinker.backend.tinyworld.reading import Reading, read_page
from interleave_thinker.backend.tinyworld.scorer import faults
from interleave_thinker.backend.tinyworld.wording import prompt_text, read_prompt
from interleave_thinker.backend.types import RunSettings, Verdict
from interleave_thinker.training.evaluation.intervals import paired
from interleave_thinker.training.reward.samples import Sample
from interleave_thinker.training.tinyworld import job_runner as jobs_module
from interleave_thinker.training.tinyworld.ablation.findings import compare, findings_of, not_as_published
from interleave_thinker.training.tinyworld.ablation.measures import Judged, Measured, NextSteps, Remedies
from interleave_thinker.training.tinyworld.ablation.outcomes import joined, outcomes_in, read_report
from interleave_thinker.training.tinyworld.ablation.pipeline import ROWS, all_jobs, measured, seed_folder
from interleave_thinker.training.tinyworld.ablation.plot import as_svg
from interleave_thinker.training.tinyworld.ablation.rejection import best_answer
from interleave_thinker.training.tinyworld.ablation.run import ablate, as_markdown, claim
from interleave_thinker.training.tinyworld.ablation.settings import AblationSettings
from interleave_thinker.training.tinyworld.ablation.single_agent import (
    NO_MORE,
    next_step,
    right_next_steps,
    run_story,
)
from interleave_thinker.training.tinyworld.data.noisy_teacher import (
    OVERLOOKED,
    REMEDIES,
    TEACHERS,
    refined_prompt,
)
from interleave_thinker.training.tinyworld.data.trajectories import (
    Taught,
    filtered,
    make_taught,
    make_unfiltered,
    trajectories,
)
from interleave_thinker.training.tinyworld.job_runner import Job, perform, run_jobs
from interleave_thinker.training.tinyworld.runs.stories import StoryOutcome, request_of
from interleave_thinker.training.tinyworld.world.judged_pages import Drawn, rendered
from interleave_thinker.training.tinyworld.world.requests import random_story


def failed_page(rng: Random) -> Drawn:
    while True:
        drawn = rendered(rng, mistakes=1.0)
        if not drawn.success:
            return drawn


def test_habits_are_what_they_are_said_to_be() -> None:
    rng = Random(5)
    kinds = {"same": 0, "stated": 0, "other": 0}
    for _ in range(600):
        drawn = failed_page(rng)
        prompt = prompt_text(drawn.edit)
        refined = refined_prompt(rng, drawn, prompt)
        found = read_prompt(refined)
        assert found is not None
        edit, clauses = found
        assert all(clause.holds(drawn.expected) for clause in clauses), "what is stated is true"
        kinds["other" if edit != drawn.edit else "stated" if clauses else "same"] += 1
    assert abs(kinds["other"] / 600 - REMEDIES["another edit"]) < 0.06
    assert kinds["same"] / 600 >= REMEDIES["repeated"] - 0.06
    assert kinds["stated"] > 100


def page_with(faults_in: int) -> Drawn:
    """A page that misses so many of its four things."""
    edit = read_prompt(
        "a day page with a red sun at the top left and a blue moon at the top and a red boat at the left "
        "and a white cloud at the right"
    )
    assert edit is not None
    scene = edit[0].apply(None)  # type: ignore[arg-type]
    for cell in scene.occupied[:faults_in]:
        scene = scene.put(cell, 0)
    page = draw(scene)
    seen = read_page(page)
    assert isinstance(seen, Reading) and len(faults(edit[0].apply(None), seen)) == faults_in  # type: ignore[arg-type]
    return Drawn(None, None, edit[0], (), page, seen)


def taught(*faulty: int) -> list[Taught]:
    return [Taught(page_with(count), f"try {number}", "next") for number, count in enumerate(faulty)]


@pytest.mark.parametrize(
    ("faulty", "kept"),
    [
        ((0,), ["try 0"]),
        ((1,), []),
        ((1, 0), ["try 0", "try 1"]),
        ((1, 2), []),
        ((1, 2, 1), []),
        ((2, 1, 2), ["try 0"]),
        ((2, 1, 0), ["try 0", "try 1", "try 2"]),
    ],
)
def test_trajectories_are_filtered_as_published(faulty: tuple[int, ...], kept: list[str]) -> None:
    assert [one.prompt for one in filtered(taught(*faulty))] == kept


def test_the_shared_agent_is_taught_one_step_at_a_time() -> None:
    story = random_story(Random(3), "train", steps=3)
    steps = [next_step(story, done).steps for done in range(4)]
    assert [len(one) for one in steps] == [1, 1, 1, 1]
    assert [one[0].prompt for one in steps[:3]] == [step.prompt for step in story.plan.steps]
    assert steps[3][0].name == NO_MORE and steps[3][0].prompt is None


def test_the_shared_agent_is_asked_after_each_step() -> None:
    story = random_story(Random(3), "train", steps=3)
    answers = [write_plan(next_step(story, done)) for done in range(4)]
    assert right_next_steps(story, Planner(ScriptedChat(answers))) == [True] * 4
    forgets = [answers[0], answers[2], answers[2], answers[2]]
    assert right_next_steps(story, Planner(ScriptedChat(forgets))) == [True, False, True, False]


def test_a_story_is_planned_while_it_is_drawn() -> None:
    story = random_story(Random(3), "train", steps=3)
    answers = [write_plan(next_step(story, done)) for done in range(4)]
    verdicts = [write_verdict(Verdict(success=number != 1)) for number in range(4)]
    planner, critic = Planner(ScriptedChat(answers)), Critic(ScriptedChat(verdicts))
    generator = TinyWorldGenerator(load_pipeline(checkpoint("generator")), "tinyworld")
    settings = RunSettings(max_attempts=3, seed=1)
    pages, draws = run_story(request_of(story), planner, critic, generator, settings, InMemoryStore())
    assert pages is not None and len(pages) == 3 and draws == 4, "the second step was drawn twice"
    pages, draws = run_story(
        request_of(story), Planner(ScriptedChat(["?"] * 9)), critic, generator, settings, InMemoryStore()
    )
    assert pages is None and draws == 0


@pytest.fixture
def importable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package under its name for the processes that a test starts, also where it is not installed."""
    package = Path(jobs_module.__file__).parents[2]
    (tmp_path / "importable").mkdir()
    (tmp_path / "importable" / "interleave_thinker").symlink_to(package, target_is_directory=True)
    monkeypatch.syspath_prepend(tmp_path / "importable")


@pytest.mark.usefixtures("importable")
def test_jobs_wait_for_what_they_need_and_are_done_once(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    jobs = [Job(second, note, ("second",), (first,)), Job(first, note, ("first",))]
    said: list[str] = []
    run_jobs(jobs, 2, said.append)
    run_jobs(jobs, 2, said.append)
    assert (tmp_path / "order.txt").read_text().split() == ["first", "second"]
    assert all(job.done for job in jobs)


def test_a_folder_that_another_process_is_at_is_left_alone(tmp_path: Path) -> None:
    pytest.importorskip("trl", reason='training needs: pip install "interleave-thinker[training]"')
    claim(tmp_path, MINIATURE)
    other = SystemLock(tmp_path / "running.lock")
    assert other.take()
    with pytest.raises(TrainingError, match="Another process"):
        ablate(tmp_path, MINIATURE, "", "", lambda line: None)
    other.release()
    assert [path.name for path in tmp_path.iterdir()] == ["training.json"]


@pytest.mark.usefixtures("importable")
def test_a_job_of_all_threads_has_the_machine_to_itself(tmp_path: Path) -> None:
    names = ("small", "wide", "later")
    jobs = [
        Job(tmp_path / name, note, (name,), threads=count)
        for name, count in zip(names, (1, 2, 1), strict=True)
    ]
    said: list[str] = []
    run_jobs(jobs, 2, said.append)
    folder = tmp_path.name
    begun = [line for line in said if line.endswith("...")]
    assert begun == [f"{folder}/{name} ..." for name in names]
    assert said.index(f"{folder}/wide ...") > said.index(
        next(one for one in said if one.startswith(f"{folder}/small: "))
    )
    assert said.index(f"{folder}/later ...") > said.index(
        next(one for one in said if one.startswith(f"{folder}/wide: "))
    )


@pytest.mark.usefixtures("importable")
def test_a_job_that_fails_is_told_and_not_done(tmp_path: Path) -> None:
    jobs = [Job(tmp_path / "broken", fail), Job(tmp_path / "after", note, ("after",), (tmp_path / "broken",))]
    with pytest.raises(SettingsError, match="this job is broken") as raised:
        run_jobs(jobs, 1, lambda line: None)
    assert raised.value.hint == "mend it"
    assert not any(job.done for job in jobs)


@pytest.mark.usefixtures("importable")
@pytest.mark.parametrize(("work", "said"), [(fill_disk, "No space left"), (die, "exit code -9")])
def test_a_job_that_dies_is_one_clear_error(tmp_path: Path, work: Callable[..., None], said: str) -> None:
    with pytest.raises(TrainingError, match=said):
        run_jobs([Job(tmp_path / "dying", work)], 1, lambda line: None)


@pytest.mark.usefixtures("importable")
def test_jobs_end_with_the_one_who_began_them(tmp_path: Path) -> None:
    """However that ended: two trainings in one folder would spoil each other."""
    folder = tmp_path / "sleeping"
    begun = get_context("spawn").Process(target=run_jobs, args=([Job(folder, sleep_and_note)], 1, print))
    begun.start()
    while not (folder / "pid").exists() or not (folder / "pid").read_text():
        assert begun.is_alive()
        time.sleep(0.05)
    begun.kill()
    job = int((folder / "pid").read_text())
    deadline = time.monotonic() + 60
    while runs(job):
        assert time.monotonic() < deadline, "the job goes on alone"
        time.sleep(0.05)


def runs(process: int) -> bool:
    """Whether a process is there and not only its remains."""
    try:
        os.kill(process, 0)
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def found_by(rate: float, rng: Random, tries: Sequence[int] = (3,)) -> Measured:
    outcomes = [
        StoryOutcome(right=right, steps=[right, True], draws=3)
        for right in (rng.random() < rate for _ in range(100))
    ]
    truth = [bool(number % 2) for number in range(50)]
    return Measured(told=dict.fromkeys(tries, outcomes), judged=Judged(said=[*truth[:-1], None], truth=truth))


def write_found(folder: Path, found: BaseModel) -> None:
    folder.mkdir(parents=True)
    (folder / "measured.json").write_text(found.model_dump_json())


def write_seeds(out: Path, settings: AblationSettings) -> None:
    """Measures as jobs leave them: alone 0.1 of the stories, full RL 0.9, planner SFT 0.7, all else 0.5."""
    rng, rates = Random(settings.first_seed), {"alone": 0.1, "rl": 0.9, "planner_sft": 0.7}
    for seed in settings.all_seeds:
        folder = seed_folder(out, seed)
        for name in ROWS:
            tries = {"alone": (1,), "sft": (1, 3, 5), "rl": (1, 3, 5)}.get(name, (3,))
            write_found(measured(folder, name), found_by(rates.get(name, 0.5), rng, tries))
        if seed in settings.all_seeds[: settings.teacher_seeds]:
            for name in ("sft_careful", "sft_careless"):
                write_found(measured(folder, name), found_by(0.4, rng))
            for name in ("rl_careful", "rl_careless"):
                write_found(measured(folder, name), found_by(0.8, rng))
        remedies = Remedies(
            refused={name: [True] * 40 + [False] * 10 for name in ("sft", "rl")},
            drawn_right={"sft": [False] * 50, "rl": [True] * 30 + [False] * 20},
        )
        write_found(measured(folder, "remedies"), remedies)
        write_found(measured(folder, "next_steps"), NextSteps(right=[[True, False], [True]]))
        for name in ("plans", "agent_plans"):
            (folder / name).mkdir()
            (folder / name / "plans.json").write_text(json.dumps({"exact": {"rate": 0.9}, "plans": []}))
            (folder / name / "done.json").write_text(json.dumps({"processor_seconds": 90.0}))


def test_the_table_says_what_was_found(tmp_path: Path) -> None:
    settings = AblationSettings(seeds=3)
    write_seeds(tmp_path, settings)
    found = findings_of(outcomes_in(tmp_path, settings, "the command", "0123456789abcdef"))
    rows = {row.name: row for row in found.rows}
    assert list(rows) == list(ROWS) and rows["rl"].stories[3].n == 300
    against = rows["rl"].against_baseline
    assert against is not None and against.baseline == "sft" and against.p_stories < 1e-6
    assert against.difference.low > 0.1 and against.p_seeds == pytest.approx(2 / 8)
    assert against.published == pytest.approx(1.8) and len(against.of_each_seed) == 3
    assert rows["alone"].against_baseline is None and list(rows["alone"].stories) == [1]
    accuracy = rows["rl"].accuracy
    assert accuracy is not None and accuracy.rate == pytest.approx(49 / 50)
    assert found.next_steps_right.rate == pytest.approx(2 / 3)
    assert found.remedies[0].row == "rl" and found.remedies[0].difference.n == 120
    assert found.remedies[0].difference.mean == pytest.approx(0.75)
    wrong_way = {(one.row, one.baseline) for one in found.not_as_published}
    assert ("sft", "planner_sft") in wrong_way, "0.5 and 0.7 here, 64.5 and 60.5 in the paper"
    assert ("rl", "sft") not in wrong_way and not any("oracle" in name for pair in wrong_way for name in pair)
    assert [one.teacher.split()[0] for one in found.teachers] == ["careful", "uneven", "careless"]
    assert [one.seeds for one in found.teachers] == [1, 1, 1]
    assert found.teachers[0].rl_over_sft.difference.mean > 0.2
    text = as_markdown(found)
    assert all(row.title in text for row in ROWS.values()) and "the command" in text
    assert "Not as published" in text and "careless" in text and "| 66.3 |" in text
    picture = ElementTree.fromstring(as_svg(found))
    assert sum(element.tag.endswith("circle") for element in picture.iter()) > len(ROWS)
    assert found.minutes_by_job["plans"] == 4.5 and found.minutes_in_all == 9.0


def test_seeds_of_two_machines_make_the_table_of_one(tmp_path: Path) -> None:
    together = AblationSettings(seeds=2, teacher_seeds=0)
    parts = [AblationSettings(seeds=1, first_seed=seed, teacher_seeds=0) for seed in range(2)]
    for part in parts:
        write_seeds(tmp_path, part)
    whole = findings_of(outcomes_in(tmp_path, together, "at once", "0123"))
    reports = []
    for part in parts:
        found = findings_of(outcomes_in(tmp_path, part, f"seed {part.first_seed}", "0123"))
        reports.append(tmp_path / f"{part.first_seed}.json")
        reports[-1].write_text(found.model_dump_json(indent=2))
    last, first = (read_report(path) for path in reversed(reports))
    both = findings_of(joined([last, first]))
    assert both.rows == whole.rows and both.remedies == whole.remedies
    assert both.outcomes.settings == together and both.minutes_in_all == whole.minutes_in_all
    assert "seeds 0 at commit" in as_markdown(both) and "seeds 1 at commit" in as_markdown(both)
    with pytest.raises(SettingsError, match="Seeds in more than one run: 0"):
        joined([first, first])
    other = last.model_copy(update={"settings": AblationSettings(rollouts=7)})
    with pytest.raises(SettingsError, match=r"rollouts \(24 and 7\)"):
        joined([first, other])


def test_a_seed_that_is_there_already_is_refused_before_anything_is_trained(tmp_path: Path) -> None:
    pytest.importorskip("trl", reason='training needs: pip install "interleave-thinker[training]"')
    settings = AblationSettings(seeds=1, teacher_seeds=0)
    write_seeds(tmp_path / "done", settings)
    other = outcomes_in(tmp_path / "done", settings, "", "")
    with pytest.raises(SettingsError, match="--first-seed"):
        ablate(tmp_path / "out", settings, "", "", lambda line: None, [other])
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("text", ["{}", "[]", '{"outcomes": {"seeds": 3}}', "no json"])
def test_a_file_that_is_no_report_is_one_clear_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "ablation.json"
    path.write_text(text)
    with pytest.raises(SettingsError, match=r"ablation\.json"):
        read_report(path)


def test_every_job_needs_only_jobs_before_it(tmp_path: Path) -> None:
    before: set[Path] = set()
    for job in all_jobs(tmp_path, AblationSettings(seeds=2)):
        assert job.folder not in before and before.issuperset(job.needs), job.name
        before.add(job.folder)
    assert all(measured(seed_folder(tmp_path, seed), name) in before for name in ROWS for seed in range(2))


def test_rows_are_compared_on_the_stories_that_both_told() -> None:
    few = compare("untrained", "alone", [[True], [True, False]], [[False, True], [False, False, True]])
    assert few.difference.n == 3 and few.of_each_seed == [1.0, 0.5]
    assert few.published == pytest.approx(29.9)


def test_stories_that_all_came_out_alike_have_an_interval_all_the_same() -> None:
    same = compare("rl", "sft", [[True] * 20] * 2, [[True] * 20] * 2).difference
    assert same.mean == 0 and -0.1 < same.low < 0 < same.high < 0.1
    ever = compare("rl", "sft", [[True] * 20] * 2, [[False] * 20] * 2).difference
    assert ever.mean == 1 and 0.8 < ever.low < 1


def test_an_order_that_is_the_papers_is_not_listed() -> None:
    names = [name for name, row in ROWS.items() if row.published is not None]
    ordered = sorted(names, key=lambda name: ROWS[name].published or 0)
    right = {name: [[True] * place + [False] * (20 - place)] * 2 for place, name in enumerate(ordered, 1)}
    assert not not_as_published(right, [])
    listed = not_as_published({**right, "rl": right["alone"]}, [])
    assert {one.row for one in listed} == {"rl"} and len(listed) == len(names) - 2


def sample(overall: float | None, answer: str = "") -> Sample:
    return Sample(
        answer=answer, overall=overall, origin_prompt="", truth=False, verdict=False, format=1, accuracy=1
    )


@pytest.mark.parametrize(
    ("rewards", "best"),
    [
        ((0.5, 0.9, 0.7), "1"),
        ((0.9, None, 0.9, 0.1), "0"),
        ((0.6, 0.6, 0.6), None),
        ((None, None), None),
        ((0.4, None), None),
    ],
)
def test_the_best_by_reward_is_learned_from(rewards: tuple[float | None, ...], best: str | None) -> None:
    found = best_answer([sample(reward, str(place)) for place, reward in enumerate(rewards)])
    assert (found.answer if found else None) == best


def test_unfiltered_rows_hold_wrong_verdicts_and_filtered_ones_none(tmp_path: Path) -> None:
    pipeline = load_pipeline(checkpoint("generator"))
    taken = list(islice(trajectories(pipeline, 3), 240))
    drawn = [one for attempts in taken for one in attempts][:256]
    rows = make_unfiltered(tmp_path, pipeline, len(drawn), 3)
    said = [read_verdict(row.messages[1].content).success for row in rows]
    failed = [verdict for verdict, one in zip(said, drawn, strict=True) if not one.drawn.success]
    assert len(failed) > 50 and abs(sum(map(bool, failed)) / len(failed) - OVERLOOKED) < 0.15
    assert all(verdict for verdict, one in zip(said, drawn, strict=True) if one.drawn.success)
    kept = [one for attempts in taken for one in filtered(attempts)]
    assert kept and not any(one.overlooked for one in kept)


def test_a_page_taken_for_right_ends_its_trajectory_and_is_filtered_out() -> None:
    first, last = taught(2, 1)
    assert filtered([first, replace(last, overlooked=True)]) == [first]
    assert filtered([replace(first, overlooked=True)]) == []


def test_teachers_differ_in_how_often_they_repeat_and_overlook() -> None:
    repeats = [teacher.remedies["repeated"] for teacher in TEACHERS.values()]
    assert repeats == sorted(repeats) and repeats[1] == REMEDIES["repeated"]
    assert all(sum(teacher.remedies.values()) == pytest.approx(1) for teacher in TEACHERS.values())
    rng, page = Random(2), page_with(1)
    said = [sum(teacher.overlooks(rng, page) for _ in range(800)) / 800 for teacher in TEACHERS.values()]
    assert said == pytest.approx([0.125, 0.25, 0.375], abs=0.05)


def test_of_strangers_hardly_a_cell_is_as_wanted(tmp_path: Path) -> None:
    def refused(share: float) -> float:
        rows = make_taught(tmp_path / str(share), 60, 3, strangers=share)
        said = [read_verdict(row.messages[1].content) for row in rows]
        return sum(not verdict.success for verdict in said) / len(said)

    assert 0.35 < refused(0.0) < 0.75 and refused(1.0) > 0.95


MINIATURE = AblationSettings(
    seeds=1,
    stories=2,
    untrained_stories=1,
    described=32,
    repeated=16,
    novice_rows=32,
    novice_rounds=1,
    novice_pages=4,
    planner_rows=16,
    critic_rows=16,
    next_steps=16,
    next_step_stories=1,
    rl_rows=16,
    rollouts=1,
    checked=4,
    judged=4,
    failed=2,
    verdict_tokens=32,
    plan_tokens=32,
    teacher_seeds=1,
    workers=1,
)


@pytest.mark.usefixtures("importable")
def test_a_run_in_miniature_has_every_row_and_goes_on_after_a_stop(tmp_path: Path) -> None:
    pytest.importorskip("trl", reason='training needs: pip install "interleave-thinker[training]"')
    jobs = all_jobs(tmp_path, MINIATURE)
    for job in jobs:
        perform(job)
    # Stopped in the last but one; a process of its own does it again, and nothing else.
    (measured(seed_folder(tmp_path, 0), "next_steps") / "done.json").unlink()
    log: list[str] = []
    found = ablate(tmp_path, MINIATURE, "the command", "0" * 12, log.append)
    assert [line.split()[0].rstrip(":") for line in log] == ["seed_0/measured_next_steps"] * 2
    assert [row.name for row in found.rows] == list(ROWS) and len(found.teachers) == 3
    assert all(row.accuracy for row in found.rows if row.name in ("planner_sft", "sft", "rl", "rejection"))
    samples = seed_folder(tmp_path, 0) / "rejection" / "data" / "samples" / "step_000000.jsonl"
    rollout = seed_folder(tmp_path, 0) / "rl" / "rollouts" / "step_000000.jsonl"
    assert len(samples.read_text().splitlines()) == len(rollout.read_text().splitlines()) == 128
    assert all((tmp_path / f"ablation.{ending}").stat().st_size > 500 for ending in ("json", "md", "svg"))
    with pytest.raises(TrainingError):
        ablate(tmp_path, MINIATURE.model_copy(update={"stories": 3}), "", "", log.append)


def test_a_folder_may_be_given_more_seeds_and_nothing_else(tmp_path: Path) -> None:
    claim(tmp_path, MINIATURE)
    more = MINIATURE.model_copy(update={"seeds": 2, "teacher_seeds": 2, "workers": 2})
    claim(tmp_path, more)
    with pytest.raises(TrainingError):
        claim(tmp_path, more.model_copy(update={"rollouts": 2}))
    # No job of the first seed depends on how many there are.
    first = [job for job in all_jobs(tmp_path, MINIATURE) if job.folder.parent == seed_folder(tmp_path, 0)]
    same = [job for job in all_jobs(tmp_path, more) if job.folder.parent == seed_folder(tmp_path, 0)]
    assert [(job.folder, job.work, job.needs) for job in first] == [
        (job.folder, job.work, job.needs) for job in same
    ]


def test_paired_shares() -> None:
    ones, others = [True] * 15 + [False] * 85, [False] * 10 + [True] * 5 + [False] * 85
    found = paired(ones, others)
    assert found.difference == pytest.approx(0.10) and found.n == 100
    assert found.p == pytest.approx(2 * 0.5**10)
    assert found.low == pytest.approx(0.10 - 1.959964 * (10 - 1) ** 0.5 / 100)
    assert paired([True], [True]).p == 1.0
    with pytest.raises(ValueError, match="1 cases against 2"):
        paired([True], [True, False])
