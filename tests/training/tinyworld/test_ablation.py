"""The ablation: its rows and rules, its jobs that go on after a stop, and the table that is made of what they
found."""

from __future__ import annotations

import json
import os
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from random import Random

import pytest
from support.ablation_jobs import die, fail, fill_disk, note, sleep_and_note

from interleave_thinker.backend.agents.critic import Critic
from interleave_thinker.backend.agents.planner import Planner
from interleave_thinker.backend.answers.reading import write_plan, write_verdict
from interleave_thinker.backend.chat.scripted import ScriptedChat
from interleave_thinker.backend.errors import SettingsError, TrainingError
from interleave_thinker.backend.journal.store import InMemoryStore
from interleave_thinker.backend.tinyworld import checkpoint
from interleave_thinker.backend.tinyworld.drawing import draw
from interleave_thinker.backend.tinyworld.generator import TinyWorldGenerator, load_pipeline
from interleave_thinker.backend.tinyworld.reading import Reading, read_page
from interleave_thinker.backend.tinyworld.scorer import faults
from interleave_thinker.backend.tinyworld.wording import prompt_text, read_prompt
from interleave_thinker.backend.types import RunSettings, Verdict
from interleave_thinker.training.evaluation.intervals import paired
from interleave_thinker.training.tinyworld.ablation import job_runner as jobs_module
from interleave_thinker.training.tinyworld.ablation.job_runner import Job, run_jobs
from interleave_thinker.training.tinyworld.ablation.measures import (
    ATTEMPTS,
    Judged,
    Measured,
    NextSteps,
    Remedies,
)
from interleave_thinker.training.tinyworld.ablation.pipeline import ROWS, all_jobs, measured, seed_folder
from interleave_thinker.training.tinyworld.ablation.plot import as_svg
from interleave_thinker.training.tinyworld.ablation.settings import AblationSettings
from interleave_thinker.training.tinyworld.ablation.single_agent import (
    NO_MORE,
    next_step,
    right_next_steps,
    run_story,
)
from interleave_thinker.training.tinyworld.ablation.table import as_markdown, collect
from interleave_thinker.training.tinyworld.data.judged_pages import Drawn, rendered
from interleave_thinker.training.tinyworld.data.noisy_teacher import REMEDIES, refined_prompt
from interleave_thinker.training.tinyworld.data.requests import random_story
from interleave_thinker.training.tinyworld.data.trajectories import Taught, filtered
from interleave_thinker.training.tinyworld.stories import StoryOutcome, request_of


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
    package = Path(jobs_module.__file__).parents[3]
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


def found_by(rate: float, rng: Random) -> Measured:
    outcomes = [
        StoryOutcome(right=right, steps=[right, True], draws=3)
        for right in (rng.random() < rate for _ in range(100))
    ]
    truth = [bool(number % 2) for number in range(50)]
    return Measured(
        told=dict.fromkeys(ATTEMPTS, outcomes), judged=Judged(said=[*truth[:-1], None], truth=truth)
    )


def test_the_table_says_what_was_found(tmp_path: Path) -> None:
    settings = AblationSettings(seeds=2)
    rng = Random(1)
    for seed in range(2):
        for name in ROWS:
            folder = measured(seed_folder(tmp_path, seed), name)
            folder.mkdir(parents=True)
            rate = 0.9 if name == "rl" else 0.5
            (folder / "measured.json").write_text(found_by(rate, rng).model_dump_json())
        folder = measured(seed_folder(tmp_path, seed), "remedies")
        folder.mkdir(parents=True)
        names = ["sft", "rl"]
        remedies = Remedies(
            refused={name: [True] * 40 + [False] * 10 for name in names},
            drawn_right={"sft": [False] * 50, "rl": [True] * 30 + [False] * 20},
        )
        (folder / "measured.json").write_text(remedies.model_dump_json())
        folder = measured(seed_folder(tmp_path, seed), "next_steps")
        folder.mkdir(parents=True)
        (folder / "measured.json").write_text(NextSteps(right=[[True, False], [True]]).model_dump_json())
    found = collect(tmp_path, settings, "the command", "0123456789abcdef")
    assert found.apart_at_three and found.rl_over_sft[3].p < 1e-6
    assert found.remedies["rl"].n == 80 and found.remedies["rl"].difference == pytest.approx(0.75)
    assert len(found.rows[-1].by_seed) == 2 and found.rows[-1].accuracy is not None
    assert found.rows[-1].accuracy.rate == pytest.approx(49 / 50)
    assert found.next_steps_right.rate == pytest.approx(2 / 3)
    text = as_markdown(found)
    assert all(title in text for title in ROWS.values()) and "are apart" in text and "the command" in text
    picture = ElementTree.fromstring(as_svg(found))
    assert sum(element.tag.endswith("circle") for element in picture.iter()) > 3 * len(ROWS)
    json.loads(found.model_dump_json())


def test_every_job_needs_only_jobs(tmp_path: Path) -> None:
    jobs = all_jobs(tmp_path, AblationSettings(seeds=2))
    folders = [job.folder for job in jobs]
    assert len(set(folders)) == len(folders)
    assert all(need in folders for job in jobs for need in job.needs)


def test_paired_shares() -> None:
    ones, others = [True] * 15 + [False] * 85, [False] * 10 + [True] * 5 + [False] * 85
    found = paired(ones, others)
    assert found.difference == pytest.approx(0.10) and found.n == 100
    assert found.p == pytest.approx(2 * 0.5**10)
    assert found.low == pytest.approx(0.10 - 1.959964 * (10 - 1) ** 0.5 / 100)
    assert paired([True], [True]).p == 1.0
    with pytest.raises(ValueError, match="1 cases against 2"):
        paired([True], [True, False])
