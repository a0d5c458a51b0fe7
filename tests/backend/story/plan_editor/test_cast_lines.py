"""The cast in plan texts: exact round trips in both forms, hand-written forms, errors and merging."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interleave_thinker.backend.core.types import CastMember, Plan, Step, StepImage
from interleave_thinker.backend.story.plan_editor.edited_plan import EditedPlan, EditedStep, PlanTextError
from interleave_thinker.backend.story.plan_editor.json_form import write_json
from interleave_thinker.backend.story.plan_editor.merge import apply_edits, editable, read_edits, step_digest
from interleave_thinker.backend.story.plan_editor.outline import write_outline

OUTLINE = """character: Mia
   trait: girl of seven
   trait: red coat
   image: mia.png

prop: Lamp

1. Night
   draw: Mia at the door
   cast: Mia, Lamp
   fact: the lamp is lit

2. draw: nothing
   cast: -"""
MIA = CastMember(name="Mia", traits=("girl of seven", "red coat"), images=(StepImage(name="mia.png"),))
LAMP = CastMember(name="Lamp", kind="prop")
PLAN = Plan(
    steps=(
        Step(
            number=1, name="Night", prompt="Mia at the door", cast=("Mia", "Lamp"), facts=("the lamp is lit",)
        ),
        Step(number=2, prompt="an empty hall", cast=()),
        Step(number=3, prompt="Mia sleeps"),
    ),
    cast=(MIA, LAMP),
)

TEXTS = ["a", "  b ", '\\"c"', "draw: d", "é", "1. e", "| f", "-", "g\u2028h", "[locked]", "trait: i"]
texts = st.sampled_from(TEXTS) | st.text(min_size=1, max_size=8).filter(lambda text: bool(text.split()))
names = st.sampled_from(["Mia", "Tom [locked]", '"x"', "1. y", "made from", "Ω", '\\"z"'])


@st.composite
def plans(draw: st.DrawFn) -> EditedPlan:
    members = [
        CastMember(
            name=name,
            kind=draw(st.sampled_from(["character", "prop", "place"])),
            traits=draw(st.lists(texts, max_size=4)),
            images=[StepImage(name=one) for one in draw(st.lists(texts, max_size=4))],
        )
        for name in draw(st.lists(names, unique=True, max_size=4))
    ]
    known = [member.name for member in members]
    listed = st.lists(st.sampled_from(known), unique=True) if known else st.just([])
    steps = [
        Step(
            number=number,
            prompt="a",
            cast=draw(st.none() | listed),
            facts=draw(st.lists(texts, max_size=3)),
        )
        for number in range(1, draw(st.integers(1, 3)) + 1)
    ]
    return EditedPlan(steps=tuple(EditedStep(step=step) for step in steps), cast=tuple(members))


@given(plans())
def test_both_forms_are_read_back_exactly(plan: EditedPlan) -> None:
    assert read_edits(write_outline(plan)) == plan
    assert read_edits(write_json(plan)) == plan


def test_an_outline_is_written_as_documented_and_read_as_a_plan() -> None:
    edits = EditedPlan(steps=editable(PLAN).steps[:1], cast=PLAN.cast)
    assert write_outline(edits) == OUTLINE.partition("\n\n2.")[0]
    by_hand = "Place: Harbor\n trait: fog\n1. Dawn\n draw: boats\n Cast: harbor\n facts are not fields"
    with pytest.raises(PlanTextError, match="step 1"):
        read_edits(by_hand)
    read = read_edits(by_hand.rpartition("\n")[0])
    assert read is not None
    assert read.cast == (CastMember(name="Harbor", kind="place", traits=("fog",)),)
    assert read.steps[0].step.cast == ("harbor",)


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("character: A|B\n1. a house", 1, "member 'A|B', name: a name is one line"),
        ("prop: \n1. a house", 1, "a name is one line"),
        (
            "prop: Lamp\n trait: a\n trait: b\n trait: c\n trait: d\n trait: e\n1. x",
            1,
            "member 'Lamp', traits",
        ),
        ("1. x\n draw: a\n cast: Mia\n cast: Tom", 4, "step 1, cast: the step already has this field"),
        ("1. x\n draw: a\n fact: " + "a" * 201, 1, "step 1, facts"),
    ],
)
def test_errors_name_the_line_and_the_member(text: str, line: int, reason: str) -> None:
    with pytest.raises(PlanTextError, match=reason.replace("|", r"\|")) as caught:
        read_edits(text)
    assert caught.value.line == line


def test_json_errors_name_the_member_and_field() -> None:
    plan = {"cast": [{"name": "Mia", "kind": "animal"}], "execution_plan": [{"prompt": "a"}]}
    with pytest.raises(PlanTextError, match="The cast, member 'Mia', kind: it must be"):
        read_edits(json.dumps(plan))


def test_edits_without_a_cast_keep_the_planners() -> None:
    edits = read_edits("1. Mia runs\n   cast: mia")
    assert edits is not None
    assert apply_edits(edits, PLAN).plan.cast == PLAN.cast
    with pytest.raises(PlanTextError, match="'mia', who is not in the cast"):
        apply_edits(edits, None)
    own = read_edits("character: Mia\n   trait: tall\n\n1. Mia runs")
    assert own is not None
    assert apply_edits(own, PLAN).plan.cast == (CastMember(name="Mia", traits=("tall",)),)


def test_a_changed_list_is_a_change_of_the_step_and_no_list_keeps_the_old_digest() -> None:
    step = PLAN.steps[2]
    assert step_digest(step) == "ef8dcb61"
    assert step_digest(step.model_copy(update={"cast": ("Mia",)})) != step_digest(step)
    assert step_digest(step.model_copy(update={"facts": ("it rains",)})) != step_digest(step)


def test_a_connected_cast_replaces_the_planners_and_the_text_adds_to_it() -> None:
    photo = StepImage(name="pictures/1.png")
    connected = (CastMember(name="Tom", traits=("green cap",), images=(photo,)), CastMember(name="Mia"))
    plan = Plan(steps=(Step(number=1, prompt="x"),), reasoning="short", warning="late")
    assert apply_edits(None, plan, connected).plan == plan.model_copy(update={"cast": connected})
    own = read_edits("character: tom\n   trait: tall\n\nprop: Lamp\n\n1. Tom runs\n   cast: Mia, Lamp")
    tom = CastMember(name="tom", traits=("tall",), images=(photo,))
    joined = (tom, connected[1], CastMember(name="Lamp", kind="prop"))
    assert apply_edits(own, None, connected).plan.cast == joined
    assert apply_edits(own, plan, connected).plan.cast == joined


def test_a_connected_cast_is_checked_with_the_text() -> None:
    many = tuple(CastMember(name=f"M{number}") for number in range(16))
    own = read_edits("prop: Lamp\n\n1. a")
    with pytest.raises(PlanTextError, match="have 17 members together; the maximum is 16"):
        apply_edits(own, None, many)
    twice = read_edits("prop: Lamp\n\nprop: lamp\n\n1. a")
    with pytest.raises(PlanTextError, match="The cast of the text: the cast has two members named 'lamp'"):
        apply_edits(twice, None, many)
    with pytest.raises(PlanTextError, match="step 1 names 'Mia', who is not in the cast"):
        apply_edits(None, PLAN, many)
