"""Items of a checklist: their kinds, what is derived from a prompt and its cast, and how they are written."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from interleave_thinker.backend.core.types import CastMember, Plan, Step, Verdict
from interleave_thinker.backend.core.types.checklist import (
    MAX_ITEMS,
    CheckedItem,
    ChecklistItem,
    derived,
    kind_of,
    named_failures,
)
from interleave_thinker.backend.story.plan_editor.json_form import read_json, write_json
from interleave_thinker.backend.story.plan_editor.merge import editable, step_digest
from interleave_thinker.backend.story.plan_editor.outline import read_outline, write_outline

MIA = CastMember(name="Mia", traits=("red coat", "freckles"))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("there are exactly three cats", "count"),
        ("3 red balloons", "count"),
        ("two hours later it is dark", "other"),
        ("Mia has a red coat", "color"),
        ("the cat is on the left", "place"),
        ('the sign says "3 red cats"', "text"),
        ("her hands have five fingers", "count"),
        ("her left hand is whole", "anatomy"),
        ("nothing else changed", "other"),
    ],
)
def test_words_decide_the_kind(text: str, kind: str) -> None:
    assert kind_of(text) == kind
    assert ChecklistItem.model_validate(text) == ChecklistItem.model_validate({"text": text, "kind": kind})


def test_numbers_quotes_traits_and_facts_become_items() -> None:
    prompt = 'Mia holds three red balloons next to a sign "NO 2 DOGS". Two hours passed.'
    items = derived(prompt, (MIA,), ("the lantern is lit",))
    assert [(item.kind, item.text) for item in items] == [
        ("text", 'the text "NO 2 DOGS" is readable'),
        ("count", "there are three red balloons"),
        ("color", "Mia: red coat"),
        ("identity", "Mia: freckles"),
        ("other", "the lantern is lit"),
    ]


def test_a_long_prompt_has_a_bounded_checklist_without_duplicates() -> None:
    prompt = " ".join(f'"word {number}"' for number in range(40)) + ' "word 1"'
    items = derived(prompt)
    assert len(items) == MAX_ITEMS == len(set(items))


def test_words_of_any_length_are_no_error() -> None:
    assert derived(f"2 {'a' * 99_000}s") == ()
    assert derived(f"2 {'a' * 300} {'b' * 300}s and two cats")[0].text == "there are two cats"


def test_a_long_reasoning_has_room_for_the_failed_items() -> None:
    reasoning = named_failures("a" * 100_000, ["two boats", "a moon"])
    assert len(reasoning) == 100_000 and reasoning.endswith("a Not true: two boats; a moon.")


def test_steps_and_verdicts_without_items_are_written_as_before() -> None:
    assert "checklist" not in Step(number=1, prompt="a").model_dump()
    assert "items" not in Verdict(success=True).model_dump()
    step = Step(number=1, prompt="a", checklist=(ChecklistItem(text="b", kind="count"),))
    assert Step.model_validate_json(step.model_dump_json()) == step
    verdict = Verdict(success=False, items=(CheckedItem(text="b", probability=0.1, passed=False),))
    assert Verdict.model_validate_json(verdict.model_dump_json()) == verdict


def test_too_many_items_are_an_error() -> None:
    with pytest.raises(ValidationError):
        Step(number=1, prompt="a", checklist=tuple(ChecklistItem(text=str(n)) for n in range(MAX_ITEMS + 1)))


def test_an_edited_plan_keeps_its_checklists() -> None:
    items = (
        ChecklistItem(text="there are two boats", kind="count"),
        ChecklistItem(text="it is the same boat", kind="identity"),
        ChecklistItem(text="[color] is odd", kind="other"),
    )
    plan = Plan(steps=(Step(number=1, prompt="two boats", checklist=items), Step(number=2, prompt="dawn")))
    edited = editable(plan)
    assert read_json(write_json(edited)).steps == edited.steps
    outline = write_outline(edited)
    assert "check: there are two boats\n" in outline and "check: [identity] it is the same boat" in outline
    assert read_outline(outline).steps == edited.steps
    bare = plan.steps[0].model_copy(update={"checklist": ()})
    assert step_digest(bare) != step_digest(plan.steps[0]), "a changed checklist is a changed step"


def test_a_written_item_may_be_a_text() -> None:
    told = (
        '[{"prompt": "two boats", "checklist": ["there are two boats", {"text": "dawn", "kind": "place"}]}]'
    )
    assert [(one.text, one.kind) for one in read_json(told).steps[0].step.checklist] == [
        ("there are two boats", "count"),
        ("dawn", "place"),
    ]
