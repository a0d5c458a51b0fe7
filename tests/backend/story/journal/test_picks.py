"""The user picks another attempt as a step's result; the next run generates only what depends on it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from interleave_thinker.backend.core.errors import JournalError
from interleave_thinker.backend.core.pictures import Picture
from interleave_thinker.backend.core.types import (
    Plan,
    Request,
    RunSettings,
    Step,
    StopReason,
    Trajectory,
    Verdict,
)
from interleave_thinker.backend.core.types.roles import CriticLike
from interleave_thinker.backend.models.generators.fake import FakeGenerator
from interleave_thinker.backend.story.journal.choices import CHOICES, pick, read_choices
from interleave_thinker.backend.story.journal.journal import Journal
from interleave_thinker.backend.story.loop.collaborators import Collaborators
from interleave_thinker.backend.story.loop.events import Finished
from interleave_thinker.backend.story.loop.loop import run
from interleave_thinker.backend.story.loop.policy import attempt_seed
from interleave_thinker.backend.story.loop.replay import load_trajectory
from interleave_thinker.backend.story.outcomes import stop_sentence

REQUEST = Request(text="three pictures")
PLAN = Plan(steps=tuple(Step(number=number, prompt=f"picture {number}") for number in (1, 2, 3)))


class CountingGenerator:
    def __init__(self) -> None:
        self.painter, self.drawn = FakeGenerator(), []
        self.identity = self.painter.identity

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        self.drawn.append(prompt)
        return self.painter.draw(prompt, source, seed)


class SecondIsRight(CriticLike):
    """A critic that rejects every first attempt and accepts the refined one."""

    identity, prompt_set_digest = "second is right", ""

    def judge(self, before: Picture | None, after: Picture, original: str, used: str) -> Verdict:
        return Verdict(success=used != original, refined_prompt=f"{original}, better", reasoning="seen")


def story(folder: Path, **settings: object) -> tuple[Trajectory, list[str]]:
    generator = CountingGenerator()
    chosen = RunSettings.model_validate({"max_attempts": 3, **settings})
    events = list(
        run(REQUEST, Collaborators(None, generator, SecondIsRight()), chosen, Journal(folder), PLAN)
    )
    assert isinstance(events[-1], Finished)
    return events[-1].trajectory, generator.drawn


def digest(trajectory: Trajectory, step: int, attempt: int) -> str:
    image = trajectory.results[step - 1].attempts[attempt].image
    assert image is not None
    return image.digest


def test_a_picked_attempt_becomes_the_result_and_only_later_steps_are_generated(tmp_path: Path) -> None:
    first, drawn = story(tmp_path)
    assert len(drawn) == 6
    pick(tmp_path, 2, digest(first, 2, 0))
    second, drawn = story(tmp_path)
    assert drawn == ["picture 3", "picture 3, better"]
    result = second.results[1]
    assert (result.chosen, result.stop_reason) == (0, StopReason.picked)
    assert len(result.attempts) == 2, "the other attempts stay to be compared and picked again"
    assert stop_sentence(result) == "Attempt 1 picked by hand"
    assert second.results[2].attempts[0].source == result.image
    assert load_trajectory(tmp_path) == second
    (tmp_path / "trajectory.json").unlink()
    assert [one.chosen for one in load_trajectory(tmp_path).results] == [1, 0, 1]


def test_undoing_a_pick_generates_nothing(tmp_path: Path) -> None:
    first, _ = story(tmp_path)
    pick(tmp_path, 2, digest(first, 2, 0))
    story(tmp_path)
    pick(tmp_path, 2, None)
    again, drawn = story(tmp_path)
    assert drawn == [] and again == first


def test_a_picked_step_gets_no_further_attempts(tmp_path: Path) -> None:
    """If it was picked before its attempts were used up, nothing new is generated for it."""
    first, _ = story(tmp_path, accept_at=1.0, max_attempts=1)
    pick(tmp_path, 1, digest(first, 1, 0))
    second, drawn = story(tmp_path)
    assert [one.stop_reason for one in second.results] == [StopReason.picked, *[StopReason.accepted] * 2]
    assert drawn == ["picture 2, better", "picture 3", "picture 3, better"]


def test_a_choice_that_no_longer_fits_is_passed_over(tmp_path: Path) -> None:
    first, _ = story(tmp_path)
    pick(tmp_path, 2, digest(first, 1, 0))
    assert story(tmp_path)[0] == first


def test_the_file_may_be_written_by_hand(tmp_path: Path) -> None:
    first, _ = story(tmp_path)
    (tmp_path / CHOICES).write_text(json.dumps({"steps": {"3": digest(first, 3, 0)}}))
    assert story(tmp_path)[0].results[2].chosen == 0


@pytest.mark.parametrize(
    "content", ["[]", '{"steps": {"0": "' + "a" * 40 + '"}}', '{"steps": {"1": "../x"}}', "{"]
)
def test_a_damaged_file_gives_one_clear_error(tmp_path: Path, content: str) -> None:
    story(tmp_path)
    (tmp_path / CHOICES).write_text(content)
    with pytest.raises(JournalError, match=r"choices\.json"):
        story(tmp_path)


@pytest.mark.parametrize("picture", ["f" * 40, "../run", "", "f" * 40 + "\n"])
def test_only_images_of_the_run_can_be_picked(tmp_path: Path, picture: str) -> None:
    story(tmp_path)
    with pytest.raises(JournalError):
        pick(tmp_path, 1, picture)
    assert read_choices(tmp_path).steps == {}


@pytest.mark.parametrize("step", [999, 2**40])
def test_only_steps_of_the_plan_can_be_picked_for(tmp_path: Path, step: int) -> None:
    trajectory, _ = story(tmp_path)
    picture = digest(trajectory, 1, 0)
    for chosen in (picture, None):
        with pytest.raises(JournalError, match=f"Step {step} of the run .* is text only"):
            pick(tmp_path, step, chosen)
    assert not (tmp_path / CHOICES).exists()
    # A step that the plan has no more is given back all the same.
    (tmp_path / CHOICES).write_text(json.dumps({"steps": {str(step): picture}}))
    assert pick(tmp_path, step, None).steps == {}


def test_the_seed_rule(tmp_path: Path) -> None:
    assert [attempt_seed(0, 1, attempt, "every step") for attempt in range(3)] == [attempt_seed(0, 1, 0)] * 3
    assert len({attempt_seed(0, 1, attempt) for attempt in range(3)}) == 3
    trajectory, _ = story(tmp_path, seed_rule="every step")
    seeds = [[attempt.seed for attempt in result.attempts] for result in trajectory.results]
    assert all(len(set(of_step)) == 1 for of_step in seeds) and len({one[0] for one in seeds}) == 3
