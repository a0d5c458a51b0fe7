"""Several candidates per attempt: generated at once, judged in a batch, and the one that a scorer prefers."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from support import tiny_checkpoint
from support.cli_calls import call
from support.image_service import ImageService, image_service
from support.journal_runs import events_of, told
from support.small_agents import STORY, Counting, OneInThree, Verdicts
from support.tiny_checkpoint import PLAIN, WATCH, question

from interleave_thinker import Critic, Event, Picture, Plan, Step, load_trajectory, open_generator
from interleave_thinker.backend.core.errors import Cancelled, ChatError, GeneratorError, ScorerError
from interleave_thinker.backend.core.machine.counters import counting
from interleave_thinker.backend.core.types import Request, RunSettings, Score, StopReason, Trajectory, Verdict
from interleave_thinker.backend.models.chat.local import chat as local
from interleave_thinker.backend.models.generators.wrappers import OFF, TO_SOURCE, color_matched
from interleave_thinker.backend.story.journal.journal import Journal
from interleave_thinker.backend.story.loop.collaborators import Collaborators
from interleave_thinker.backend.story.loop.events import AttemptDrawn, AttemptJudged, AttemptScored, Finished
from interleave_thinker.backend.story.loop.loop import run
from interleave_thinker.backend.story.loop.policy import attempt_seed

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
    events = events_of(plan, Counting(), critic, settings=RunSettings(**settings))
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
    (result,) = told(ONE, Batches(3, 3), critic, settings=RunSettings(max_attempts=2)).results
    assert critic.asked == [3, 3], "the images of a batch are judged together"
    assert [attempt.place for attempt in result.attempts] == [0, 1, 2] * 2
    assert [attempt.seed for attempt in result.attempts[:3]] == [attempt_seed(0, 1, 0)] * 3
    assert [attempt.seed for attempt in result.attempts[3:]] == [attempt_seed(0, 1, 1)] * 3
    assert result.attempts[3].prompt == "a house, not 0.4"
    assert (result.chosen, result.stop_reason) == (4, StopReason.accepted)


def test_the_critic_ranks_a_batch_even_with_one_attempt() -> None:
    critic = Together(0.1, 0.4, 0.2)
    once = RunSettings(max_attempts=1)
    (result,) = told(ONE, Batches(3), critic, settings=once).results
    assert (result.chosen, result.stop_reason) == (1, StopReason.attempts_used_up)
    (result,) = told(ONE, Batches(1), Together(), settings=once).results
    assert result.stop_reason is StopReason.unjudged, "one image is not judged"


@pytest.mark.parametrize("size", [0, 17])
def test_too_many_images_or_none_fail_the_attempt(size: int) -> None:
    results = told(ONE, Batches(size), Together(), settings=RunSettings(max_attempts=1)).results
    (attempt,) = results[0].attempts
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


def test_a_failed_candidate_leaves_the_others_judged() -> None:
    critic, generator = Together(0.2, 0.9), Counting(failures=[None, GeneratorError("gone")])
    settings = RunSettings(candidates=3, max_attempts=3)
    (result,) = told(ONE, generator, critic, settings=settings).results
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


def test_images_of_different_shapes_are_judged_in_one_batch(checkpoint: Path) -> None:
    chat = local.open(str(checkpoint), device="cpu", dtype="float32", share=False)
    large = question(255)[0].model_copy(
        update={"content": (Picture.white((32, 64)), *question(255)[0].content[1:])}
    )
    messages = [question(255)[0], large]
    alone = [chat.reply([message], PLAIN) for message in messages]
    with counting() as counts:
        assert chat.reply_together(messages, PLAIN) == alone
    assert counts.lm_forwards == max(reply.tokens for reply in alone)


def test_a_critic_judges_candidates_in_the_same_passes(checkpoint: Path) -> None:
    chat = local.open(str(checkpoint), device="cpu", dtype="float32", share=False)
    critic = Critic(chat, settings=WATCH)
    before, afters = Picture.white((48, 48)), [tiny_checkpoint.page(grey) for grey in (240, 20)]
    together = critic.judge_together(before, afters, "a light page", "a light page")
    alone = [critic.judge(before, after, "a light page", "a light page") for after in afters]
    assert [one.success for one in together] == [one.success for one in alone]
    assert [one.refined_prompt for one in together] == [one.refined_prompt for one in alone]


HOUSE = Request(text="a house")


class InOrder:
    """Gives these overall scores in the order of its calls; None fails."""

    identity = "in order"

    def __init__(self, *scores: float | BaseException | None) -> None:
        self.left = list(scores)
        self.shown: list[tuple[Picture | None, Picture, str]] = []

    def score(self, before: Picture | None, after: Picture, instruction: str) -> Score:
        self.shown.append((before, after, instruction))
        value = self.left.pop(0)
        if isinstance(value, BaseException):
            raise value
        if value is None:
            raise ScorerError("The scores cannot be read.")
        return Score(semantics=value, quality=value)


class Comparing(InOrder):
    """Has the name of a scorer of release 0.3.0 that compared the images of a step."""

    identity = "together:comparing"


def scored_run(
    scorer: InOrder, *verdicts: Verdict | bool, plan: Plan = ONE, folder: Path | None = None, **settings: Any
) -> tuple[list[AttemptScored], Trajectory]:
    store, chosen, parts = Journal(folder) if folder else None, RunSettings(**settings), {"scorer": scorer}
    events = events_of(plan, Counting(size=24), Verdicts(*verdicts), store, HOUSE, chosen, **parts)
    assert isinstance(events[-1], Finished)
    return [event for event in events if isinstance(event, AttemptScored)], events[-1].trajectory


def test_the_best_score_is_kept_if_no_attempt_is_accepted() -> None:
    sure = [
        Verdict(success=False, probability=one, refined_prompt=f"better {one}") for one in (0.4, 0.1, 0.2)
    ]
    scorer = InOrder(3, 8, 5)
    scored, trajectory = scored_run(scorer, *sure, max_attempts=3)
    (result,) = trajectory.results
    assert result.chosen == 1, "the critic would have kept the first"
    assert [one.score and one.score.overall for one in result.attempts] == [3, 8, 5]
    assert [event.attempt for event in scored] == [0, 1, 2]
    assert {prompt for _, _, prompt in scorer.shown} == {"a house"}, "scored against the plan's prompt"
    assert trajectory.identities.scorer == "in order"


def test_nothing_is_scored_where_the_verdicts_decide() -> None:
    scored, trajectory = scored_run(InOrder(), False, True, max_attempts=3)
    assert not scored and trajectory.results[0].chosen == 1
    scored, trajectory = scored_run(InOrder(), False, False, max_attempts=2, keep="last")
    assert not scored and trajectory.results[0].chosen == 1
    assert not scored_run(InOrder(), False, max_attempts=1)[0]


def test_accepted_candidates_are_compared_without_the_rejected_ones() -> None:
    scored, trajectory = scored_run(InOrder(4, 9), True, False, True, max_attempts=3, candidates=3)
    assert [event.attempt for event in scored] == [0, 2]
    assert trajectory.results[0].chosen == 2


def test_images_are_scored_at_the_size_of_their_source() -> None:
    scorer = InOrder(1, 2)
    request = Request(text="a house", images=(Picture.white((40, 30)),))
    twice = RunSettings(max_attempts=2)
    told(ONE, Counting(), Verdicts(False, False), request=request, settings=twice, scorer=scorer)
    sizes = [(before and before.size, after.size) for before, after, _ in scorer.shown]
    assert sizes == [((40, 30), (40, 30))] * 2


def test_a_failed_score_leaves_the_choice_to_the_critic() -> None:
    sure = [Verdict(success=False, probability=one) for one in (0.1, 0.4)]
    scored, trajectory = scored_run(InOrder(9, None), *sure, max_attempts=2)
    assert trajectory.results[0].chosen == 1
    assert [event.error for event in scored] == ["", "The scores cannot be read."]


def test_scores_of_compared_images_have_the_key_of_release_0_3_0(tmp_path: Path) -> None:
    _, trajectory = scored_run(Comparing(7, 2), False, False, folder=tmp_path, max_attempts=2)
    stored = [json.loads(file.read_text()) for file in tmp_path.glob("*/*.json")]
    digests = sorted(one.image.digest for one in trajectory.results[0].attempts if one.image)
    assert {one["key"]["critic"] for one in stored if one.get("score")} == {
        f"score together:comparing compared={json.dumps(digests)}"
    }


def test_run_chooses_by_the_scorer_of_the_command(tmp_path: Path) -> None:
    (tmp_path / "script.json").write_text(json.dumps(["[9, 9]", "[9, 9]", "[2, 9]", "[9, 9]"]))
    (tmp_path / "critic.json").write_text(
        json.dumps(['{"previous_step_success": false, "refine_prompt": "a sea page with a red boat"}'] * 4)
    )
    told = ["run", "Draw a sea page with a red boat in the middle.", "--out", tmp_path / "run"]
    told += ["--critic", f"scripted:{tmp_path / 'critic.json'}", "--max-attempts", 2]
    done = call(*told, "--set", f"scorer=judge:scripted:{tmp_path / 'script.json'}")
    assert "attempt 1: score 9.0" in done.output and "attempt 2: score" in done.output, done.output
    assert load_trajectory(tmp_path / "run").results[0].chosen == 0
    resumed = call("run", "--out", tmp_path / "run", *told[4:])
    assert resumed.exit_code == 2 and "without a scorer" in resumed.output


SETTINGS = RunSettings(candidates=3, max_attempts=6)


class Alone(threading.Barrier):
    """Records whether calls overlap."""

    def __init__(self) -> None:
        super().__init__(2)
        self.met = False

    def wait(self, timeout: float | None = None) -> int:
        with suppress(threading.BrokenBarrierError):
            super().wait(0.3)
            self.met = True
        return 0


def story(services: list[ImageService], match: str = OFF, workers: int = 2) -> Trajectory:
    for one in services:
        one.health = {"identity": "painter/1", "workers": {"alive": workers}}
    generator = open_generator("http:" + ",".join(one.url for one in services))
    request = Request(text="a")
    return told(STORY, color_matched(generator, match), OneInThree(), request=request, settings=SETTINGS)


def without_seconds(trajectory: Trajectory) -> Any:
    written = trajectory.model_dump(mode="json")
    for result in written["results"]:
        for attempt in result["attempts"]:
            del attempt["seconds"]
            attempt.pop("judging", None)
    return written


@pytest.mark.parametrize("match", [OFF, TO_SOURCE])
def test_candidates_meet_at_several_services_and_are_those_of_one(match: str) -> None:
    with image_service() as alone:
        alone.faults = []
        expected = story([alone], match)
    with image_service() as one, image_service() as other:
        meets = threading.Barrier(3)
        one.meets = other.meets = meets  # no request is answered before three have arrived
        found = story([one, other], match)
        assert one.requests and other.requests
    assert without_seconds(found) == without_seconds(expected)


def test_candidates_do_not_queue_at_a_service_with_one_worker() -> None:
    with image_service() as one:
        one.meets = alone = Alone()
        story([one], workers=1)
        assert len(one.requests) >= 3 and not alone.met


def test_cancelling_stops_all_candidates() -> None:
    with image_service() as one, image_service() as other:
        for service in (one, other):
            service.health = {"identity": "painter/1", "workers": {"alive": 2}}
        asked = threading.Event()
        generator = open_generator(f"http:{one.url},{other.url}", interrupted=asked.is_set)
        events = run(Request(text="a"), Collaborators(None, generator, OneInThree()), SETTINGS, plan=STORY)
        for event in events:
            if isinstance(event, AttemptDrawn):
                break
        one.hangs_at = other.hangs_at = "/edit"
        asked.set()
        with pytest.raises(Cancelled):
            list(events)
        left = [thread for thread in threading.enumerate() if thread.name.startswith("draws side by side")]
        for thread in left:
            thread.join(10)
        assert not any(thread.is_alive() for thread in left)
