"""Critic's notes chosen from feedback: what is chosen, what is refused, and what a stopped choice costs."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.cli_calls import Scripts, call, verdict_reply
from support.made_runs import made_run, say

from interleave_thinker.backend.agents.critic import Critic
from interleave_thinker.backend.chat.protocol import Message, Reply
from interleave_thinker.backend.errors import ChatError, SettingsError
from interleave_thinker.backend.prompts.critic_notes import NOTES, CriticNotes
from interleave_thinker.benchmarks.critic_notes import (
    REASONS,
    VAGUE,
    DirectCritic,
    FlawedChat,
    Flaws,
    images_of,
)
from interleave_thinker.training.own_critic.notes.asking import NotedCritic
from interleave_thinker.training.own_critic.notes.cases import Case, cases_of, split_by_run
from interleave_thinker.training.own_critic.notes.choice import choose
from interleave_thinker.training.own_critic.notes.make import (
    NotesRefused,
    faults_of,
    gate_of,
    make_notes,
    splits_of,
)
from interleave_thinker.training.own_critic.notes.settings import NotesSettings

IMAGES = 120
TELLING = [*REASONS["color"], *REASONS["style"]]
SETTINGS = NotesSettings(images=IMAGES)


class Interrupted(FlawedChat):
    """Fails after a number of questions, and counts them."""

    def __init__(self, flaws: Flaws, left: int = 10**6) -> None:
        super().__init__(flaws)
        self.left, self.asked = left, 0

    def reply(self, messages: Sequence[Message], *rest: Any) -> Reply:
        if self.asked >= self.left:
            raise ChatError("gone")
        self.asked += 1
        return super().reply(messages, *rest)


def made(flaws: Flaws = Flaws(misled=0.0), telling: float = 0.5) -> tuple[Interrupted, list[Case]]:  # noqa: B008
    chat = Interrupted(flaws)
    return chat, images_of(chat, IMAGES, 3, telling)


def quiet(line: str) -> None:
    pass


def test_telling_corrections_become_notes_and_vague_ones_do_not(tmp_path: Path) -> None:
    chat, cases = made()
    report = make_notes(cases, Critic(chat), tmp_path, SETTINGS, quiet)
    notes = CriticNotes.load(tmp_path)
    reasons = [note.reason for note in notes.notes]
    assert reasons and all(any(told in reason for told in TELLING) for reason in reasons)
    assert any(not one.kept and any(word in one.note.reason for word in VAGUE) for one in report.choice.tried)
    measured, gate = notes.measured, report.gate
    assert measured and gate and measured.images == gate.changes["accuracy"].n >= 50
    assert measured.critic == chat.identity and measured.after > measured.before and measured.low > 0
    choosing, checking = splits_of(cases, SETTINGS)
    chosen_from, measured_on = ({case.goal for case in some} for some in (choosing, checking))
    assert {note.goal for note in notes.notes} <= chosen_from and not chosen_from & measured_on


def test_a_stopped_choice_continues_and_repeats_no_question(tmp_path: Path) -> None:
    whole, cases = made()
    expected = make_notes(cases, Critic(whole), tmp_path / "whole", SETTINGS, quiet)
    chat, cases = made()
    chat.left = whole.asked // 2
    with pytest.raises(ChatError):
        make_notes(cases, Critic(chat), tmp_path / "out", SETTINGS, quiet)
    chat.left = 10**6
    settings = SETTINGS.model_copy(update={"parallel": 4})
    report = make_notes(cases, Critic(chat), tmp_path / "out", settings, quiet)
    assert report.choice == expected.choice and report.gate == expected.gate
    assert chat.asked >= whole.asked and chat.asked - whole.asked < 4 * len(report.choice.tried)
    asked = chat.asked
    make_notes(cases, Critic(chat), tmp_path / "out", settings, quiet)
    assert chat.asked == asked


def test_notes_that_teach_nothing_are_refused_and_earlier_notes_removed(tmp_path: Path) -> None:
    chat, cases = made(Flaws(taught=Flaws.blind, misled=0.05))
    (tmp_path / NOTES).write_text("{}")
    with pytest.raises(NotesRefused, match="No notes were kept"):
        make_notes(cases, Critic(chat), tmp_path, SETTINGS, quiet)
    assert not (tmp_path / NOTES).exists() and (tmp_path / "report.json").exists()


def test_a_note_that_harms_as_much_as_it_helps_is_not_chosen(tmp_path: Path) -> None:
    chat, cases = made()
    judged = chat.verdict
    chat.verdict = lambda image, notes: judged(image, notes) if not notes else not judged(image, ())
    with pytest.raises(NotesRefused, match="no correction"):
        make_notes(cases, Critic(chat), tmp_path, SETTINGS, quiet)


def test_images_of_notes_do_not_count(tmp_path: Path) -> None:
    chat, cases = made()
    wrong = [case for case in cases if case.note and chat.verdict(case.after.digest, ()) != case.success]
    corrected: dict[str, set[str]] = {
        wrong[0].goal: {wrong[1].goal},  # one image, and its own
        wrong[2].goal: {wrong[3].goal, wrong[4].goal},
        wrong[5].goal: {wrong[2].goal, wrong[6].goal},  # one image, and that of a note
    }
    by_image, able = {case.after.digest: case for case in cases}, chat.verdict

    def verdict(image: str, notes: Sequence[str]) -> bool:
        case, right = by_image[image], able(image, ())
        told = [goal for goal in corrected if any(f'"{goal}"' in note for note in notes)]
        return case.success if any(case.goal in {goal, *corrected[goal]} for goal in told) else right

    chat.verdict = verdict
    some = [wrong[number] for number in range(7)]
    with NotedCritic(Critic(chat), 1000) as asked:
        before = asked.verdicts(asked.with_notes(()), some)
        choice = choose(asked, some, before, SETTINGS, 0, quiet)
    assert [note.goal for note in choice.notes] == [wrong[2].goal]


def test_verdicts_that_stay_the_same_do_not_keep_notes() -> None:
    chat, cases = made(Flaws(taught=Flaws.blind, misled=0.0))
    notes = [note for case in cases[:1] if (note := case.note)]
    with NotedCritic(Critic(chat), 1000) as asked:
        gate = gate_of(asked, notes, cases)
    assert not gate.faults and "is not a significant rise" in faults_of(gate)[0]


def test_the_number_of_questions_is_bounded(tmp_path: Path) -> None:
    chat, cases = made()
    settings = SETTINGS.model_copy(update={"max_questions": 250})
    with contextlib.suppress(NotesRefused):
        make_notes(cases, Critic(chat), tmp_path, settings, quiet)
    assert chat.asked <= 250
    report = (tmp_path / "report.json").read_text()
    assert '"untried": 0' not in report
    with pytest.raises(SettingsError, match="--max-questions"):
        make_notes(cases, Critic(chat), tmp_path, settings.model_copy(update={"max_questions": 200}), quiet)


def test_runs_are_not_divided_and_both_verdicts_are_needed() -> None:
    _, cases = made()
    choosing, checking = split_by_run(cases, 0)
    assert not {case.run for case in choosing} & {case.run for case in checking}
    assert len(choosing) + len(checking) == IMAGES
    for verdict in (True, False):
        counts = [sum(case.success is verdict for case in split) for split in (choosing, checking)]
        assert abs(counts[0] - counts[1]) <= 3
    one_sided = [replace(case, run=f"{case.success} {case.run}") for case in cases]
    accepted = [sum(case.success for case in split) for split in split_by_run(one_sided, 0)]
    assert abs(accepted[0] - accepted[1]) <= 3, "runs with one verdict are spread too"
    with pytest.raises(SettingsError, match="at least 2 runs"):
        split_by_run([replace(case, run="one") for case in cases], 0)
    with pytest.raises(SettingsError, match="of each are needed") as few:
        splits_of([case for case in cases if not case.success], SETTINGS)
    assert "about 80 verdicts in all" in few.value.hint
    with pytest.raises(SettingsError, match="has a reason"):
        splits_of([replace(case, reason="") for case in cases], SETTINGS)


def test_a_case_has_the_words_of_the_user(tmp_path: Path) -> None:
    run = made_run(tmp_path / "a", [(10, True, None), (20, True, None), (30, False, None), (40, True, None)])
    say(run, 0, False, note="too  dark\n" + "x" * 400, better_prompt="a white page")
    say(run, 1, False)
    say(run, 2, True, note="grey is fine")
    first, second, third = cases_of([tmp_path], "", False, quiet)
    note = first.note
    assert note and not note.success and note.better_prompt == "a white page"
    assert note.reason.startswith("too dark xxx") and len(note.reason) == 300
    assert second.note is not None and second.note.better_prompt == "a light page 2", "confirmed later"
    assert third.success and third.note and third.note.reason == "grey is fine"
    assert first.before and first.before.size == (48, 48) and first.goal == "a light page"
    accepted = replace(third, better_prompt="a white page").note
    assert accepted and accepted.better_prompt == "", "a step that succeeded needs no better prompt"


def test_an_image_counts_once_and_not_at_all_with_two_verdicts(tmp_path: Path) -> None:
    for name, verdicts in (("a", (True, True)), ("b", (False, True))):
        run = made_run(tmp_path / name, [(10, True, None), (20, True, None)])
        for attempt, accepted in enumerate(verdicts):
            say(run, attempt, accepted)
    (case,) = cases_of([tmp_path], "", False, quiet)
    assert case.used == "a light page 1" and case.success


def test_the_benchmark_takes_the_verdicts_that_the_critic_would_give() -> None:
    chat = FlawedChat(Flaws(misled=0.1))
    cases = images_of(chat, 40, 7, 0.5)
    notes = [note for case in cases[:6] if (note := case.note)]
    for some in ((), notes):
        asked, direct = NotedCritic(Critic(chat), 100), DirectCritic(Critic(chat), 100)
        said = [one.verdicts(one.with_notes(some), cases) for one in (asked, direct)]
        assert said[0] == said[1] and asked.questions == direct.questions == 40
    assert said[0] != [case.success for case in cases]


def test_the_command_refuses_with_exit_code_3(tmp_path: Path) -> None:
    for number in range(20):
        run = made_run(tmp_path / "runs" / f"r{number}", [(4 * number + at, True, None) for at in range(4)])
        for attempt in range(4):
            say(run, attempt, attempt < 2, note="looked at it")
    critic = Scripts(tmp_path).critic(*[verdict_reply(True)] * 400)
    given = ["feedback", "notes", tmp_path / "runs", "--out", tmp_path / "out", *critic]
    result = call(*given)
    assert result.exit_code == 3, result.output
    assert "40 images to choose notes on, 40 to measure them on" in result.output
    assert "wrong on 20 of the 40" in result.output and "No notes were kept" in result.output
    few = call(*given, "--images", 20)
    assert few.exit_code == 2 and "of each are needed" in few.output.replace("\n", " ")
