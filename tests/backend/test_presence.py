"""Who is in a step by its prompt: names, marks, and phrases that say that somebody is not to be seen."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from interleave_thinker.backend.core.types import DrawSettings, Plan, Request, RunSettings, Step
from interleave_thinker.backend.core.types.cast import CastMember
from interleave_thinker.backend.core.types.presence import members_in, without_marks
from interleave_thinker.backend.story.loop.policy import checklist_of, drawn_settings

PLACES_AND_PROPS = {"mill": "place", "磨坊": "place", "lantern": "prop", "灯笼": "prop"}
MEMBERS = {
    True: ("米娅", "汤姆", "老汤姆", "小玫", "灯笼", "磨坊"),
    False: ("Mia", "Tom", "Old Tom", "Rose", "Will", "Zoë", "lantern", "mill"),
}


class Sentence(NamedTuple):
    """A prompt, and the members whom its image shows."""

    language: str
    kind: str
    prompt: str
    shown: frozenset[str]

    @property
    def proposed(self) -> frozenset[str]:
        """Names of the members whom the prompt is found to show."""
        names = MEMBERS[self.language == "zh"]
        cast = [
            CastMember.model_validate({"name": n, "kind": PLACES_AND_PROPS.get(n, "character")})
            for n in names
        ]
        return frozenset(one.name for one in members_in(cast, None, self.prompt))


def sentences() -> Iterator[Sentence]:
    path = Path(__file__).parents[1] / "data" / "presence.txt"
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            head, shown, prompt = (part.strip() for part in line.split("|"))
            yield Sentence(*head.split(), prompt, frozenset(() if shown == "-" else shown.split(", ")))


SENTENCES = list(sentences())
NAMES = ("Mia", "Tom", "Old Tom", "Rose", "Will", "Zoë", "Zoe Bell", "the fox", "Red fox")
CAST = (
    *(CastMember(name=name, traits=(f"trait of {name}",)) for name in NAMES),
    CastMember(name="Old lamp", kind="prop"),
    CastMember(name="米娅"),
)


def found(prompt: str, cast: tuple[CastMember, ...] = CAST) -> list[str]:
    return [member.name for member in members_in(cast, None, prompt)]


@pytest.mark.parametrize("language", ["en", "zh", "es", "de"])
def test_a_prompt_proposes_exactly_those_whom_its_image_shows(language: str) -> None:
    mine = [one for one in SENTENCES if one.language == language]
    assert not [(one.prompt, one.proposed) for one in mine if one.proposed != one.shown]


def test_there_are_enough_sentences_of_each_language() -> None:
    for language in ("en", "zh", "es", "de"):
        mine = [one for one in SENTENCES if one.language == language]
        assert sum(not one.shown for one in mine) >= 10 and sum(one.kind == "present" for one in mine) >= 10


@pytest.mark.parametrize(
    ("prompt", "names"),
    [
        ("Miami at night, an atom", []),
        ("TOM lights the old lamp", ["Tom", "Old lamp"]),
        ("MIA AND OLD TOM", ["Mia", "Old Tom"]),
        ("old Tom waves", ["Old Tom"]),
        ("mia in the rain, a will of iron", []),
        ("The fox and the red fox", ["the fox", "Red fox"]),
        ("Zoe runs", ["Zoë"]),
        ("Zoe\u0308 runs", ["Zoë"]),
        ("Zoé Bell runs", ["Zoe Bell"]),
        ("清晨米娅走在街上", ["米娅"]),
        ('a cake with the words "Happy Birthday Mia"', []),
        ("Without Mia, Tom and Rose, the yard is quiet", []),
        ("Without Mia, Tom walks home", ["Tom"]),
    ],
)
def test_names_are_whole_words_with_their_capitals(prompt: str, names: list[str]) -> None:
    assert found(prompt) == names


def test_accents_tell_two_members_apart() -> None:
    both = (CastMember(name="Zoe"), CastMember(name="Zoë"), CastMember(name="Bär"))
    assert found("Zoe waves", both) == ["Zoe"]
    assert found("Zoë waves", both) == ["Zoë"]
    assert found("Bar at night", both) == [], "an umlaut is a letter of its own"


@pytest.mark.parametrize(
    ("prompt", "plain", "names"),
    [
        ("@Mia waves to Tom", "Mia waves to Tom", ("Mia",)),
        ("the hands of @old tom, @zoe", "the hands of old tom, zoe", ("Old Tom", "Zoë")),
        ("清晨@米娅走在街上", "清晨米娅走在街上", ("米娅",)),
        ("mail to a@Mia, @Tim", "mail to a@Mia, @Tim", ()),
    ],
)
def test_marks_are_removed_and_name_the_members(prompt: str, plain: str, names: tuple[str, ...]) -> None:
    assert without_marks(CAST, prompt) == (plain, names)


def told(*steps: Step, style: str = "") -> list[str]:
    """Return what the image model is told about the cast in each step."""
    plan = Plan(steps=steps, style=style, cast=CAST).resolved
    request, settings = Request(text="a"), RunSettings()
    drawn = [drawn_settings(one, plan, request, (), settings, None) for one in plan.drawn_steps]
    return [one.cast.text if isinstance(one, DrawSettings) and one.cast else "" for one in drawn]


def test_a_list_decides_before_marks_and_marks_before_names() -> None:
    assert told(
        Step(number=1, prompt="@Mia and Tom", cast=()),
        Step(number=2, prompt="@Mia and Tom"),
        Step(number=3, prompt="Mia without Tom"),
    ) == ["", "Mia: trait of Mia. Exactly 1 character: Mia.", "Mia: trait of Mia. Mia appears exactly once."]


def test_a_name_in_the_style_puts_nobody_into_a_step() -> None:
    assert told(Step(number=1, prompt="an empty mill"), style="Mia has a red coat") == [""]


def test_resolved_plans_have_lists_instead_of_marks() -> None:
    steps = (Step(number=1, prompt="@Mia runs"), Step(number=2, prompt="Tom", auxiliary_text="@Tom"))
    plan = Plan(steps=steps, cast=CAST)
    first, second = plan.resolved.steps
    assert (first.prompt, first.cast) == ("Mia runs", ("Mia",)) and second == steps[1]
    assert (
        plan.resolved.resolved == plan.resolved
        and Plan.model_validate_json(plan.resolved.model_dump_json()) == plan.resolved
    )


def test_no_question_is_about_a_member_who_is_not_there() -> None:
    settings = RunSettings(derive_checklist=True)
    steps = (Step(number=1, prompt="Remove Mia from the picture"), Step(number=2, prompt="Mia runs"))
    plan = Plan(steps=steps, cast=CAST)
    asked = [[one.text for one in checklist_of(step, plan, settings)] for step in plan.drawn_steps]
    assert asked == [[], ["Mia: trait of Mia"]]
