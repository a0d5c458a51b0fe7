"""Prompt sets: the pack's own wording, filling in one pass, and the import of the official wording without
running it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interleave_thinker.backend.errors import SettingsError
from interleave_thinker.backend.prompts import default_prompt_set, fill, prompt_set_of
from interleave_thinker.backend.prompts.importer import MAX_MODULE, import_official, store_beside

OFFICIAL = '''
import os
raise RuntimeError("this must never run")
OTHER: str = "{text_input}" "!"
NARRATIVE_PROMPT_JSON = """Plan {text_input}
as {"a": 1}."""
GUIDANCE_GLOBAL_PROMPT_JSON = ("Look, " "then plan "
    + OTHER).strip()
Iterative_T2I_PROMPT_QWEN: str = "<image><image>" + "judge {original_instruction} / {rewritten_prompt}"
def later():
    NARRATIVE_PROMPT_JSON = "not this"
'''


def checkout(folder: Path, source: str) -> Path:
    (folder / "UEval").mkdir(parents=True)
    (folder / "UEval" / "system.py").write_text(source, encoding="utf-8")
    return folder


def test_the_packs_own_templates_are_complete() -> None:
    own = default_prompt_set()
    for template in (own.planner_text, own.planner_images):
        assert template.count("{text_input}") == 1
        for key in ("execution_plan", "step_number", "step_name", "instruction", "prompt", "auxiliary_text"):
            assert f'"{key}"' in template
    assert own.critic.count("{original_instruction}") == own.critic.count("{rewritten_prompt}") == 1
    for key in ("previous_step_success", "refine_prompt"):
        assert f'"{key}"' in own.critic
    for template in (own.planner_text, own.planner_images, own.critic):
        assert "<think>" in template and "<answer>" in template
        assert "<image>" not in template
        assert len(template) < 4000


@given(st.text(), st.text())
def test_values_are_never_scanned_for_slots(first: str, second: str) -> None:
    template = "{original_instruction}|{rewritten_prompt}"
    hostile = first + "{rewritten_prompt}{original_instruction}"
    assert fill(template, original_instruction=hostile, rewritten_prompt=second) == f"{hostile}|{second}"


def test_the_official_wording_is_read_without_running_it(tmp_path: Path) -> None:
    imported = import_official(checkout(tmp_path / "repository", OFFICIAL))
    assert imported.planner_text == 'Plan {text_input}\nas {"a": 1}.'
    assert imported.planner_images == "Look, then plan {text_input}!"
    assert imported.critic == "<image><image>judge {original_instruction} / {rewritten_prompt}"
    assert import_official(tmp_path / "repository" / "UEval" / "system.py") == imported


def test_an_imported_set_is_stored_beside_a_checkpoint(tmp_path: Path) -> None:
    imported = import_official(checkout(tmp_path / "repository", OFFICIAL))
    checkpoint = tmp_path / "checkpoint"
    with pytest.raises(SettingsError, match="checkpoint"):
        store_beside(imported, checkpoint)
    checkpoint.mkdir()
    assert prompt_set_of(checkpoint) is None
    assert store_beside(imported, checkpoint) == checkpoint / "prompt_set"
    stored = prompt_set_of(checkpoint)
    assert stored == imported
    assert stored is not None and stored.digest == imported.digest != default_prompt_set().digest


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (OFFICIAL.replace("NARRATIVE", "NARRATION"), "NARRATIVE_PROMPT_JSON"),
        (OFFICIAL.replace("{rewritten_prompt}", ""), r"lacks the slot \{rewritten_prompt\}"),
        (OFFICIAL.replace('"<image><image>" +', "os.getcwd() +"), "Iterative_T2I_PROMPT_QWEN"),
        (OFFICIAL.replace('"<image><image>" +', "f'{os.sep}' +"), "Iterative_T2I_PROMPT_QWEN"),
        ("this is: not python", "not a Python module"),
        ("(" * 5000, "not a Python module"),
        ("\0", "not a Python module"),
        ("#" * (MAX_MODULE + 1), "larger than"),
        (OFFICIAL + "\nA = 'x'\n" + "A = A + A\n" * 60 + "NARRATIVE_PROMPT_JSON = A", "plain string"),
        (
            "A = '" + "x" * 99_999 + "'\n" + "".join(f"A{n} = A + A\n" for n in range(9000)),
            "32000000 characters",
        ),
        (OFFICIAL + "\nNARRATIVE_PROMPT_JSON = print('no string')", "NARRATIVE_PROMPT_JSON"),
        (
            "NARRATIVE_PROMPT_JSON = '{text_input}"
            + "a" * 200_000
            + "'"
            + OFFICIAL.replace("NARRATIVE", "X"),
            "more than|200000",
        ),
    ],
)
def test_another_module_is_refused_in_words(source: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=said):
        import_official(checkout(tmp_path, source))


def test_no_checkout_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"UEval/system\.py"):
        import_official(tmp_path)
