"""Several candidates per attempt: what is generated and judged, which one counts, and batched verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support import tiny_checkpoint
from support.small_agents import STORY, Counting, OneInThree, OnePlan, Verdicts
from support.tiny_checkpoint import PLAIN, WATCH, question

from interleave_thinker.backend.core.errors import ChatError, GeneratorError
from interleave_thinker.backend.core.machine.counters import counting
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
from interleave_thinker.backend.models.chat.local import chat as local
from interleave_thinker.backend.story.agents.critic import Critic
from interleave_thinker.backend.story.journal.journal import Journal
from interleave_thinker.backend.story.loop.collaborators import Collaborators
from interleave_thinker.backend.story.loop.events import AttemptDrawn, AttemptJudged, Event, Finished
from interleave_thinker.backend.story.loop.loop import run
from interleave_thinker.backend.story.loop.policy import attempt_seed
from interleave_thinker.backend.story.loop.replay import load_trajectory

REQUEST = Request(text="a house, a sun, a boat")
ONE = Plan(steps=(Step(number=1, prompt="a house"),))


class Together(OneInThree):
    """Judges several images in one call, with these probabilities in order; true from 0.5."""

    identity = "together"
    judges_together = True

    def __init__(self, *probabilities: float, failing: bool = False) -> None:
        super().__init__()
        self.left = list(probabilities)
        self.asked: list[int] = []
        self.failing = failing

    def judge_together(
        self, before: Picture | None, afters: Sequence[Picture], original_prompt: str, prompt_used: str
    ) -> list[Verdict]:
        self.asked.append(len(afters))
        if self.failing:
            raise ChatError("gone")
        found = [self.left.pop(0) for _ in afters]
        return [
            Verdict(success=one >= 0.5, probability=one, refined_prompt=f"{prompt_used}, not {one}")
            for one in found
        ]

    def judge(self, before: Any, after: Picture, original_prompt: str, prompt_used: str) -> Verdict:
        return self.judge_together(before, [after], original_prompt, prompt_used)[0]


def carried_out(critic: Any, plan: Plan = ONE, **settings: Any) -> tuple[list[Event], Trajectory]:
    events = list(run(REQUEST, Collaborators(OnePlan(plan), Counting(), critic), RunSettings(**settings)))
    assert isinstance(events[-1], Finished)
    return events, events[-1].trajectory


class Batches(Counting):
    """Returns this number of images per call."""

    draws_several = True

    def __init__(self, *sizes: int) -> None:
        super().__init__()
        self.sizes = list(sizes)

    def draw_several(self, prompt: str, source: Picture | None, seed: int) -> tuple[Picture, ...]:
        return tuple(self.draw(prompt, source, seed + place) for place in range(self.sizes.pop(0)))


def test_every_image_of_a_batch_is_a_candidate() -> None:
    critic = Together(0.1, 0.4, 0.2, 0.3, 0.9, 0.6)
    *_, last = run(REQUEST, Collaborators(None, Batches(3, 3), critic), RunSettings(max_attempts=2), plan=ONE)
    assert isinstance(last, Finished)
    (result,) = last.trajectory.results
    assert critic.asked == [3, 3], "the images of a batch are judged together"
    assert [attempt.place for attempt in result.attempts] == [0, 1, 2] * 2
    assert [attempt.seed for attempt in result.attempts[:3]] == [attempt_seed(0, 1, 0)] * 3
    assert [attempt.seed for attempt in result.attempts[3:]] == [attempt_seed(0, 1, 1)] * 3
    assert result.attempts[3].prompt == "a house, not 0.4"
    assert (result.chosen, result.stop_reason) == (4, StopReason.accepted)


def test_the_critic_ranks_a_batch_even_with_one_attempt() -> None:
    critic = Together(0.1, 0.4, 0.2)
    *_, last = run(REQUEST, Collaborators(None, Batches(3), critic), RunSettings(max_attempts=1), plan=ONE)
    assert isinstance(last, Finished)
    (result,) = last.trajectory.results
    assert (result.chosen, result.stop_reason) == (1, StopReason.attempts_used_up)
    *_, last = run(
        REQUEST, Collaborators(None, Batches(1), Together()), RunSettings(max_attempts=1), plan=ONE
    )
    assert isinstance(last, Finished)
    assert last.trajectory.results[0].stop_reason is StopReason.unjudged, "one image is not judged"


def test_a_batch_is_generated_once_and_cached(tmp_path: Path) -> None:
    critic, generator = Together(0.1, 0.4, 0.2), Batches(3)
    first = list(
        run(
            REQUEST,
            Collaborators(None, generator, critic),
            RunSettings(max_attempts=1),
            Journal(tmp_path),
            ONE,
        )
    )
    again = list(
        run(
            REQUEST,
            Collaborators(None, generator, critic),
            RunSettings(max_attempts=1),
            Journal(tmp_path),
            ONE,
        )
    )
    assert isinstance(first[-1], Finished) and isinstance(again[-1], Finished)
    assert again[-1].trajectory == first[-1].trajectory == load_trajectory(tmp_path)
    assert len(list((tmp_path / "attempts").iterdir())) == 1


@pytest.mark.parametrize("size", [0, 17])
def test_too_many_images_or_none_fail_the_attempt(size: int) -> None:
    *_, last = run(
        REQUEST, Collaborators(None, Batches(size), Together()), RunSettings(max_attempts=1), plan=ONE
    )
    assert isinstance(last, Finished)
    (attempt,) = last.trajectory.results[0].attempts
    assert attempt.image is None and attempt.error and f"{size} images for one call" in attempt.error.message


def test_the_most_probable_of_those_that_passed_counts() -> None:
    critic = Together(0.1, 0.6, 0.9)
    events, trajectory = carried_out(critic, candidates=3, max_attempts=6)
    (result,) = trajectory.results
    assert (critic.asked, len(result.attempts), result.chosen) == ([3], 3, 2)
    assert len({attempt.seed for attempt in result.attempts}) == 3
    assert {attempt.prompt for attempt in result.attempts} == {"a house"}
    kinds = [type(event) for event in events if isinstance(event, AttemptDrawn | AttemptJudged)]
    assert kinds == [AttemptDrawn] * 3 + [AttemptJudged] * 3


def test_the_next_attempt_refines_the_most_probable() -> None:
    critic = Together(0.1, 0.4, 0.3, 0.2, 0.1)
    _, trajectory = carried_out(critic, candidates=2, max_attempts=5)
    (result,) = trajectory.results
    assert critic.asked == [2, 2, 1], "the last attempt has the remaining images"
    prompts = [attempt.prompt for attempt in result.attempts]
    assert prompts[2:4] == ["a house, not 0.4"] * 2 and prompts[4] == "a house, not 0.4, not 0.3"
    assert result.chosen == 1


def test_candidates_differ_even_if_attempts_share_a_seed() -> None:
    critic = Together(0.1, 0.2, 0.3, 0.4)
    _, trajectory = carried_out(critic, candidates=2, max_attempts=4, seed_rule="every step")
    seeds = [attempt.seed for attempt in trajectory.results[0].attempts]
    assert seeds[:2] == seeds[2:] == [attempt_seed(0, 1, 0), attempt_seed(0, 1, 1)]


def test_judge_last_off_leaves_the_last_attempt_unjudged() -> None:
    critic = Together(0.1, 0.2)
    _, trajectory = carried_out(critic, candidates=2, max_attempts=4, judge_last=False, keep="last")
    assert critic.asked == [2] and trajectory.results[0].chosen == 3


def test_a_critic_that_fails_fails_for_all_candidates() -> None:
    _, trajectory = carried_out(Together(failing=True), candidates=2, max_attempts=2)
    faults = [attempt.error for attempt in trajectory.results[0].attempts]
    assert [fault and fault.where for fault in faults] == ["critic", "critic"]


class OneInThreeTogether(OneInThree):
    """Gives each of several images the verdict that the other critic gives it alone."""

    judges_together = True

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[int] = []

    def judge_together(
        self, before: Picture | None, afters: Sequence[Picture], original_prompt: str, prompt_used: str
    ) -> list[Verdict]:
        self.asked.append(len(afters))
        return [self.judge(before, after, original_prompt, prompt_used) for after in afters]


def attempts_of(trajectory: Trajectory) -> list[Any]:
    return [
        (attempt.prompt, attempt.seed, attempt.image, attempt.verdict)
        for result in trajectory.results
        for attempt in result.attempts
    ]


def test_a_critic_that_judges_one_by_one_gives_the_same_result() -> None:
    settings: dict[str, Any] = {"candidates": 3, "max_attempts": 6}
    together = OneInThreeTogether()
    alone, both = carried_out(OneInThree(), STORY, **settings)[1], carried_out(together, STORY, **settings)[1]
    assert max(together.asked) == 3
    assert attempts_of(alone) == attempts_of(both)
    assert [result.chosen for result in alone.results] == [result.chosen for result in both.results]


def test_a_failed_candidate_leaves_the_others_judged() -> None:
    critic, generator = Together(0.2, 0.9), Counting(failures=[None, GeneratorError("gone")])
    settings = RunSettings(candidates=3, max_attempts=3)
    *_, end = run(REQUEST, Collaborators(OnePlan(ONE), generator, critic), settings)
    assert isinstance(end, Finished)
    (result,) = end.trajectory.results
    assert critic.asked == [2]
    assert [attempt.error and attempt.error.where for attempt in result.attempts] == [None, "generator", None]
    assert (result.chosen, result.stop_reason) == (2, StopReason.accepted)


def test_a_critic_that_fails_at_one_candidate_keeps_its_other_verdicts() -> None:
    said = Verdict(success=True, probability=0.8)
    _, trajectory = carried_out(Verdicts(said, ChatError("gone")), candidates=2, max_attempts=2)
    (result,) = trajectory.results
    assert [attempt.verdict for attempt in result.attempts] == [said, None]
    assert [attempt.error and attempt.error.where for attempt in result.attempts] == [None, "critic"]
    assert result.chosen == 0


def test_a_stopped_attempt_resumes_with_its_verdicts(tmp_path: Path) -> None:
    settings = RunSettings(candidates=3, max_attempts=6)

    def events(folder: Path) -> Any:
        return run(
            REQUEST, Collaborators(OnePlan(STORY), Counting(), OneInThree()), settings, Journal(folder)
        )

    straight = list(events(tmp_path / "straight"))
    stopped = events(tmp_path / "stopped")
    for event in stopped:
        if isinstance(event, AttemptJudged) and event.attempt == 1:
            break
    stopped.close()
    again = list(events(tmp_path / "stopped"))
    assert sum(isinstance(event, AttemptJudged) and event.reused for event in again) >= 2
    ends = [one[-1].trajectory for one in (straight, again)]
    assert attempts_of(ends[0]) == attempts_of(ends[1])


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_checkpoint.taught_checkpoint(tmp_path_factory.getbasetemp())


def test_batched_answers_equal_single_ones(checkpoint: Path) -> None:
    chat = local.open(str(checkpoint), device="cpu", dtype="float32", share=False)
    messages = [question(255, grey)[0] for grey in (240, 20, 100, 20)]
    hot = PLAIN.model_copy(update={"temperature": 1.5, "seed": 3})
    for settings in (WATCH, PLAIN, hot):
        alone = [chat.reply([message], settings) for message in messages]
        with counting() as counts:
            together = chat.reply_together(messages, settings)
        for ours, theirs in zip(together, alone, strict=True):
            assert (ours.text, ours.tokens, ours.finish) == (theirs.text, theirs.tokens, theirs.finish)
            assert (ours.probability or 0.0) == pytest.approx(theirs.probability or 0.0, rel=1e-4)
        longest = max(reply.tokens for reply in together)
        assert counts.lm_forwards == longest


def test_images_of_different_shapes_are_judged_one_by_one(checkpoint: Path) -> None:
    chat = local.open(str(checkpoint), device="cpu", dtype="float32", share=False)
    large = question(255)[0].model_copy(
        update={"content": (Picture.white((32, 64)), *question(255)[0].content[1:])}
    )
    messages = [question(255)[0], large]
    assert chat.reply_together(messages, PLAIN) == [chat.reply([message], PLAIN) for message in messages]


def test_a_critic_judges_candidates_in_the_same_passes(checkpoint: Path) -> None:
    chat = local.open(str(checkpoint), device="cpu", dtype="float32", share=False)
    critic = Critic(chat, settings=WATCH)
    before, afters = Picture.white((48, 48)), [tiny_checkpoint.page(grey) for grey in (240, 20)]
    together = critic.judge_together(before, afters, "a light page", "a light page")
    alone = [critic.judge(before, after, "a light page", "a light page") for after in afters]
    assert [one.success for one in together] == [one.success for one in alone]
    assert [one.refined_prompt for one in together] == [one.refined_prompt for one in alone]
