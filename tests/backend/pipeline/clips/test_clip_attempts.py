"""Attempts at a clip: made, judged and made again by the rules of images."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from PIL import Image
from support.clips import COLORS, blend, story

from interleave_thinker.backend.errors import AnswerError, ChatError, GeneratorError
from interleave_thinker.backend.journal.copy import save_trajectory
from interleave_thinker.backend.journal.store import InMemoryStore
from interleave_thinker.backend.loop.replay import load_trajectory
from interleave_thinker.backend.pictures import Picture
from interleave_thinker.backend.pipeline.clips.attempts import ClipRun, JudgedMaker
from interleave_thinker.backend.pipeline.story import Story
from interleave_thinker.backend.types import RunSettings, StopReason, Verdict
from interleave_thinker.backend.types.clip import ClipPair, Footage


def picture(shade: int) -> Picture:
    return Picture(Image.new("RGB", (4, 4), (shade, 0, 0)))


PAIR = ClipPair(step=2, first=picture(0), last=picture(200), prompt="move the boat")
RIGHT = Verdict(success=True, probability=0.9)
WRONG = Verdict(success=False, refined_prompt="move the boat slowly", probability=0.2)


@dataclass
class Maker:
    """Makes clips whose middle frame is different in every call; an error of the list is raised."""

    errors: Sequence[str] = ()
    calls: list[tuple[str, int]] = field(default_factory=list)
    identity = "maker"

    def make(self, pair: ClipPair, seed: int) -> Footage:
        self.calls.append((pair.prompt, seed))
        number = len(self.calls)
        if number <= len(self.errors) and self.errors[number - 1]:
            raise GeneratorError(self.errors[number - 1])
        return Footage((pair.first, picture(number), pair.last), 8.0)


class Blends:
    """Blends both images of a pair."""

    identity = "blend"

    def make(self, pair: ClipPair, seed: int) -> Footage:
        return blend(pair)


@dataclass
class Judge:
    """Returns verdicts in order; an exception is raised."""

    verdicts: Sequence[Verdict | Exception]
    calls: list[tuple[int, str, str]] = field(default_factory=list)
    identity = "judge"

    def judge_clip(self, frames: Sequence[Picture], original_prompt: str, prompt_used: str) -> Verdict:
        self.calls.append((len(frames), original_prompt, prompt_used))
        verdict = self.verdicts[len(self.calls) - 1]
        if isinstance(verdict, Exception):
            raise verdict
        return verdict


def test_a_rejected_clip_is_made_again_with_the_refined_prompt_and_another_seed() -> None:
    maker, judge = Maker(), Judge([WRONG, RIGHT])
    seen: list[tuple[int, bool | None]] = []
    run = ClipRun(
        maker,
        judge,
        RunSettings(),
        on_attempt=lambda pair, number, one: seen.append(
            (number, one.attempt.verdict.success if one.attempt.verdict else None)
        ),
    )
    result = run.clip(PAIR)
    assert [prompt for prompt, _ in maker.calls] == ["move the boat", "move the boat slowly"]
    assert maker.calls[0][1] != maker.calls[1][1]
    assert judge.calls == [
        (3, "move the boat", "move the boat"),
        (3, "move the boat", "move the boat slowly"),
    ]
    assert (result.stop_reason, result.chosen) == (StopReason.accepted, 1)
    assert result.kept and result.kept.footage and result.kept.footage.frames[1] == picture(2)
    assert seen == [(0, None), (0, False), (1, None), (1, True)]


def test_if_no_attempt_is_accepted_the_most_probable_is_kept() -> None:
    better = WRONG.model_copy(update={"probability": 0.4})
    result = ClipRun(Maker(), Judge([WRONG, better, WRONG]), RunSettings(max_attempts=3)).clip(PAIR)
    assert (result.stop_reason, result.chosen) == (StopReason.attempts_used_up, 1)
    last = RunSettings(max_attempts=3, keep="last")
    assert ClipRun(Maker(), Judge([WRONG, better, WRONG]), last).clip(PAIR).chosen == 2


def test_the_last_attempt_is_not_judged_if_the_settings_say_so() -> None:
    judge = Judge([WRONG])
    result = ClipRun(Maker(), judge, RunSettings(max_attempts=2, judge_last=False)).clip(PAIR)
    assert len(judge.calls) == 1 and len(result.attempts) == 2


def test_accept_at_decides_by_the_probability() -> None:
    result = ClipRun(Maker(), Judge([RIGHT] * 2), RunSettings(max_attempts=2, accept_at=0.95)).clip(PAIR)
    assert result.stop_reason is StopReason.attempts_used_up


@pytest.mark.parametrize(("judge", "most"), [(None, 5), (Judge([]), 1)])
def test_without_judging_a_clip_is_made_once(judge: Judge | None, most: int) -> None:
    maker = Maker()
    result = ClipRun(maker, judge, RunSettings(max_attempts=most)).clip(PAIR)
    assert (len(maker.calls), result.stop_reason, result.chosen) == (1, StopReason.unjudged, 0)


def test_a_failed_attempt_is_followed_by_one_with_the_same_prompt() -> None:
    maker = Maker(errors=["out of memory"])
    result = ClipRun(maker, Judge([RIGHT]), RunSettings()).clip(PAIR)
    assert [prompt for prompt, _ in maker.calls] == ["move the boat"] * 2
    error = result.attempts[0].attempt.error
    assert error and "out of memory" in error.message and result.chosen == 1
    failed = ClipRun(Maker(errors=["no"] * 2), Judge([]), RunSettings(max_attempts=2)).clip(PAIR)
    assert (failed.chosen, failed.kept, failed.stop_reason) == (None, None, StopReason.error)


def test_verdicts_are_cached_by_the_frames() -> None:
    store, judge = InMemoryStore(), Judge([RIGHT, RIGHT])
    for maker in (Maker(), Maker()):
        ClipRun(maker, judge, RunSettings(), store).clip(PAIR)
    assert len(judge.calls) == 1
    ClipRun(Maker(), judge, RunSettings(), store).clip(PAIR.model_copy(update={"prompt": "another goal"}))
    assert len(judge.calls) == 2


def test_two_missing_verdicts_in_a_row_stop_the_run() -> None:
    unread = Verdict(success=None, reasoning="unreadable")
    with pytest.raises(AnswerError, match="could not be parsed"):
        ClipRun(Maker(), Judge([unread] * 2), RunSettings()).clip(PAIR)
    with pytest.raises(ChatError, match="server is down"):
        ClipRun(Maker(), Judge([ChatError("The server is down.")] * 2), RunSettings()).clip(PAIR)
    once = ClipRun(Maker(), Judge([ChatError("The server is down."), RIGHT]), RunSettings()).clip(PAIR)
    assert once.stop_reason is StopReason.accepted


def test_after_the_deadline_no_further_attempt_starts() -> None:
    run = ClipRun(Maker(), Judge([WRONG]), RunSettings(), deadline=time.monotonic())
    result = run.clip(PAIR)
    assert (len(result.attempts), result.stop_reason, result.chosen) == (1, StopReason.budget, 0)


def test_a_judged_maker_returns_the_kept_frames_with_the_verdict() -> None:
    maker = JudgedMaker(
        Maker(), Judge([WRONG, RIGHT.model_copy(update={"reasoning": "It fits."})]), RunSettings()
    )
    footage = maker.make(PAIR, 7)
    assert (footage.frames[1], footage.accepted, footage.reasoning) == (picture(2), True, "It fits.")
    rejected = JudgedMaker(Maker(), Judge([WRONG] * 2), RunSettings(max_attempts=2)).make(PAIR, 7)
    assert rejected.accepted is False and len(rejected.frames) == 3
    assert JudgedMaker(Maker(), Judge([]), RunSettings(max_attempts=1)).make(PAIR, 7).accepted is None


def test_a_judged_makers_identity_and_seeds_follow_its_parts() -> None:
    one, two = RunSettings(max_attempts=1), RunSettings(max_attempts=2)
    identities = {JudgedMaker(Maker(), Judge([]), settings).identity for settings in (one, two)}
    assert len(identities) == 2 and all("maker" in one and "judge" in one for one in identities)
    makers = [Maker(), Maker(), Maker()]
    for maker, seed in zip(makers, (1, 1, 2), strict=True):
        JudgedMaker(maker, Judge([]), one).make(PAIR, seed)
    assert makers[0].calls == makers[1].calls != makers[2].calls


def test_a_clip_that_cannot_be_made_is_an_error() -> None:
    maker = JudgedMaker(Maker(errors=["No memory left."] * 2), Judge([]), RunSettings(max_attempts=2))
    with pytest.raises(GeneratorError, match=r"step 2 could not be made in 2 attempts\. No memory left"):
        maker.make(PAIR, 0)


def test_a_story_gets_judged_clips(tmp_path: Path) -> None:
    told = Story(story(*COLORS), save_trajectory(story(*COLORS), tmp_path / "run"))
    judge = Judge([WRONG, RIGHT, WRONG, WRONG])
    made = told.make_clips(Blends(), critic=judge, max_attempts=2).trajectory
    assert [clip.accepted for clip in made.clips] == [True, False]
    loaded = load_trajectory(tmp_path / "run")
    assert [clip.accepted for clip in loaded.clips] == [True, False]
    again = Story(loaded, tmp_path / "run").make_clips(Blends(), critic=judge, max_attempts=2)
    assert len(judge.calls) == 4 and again.trajectory.clips == loaded.clips
