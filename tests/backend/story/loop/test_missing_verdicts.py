"""A run whose critic returns no verdicts stops after two of them with a reason, and can be resumed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from PIL import Image
from support.small_agents import Counting, Verdicts

from interleave_thinker.backend.core.answers.reading import write_plan
from interleave_thinker.backend.core.errors import AnswerError, ChatError
from interleave_thinker.backend.core.pictures import Picture
from interleave_thinker.backend.core.seams.chat_model import Message, Reply, ReplySettings
from interleave_thinker.backend.core.types import Plan, Request, RunSettings, Step, StopReason, Verdict
from interleave_thinker.backend.core.types.roles import CriticLike
from interleave_thinker.backend.models.chat.scripted import ScriptedChat
from interleave_thinker.backend.story.agents.critic import Critic
from interleave_thinker.backend.story.journal.journal import Journal
from interleave_thinker.backend.story.loop.collaborators import Collaborators
from interleave_thinker.backend.story.loop.events import Event, Finished
from interleave_thinker.backend.story.loop.loop import run
from interleave_thinker.backend.story.loop.replay import load_trajectory
from interleave_thinker.backend.story.outcomes import summarize
from interleave_thinker.cli.progress import verdict_text

REQUEST = Request(text="two pages")
PLAN = Plan(steps=(Step(number=1, prompt="a house"), Step(number=2, prompt="add a sun")))
UNREADABLE = Verdict(success=None, reasoning="This is not a verdict.")
WRONG = Verdict(success=False, refined_prompt="")
GONE = ChatError("No server: 503.")


class Other(Verdicts):
    identity = "another critic"


def events(critic: CriticLike, generator: Counting, folder: Path, attempts: int = 5) -> list[Event]:
    settings = RunSettings(max_attempts=attempts)
    return list(run(REQUEST, Collaborators(None, generator, critic), settings, Journal(folder), PLAN))


def test_two_missing_verdicts_stop_the_run_and_another_critic_resumes_it(tmp_path: Path) -> None:
    generator = Counting()
    with pytest.raises(AnswerError, match=r"verdicts in order. This is not.*--critic.*images are saved"):
        events(Verdicts(*[UNREADABLE] * 9), generator, tmp_path)
    assert len(generator.drawn) == 2
    stopped = load_trajectory(tmp_path)
    assert len(stopped.results[0].attempts) == 2, "recorded attempts are still readable"
    generator = Counting()
    finished = events(Other(WRONG, True, True), generator, tmp_path)[-1]
    assert isinstance(finished, Finished)
    assert [result.stop_reason for result in finished.trajectory.results] == [StopReason.accepted] * 2
    assert len(generator.drawn) == 1, "both attempts of the first step were saved"


def test_missing_verdicts_are_counted_over_steps_and_runs(tmp_path: Path) -> None:
    generator = Counting()
    with pytest.raises(AnswerError):
        events(Verdicts(UNREADABLE, UNREADABLE), generator, tmp_path, attempts=2)
    with pytest.raises(AnswerError):
        events(Verdicts(UNREADABLE), generator, tmp_path, attempts=5)
    assert len(generator.drawn) == 3


@pytest.mark.parametrize(
    "answers",
    [
        (UNREADABLE, WRONG, UNREADABLE, True, True),
        (GONE, WRONG, GONE, True, True),
        (GONE, UNREADABLE, GONE, True, True),
        (GONE, True, GONE, True),
    ],
)
def test_a_verdict_between_them_is_no_row(tmp_path: Path, answers: tuple) -> None:
    assert isinstance(events(Verdicts(*answers), Counting(), tmp_path)[-1], Finished)


def test_two_failed_judgements_stop_the_run_and_their_images_are_judged_by_the_next(tmp_path: Path) -> None:
    generator = Counting()
    critic = Verdicts(True, *[GONE] * 9)
    with pytest.raises(ChatError, match=r"in a row failed.*in order. No server: 503.*images are saved"):
        events(critic, generator, tmp_path)
    assert len(generator.drawn) == 3, "no third attempt is generated without a verdict"
    stopped = load_trajectory(tmp_path)
    assert not (tmp_path / "trajectory.json").exists(), "it is not complete"
    assert stopped.results[0].stop_reason is StopReason.accepted
    assert [one.error.message for one in stopped.results[1].attempts if one.error] == ["No server: 503."] * 2
    generator, critic = Counting(), Verdicts(WRONG, True)
    finished = events(critic, generator, tmp_path)[-1]
    assert isinstance(finished, Finished)
    assert [result.stop_reason for result in finished.trajectory.results] == [StopReason.accepted] * 2
    assert generator.drawn == [] and len(critic.shown) == 2, "both images of the second step were saved"


def test_failed_judgements_are_counted_over_steps(tmp_path: Path) -> None:
    generator = Counting()
    with pytest.raises(ChatError):
        events(Verdicts(WRONG, GONE, GONE), generator, tmp_path, attempts=2)
    assert len(generator.drawn) == 3


def test_images_judged_together_count_as_one_judgment(tmp_path: Path) -> None:
    class Together(Verdicts):
        judges_together = True

        def judge_together(
            self, before: object, afters: Sequence[Picture], original_prompt: str, prompt_used: str
        ) -> list[Verdict]:
            return [self.judge(None, afters[0], original_prompt, prompt_used)] * len(afters)

    settings = RunSettings(max_attempts=4, candidates=2)
    generator = Counting()
    critic = Together(GONE, True, True)
    finished = list(run(REQUEST, Collaborators(None, generator, critic), settings, Journal(tmp_path), PLAN))[
        -1
    ]
    assert isinstance(finished, Finished) and len(generator.drawn) == 6


def test_the_stop_is_the_same_without_a_journal() -> None:
    with pytest.raises(ChatError, match="No server: 503"):
        list(run(REQUEST, Collaborators(None, Counting(), Verdicts(GONE, GONE)), RunSettings(), plan=PLAN))


def test_recorded_missing_verdicts_do_not_stop_a_run(tmp_path: Path) -> None:
    """Runs of earlier versions have such records and stay unchanged."""
    with pytest.raises(AnswerError):
        events(Verdicts(*[UNREADABLE] * 2), Counting(), tmp_path, attempts=2)
    finished = events(Verdicts(True), Counting(), tmp_path, attempts=2)[-1]
    assert isinstance(finished, Finished)


def test_a_planner_as_critic_is_named_and_gets_no_retry() -> None:
    """A grammar makes any model write a verdict, which would be worthless."""
    image = Picture(Image.new("RGB", (8, 8)))
    chat = ScriptedChat([write_plan(PLAN), '{"success": true}'])
    verdict = Critic(chat).judge(None, image, "a house", "a house")
    assert verdict.success is None and "checkpoint is a planner's" in verdict.reasoning
    assert len(chat.requests) == 1


class Broken(ScriptedChat):
    """Writes noise where it has no reply, and a verdict of its form where it is constrained."""

    constrains_replies = True

    @property
    def identity(self) -> str:
        return "broken head"

    def reply(self, messages: Sequence[Message], settings: ReplySettings, on_token: object = None) -> Reply:
        self.requests.append(messages)  # type: ignore[arg-type]
        if settings.grammar:
            return Reply(text=REJECTED, probability=0.2)
        return self.replies.pop(0) if self.replies else Reply(text="ж ,,{ of of \x0b 7")


REJECTED = '<answer>{"previous_step_success": false, "refine_prompt": "of of"}</answer>'
EITHER = '<answer>{"previous_step_success": true or false, "refine_prompt": ""}</answer>'


def test_a_critic_that_only_writes_noise_stops_the_run(tmp_path: Path) -> None:
    """The constrained reply always has a verdict, so noise would look like a strict critic."""
    generator = Counting()
    with pytest.raises(AnswerError, match=r"not readable: 6 of 6 .*broken head.*doctor.*images are saved"):
        events(Critic(Broken([])), generator, tmp_path)
    assert len(generator.drawn) == 6
    finished = events(Other(*[True] * 9), Counting(), tmp_path)[-1]
    assert isinstance(finished, Finished)
    assert len(finished.trajectory.results[0].attempts) == 1, "another critic judges the saved images"


def test_a_resumed_run_counts_the_forced_verdicts_of_before(tmp_path: Path) -> None:
    for drawn in (6, 1):
        generator = Counting()
        with pytest.raises(AnswerError, match="not readable"):
            events(Critic(Broken([])), generator, tmp_path)
        assert len(generator.drawn) == drawn


@pytest.mark.parametrize("own", [REJECTED, EITHER])
def test_a_critic_that_needs_the_form_now_and_then_goes_on(tmp_path: Path, own: str) -> None:
    """An answer that is not definite is not noise."""
    chat = Broken([own, own, own, "?", own, own, "?", own, "", own])
    finished = events(Critic(chat), Counting(), tmp_path)[-1]
    assert isinstance(finished, Finished)
    summary = summarize(finished.trajectory)
    assert summary.forced_verdicts == 3
    assert "3 verdicts readable only in the forced form" in summary.sentence
    said = [verdict_text(one.verdict) for one in finished.trajectory.results[0].attempts if one.verdict]
    assert [text.endswith("(readable only in the forced form)") for text in said] == [False] * 3 + [
        True,
        False,
    ]


def test_a_second_reply_that_is_not_constrained_is_the_critics_own() -> None:
    image = Picture(Image.new("RGB", (8, 8)))
    for chat, choice in ((ScriptedChat(["?", REJECTED]), "retry"), (Broken(["?", REJECTED]), "never")):  # type: ignore[list-item]
        assert not Critic(chat, constrained_decoding=choice).judge(None, image, "a", "a").forced  # type: ignore[arg-type]
