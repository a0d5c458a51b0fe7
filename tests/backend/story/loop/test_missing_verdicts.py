"""A critic without verdicts stops the run, and settings without effect are reported."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import pytest
from PIL import Image
from support.small_agents import STORY, Counting, OnePlan, Verdicts

from interleave_thinker import AnswerError, ChatError, Critic, CriticLike, Plan, Step, load_trajectory
from interleave_thinker.backend.core.answers.reading import write_plan
from interleave_thinker.backend.core.pictures import Picture
from interleave_thinker.backend.core.seams.chat_model import Message, Reply, ReplySettings
from interleave_thinker.backend.core.types import Fault, Request, RunSettings, StopReason, Trajectory, Verdict
from interleave_thinker.backend.models.chat.scripted import ScriptedChat
from interleave_thinker.backend.output.exporters.page import render
from interleave_thinker.backend.output.live.interruptible import ListenedCritic
from interleave_thinker.backend.output.report.run_report import report
from interleave_thinker.backend.story.journal.journal import Journal
from interleave_thinker.backend.story.journal.store import JudgeKey, JudgementRecord
from interleave_thinker.backend.story.loop.collaborators import Collaborators
from interleave_thinker.backend.story.loop.events import Event, Finished, SettingUnused
from interleave_thinker.backend.story.loop.judgements import MissingVerdicts
from interleave_thinker.backend.story.loop.loop import run
from interleave_thinker.backend.story.outcomes import summarize
from interleave_thinker.cli.progress import verdict_text

REQUEST = Request(text="two pages")
PLAN = Plan(steps=(Step(number=1, prompt="a house"), Step(number=2, prompt="add a sun")))
UNREADABLE = Verdict(success=None, reasoning="This is not a verdict.")
WRONG = Verdict(success=False, refined_prompt="")


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


KINDS = {"u": UNREADABLE, "r": WRONG, "c": Verdict(success=False, forced=True), "f": None}
KEY = JudgeKey(critic="c", before=None, after="0" * 40, original_prompt="a", prompt_used="a")


@pytest.mark.parametrize(
    ("heard", "error"),
    [
        ("uu", AnswerError),
        ("uru", None),
        ("ff", ChatError),
        ("frf", None),
        ("fuf", None),
        ("UU", None),
        ("Uu", AnswerError),
        ("Ff", ChatError),
        ("cccccc", AnswerError),
        ("CCCCCc", AnswerError),
        ("CCCCCC", None),
        ("rrrccc", None),
    ],
)
def test_missing_verdicts_in_a_row_stop_a_run(heard: str, error: type[Exception] | None) -> None:
    """Capitals are recorded verdicts, which count and never stop: records can always be replayed."""
    missing = MissingVerdicts("critic")

    def hear(letter: str) -> None:
        verdict = KINDS[letter.lower()]
        fault = None if verdict else Fault(where="critic", message="No server.")
        missing.hear(JudgementRecord(key=KEY, verdict=verdict, error=fault), letter.isupper())

    for letter in heard[:-1]:
        hear(letter)
    with pytest.raises(error) if error else nullcontext():
        hear(heard[-1])


def test_without_seeds_each_attempt_is_another_image(tmp_path: Path) -> None:
    class Unseeded(Counting):
        repeatable = False

    settings = RunSettings(max_attempts=3, seed_rule="every step")
    team = Collaborators(None, Unseeded(), Verdicts(*[False] * 6))
    run_, again = (list(run(REQUEST, team, settings, Journal(tmp_path), PLAN))[-1] for _ in range(2))
    assert isinstance(run_, Finished) and isinstance(again, Finished)
    seeds = [attempt.seed for result in run_.trajectory.results for attempt in result.attempts]
    assert len(set(seeds)) == 6 and again.trajectory.results == run_.trajectory.results
    (tmp_path / "trajectory.json").unlink()
    assert load_trajectory(tmp_path).results == run_.trajectory.results


def test_images_judged_together_have_one_failure() -> None:
    missing, fault = MissingVerdicts("critic"), Fault(where="critic", message="No server.")
    for _ in range(3):
        missing.hear(JudgementRecord(key=KEY, error=fault), False)


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


@pytest.mark.parametrize("own", [REJECTED, EITHER])
def test_a_critic_that_needs_the_form_now_and_then_goes_on(tmp_path: Path, own: str) -> None:
    """An answer that is not definite is not noise."""
    chat = Broken([own, own, own, "?", own, own, "?", own, "", own])
    finished = events(Critic(chat), Counting(), tmp_path)[-1]
    assert isinstance(finished, Finished)
    summary = summarize(finished.trajectory)
    assert summary.forced_verdicts == 3
    assert "3 verdicts readable only in the forced form" in summary.sentence
    settings, (result, *_) = finished.trajectory.settings, finished.trajectory.results
    said = [verdict_text(one, settings) for one in result.attempts if one.verdict]
    assert [text.endswith("(readable only in the forced form)") for text in said] == [False] * 3 + [
        True,
        False,
    ]


def test_a_second_reply_that_is_not_constrained_is_the_critics_own() -> None:
    image = Picture(Image.new("RGB", (8, 8)))
    for chat, choice in ((ScriptedChat(["?", REJECTED]), "retry"), (Broken(["?", REJECTED]), "never")):  # type: ignore[list-item]
        assert not Critic(chat, constrained_decoding=choice).judge(None, image, "a", "a").forced  # type: ignore[arg-type]


SURE = Verdict(success=True, probability=0.9)
SAID = "accept_at had no effect: the critic reports no probabilities"


def carried_out(
    critic: object, folder: Path, accept_at: float | None = 0.8, generator: Counting | None = None
) -> tuple[list[str], Trajectory]:
    settings = RunSettings(max_attempts=2, accept_at=accept_at)
    drawer = generator or Counting()
    events = list(run(REQUEST, Collaborators(OnePlan(STORY), drawer, critic), settings, Journal(folder)))
    assert isinstance(events[-1], Finished)
    told = [event.setting for event in events if isinstance(event, SettingUnused)]
    return told, events[-1].trajectory


def test_accept_at_without_probabilities_is_reported_once_everywhere(tmp_path: Path) -> None:
    told, trajectory = carried_out(Verdicts(True, False, True, True), tmp_path)
    assert told == ["accept_at"] and trajectory.unused == ("accept_at",)
    assert SAID in report(trajectory) and SAID in render(trajectory)
    assert load_trajectory(tmp_path) == trajectory
    (tmp_path / "trajectory.json").unlink()
    assert load_trajectory(tmp_path).unused == ("accept_at",), "as recorded"
    told, _ = carried_out(Verdicts(), tmp_path)
    assert told == ["accept_at"], "once per run, also of one that only reads"


@pytest.mark.parametrize(
    ("answers", "accept_at"),
    [((SURE,) * 3, 0.8), ((True,) * 3, None), ((Verdict(success=None), SURE, SURE, SURE), 0.8)],
)
def test_effective_settings_are_unreported(tmp_path: Path, answers: tuple, accept_at: float | None) -> None:
    told, trajectory = carried_out(Verdicts(*answers), tmp_path, accept_at)
    assert told == [] and "had no effect" not in report(trajectory)
    assert "unused" not in trajectory.model_dump(), "earlier versions read it"


def test_constrained_decoding_that_a_backend_cannot_do_is_named() -> None:
    class Constraining(ScriptedChat):
        constrains_replies = True

    assert Critic(ScriptedChat([]), constrained_decoding="always").unused_settings == (
        "constrained_decoding",
    )
    assert Critic(ScriptedChat([])).unused_settings == (), "it was not set"

    class Unasked(ScriptedChat):
        @property
        def constrains_replies(self) -> bool:
            raise AssertionError("asked, which warns of a missing library, although no reply needs it")

    assert Critic(Unasked([])).unused_settings == ()
    assert Critic(Constraining([]), constrained_decoding="always").unused_settings == ()
    critic = Critic(ScriptedChat([]), constrained_decoding="always")
    listened = ListenedCritic(critic, lambda text: None, lambda: None)
    assert listened.unused_settings == critic.unused_settings and listened.chat is critic.chat


def test_a_setting_that_is_rejected_during_the_run_is_reported_then(tmp_path: Path) -> None:
    class Rejecting(Verdicts):
        unused_settings = ()

        def judge(self, *asked: object) -> Verdict:
            self.unused_settings = ("constrained_decoding",)
            return super().judge(*asked)

    told, trajectory = carried_out(Rejecting(*[SURE] * 3), tmp_path)
    assert told == ["constrained_decoding"] and trajectory.unused == ("constrained_decoding",)
