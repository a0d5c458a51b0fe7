"""ViStoryBench: one step per shot, characters passed to every step, and zero for a shot without an image.

Its evaluators need weights and are not run here.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from support.benchmark_runs import collected
from support.cli_calls import Scripts, call
from support.small_agents import STORY
from support.small_benchmarks import MINIATURES, picture
from support.small_teachers import SmallChat

from interleave_thinker.backend.core.answers.reading import write_plan
from interleave_thinker.backend.core.errors import SettingsError
from interleave_thinker.backend.core.pictures import Picture
from interleave_thinker.backend.core.seams.chat_model import Message, Reply, ReplySettings
from interleave_thinker.backend.core.types import Plan, Request, RunSettings, Step
from interleave_thinker.backend.models.generators.fake import FakeGenerator
from interleave_thinker.backend.story.agents.plan_constraints import PlanConstraints
from interleave_thinker.backend.story.agents.planner import Planner
from interleave_thinker.backend.story.loop.replay import load_trajectory
from interleave_thinker.research.benchmarks import open_benchmark
from interleave_thinker.research.benchmarks.benchmark import (
    AnswerStep,
    BenchmarkData,
    BenchmarkItem,
    ItemAnswer,
    ItemCast,
    SubmissionPlace,
)
from interleave_thinker.research.benchmarks.vistory import STORIES
from interleave_thinker.research.data.trajectories import Teachers, TrajectoryOptions
from interleave_thinker.research.evaluation.benchmark_run import BenchmarkRun, ShowingImages
from interleave_thinker.research.evaluation.scores import score

BENCHMARK = open_benchmark("vistory")


class CountingChat(SmallChat):
    """Plans the requested number of steps."""

    def reply(
        self,
        messages: Sequence[Message],
        settings: ReplySettings,
        on_token: Callable[[str], None] | None = None,
    ) -> Reply:
        text = "".join(part for part in messages[0].content if isinstance(part, str))
        wanted = re.search(r"In exactly (\d+) step", text)
        count = int(wanted[1]) if wanted else 1
        steps = (Step(number=n, prompt=f"shot {n}", auxiliary_text=None) for n in range(1, count + 1))
        return Reply(
            text=write_plan(Plan(steps=tuple(steps), reasoning="shots")), tokens=9, question_tokens=9
        )


@dataclass(frozen=True)
class Obeying:
    """Opens a planner that follows step counts, and a generator."""

    generator: FakeGenerator
    constraints: PlanConstraints = field(default_factory=PlanConstraints)

    def __call__(self) -> Teachers:
        planner = Planner(CountingChat("planner"))
        return Teachers(planner, None, (("fake", self.generator),), self.constraints)


def run(items: list[BenchmarkItem], out: Path, teachers: Callable[[], Teachers]) -> None:
    settings = RunSettings(max_attempts=1)
    options = TrajectoryOptions(go_on=True)
    made = BenchmarkRun(out, teachers, settings, options, 2, lambda line: None).carry_out(items)
    assert made.totals.failed == made.totals.to_do == 0


def results(folder: Path, **by_story: dict[str, Any]) -> Path:
    """Write results like the evaluators: {evaluator: {story: metrics}}."""
    for evaluator, stories in by_story.items():
        path = folder / "metrics" / evaluator / "story_results.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = {name: {"status": "complete", "metrics": numbers} for name, numbers in stories.items()}
        path.write_text(json.dumps(rows))
    return folder


def test_every_story_has_its_number_of_steps_and_every_step_its_own_characters(tmp_path: Path) -> None:
    items = BENCHMARK.items(MINIATURES["vistory"](tmp_path / "data"))
    assert [item.steps for item in items] == [2, 3, 4] * 2
    run(items[:3], tmp_path / "out", ShowingImages(Obeying(FakeGenerator(16))))
    digests = {
        (item.id, path.parent.name): Picture.open(path).digest for item in items for path in item.images
    }
    for folder in (tmp_path / "out" / "items").glob("*/plan.json"):
        trajectory = load_trajectory(folder.parent)
        item = next(one for one in items if one.text == trajectory.request.text)
        assert len(trajectory.results) == item.steps and not trajectory.plan.warning
        assert len(trajectory.request.images) == len(item.images) == item.text.count("<image>")
        assert trajectory.settings.source == "previous" and trajectory.settings.most_images
        everyone = [path.parent.name for path in item.images]
        assert [member.name for member in trajectory.plan.cast] == everyone
        for number, result in enumerate(trajectory.results, 1):
            there = everyone if number == 2 else everyone[:1]
            shown = result.attempts[0]
            assert shown.cast and list(shown.cast.names) == there
            assert [one.digest for one in shown.beside] == [digests[item.id, name] for name in there]
            assert f"Exactly {len(there)} character" in shown.cast.text
            assert (shown.source is None) == (number == 1)
        # The count is part of the planner's identity: another count is another plan.
        assert f'{{"step_count":{item.steps}}}' in trajectory.identities.planner


def test_the_command_rejects_a_number_of_steps_and_a_single_image_generator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, out = MINIATURES["vistory"](tmp_path / "data").path, tmp_path / "out"
    planner = Scripts(tmp_path).planner(write_plan(STORY))
    given = ("benchmark", "vistory", "--data", data, "--out", out, "--critic", "none", *planner)
    one = call(*given, "--generator", "fake:16", "--set", "one_image=true")
    assert one.exit_code == 2 and "Remove one_image" in one.output
    monkeypatch.setattr(FakeGenerator, "max_reference_images", 0)
    alone = call(*given, "--generator", "fake:16")
    assert alone.exit_code == 2 and "fake:16 accepts only one image" in alone.output, alone.output


def test_the_request_names_characters_by_their_first_images(tmp_path: Path) -> None:
    item = BENCHMARK.items(MINIATURES["vistory"](tmp_path))[2]
    # Cy is in every shot, the others in one.
    assert [path.parent.name for path in item.images] == ["Cy", "Ada", "Brown Bear"]
    assert {path.name for path in item.images} == {"00.jpg"}
    assert item.text.index("<image> Cy: Cy in a red hat") < item.text.index("<image> Ada")
    assert "Shot 2\nSetting: a yard ‹2>\nWhat happens: they meet 1" in item.text
    assert "Characters: Ada, Brown Bear, Cy" in item.text and "院子" not in item.text


def test_stories_are_read_as_the_loader_reads_them(tmp_path: Path) -> None:
    data = MINIATURES["vistory"](tmp_path)
    story = tmp_path / "ViStory" / "11" / "story.json"
    whole = json.loads(story.read_text("utf-8-sig"))
    (tmp_path / "ViStory" / "notes").mkdir()
    lacking = {"index": 9, "Plot Correspondence": {"en": "x"}}
    stranger = {**whole["Shots"][0], "index": "7", "Characters Appearing": {"en": ["Nobody"]}}
    story.write_text(json.dumps({**whole, "Shots": [*whole["Shots"], lacking, stranger]}))
    item = BENCHMARK.items(data)[0]
    assert item.row["shots"] == [1, 2, 7] and len(item.images) == 1
    assert BENCHMARK.items(BenchmarkData(tmp_path / "ViStory"))[0] == item
    for broken in (
        [],
        {**whole, "Shots": []},
        {**whole, "Shots": [whole["Shots"][0]] * 2},
        {**whole, "Shots": [{**whole["Shots"][0], "index": n} for n in range(101)]},
        {**whole, "Shots": [{**whole["Shots"][0], "index": -1}]},
        {**whole, "Shots": [{**whole["Shots"][0], "Plot Correspondence": {"en": "x" * 100_001}}]},
    ):
        story.write_text(json.dumps(broken))
        with pytest.raises(SettingsError):
            BENCHMARK.items(data)
    for name in ("../../12/image/Ada", "..", "Zed"):
        shot = {**whole["Shots"][0], "Characters Appearing": {"en": [name]}}
        story.write_text(json.dumps({**whole, "Shots": [shot], "Characters": {name: {}}}))
        with pytest.raises(SettingsError, match="Story 11"):
            BENCHMARK.items(data)


def test_character_images_outside_of_the_data_are_rejected(tmp_path: Path) -> None:
    data, outside = MINIATURES["vistory"](tmp_path / "data"), tmp_path / "outside"
    folder = tmp_path / "data" / "ViStory" / "13" / "image" / "Cy"
    shutil.copytree(folder, outside)
    image = folder / "00.jpg"
    image.unlink()
    image.symlink_to(outside / "00.jpg")
    with pytest.raises(SettingsError, match="a link that leads out"):
        BENCHMARK.items(data)
    shutil.rmtree(folder)
    folder.symlink_to(outside)
    with pytest.raises(SettingsError, match="a link to a place outside"):
        BENCHMARK.items(data)
    folder.unlink()
    folder.symlink_to(tmp_path / "data" / "ViStory" / "13" / "image" / "Ada")
    assert len(BENCHMARK.items(data)[2].images) == 3
    inside = BenchmarkData(data.path, tmp_path / "data" / "ViStory")
    assert BENCHMARK.items(inside)[2].images[0].is_relative_to(tmp_path / "data")
    folder.unlink()
    folder.mkdir()
    os.mkfifo(folder / "00.jpg")
    with pytest.raises(SettingsError, match="is not a file"):
        BENCHMARK.items(data)


def test_shots_keep_their_places_and_gaps_count_zero(tmp_path: Path) -> None:
    items = BENCHMARK.items(MINIATURES["vistory"](tmp_path / "data"))
    out = tmp_path / "out"
    out.mkdir()
    steps = (
        AnswerStep("in words alone", asked=False),
        AnswerStep("", picture(1)),
        AnswerStep(""),
        AnswerStep("", picture(3)),
        AnswerStep("", picture(4)),
        AnswerStep("", picture(5)),
    )
    (note,) = BENCHMARK.write(SubmissionPlace(out, out), [(items[2], ItemAnswer(steps))])
    assert "without an image, which count as zero: 1 of 4" in note and "left out: 1" in note
    found = {path.name: path.read_bytes() for path in (out / STORIES / "13" / "shots").iterdir()}
    assert found == {f"shot_0{n}.png": picture(n).png() for n in (1, 3, 4)}
    assert BENCHMARK.read(out, [items[2]]) == []
    given = results(tmp_path / "results", cids={"13": {"cids_cross_mean": 0.8, "occm": 100}})
    values = BENCHMARK.values(out, given, [items[2]])
    assert values == {"13": {"cids cross": pytest.approx(0.6), "characters counted": 0.75}}


def test_only_measured_metrics_have_figures_and_missing_stories_count_zero(tmp_path: Path) -> None:
    out = collected("vistory", tmp_path)
    # The planner of this run always plans three steps: four shots have three images.
    given = results(
        tmp_path / "results" / "base" / "en" / "20260101_000000",
        cids={str(n): {"cids_cross_mean": 0.5, "cids_self_mean": -0.2} for n in range(11, 17)},
        csd={str(n): {"self_csd": 1.0000001} for n in range(11, 16)},
    )
    scores = score(out, tmp_path / "results")
    assert [one.metric for one in scores.figures] == ["cids cross", "cids self", "style self"]
    assert scores.values["12"] == {"cids cross": 0.5, "cids self": 0.0, "style self": 1.0}
    assert scores.values["13"]["cids cross"] == pytest.approx(0.375)
    assert scores.values["16"]["style self"] == 0.0
    assert scores.figures[0].items.mean == pytest.approx((4 * 0.5 + 2 * 0.375) / 6)
    for value in (1.5, "0.5", True, 10**400):
        results(given, csd={"11": {"self_csd": value}})
        with pytest.raises(SettingsError, match="'style self' of story 11"):
            score(out, given)
    results(tmp_path / "results" / "base" / "en" / "20270101_000000", cids={})
    with pytest.raises(SettingsError, match="contains 2 runs"):
        score(out, tmp_path / "results")
    refused = call("benchmark", "score", out, "--official", tmp_path, "--judge", "scripted:x")
    assert refused.exit_code == 2 and "pass its results with --results" in refused.output, refused.output


def test_names_of_characters_are_made_to_fit_a_cast(tmp_path: Path) -> None:
    path = tmp_path / "one.png"
    Image.new("RGB", (8, 8), "red").save(path)
    names = ("Ann, the cook", "ann the cook", "Bo", *(f"extra {n}" for n in range(20)))
    cast = ItemCast(tuple((name, path) for name in names), (("Bo",), ("Bo", "a crowd"), ("Ann, the cook",)))
    steps = tuple(Step(number=n, prompt="Bo runs") for n in (1, 2, 3))
    plan = cast(Request(text="a story"), Plan(steps=steps))
    assert [member.name for member in plan.cast][:3] == ["Ann the cook", "Bo", "extra 0"]
    assert len(plan.cast) == 16
    assert [step.cast for step in plan.steps] == [("Bo",), None, ("Ann the cook",)]
    assert [step.settings.source for step in plan.steps] == ["text", None, None]
    other = cast(Request(text="a story"), Plan(steps=steps[:2]))
    assert [step.cast for step in other.steps] == [None, None] and other.cast == plan.cast
