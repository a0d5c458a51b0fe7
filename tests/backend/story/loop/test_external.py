"""Steps that are generated outside of the loop, which requests one image after another and ends as usual."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.small_agents import OneInThree

from interleave_thinker import ChatError, Finished, Picture, Plan, SettingsError, load_trajectory
from interleave_thinker.backend.core.types import Request, RunSettings, Step, StopReason, Trajectory, Verdict
from interleave_thinker.backend.models.generators.fake import FakeGenerator
from interleave_thinker.backend.story.loop.collaborators import Collaborators
from interleave_thinker.backend.story.loop.external import (
    ALL_STEPS,
    DrawNeeded,
    ExternalAttempts,
    ExternalDrawRequest,
    ExternalDrawResult,
    ExternalRun,
    first_draw,
    run_from_plan,
    run_from_prompt,
)
from interleave_thinker.backend.story.loop.loop import run

PAINTER = FakeGenerator(32)
REQUEST = Request(text="a story")
PLAN = Plan(
    steps=(
        Step(number=1, prompt="a house"),
        Step(number=2, auxiliary_text="words"),
        Step(number=3, prompt="add a tree"),
    )
)
SETTINGS = RunSettings(max_attempts=5, seed=3)


def carried_out(
    external_run: ExternalRun, folder: Path, settings: RunSettings = SETTINGS, critic: object | None = None
) -> tuple[Trajectory, list[ExternalDrawRequest]]:
    """Return the trajectory, with a new `ExternalAttempts` for each attempt, as after a restart."""
    asked: list[ExternalDrawRequest] = []
    given: ExternalDrawResult | None = None
    judge = critic or OneInThree()
    while True:
        try:
            attempts = ExternalAttempts(external_run, PAINTER.identity, settings, folder)
            return attempts.follow(judge, given, lambda event: None), asked  # type: ignore[arg-type]
        except DrawNeeded as missing:
            wanted = missing.wanted
            asked.append(wanted)
            given = ExternalDrawResult(
                wanted, (PAINTER.draw(wanted.prompt, wanted.source, wanted.seed),), 1.5
            )


def test_external_attempts_end_like_the_loop_with_a_generator(tmp_path: Path) -> None:
    external_run = run_from_plan(REQUEST, PLAN, ALL_STEPS, None, SETTINGS.seed)
    outside, asked = carried_out(external_run, tmp_path)
    *_, last = run(REQUEST, Collaborators(None, PAINTER, OneInThree()), SETTINGS, plan=PLAN)
    assert isinstance(last, Finished)
    inside = last.trajectory

    def without_time(trajectory: Trajectory) -> dict:
        return trajectory.model_dump(
            exclude={"results": {"__all__": {"attempts": {"__all__": {"seconds", "judging"}}}}}
        )

    assert without_time(outside) == without_time(inside)
    assert len(asked) == sum(len(result.attempts) for result in inside.results)
    assert outside.results[0].attempts[0].seconds >= 1.5
    assert load_trajectory(tmp_path) == outside


def test_the_first_attempt_is_requested_first(tmp_path: Path) -> None:
    source = Picture.white((32, 32))
    for external_run in (
        run_from_plan(REQUEST, PLAN, ALL_STEPS, None, 3),
        run_from_plan(REQUEST, PLAN, 3, source, 3),
        run_from_prompt("a boat", source, 3),
    ):
        with pytest.raises(DrawNeeded) as missing:
            ExternalAttempts(external_run, "maker", SETTINGS, tmp_path / external_run.request.text).follow(
                OneInThree(), None, lambda event: None
            )
        assert first_draw(external_run) == missing.value.wanted


def test_a_failed_judgment_is_kept_until_the_step_restarts(tmp_path: Path) -> None:
    """Every attempt replays the records.

    If the critic were called again in between, another image would be needed under an existing number, and a
    host that arranges attempts by number would never end.
    """

    class AwayOnce(OneInThree):
        calls = 0

        def judge(self, before, after, original_prompt, prompt_used):  # type: ignore[no-untyped-def]
            self.calls += 1
            if self.calls == 1:
                raise ChatError("The server does not answer.")
            return Verdict(success=False, refined_prompt="better")

    external_run, critic = run_from_prompt("a boat", None, 3), AwayOnce()
    settings = RunSettings(max_attempts=3, seed=3)
    attempts = ExternalAttempts(external_run, PAINTER.identity, settings, tmp_path)
    asked: list[ExternalDrawRequest] = []
    given: ExternalDrawResult | None = None
    while True:
        try:
            trajectory = attempts.follow(critic, given, lambda event: None)
            break
        except DrawNeeded as missing:
            asked.append(missing.wanted)
            image = PAINTER.draw(missing.wanted.prompt, missing.wanted.source, missing.wanted.seed)
            given = ExternalDrawResult(missing.wanted, (image,))
    assert [(one.attempt, one.prompt) for one in asked] == [(0, "a boat"), (1, "a boat"), (2, "better")]
    assert critic.calls == 3 and trajectory.results[0].attempts[0].error is not None
    carried_out(external_run, tmp_path, settings, critic)
    assert critic.calls > 3, "the next run calls the critic again"


def test_a_failed_generation_is_an_attempt_with_an_error(tmp_path: Path) -> None:
    external_run = run_from_prompt("a boat", None, 3)
    attempts = ExternalAttempts(external_run, PAINTER.identity, RunSettings(max_attempts=3, seed=3), tmp_path)
    asked: list[ExternalDrawRequest] = []
    given: ExternalDrawResult | None = None
    while True:
        try:
            trajectory = attempts.follow(OneInThree(), given, lambda event: None)
            break
        except DrawNeeded as missing:
            asked.append(missing.wanted)
            given = ExternalDrawResult(missing.wanted, (), 1.5, "Overflowed.")
    assert [one.attempt for one in asked] == [0, 1, 2] and len({one.seed for one in asked}) == 3
    (result,) = trajectory.results
    assert [one.error and (one.error.where, one.error.message) for one in result.attempts] == [
        ("generator", "Overflowed.")
    ] * 3
    assert result.stop_reason is StopReason.error and load_trajectory(tmp_path) == trajectory
    with pytest.raises(DrawNeeded) as again:
        ExternalAttempts(
            external_run, PAINTER.identity, RunSettings(max_attempts=3, seed=3), tmp_path
        ).follow(OneInThree(), None, lambda event: None)
    assert again.value.wanted == asked[0], "the next run requests it again"


@pytest.mark.parametrize(
    ("number", "earlier", "message"),
    [
        (7, 0, "does not have a step 7"),
        (2, 0, "text only"),
        (ALL_STEPS, 3, "does not have a step after step 3"),
    ],
)
def test_an_impossible_step_raises_an_error(number: int, earlier: int, message: str, tmp_path: Path) -> None:
    results = carried_out(run_from_plan(REQUEST, PLAN, ALL_STEPS, None, 3), tmp_path)[0].results
    kept = tuple(result for result in results if result.step.number <= earlier)
    with pytest.raises(SettingsError, match=message):
        run_from_plan(REQUEST, PLAN, number, None, 3, kept)
    with pytest.raises(SettingsError, match="The prompt is empty"):
        run_from_prompt("  ", None, 3)
