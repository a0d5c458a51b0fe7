"""Prompt sets: the pack's own, filling in one pass, and the import of the official one without execution."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from support.stories import make_trajectory

from interleave_thinker import Message, Picture, Request, SettingsError, Trajectory, export_by_name
from interleave_thinker.backend.core.answers.long_plan import read_outline, read_part
from interleave_thinker.backend.core.answers.reading import read_plan, read_verdict
from interleave_thinker.backend.core.prompts.importer import MAX_MODULE, import_official, store_beside
from interleave_thinker.backend.core.prompts.prompt_set import (
    FORM_BEGINS,
    NAMES,
    PromptSet,
    default_prompt_set,
    fill,
    named_prompt_set,
    prompt_set_of,
)
from interleave_thinker.backend.output.report.run_report import report
from interleave_thinker.backend.story.agents.critic import critic_message
from interleave_thinker.backend.story.agents.planner import planner_message

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


@pytest.mark.parametrize("template", ["planner_text", "planner_images", "planner_outline", "planner_part"])
def test_examples_of_a_planner_are_answers_that_can_be_read(template: str) -> None:
    """A placeholder would be copied by small models; these are whole answers, which the readers accept."""
    text = getattr(default_prompt_set(), template)
    begin = text.index("<think>")
    example = text[begin : text.index("</answer>", begin) + len("</answer>")]
    if template == "planner_outline":
        outline = read_outline(example)
        assert len(outline.lines) == 3 and "octopus" in outline.always
        return
    plan = read_part(example, range(2, 3)) if template == "planner_part" else read_plan(example)
    assert all(step.name and (step.prompt or step.auxiliary_text) for step in plan.steps)
    assert not re.search(r"null\b|\.\.\.", " ".join(step.prompt or "" for step in plan.steps))


@pytest.mark.parametrize("name", NAMES)
def test_examples_of_a_critic_are_answers_that_can_be_read(name: str) -> None:
    text = named_prompt_set(name).critic
    form = text[text.index("An example of a step that failed") :]
    failed, _, succeeded = form.partition("An example of a step that succeeded")
    first, second = (
        read_verdict(failed[failed.index("<") :]),
        read_verdict(succeeded.partition("</answer>")[0] + "</answer>"),
    )
    assert (first.success, second.success) == (False, True)
    assert "octopus" in first.refined_prompt


def beginning(first: Message, second: Message) -> float:
    """Share of the second question, in words and images, that is the same as the first from the beginning."""
    words: list[list[str]] = []
    for message in (first, second):
        words.append([])
        for part in message.content:
            words[-1] += [part.digest] if isinstance(part, Picture) else re.findall(r"\w+|\W", part)
    same = next(
        (at for at, pair in enumerate(zip(*words, strict=False)) if pair[0] != pair[1]), len(words[1])
    )
    return same / len(words[1])


def image(shade: int) -> Picture:
    return Picture(Image.new("RGB", (8, 8), (shade, 0, 0)))


@pytest.mark.parametrize(("form", "share"), [(None, 0.95), ("planner_outline", 0.9), ("planner_part", 0.8)])
@pytest.mark.parametrize("images", [(), (image(1),)])
def test_two_requests_share_a_prefix(form: str | None, share: float, images: tuple[Picture, ...]) -> None:
    own = default_prompt_set()
    values = dict.fromkeys(("how_many", "outline", "always", "so_far", "count", "first", "last"), "Seven.")
    first, second = (
        planner_message(
            own, Request(text=text, images=images), getattr(own, form) if form else None, **values
        )
        for text in ("Draw a house in 3 steps.", "Tell a story about two boats in a storm.")
    )
    assert beginning(first, second) >= share


@pytest.mark.parametrize("name", NAMES)
def test_attempts_and_steps_share_a_prefix(name: str) -> None:
    """Attempts share the image before the step and the goal, and all steps the instructions."""
    own = named_prompt_set(name)
    goal = "Put a red boat on the sea."
    attempt = critic_message(own, (image(1), image(2)), goal, "A red boat on the sea.")
    other = critic_message(own, (image(1), image(3)), goal, "One bright red boat in the middle of the sea.")
    candidate = critic_message(own, (image(1), image(4)), goal, "A red boat on the sea.")
    step = critic_message(own, (image(5), image(6)), "Add a moon.", "A moon.")
    assert beginning(attempt, other) >= 0.93
    assert beginning(attempt, candidate) >= 0.98
    assert beginning(attempt, step) >= 0.85
    # Behind the instructions come, in this order, what is the same for a step and what an attempt changes.
    before, after = (index for index, part in enumerate(attempt.content) if isinstance(part, Picture))
    between = attempt.content[before + 1 : after]
    assert goal in "".join(map(str, between)) and FORM_BEGINS in str(attempt.content[0])


def test_the_number_of_steps_is_the_last_line_of_a_question() -> None:
    own = default_prompt_set()

    def last_line(text: str) -> str:
        return str(planner_message(own, Request(text=text)).content[-1]).strip().splitlines()[-1]

    assert last_line("Draw a house in 4 steps.") == "Write exactly 4 steps."
    assert last_line("In exactly one step: a house.") == "Write exactly 1 step."
    assert last_line("Draw a house in 3 to 5 steps.") == "Write from 3 to 5 steps."
    assert last_line("Draw a house.") == "Draw a house."


def test_a_set_with_parts_is_stored_with_them_and_one_without_has_none(tmp_path: Path) -> None:
    own = default_prompt_set()
    own.save(tmp_path)
    assert PromptSet.load(tmp_path) == own and own.has_parts
    whole = own.in_one_reply()
    whole.save(tmp_path)
    assert PromptSet.load(tmp_path) == whole and not whole.has_parts
    assert len(list(tmp_path.iterdir())) == 3
    assert whole.digest != own.digest


def test_incomplete_part_templates_raise_a_clear_error(tmp_path: Path) -> None:
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


def test_the_official_prompts_are_read_without_running_code(tmp_path: Path) -> None:
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
def test_another_module_raises_a_clear_error(source: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=said):
        import_official(checkout(tmp_path, source))


def test_no_checkout_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"UEval/system\.py"):
        import_official(tmp_path)


STORED = {"default": "e306dacd436046fd", "verdict-first": "f283c4114e1fc179", "short": "93f449b8d5991cec"}
"""Digests of the prompt sets in runs and checkpoints of 0.2.0 and later."""


def test_a_stored_run_keeps_its_prompt_sets() -> None:
    """A run whose prompt set has another digest asks its agents everything again."""
    assert {name: named_prompt_set(name).digest for name in NAMES} == STORED
    assert default_prompt_set().digest == "663a02b92eb2723c"


def test_runs_name_the_prompt_sets_of_the_pack(tmp_path: Path) -> None:
    def made_with(digests: str) -> Trajectory:
        made = make_trajectory()
        identities = made.identities.model_copy(update={"prompt_set": digests})
        return made.model_copy(update={"identities": identities})

    both = f"{default_prompt_set().digest}+abc+{STORED['short']}"
    assert report(made_with(both)).endswith("\n\nPrompt set: default, abc, short")
    assert "Prompt set" not in report(made_with(""))
    for name in ("page", "markdown"):
        written = export_by_name(name, made_with(both), tmp_path).read_text(encoding="utf-8")
        assert "default, abc, short" in written
