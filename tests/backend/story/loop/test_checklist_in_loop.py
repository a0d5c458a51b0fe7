"""A checklist in the loop: failed items reject and are asked for, and their answers are cached."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from support.journal_runs import told
from support.small_agents import Counting, Verdicts

from interleave_thinker import CastMember, Picture, Plan, Step, StopReason, load_trajectory
from interleave_thinker.backend.core.answers.reading import write_verdict
from interleave_thinker.backend.core.errors import AnswerError, ChatError
from interleave_thinker.backend.core.types import CheckedItem, ChecklistItem, RunSettings, Trajectory, Verdict
from interleave_thinker.backend.output.report.run_report import reasoning_shown
from interleave_thinker.backend.story.journal.journal import Journal
from interleave_thinker.backend.story.loop.policy import accepted, checklist_of, unchecked, with_items
from interleave_thinker.backend.story.outcomes import (
    AttemptOutcome,
    all_accepted,
    outcome,
    stop_sentence,
    summarize,
)
from interleave_thinker.cli.progress import verdict_text
from interleave_thinker.research.data.accepted_runs import not_accepted

BOATS = ChecklistItem(text="there are two boats", kind="count")
RED = ChecklistItem(text="the boats are red", kind="color")
PLAN = Plan(steps=(Step(number=1, prompt="a bay", checklist=(BOATS, RED)), Step(number=2, prompt="dawn")))


class Checking(Verdicts):
    """Answers the items of each image with the next of `answers`: P(yes) by item, or an error."""

    checks_items = True

    def __init__(
        self, verdicts: Sequence[Verdict | bool], *answers: Sequence[float | None] | ChatError
    ) -> None:
        super().__init__(*verdicts)
        self.checks = list(answers)
        self.asked: list[tuple[Picture, str, tuple[ChecklistItem, ...]]] = []

    def check(
        self, before: Picture | None, after: Picture, original_prompt: str, items: Sequence[ChecklistItem]
    ) -> tuple[CheckedItem, ...]:
        self.asked.append((after, original_prompt, tuple(items)))
        answers = self.checks.pop(0)
        if isinstance(answers, ChatError):
            raise answers
        return tuple(
            CheckedItem(
                text=item.text,
                kind=item.kind,
                probability=one,
                passed=None if one is None else one > 0.5,
                unanswered=one is None,
            )
            for item, one in zip(items, answers, strict=True)
        )


def tell(
    critic: Verdicts, plan: Plan = PLAN, journal: Journal | None = None, **settings: object
) -> Trajectory:
    options = RunSettings.model_validate({"max_attempts": 3, **settings})
    return told(plan, Counting(), critic, journal, settings=options)


def test_a_failed_item_rejects_an_accepted_image_and_is_asked_for() -> None:
    critic = Checking([True, True, True], (0.2, 0.9), (0.8, 0.9))
    first, second = tell(critic).results
    assert [attempt.verdict and attempt.verdict.success for attempt in first.attempts] == [False, True]
    assert first.stop_reason is StopReason.accepted and first.chosen == 1
    assert first.attempts[1].prompt == "a bay. Make sure of this: there are two boats."
    assert first.attempts[0].verdict is not None
    assert reasoning_shown(first.attempts[0].verdict).splitlines()[:2] == [
        "✗ there are two boats (P(yes) 0.20)",
        "✓ the boats are red (P(yes) 0.90)",
    ]
    assert [asked[1:] for asked in critic.asked] == [("a bay", (BOATS, RED))] * 2
    assert len(second.attempts) == 1, "a step without a checklist is not checked"


def test_an_unanswered_item_leaves_the_step_not_checked(tmp_path: Path) -> None:
    critic = Checking([True, True], (None, 0.9))
    whole = tell(critic, journal=Journal(tmp_path / "run"))
    first, second = whole.results
    assert first.stop_reason is StopReason.unchecked and first.chosen == 0 and len(first.attempts) == 1
    assert second.stop_reason is StopReason.accepted, "the story goes on"
    verdict = first.attempts[0].verdict
    assert (
        verdict is not None
        and verdict.success is None
        and [one.passed for one in verdict.items] == [None, True]
    )
    assert verdict_text(first.attempts[0], whole.settings) == "not checked: no answer: there are two boats"
    assert reasoning_shown(verdict).startswith("? there are two boats: no answer")
    assert outcome(first.attempts[0], whole.settings) is AttemptOutcome.not_checked
    assert stop_sentence(first) == "Not checked: the critic did not answer the checklist"
    assert not all_accepted(whole) and summarize(whole).sentence.startswith(
        "2 steps · 2 images generated · 1 of 2"
    )
    assert not_accepted(whole) and load_trajectory(tmp_path / "run") == whole
    resumed = Checking([])
    assert tell(resumed, journal=Journal(tmp_path / "run")).results == whole.results and not resumed.asked


def test_a_verdict_with_a_checklist_is_an_answer_to_learn() -> None:
    """A row contains the verdict alone."""
    verdict = Verdict(success=True, refined_prompt="a bay", reasoning="Two boats.")
    checked = with_items(verdict, (CheckedItem(text="two boats", passed=True),), "a bay")
    assert write_verdict(checked) == write_verdict(verdict)
    with pytest.raises(AnswerError, match="without a result"):
        write_verdict(with_items(verdict, (CheckedItem(text="two boats", unanswered=True),), "a bay"))


def test_only_an_image_that_is_accepted_otherwise_is_not_checked() -> None:
    critic = Checking([False, True, True], (None, 0.9), (None, 0.2))
    first = tell(critic, max_attempts=2).results[0]
    assert [one.verdict and one.verdict.success for one in first.attempts] == [False, False]
    assert first.stop_reason is StopReason.attempts_used_up
    unanswered = (CheckedItem(text="a", unanswered=True),)
    for success, probability, accept_at, expected in (
        (True, None, None, True),
        (False, None, None, False),
        (False, 0.6, 0.5, True),
        (True, 0.4, 0.5, False),
    ):
        judged = with_items(Verdict(success=success, probability=probability), unanswered, "p")
        assert not accepted(judged, accept_at)
        assert unchecked(judged, accept_at) is expected


def test_what_a_critic_cannot_judge_is_shown_as_that() -> None:
    items = (
        CheckedItem(text="two boats", kind="count", probability=0.1),
        CheckedItem(text="a moon", kind="other"),
    )
    shown = reasoning_shown(Verdict(success=True, reasoning="Fine.", items=items))
    assert shown == "? two boats (P(yes) 0.10): cannot judge count\n? a moon: no answer\n\nFine."


def test_a_high_probability_does_not_outweigh_a_failed_item() -> None:
    item = CheckedItem(text="a", passed=False)
    judged = with_items(Verdict(success=True, probability=0.99), (item,), "p")
    assert not accepted(judged, None) and not accepted(judged, 0.5)


def test_items_keep_the_critics_own_refined_prompt_and_add_only_what_it_lacks() -> None:
    failed = (CheckedItem(text="Two boats", passed=False), CheckedItem(text="a moon", passed=False))
    judged = with_items(Verdict(success=False, refined_prompt="a bay with two boats"), failed, "a bay")
    assert judged.refined_prompt == "a bay with two boats. Make sure of this: a moon."
    unread = with_items(Verdict(success=None), failed, "a bay")
    assert unread.success is None, "an answer that could not be parsed stays visible as such"


def test_a_step_is_derived_a_checklist_only_if_asked() -> None:
    cast = (CastMember(name="Mia", traits=("red coat",)),)
    plan = Plan(steps=(Step(number=1, prompt="Mia and 2 cats"),), style="Three inks.", cast=cast)
    step = plan.drawn_steps[0]
    assert checklist_of(step, plan, RunSettings()) == ()
    texts = [item.text for item in checklist_of(step, plan, RunSettings(derive_checklist=True))]
    assert texts == ["there are 2 cats", "Mia: red coat"]
    own = step.model_copy(update={"checklist": (RED,)})
    assert checklist_of(own, plan, RunSettings(derive_checklist=True)) == (RED,)


def test_a_critic_that_cannot_check_is_used_as_before() -> None:
    whole = tell(Verdicts(True, True))
    assert [result.stop_reason for result in whole.results] == [StopReason.accepted] * 2
    assert whole.unused == ("checklist",), "the run says that nothing was checked"
    assert tell(Verdicts(True, True), Plan(steps=PLAN.steps[1:])).unused == ()
    assert tell(Checking([True, True], (0.9, 0.9))).unused == ()


def test_answers_are_cached_and_old_verdicts_are_not_asked_again(tmp_path: Path) -> None:
    plain = PLAN.model_copy(
        update={"steps": tuple(s.model_copy(update={"checklist": ()}) for s in PLAN.steps)}
    )
    tell(Verdicts(True, True), plain, Journal(tmp_path / "run"))
    critic = Checking([], (0.9, 0.9))
    first = tell(critic, PLAN, Journal(tmp_path / "run"))
    assert len(critic.asked) == 1 and not critic.shown
    resumed = Checking([])
    assert tell(resumed, PLAN, Journal(tmp_path / "run")).results == first.results
    assert not resumed.asked and not resumed.shown
    other = Checking([], (0.1, 0.1), (0.9, 0.9))
    other.answers = [True]
    changed = PLAN.model_copy(
        update={"steps": (PLAN.steps[0].model_copy(update={"checklist": (RED, BOATS)}),)}
    )
    tell(other, changed, Journal(tmp_path / "run"))
    assert len(other.asked) == 2, "other items are other answers"


def test_a_failed_check_is_asked_again_by_the_next_run(tmp_path: Path) -> None:
    critic = Checking([True, True, True], ChatError("out of memory"), (0.9, 0.9))
    attempts = tell(critic, journal=Journal(tmp_path / "run")).results[0].attempts
    assert attempts[0].error is not None and "out of memory" in attempts[0].error.message
    assert attempts[0].verdict is None and attempts[1].verdict is not None
    again = Checking([True], (0.9, 0.9))
    assert len(tell(again, journal=Journal(tmp_path / "run")).results[0].attempts) == 1
    assert len(again.asked) == 1
