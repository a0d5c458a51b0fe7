"""Plans as editable text: exact round trips, hand-written forms, errors with their place, and merging."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interleave_thinker.backend.core.types import CastMember, Plan, Step, StepImage, StepLora, StepSettings
from interleave_thinker.backend.story.plan_editor.edited_plan import (
    MAX_PLAN_TEXT,
    EditedPlan,
    EditedStep,
    PlanTextError,
)
from interleave_thinker.backend.story.plan_editor.json_form import write_json
from interleave_thinker.backend.story.plan_editor.merge import apply_edits, editable, read_edits, step_digest
from interleave_thinker.backend.story.plan_editor.outline import write_outline

# Any text, and texts that look like the outline's own marks.
MARKS = ["draw: a", "text:", "1. two", "| a", "|", "[locked]", "made from: 12", '\\"a"', "\\", '"a"', "\n",
" ", "\r", "\x85", "\u2028", "日本：", "{", "["]  # fmt: skip
pieces = st.one_of(st.sampled_from(MARKS), st.text(max_size=8))
words = st.lists(pieces, max_size=5).map("".join)
maybe = st.none() | words


own_settings = st.builds(
    StepSettings,
    source=st.none() | st.sampled_from(["previous", "first", "anchor", "text"]) | st.integers(1, 10**9 - 1),
    seed=st.none() | st.integers(0, 2**48),
    tries=st.none() | st.integers(1, 100),
    denoise=st.none() | st.floats(0.0, 1.0, exclude_min=True),
    negative=maybe,
    mask=st.none() | words.filter(bool).map(lambda name: StepImage(name=name)),
    reference=st.none() | words.filter(bool).map(lambda name: StepImage(name=name)),
    size=st.none() | st.builds("{}x{}".format, st.integers(16, 8192), st.integers(16, 8192)),
) | st.builds(
    StepSettings,
    lora=st.sampled_from(["a.safetensors", "  styles/日本 *0.5.safetensors", "b\\c.safetensors"]).map(
        lambda name: StepLora(name=name)
    ),
    lora_strength=st.none() | st.floats(-100.0, 100.0),
)


@st.composite
def edited_plans(draw: st.DrawFn) -> EditedPlan:
    numbers = draw(st.lists(st.integers(1, 10**9), min_size=1, max_size=5, unique=True).map(sorted))
    steps = []
    for number in numbers:
        fields = {
            "name": draw(words),
            "instruction": draw(maybe),
            "prompt": draw(maybe),
            "auxiliary_text": draw(maybe),
        }
        if not (fields["prompt"] or "").strip() and (fields["instruction"] or not fields["auxiliary_text"]):
            fields["prompt"] = None if fields["auxiliary_text"] else "a"
        settings, drawn = draw(own_settings), [one.step.number for one in steps if one.step.prompt]
        if isinstance(settings.source, int):
            settings = settings.model_copy(update={"source": draw(st.sampled_from([None, *drawn]))})
        fields["settings"] = settings
        steps.append(EditedStep(step=Step(number=number, **fields), locked=draw(st.booleans())))
    made_from = draw(st.lists(st.text("0123456789abcdef", min_size=8, max_size=8), max_size=3))
    return EditedPlan(steps=tuple(steps), made_from=tuple(made_from), style=draw(words))


@given(edited_plans())
def test_an_outline_is_read_back_exactly(plan: EditedPlan) -> None:
    assert read_edits(write_outline(plan)) == plan


@given(edited_plans())
def test_json_is_read_back_exactly(plan: EditedPlan) -> None:
    assert read_edits(write_json(plan)) == plan


@given(st.text(max_size=200) | st.lists(st.sampled_from(MARKS), max_size=12).map("\n".join))
def test_any_text_is_parsed_or_raises_one_line(text: str) -> None:
    try:
        edits = read_edits(text)
    except PlanTextError as error:
        assert "\n" not in str(error)
    else:
        assert edits is None or apply_edits(edits, None).plan.steps


def steps_of(text: str) -> tuple[Step, ...]:
    edits = read_edits(text)
    assert edits is not None
    return tuple(one.step for one in edits.steps)


def test_common_handwritten_forms_are_parsed() -> None:
    first, second, third = steps_of(
        "1) The harbour\r\n  Draw: a calm bay\r\n  at dawn\r\n\r\n  in mist\r\n  caption: Early.\r\n\r\n"
        "2. a red boat enters\r\n3. The end [Locked]\r\n  text：Good night.\r\n  draw:\r\n"
    )
    assert (first.name, first.prompt, first.auxiliary_text) == (
        "The harbour",
        "a calm bay\nat dawn\n\nin mist",
        "Early.",
    )
    assert (second.name, second.prompt) == ("", "a red boat enters")
    assert (third.name, third.prompt, third.auxiliary_text) == ("The end", None, "Good night.")


@pytest.mark.parametrize(
    ("numbers", "expected"), [([1, 3, 2], [1, 2, 3]), ([4, 4, 9], [4, 5, 6]), ([2, 5, 7], [2, 5, 7])]
)
def test_moved_and_added_steps_are_renumbered(numbers: list[int], expected: list[int]) -> None:
    text = "\n".join(f"{number}. step {index}" for index, number in enumerate(numbers))
    steps = steps_of(text)
    assert [step.number for step in steps] == expected
    assert [step.prompt for step in steps] == ["step 0", "step 1", "step 2"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a red house", r"Line 1: a plan starts with a step"),
        ("1. House\n\n2.\n  do: a", r"Line 3, step 2: it has neither a prompt nor an auxiliary text\. Add"),
        ("1. House\n do: a\n draw:\n text: a", r"Line 1, step 1: it has an instruction and an empty prompt"),
        (
            "1. House\n  drow: a house",
            r"Line 2, step 1: 'drow' is not a field\. The fields are draw, text, do, cast, fact, check, "
            r"source, seed, tries, size, denoise, negative, mask, reference, lora and lora_strength\.",
        ),
        ("1. House\n  draw: a\n  draw: b", r"Line 3, step 1, draw: the step already has this field"),
        ("0. House", r"Line 1: step numbers start at 1"),
        ('1. House\n  draw: \\"open', r"Line 2, step 1, draw: .* must be followed by"),
        ("1. a\nmade from: here", r"Line 2: this 'made from' line is damaged"),
        (f"1. House\n  draw: {'x' * 100_001}", "prompt: it must have at most 100000 characters"),
        ("\n".join(f"{n}. a" for n in range(1, 102)), r"Line 101: a plan can have at most 100 steps"),
        ("x" * (MAX_PLAN_TEXT + 1), r"has 1000001 characters; the maximum is 1000000"),
        ("1. a \ud800", r"Line 1: the text contains half a character"),
        ('{"execution_plan": [}', r"Line 1, column 21: the text is not JSON"),
        ('{"execution_plan": []}', r"does not have any steps"),
        ('{"execution_plan": [{"prompt": "a"}], "x": 1}', r"unknown field 'x'"),
        ('[\n {"prompt": "a"},\n {"step_number": 7, "prompt": 5}]', r"Line 3, step 7, prompt: .*be a text"),
        ('[\n {"prompt": "a"},\n {"promt": "a"}]', r"Line 3, step 2, promt: it is not a known name"),
        ('[{"prompt": "a", "prompt": "b"}]', r"'prompt' twice"),
        ('[{"prompt": "\\ud800"}]', r"Line 1, step 1, prompt"),
        ("1. a\n draw: b\n source: step 2\n2. c", "Step 1 edits the image of step 2, but that is not an"),
        ('[{"prompt": "a", "settings": {"source": 1}}]', "Step 1 edits the image of step 1"),
        ("1. a\n draw: b\n size: 1024", "Line 1, step 1, size: it must be WIDTHxHEIGHT with sides of 16"),
        ("1. a\n draw: b\n lora: ../a.safetensors", "step 1, lora: it must be the name of a file"),
        ("1. a\n draw: b\n lora_strength: 1", "step 1, settings: lora_strength is the strength of a lora"),
        ('[{"prompt": "a", "settings": {"sampler": "x"}}]', r"Line 1, step 1, sampler: it is not a known"),
        ("style: a\nstyle: b\n1. a", r"Line 2: the plan already has a style"),
        ('{"style": 5, "execution_plan": [{"prompt": "a"}]}', r"'style' is not a text"),
        ('[{"step_number": ' + "9" * 5000 + "}]", r"as JSON"),
    ],
)  # fmt: skip
def test_an_invalid_plan_raises_with_its_place(text: str, reason: str) -> None:
    with pytest.raises(PlanTextError, match=reason) as error:
        read_edits(text)
    assert "\n" not in str(error.value) and len(str(error.value)) < 300


def test_a_published_plan_is_parsed_correctly() -> None:
    published = [
        {"step_number": 0, "step_name": "a", "instruction": "i", "prompt": "p", "auxiliary_text": None},
        {"step_number": 1, "instruction": "only words", "prompt": None, "auxiliary_text": None},
    ]
    edited = read_edits(json.dumps({"execution_plan": published}))
    assert edited is not None
    assert [one.step for one in edited.steps] == [
        Step(number=1, name="a", instruction="i", prompt="p"),
        Step(number=2, auxiliary_text="only words"),
    ]
    assert [
        one.step.number for one in read_edits('[{"prompt": "a"}, {"number": 0, "prompt": "b"}]').steps
    ] == [1, 2]


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "unit", [" ", "\n", "|\n", "1.", "[locked] ", "a: ", "\\", '"', "{", "\t|", "made from: "]
)
def test_hostile_text_is_parsed_fast(unit: str) -> None:
    longest = unit * (MAX_PLAN_TEXT // len(unit))
    for text in (longest, "1. a" + unit * 200_000 + "b", "1. a\n text: b" + unit * 200_000):
        with suppress(PlanTextError):
            read_edits(text)


# Merging with what the planner writes


def plan(*prompts: str) -> Plan:
    return Plan(
        steps=tuple(Step(number=number, prompt=prompt) for number, prompt in enumerate(prompts, 1)),
        reasoning="because",
    )


def edited(base: Plan, change: dict[int, str] | None = None, lock: tuple[int, ...] = ()) -> EditedPlan:
    edits = editable(base)
    steps = tuple(
        EditedStep(
            step=one.step.model_copy(update={"prompt": (change or {}).get(one.step.number, one.step.prompt)}),
            locked=one.step.number in lock,
        )
        for one in edits.steps
    )
    return edits.model_copy(update={"steps": steps})


def prompts(plan: Plan) -> list[str | None]:
    return [step.prompt for step in plan.steps]


def test_no_edits_let_the_plan_through() -> None:
    assert read_edits(" \n") is None
    assert apply_edits(None, plan("a", "b")).plan == plan("a", "b")


def test_settings_of_a_step_are_an_edit_and_stay() -> None:
    first, second = steps_of(
        "1. a boat\n2. The sea\n draw: b\n source: Step 1\n seed: 7\n tries: 2\n denoise: .5"
    )
    assert first.settings == StepSettings() and step_digest(first) == step_digest(plan("a boat").steps[0])
    assert second.settings == StepSettings(source=1, seed=7, tries=2, denoise=0.5)
    base = editable(plan("a", "b"))
    seeded = base.steps[1].step.model_copy(update={"settings": StepSettings(seed=3)})
    edits = base.model_copy(update={"steps": (base.steps[0], EditedStep(step=seeded))})
    merged = apply_edits(edits, plan("x", "y", "z")).plan
    assert [step.prompt for step in merged.steps] == ["x", "b", "z"] and merged.steps[1].settings.seed == 3


def test_a_style_by_hand_wins_over_the_planners() -> None:
    by_hand = read_edits("Style: Ink\n  on rice paper\n\n1. a boat")
    assert by_hand is not None and by_hand.style == "Ink\non rice paper"
    planned = plan("a", "b").model_copy(update={"style": "Oil"})
    assert apply_edits(by_hand, None).plan.style == apply_edits(by_hand, planned).plan.style == by_hand.style
    without = by_hand.model_copy(update={"style": ""})
    assert apply_edits(without, planned).plan.style == apply_edits(None, planned).plan.style == "Oil"
    merged = apply_edits(edited(plan("x", "y"), {1: "z"}).model_copy(update={"style": "Ink"}), planned)
    assert merged.is_stale and merged.plan.style == merged.edited.style == "Ink"


def test_edits_of_this_plan_are_the_plan() -> None:
    base = plan("a", "b", "c")
    done = apply_edits(edited(base, {2: "B"}), base)
    assert prompts(done.plan) == ["a", "B", "c"] and done.plan.reasoning == "because"
    assert not done.is_stale and "step 2 changed by hand" in done.note


def test_a_new_plan_keeps_locked_and_changed_steps_and_reports_it() -> None:
    old, new = plan("a", "b", "c"), plan("x", "y", "z", "w")
    done = apply_edits(edited(old, {2: "B"}, lock=(3,)), new)
    assert prompts(done.plan) == ["x", "B", "c", "w"] and done.is_stale
    assert "steps 2 and 3 as you wrote or locked them, steps 1 and 4 new" in done.note
    same = apply_edits(edited(old, {2: "B"}), plan("a", "b", "y"))
    assert "step 2 as you wrote or locked it, step 3 new" in same.note, (
        "an earlier plan of the planner is not new"
    )
    again = apply_edits(done.edited, new)
    assert again.plan == done.plan and not again.is_stale
    assert apply_edits(edited(old), new).plan == new


def test_lost_deletions_are_reported() -> None:
    old = plan("a", "b", "c")
    edits = editable(old)
    shorter = edits.model_copy(update={"steps": edits.steps[:1] + edits.steps[2:]})
    assert prompts(apply_edits(shorter, old).plan) == ["a", "c"]
    done = apply_edits(shorter, plan("x", "y", "z"))
    assert prompts(done.plan) == ["x", "y", "z"] and "deleted or moved" in done.note


def test_a_text_of_unknown_origin_is_the_whole_plan() -> None:
    done = apply_edits(read_edits("1. a\n2. b"), plan("x", "y", "z"))
    assert prompts(done.plan) == ["a", "b"] and "not used" in done.note


def test_a_digest_depends_only_on_the_text() -> None:
    one = Step(number=1, prompt="a")
    assert step_digest(one) == step_digest(Step(number=5, prompt="a", instruction=""))
    assert step_digest(one) != step_digest(Step(number=1, auxiliary_text="a"))


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
            number=number, prompt="a", cast=draw(st.none() | listed), facts=draw(st.lists(texts, max_size=3))
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
