"""What becomes of a prompt in the loop: style, enhancer, and what critic and journal get."""

from __future__ import annotations

from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from support.journal_runs import told
from support.small_agents import Counting, OnePlan, Verdicts

from interleave_thinker import ChatError, Finished, Generator, Plan, Request, Step, Verdict, load_trajectory
from interleave_thinker.backend.core.types import Enhancement, RunSettings, StepSettings, Trajectory, in_style
from interleave_thinker.backend.core.types.values import MAX_TEXT
from interleave_thinker.backend.models.generators.fake import FakeGenerator
from interleave_thinker.backend.models.generators.wrappers import (
    TO_FIRST,
    TO_SOURCE,
    EnhancedGenerator,
    color_matched,
)
from interleave_thinker.backend.output.exporters import page
from interleave_thinker.backend.output.exporters.record import export, read_record
from interleave_thinker.backend.output.report.run_report import report
from interleave_thinker.backend.story.journal.journal import Journal
from interleave_thinker.backend.story.loop.collaborators import Collaborators
from interleave_thinker.backend.story.loop.loop import run

REQUEST = Request(text="a house, then the sun")
PLAN = Plan(steps=(Step(number=1, prompt="a house"), Step(number=2, prompt="add a sun")))
REFUSED = Verdict(success=False, refined_prompt="a red house")


class Longer:
    """Adds words to every prompt, or fails once for each error."""

    identity = "longer"

    def __init__(self, *errors: Exception, warning: str = "") -> None:
        self.asked: list[tuple[str, bool]] = []
        self.errors, self.warning = list(errors), warning

    def enhance(self, prompt: str, is_edit: bool) -> Enhancement:
        self.asked.append((prompt, is_edit))
        if self.errors:
            raise self.errors.pop(0)
        if self.warning:
            return Enhancement(prompt=prompt, warning=self.warning)
        return Enhancement(prompt=f"{prompt}, {'edited' if is_edit else 'drawn'} with care")


def enhanced(generator: Any, enhancer: Longer) -> EnhancedGenerator:
    return EnhancedGenerator(generator, enhancer.enhance, enhancer.identity)


def drawn(generator: Generator, critic: Any = None, store: Any = None, **rest: Any) -> Trajectory:
    return told(rest.pop("plan", PLAN), generator, critic, store, **rest)


def test_only_the_image_model_gets_the_enhanced_prompt() -> None:
    drawer, enhancer, critic = Counting(), Longer(), Verdicts(REFUSED, True, True)
    first, second = drawn(enhanced(drawer, enhancer), critic).results
    assert [prompt for prompt, _, _ in drawer.drawn] == [
        "a house, drawn with care",
        "a red house, drawn with care",
        "add a sun, edited with care",
    ], "the critic's refined prompt is enhanced again"
    assert [one[2:] for one in critic.shown] == [
        ("a house", "a house"),
        ("a house", "a red house"),
        ("add a sun", "add a sun"),
    ], "the critic judges against the plan's prompt"
    attempts = (*first.attempts, *second.attempts)
    assert [one.prompt for one in attempts] == ["a house", "a red house", "add a sun"]
    assert [one.enhancement and one.enhancement.prompt for one in attempts] == [
        one[0] for one in drawer.drawn
    ]


def test_a_prompt_is_enhanced_once_for_text_and_once_for_edits() -> None:
    enhancer, same = Longer(), [Step(number=number, prompt="a house") for number in (1, 2, 3)]
    drawn(enhanced(Counting(), enhancer), Verdicts(False, True, True, True), plan=Plan(steps=tuple(same)))
    assert enhancer.asked == [("a house", False), ("a house", True)]


def test_a_run_is_resumed_from_its_records(tmp_path: Path) -> None:
    plans = Plan(steps=(*PLAN.steps, Step(number=3, prompt="add a sun")))
    verdicts = (REFUSED, True, True, True)
    whole = drawn(enhanced(Counting(), Longer()), Verdicts(*verdicts), Journal(tmp_path), plan=plans)
    drawer, enhancer = Counting(), Longer()
    again = drawn(enhanced(drawer, enhancer), Verdicts(), Journal(tmp_path), plan=plans)
    assert again == whole and not drawer.drawn and not enhancer.asked
    (tmp_path / "trajectory.json").unlink()
    assert load_trajectory(tmp_path) == whole
    # The last image is lost; its prompt was enhanced at the step before, and the record has the text.
    digest = whole.results[2].attempts[0].image.digest  # pyright: ignore[reportOptionalMemberAccess]
    (tmp_path / "pictures" / f"{digest}.png").unlink()
    again = drawn(enhanced(drawer, enhancer), Verdicts(True), Journal(tmp_path), plan=plans)
    assert [one.image for one in again.results] == [one.image for one in whole.results]
    assert [prompt for prompt, _, _ in drawer.drawn] == ["add a sun, edited with care"] and not enhancer.asked
    # Another enhancer is another generator.
    enhancer.identity = "another"
    drawn(enhanced(drawer, enhancer), Verdicts(*verdicts), Journal(tmp_path), plan=plans)
    assert len(drawer.drawn) == 5


def test_a_failing_enhancer_is_a_failed_attempt_and_is_asked_again() -> None:
    drawer, enhancer = Counting(), Longer(ChatError("The server is down.", "Restart it."))
    first, _ = drawn(enhanced(drawer, enhancer), Verdicts(True, True)).results
    failed, made = first.attempts
    assert failed.error and "prompt enhancer failed: The server is down." in failed.error.message
    assert failed.image is None and made.image is not None and len(drawer.drawn) == 2
    assert enhancer.asked[:2] == [("a house", False)] * 2


def test_the_plain_prompt_is_used_with_the_reason_in_the_attempt(tmp_path: Path) -> None:
    drawer = Counting()
    trajectory = drawn(enhanced(drawer, Longer(warning="It was empty.")), None, Journal(tmp_path))
    assert [prompt for prompt, _, _ in drawer.drawn] == ["a house", "add a sun"]
    assert load_trajectory(tmp_path).results[0].attempts[0].enhancement == Enhancement(
        prompt="a house", warning="It was empty."
    )
    assert "It was empty." in page.render(trajectory) and "enhanced: It was empty." in report(trajectory)


def test_page_and_report_show_the_enhanced_prompt_beside_the_plans() -> None:
    trajectory = drawn(enhanced(Counting(), Longer()))
    html = page.render(trajectory)
    assert "Enhanced prompt" in html and "add a sun, edited with care" in html
    assert "     enhanced: a house, drawn with care" in report(trajectory)
    assert "Enhanced prompt" not in page.render(drawn(Counting()))


@pytest.mark.parametrize("match", ["off", TO_SOURCE, TO_FIRST])
def test_the_wrapped_generator_keeps_its_abilities(match: str) -> None:
    inner, enhancer = color_matched(FakeGenerator(16), match), Longer()
    generator = enhanced(inner, enhancer)
    assert generator.follows_anchor == (match == TO_FIRST)
    assert generator.max_reference_images > 0 and "negative" in generator.step_settings
    other = generator.with_step_settings(StepSettings(negative="people"))
    assert other.draw("a", None, 1) != generator.draw("a", None, 1)
    assert generator.draw("a", None, 1) == inner.draw("a, drawn with care", None, 1)
    assert enhancer.asked == [("a", False)], "both have one cache"
    enhancer.identity = "x" * MAX_TEXT
    assert len(enhanced(inner, enhancer).identity) <= MAX_TEXT


class TwoWorkers:
    """Two images at a time; each waits for the other."""

    identity = "two workers"
    idle_workers = 2

    def __init__(self) -> None:
        self.both, self.painted = Barrier(2, timeout=20), FakeGenerator(16)

    def draw(self, prompt: str, source: Any, seed: int) -> Any:
        self.both.wait()
        return self.painted.draw(prompt, source, seed)


def test_candidates_at_the_same_time_share_one_question() -> None:
    enhancer = Longer()
    plan = Plan(steps=PLAN.steps[:1])
    trajectory = drawn(
        enhanced(TwoWorkers(), enhancer), Verdicts(True, True), settings=RunSettings(candidates=2), plan=plan
    )
    assert len(trajectory.results[0].attempts) == 2 and enhancer.asked == [("a house", False)]


INK = PLAN.model_copy(update={"style": "Ink on paper"})
AGAIN = Verdict(success=False, refined_prompt="Ink on paper. a blue house")


def test_every_prompt_is_generated_and_judged_after_the_style() -> None:
    critic = Verdicts(REFUSED, AGAIN, True, True)
    first, second = told(INK, Counting(), critic).results
    drawn = ["a house", "a red house", "a blue house"]
    assert [attempt.prompt for attempt in first.attempts] == [f"Ink on paper. {prompt}" for prompt in drawn]
    assert [attempt.prompt for attempt in second.attempts] == ["Ink on paper. add a sun"]
    assert critic.shown[1][2:] == ("Ink on paper. a house", "Ink on paper. a red house")


def test_another_style_generates_again_and_the_same_does_not(tmp_path: Path) -> None:
    told(None, Counting(), store=Journal(tmp_path), request=REQUEST, planner=OnePlan(INK))
    generator = Counting()
    again = list(run(REQUEST, Collaborators(OnePlan(INK), generator), RunSettings(), Journal(tmp_path)))[-1]
    assert isinstance(again, Finished) and again.trajectory.plan == INK and not generator.drawn
    (tmp_path / "trajectory.json").unlink()
    assert load_trajectory(tmp_path) == again.trajectory
    oil = INK.model_copy(update={"style": "Oil"})
    list(run(REQUEST, Collaborators(None, generator), RunSettings(), Journal(tmp_path), oil))
    assert len(generator.drawn) == 2


def test_a_record_of_a_run_with_a_style_is_read_back(tmp_path: Path) -> None:
    trajectory = told(INK, Counting(), Verdicts(REFUSED, True, True))
    record = read_record(export(trajectory, tmp_path))
    assert [step.prompt for step in record.plan] == ["Ink on paper. a house", "Ink on paper. add a sun"]
    drawn = [attempt.prompt for result in trajectory.results for attempt in result.attempts]
    assert [entry.drawn_with for entry in record.entries] == drawn


def test_the_style_ends_with_one_period() -> None:
    assert in_style("a", "Ink.") == "Ink. a" and in_style("a", "水墨。") == "水墨。 a"
    assert in_style("a", " ") == "a" and in_style("Ink. a", "Ink") == "Ink. a"
