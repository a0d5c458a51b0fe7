"""Critic's notes: their file, their place in the question, and their part in the critic's identity."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from support.cli_calls import Scripts, call, verdict_reply
from support.small_agents import Counting

from interleave_thinker.backend.agents.critic import Critic
from interleave_thinker.backend.answers.reading import write_verdict
from interleave_thinker.backend.chat.scripted import ScriptedChat
from interleave_thinker.backend.errors import SettingsError
from interleave_thinker.backend.journal.journal import Journal
from interleave_thinker.backend.loop.loop import run
from interleave_thinker.backend.pictures import Picture
from interleave_thinker.backend.prompts import default_prompt_set
from interleave_thinker.backend.prompts.critic_notes import (
    MAX_NOTES,
    NOTES,
    CriticNote,
    CriticNotes,
    MeasuredNotes,
)
from interleave_thinker.backend.types import ChecklistItem, Plan, Request, RunSettings, Step, Verdict

BEFORE, AFTER = Picture.white((8, 6)), Picture.white((6, 8))
NOTE = CriticNote(goal="a red {rewritten_prompt} <image> boat", success=False, reason="It became\n blue.")
OTHER = CriticNote(goal="a sea", success=True, reason="Foam is not an error.", better_prompt="")
MEASURED = MeasuredNotes(critic="hand", images=40, before=0.5, after=0.75, low=0.1, high=0.4)
SAID = write_verdict(Verdict(success=True, refined_prompt="a boat", reasoning="It fits."))


def test_notes_come_first_and_change_nothing_after_them() -> None:
    plain, noted = ScriptedChat([SAID]), ScriptedChat([SAID])
    Critic(plain).judge(BEFORE, AFTER, "a boat", "a boat")
    verdict = Critic(noted, notes=CriticNotes(notes=(NOTE, OTHER))).judge(BEFORE, AFTER, "a boat", "a boat")
    without, content = (chat.requests[0].messages[0].content for chat in (plain, noted))
    assert verdict.success is True and content[1:] == without[1:]
    text, rest = str(content[0]), str(without[0])
    assert text.endswith(rest), "the question is the same"
    notes = text.removesuffix(rest)
    assert 'Goal: "a red {rewritten_prompt} <image> boat" Right verdict: the step failed.' in notes
    assert "Reason: It became blue." in notes and "Better prompt" not in notes
    assert notes.index("Note 1.") < notes.index("Note 2.") and "the step succeeded" in notes


def test_notes_come_before_the_images_of_a_template_without_marks() -> None:
    own = default_prompt_set().model_copy(update={"critic": "{original_instruction} {rewritten_prompt}"})
    chat = ScriptedChat([SAID], own)
    Critic(chat, notes=CriticNotes(notes=(NOTE,))).judge(BEFORE, AFTER, "a boat", "a boat")
    content = chat.requests[0].messages[0].content
    assert "Note 1." in str(content[0]) and content[1:] == (BEFORE, AFTER, "a boat a boat")


def test_the_second_question_and_a_batch_have_the_notes_and_an_item_has_not() -> None:
    chat = ScriptedChat(["not a verdict", SAID, "yes"])
    critic = Critic(chat, notes=CriticNotes(notes=(NOTE,)))
    assert critic.judge(BEFORE, AFTER, "a boat", "a boat").success is True
    critic.check(BEFORE, AFTER, "a boat", [ChecklistItem(text="it is red", kind="color")])
    texts = [str(request.messages[0].content) for request in chat.requests]
    assert ["Note 1." in text for text in texts] == [True, True, False]


def test_the_identity_contains_what_the_critic_reads_and_nothing_else() -> None:
    chat = ScriptedChat([])
    plain = Critic(chat).identity
    notes = CriticNotes(notes=(NOTE, OTHER))
    noted = Critic(chat, notes=notes).identity
    assert noted.startswith(f"{plain}|notes=")
    assert Critic(chat, notes=CriticNotes(notes=(OTHER, NOTE))).identity != noted
    measured = CriticNotes(notes=(NOTE, OTHER), measured=MEASURED)
    assert Critic(chat, notes=measured).identity == noted
    assert Critic(chat, notes=notes).continuing(frozenset({"0"})).identity == noted


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    notes = CriticNotes(notes=(NOTE, OTHER), measured=MEASURED)
    path = notes.save(tmp_path / "notes")
    assert CriticNotes.load(path) == CriticNotes.load(tmp_path / "notes") == notes
    fields = json.loads(path.read_text())
    del fields["measured"]
    path.write_text(json.dumps(fields))
    assert CriticNotes.load(path).measured is None, "notes written by hand need no measurement"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format": "other"}, "does not contain critic's notes"),
        ({"version": 2}, "reads version 1"),
        ({"notes": []}, "notes"),
        ({"notes": [{"goal": "a", "success": True}] * (MAX_NOTES + 1)}, "notes"),
        ({"notes": [{"goal": "a" * 1_001, "success": True}]}, "notes.0.goal"),
        ({"notes": [{"goal": "a", "success": True, "image": "x.png"}]}, "notes.0.image"),
        ({"k" * 1_000: 1}, f"{'k' * 60} in"),
    ],
)
def test_a_damaged_file_is_an_error_that_names_it(tmp_path: Path, change: dict, said: str) -> None:
    path = CriticNotes(notes=(NOTE,)).save(tmp_path)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(SettingsError) as caught:
        CriticNotes.load(path)
    assert said in str(caught.value) and NOTES in str(caught.value) and len(str(caught.value)) < 600


def test_a_folder_without_notes_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="does not contain critic's notes"):
        CriticNotes.load(tmp_path)
    with pytest.raises(SettingsError, match="no such file"):
        CriticNotes.load(tmp_path / "absent.json")


def test_another_critic_than_the_measured_one_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    chat = ScriptedChat([SAID] * 2)
    critic = Critic(chat, notes=CriticNotes(notes=(NOTE,), measured=MEASURED))
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            critic.judge(BEFORE, AFTER, "a boat", "a boat")
    assert len(caplog.records) == 1 and "measured with hand" in caplog.text
    same = MEASURED.model_copy(update={"critic": chat.identity})
    caplog.clear()
    Critic(ScriptedChat([SAID] * 2), notes=CriticNotes(notes=(NOTE,), measured=same)).judge(
        BEFORE, AFTER, "a boat", "a boat"
    )
    assert not caplog.records


def test_a_run_with_other_notes_is_judged_again_and_not_generated_again(tmp_path: Path) -> None:
    plan, generator = Plan(steps=(Step(number=1, prompt="a boat"),)), Counting()

    def asked(*notes: CriticNote) -> int:
        chat = ScriptedChat([SAID])
        critic = Critic(chat, notes=CriticNotes(notes=notes) if notes else None)
        list(run(Request(text="a boat"), None, generator, critic, RunSettings(), Journal(tmp_path), plan))
        return len(chat.requests)

    calls = [asked(), asked(), asked(NOTE), asked(NOTE), asked(OTHER), asked()]
    assert calls == [1, 0, 1, 0, 1, 0] and len(generator.drawn) == 1


def test_the_command_line_reads_the_notes(tmp_path: Path) -> None:
    AFTER.image.save(tmp_path / "a.png")
    critic = Scripts(tmp_path).critic(verdict_reply(True))
    given = ["judge", "none", tmp_path / "a.png", "a boat", *critic, "--critic-notes", tmp_path / "notes"]
    missing = call(*given)
    assert missing.exit_code == 2 and "no such file" in missing.output
    CriticNotes(notes=(NOTE,), measured=MEASURED).save(tmp_path / "notes")
    assert call(*given).exit_code == 0
