"""Surrogate halves from outside become valid text before they are stored."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from interleave_thinker import Message, Picture, Reply
from interleave_thinker.backend.core.prompts.importer import CONSTANTS, import_official
from interleave_thinker.backend.core.shown_text import valid_text
from interleave_thinker.backend.core.types import Fault, Plan, Request, Step, Verdict
from interleave_thinker.backend.models.chat.scripted import ScriptedChat
from interleave_thinker.backend.models.judge import ChatJudge
from interleave_thinker.backend.story.execution_record.reader import read_record
from interleave_thinker.backend.story.journal.choices import ask_redraw

RUN = Path(__file__).parents[1] / "data" / "run"
ANY = st.text(st.sampled_from(["a", "é", "😀", "\ud83d", "\ude00", "\udcff"]), max_size=12)


@given(ANY)
def test_a_repaired_text_is_valid_and_stays_as_it_is(text: str) -> None:
    valid = valid_text(text)
    valid.encode()
    assert valid_text(valid) == valid


@given(st.text(st.characters(codec="utf-8"), max_size=50))
def test_valid_texts_stay_as_they_are(text: str) -> None:
    assert valid_text(text) == text


def test_every_value_contains_valid_texts() -> None:
    plan = Plan.model_validate(
        {"steps": [{"number": 1, "prompt": "a \ud83d\ude00 \ud800"}], "style": "\udcff"}
    )
    assert plan.steps[0].prompt == "a 😀 \ufffd" and plan.style == "\ufffd"
    for value in (
        Request(text="\ud800"),
        Verdict(success=None, reasoning="\ud800", refined_prompt="\ud800"),
        Fault(where="critic", message="\ud800"),
        Step(number=1, prompt="\ud800"),
        Reply(text="\ud800"),
        Message(role="user", content=("\ud800", Picture.white((4, 4)), "b")),
        plan,
    ):
        assert "\ufffd" in value.model_dump_json()


def test_a_judge_accepts_lone_surrogates() -> None:
    chat = ScriptedChat(["\ud83d nothing", "<answer>[8, 7]</answer>", "<answer>[9, 6]</answer>"])
    score = ChatJudge(chat).score(None, Picture.white((8, 8)), "draw \ud800")
    assert (score.semantics, score.quality) == (7.0, 6.0)


def test_an_imported_prompt_set_can_be_stored_and_read_again(tmp_path: Path) -> None:
    lines = [f'{name} = "\\ud800 {" ".join(slots)}"' for name, (_, slots) in CONSTANTS.items()]
    module = tmp_path / "system.py"
    module.write_text("\n".join(lines))
    prompts = import_official(module)
    prompts.save(tmp_path / "set")
    assert type(prompts).load(tmp_path / "set") == prompts and prompts.critic.startswith("\ufffd")
    assert prompts.digest


def test_a_redraw_can_be_requested_with_any_argument(tmp_path: Path) -> None:
    import shutil

    folder = tmp_path / "run"
    shutil.copytree(RUN, folder)
    choices = ask_redraw(folder, 1, prompt="caf\udce9")
    assert choices.redraws[1][-1].prompt == "caf\ufffd"
    assert "caf\ufffd" in (folder / "choices.json").read_text(encoding="utf-8")


def test_a_record_of_elsewhere_is_read(tmp_path: Path) -> None:
    half = "\\ud83d\\ud83d\\ude00"
    entry = f'{{"step": 1, "prompt": "{half}", "refine_prompt": "{half}", "reasoning": "{half}"}}'
    record = f'{{"user_input": "\\ud800", "steps": [{entry}], "refine_prompt_is": "proposal"}}'
    (tmp_path / "execution_record.json").write_text(record)
    read = read_record(tmp_path)
    assert read.user_input == "\ufffd" and read.entries[0].prompt == read.entries[0].reasoning == "\ufffd😀"
