"""Prompt sets: the pack's own, filling in one pass, and the import of the official one without execution."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interleave_thinker.backend.errors import SettingsError
from interleave_thinker.backend.prompts import (
    FORM_BEGINS,
    NAMES,
    PromptSet,
    default_prompt_set,
    fill,
    named_prompt_set,
    prompt_set_of,
)
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


PLANNER_POINTS = {
    "step 1 shows its own stage": r"shows the (?:first|next) stage and nothing of the later",
    "the last step is finished work": r"last step shows the whole thing finished: no draft",
    "state goes on": r"What has happened stays so: a cake that was cut stays cut",
    "numbers, sides, clothes and props": r"how many .* left .* right, what people wear and what they hold",
    "the prompt is only the prompt": r"nothing but the picture: no number or title of the step",
    "no image that the model has not got": r'no "previous image"',
    "drawn words in quotes": r"stand in 'quotes', letter by letter, in the instruction and in the prompt",
    "captions only if asked for": r'"auxiliary_text" is null unless the request asks for words',
    "captions share the prompt's nouns": r"by the same nouns as the prompt of its step",
    "steps of words only if asked for": r"only where the request asks for words without a picture",
    "the number of steps": r"number of images, follow it exactly|exactly as many pictures as it names",
    "numbers go on": r"number on from there; otherwise begin with 1",
}
CRITIC_POINTS = {
    "a fault finder": r"look for faults",
    "limbs and fingers": r"count heads, arms, legs and fingers",
    "impossible places": r"nothing grows from where it cannot",
    "faces": r"faces are whole",
    "physics and scale": r"of a likely size beside each other, standing or held by something",
    "text in the image": r"letter by letter",
    "text that nobody wanted": r"Lettering that nobody asked for is a fault",
    "bleeding": r"runs into another, or a background that shows through",
    "identity and style": r"who it is, clothes, things, place, style",
    "first image": r"subject, surroundings, light, point of view, composition and style, and leave out",
    "vague": r"exact colour, number, place and size",
    "contradictions": r"keep what the goal says, drop the rest",
    "places": r"by what is beside it and by the edge of the image",
    "degree": r"words of degree by what is to be seen",
    "what stays": r"stays as it is in the first image",
}


@pytest.mark.parametrize("point", PLANNER_POINTS)
@pytest.mark.parametrize("template", ["planner_text", "planner_images"])
def test_a_planner_is_told_every_point(template: str, point: str) -> None:
    assert re.search(PLANNER_POINTS[point], getattr(default_prompt_set(), template))


def test_a_planner_with_images_tells_answering_from_going_on() -> None:
    text = default_prompt_set().planner_images
    assert re.search(
        r"asks about the images \(describe.*every step is words alone.*as many steps as it asks for", text
    )
    assert re.search(r"asks to go on.*exactly as many pictures as it names", text)


@pytest.mark.parametrize("point", CRITIC_POINTS)
@pytest.mark.parametrize("name", NAMES)
def test_a_critic_is_told_every_point(name: str, point: str) -> None:
    assert re.search(CRITIC_POINTS[point], named_prompt_set(name).critic)


def test_the_parts_of_a_long_plan_are_asked_for_in_full() -> None:
    """The rules for steps and prompts come before the answer format, which the parts replace."""
    own = default_prompt_set()
    for point in PLANNER_POINTS.values():
        for template in (own.planner_text, own.planner_images):
            assert re.search(point, template.partition(FORM_BEGINS)[0])
    outline, part = own.planner_outline or "", own.planner_part or ""
    assert {slot: outline.count(slot) for slot in ("{text_input}", "{how_many}")} == {
        "{text_input}": 1,
        "{how_many}": 1,
    }
    for slot in ("{text_input}", "{outline}", "{always}", "{so_far}", "{count}"):
        assert part.count(slot) == 1
    for key in (
        "execution_plan",
        "step_number",
        "step_name",
        "instruction",
        "prompt",
        "auxiliary_text",
        "state",
    ):
        assert f'"{key}"' in part
    assert '"outline"' in outline and '"always"' in outline


def test_a_set_with_parts_is_stored_with_them_and_one_without_has_none(tmp_path: Path) -> None:
    own = default_prompt_set()
    own.save(tmp_path)
    assert PromptSet.load(tmp_path) == own and own.has_parts
    whole = own.in_one_reply()
    whole.save(tmp_path)
    assert PromptSet.load(tmp_path) == whole and not whole.has_parts
    assert len(list(tmp_path.iterdir())) == 3
    assert whole.digest != own.digest


def test_half_of_the_parts_is_a_clear_error(tmp_path: Path) -> None:
    own = default_prompt_set()
    own.save(tmp_path)
    (tmp_path / "planner_part.txt").unlink()
    with pytest.raises(SettingsError, match=r"planner_outline\.txt is there.*planner_part"):
        PromptSet.load(tmp_path)
    own.save(tmp_path)
    (tmp_path / "planner_text.txt").write_text("Plan {text_input}.")
    with pytest.raises(SettingsError, match="Answer in exactly this form"):
        PromptSet.load(tmp_path)


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
        (OFFICIAL.replace("{rewritten_prompt}", ""), r"does not have the slot \{rewritten_prompt\}"),
        (OFFICIAL.replace('"<image><image>" +', "os.getcwd() +"), "Iterative_T2I_PROMPT_QWEN"),
        (OFFICIAL.replace('"<image><image>" +', "f'{os.sep}' +"), "Iterative_T2I_PROMPT_QWEN"),
        ("this is: not python", "as a Python module"),
        ("(" * 5000, "as a Python module"),
        ("\0", "as a Python module"),
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
