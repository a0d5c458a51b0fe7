"""The cast as data: its bounds, who is in a step, and what a prompt says about them."""

from __future__ import annotations

import json

import pytest
from PIL import Image
from pydantic import ValidationError

from interleave_thinker.backend.core.pictures import Picture
from interleave_thinker.backend.core.types import CastMember, Plan, Step, StepImage
from interleave_thinker.backend.core.types.cast import cast_text, followed_by, newest_images
from interleave_thinker.backend.core.types.presence import members_in

MIA = CastMember(name="Mia", traits=("girl of seven", "red coat"))
TOM = CastMember(name="Tom")
LAMP = CastMember(name="Old lamp", kind="prop", traits=("brass",))
CAST = (MIA, TOM, LAMP)


def picture(color: str) -> Picture:
    return Picture(Image.new("RGB", (8, 8), color))


def with_images(member: CastMember, *pictures: Picture) -> CastMember:
    images = tuple(StepImage(name=f"{n}.png", picture=one) for n, one in enumerate(pictures))
    return member.model_copy(update={"images": images})


def names(prompt: str, listed: tuple[str, ...] | None = None) -> list[str]:
    return [member.name for member in members_in(CAST, listed, prompt)]


def test_a_plan_without_a_cast_is_written_as_before() -> None:
    plan = Plan(steps=(Step(number=1, prompt="a house"),))
    assert "cast" not in plan.model_dump_json() and "facts" not in plan.model_dump_json()


def test_a_plan_with_a_cast_is_read_back() -> None:
    steps = (
        Step(number=1, prompt="a house", cast=("mia", "Tom"), facts=("the door is open",)),
        Step(number=2, prompt="an empty room", cast=()),
    )
    plan = Plan(steps=steps, cast=CAST)
    written = json.loads(plan.model_dump_json())
    assert Plan.model_validate(written) == plan
    assert written["cast"][1] == {"name": "Tom", "kind": "character"}, "empty fields are not written"
    assert written["steps"][1]["cast"] == [], "an empty list differs from none"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"cast": [{"name": "Mia"}, {"name": "MIA"}]}, "two members named 'MIA'"),
        ({"cast": [{"name": "Mia"}], "step": ["Tom"]}, "step 1 names 'Tom', who is not in the cast"),
        ({"cast": [{"name": "Mia, Tom"}]}, "a name is one line"),
        ({"cast": [{"name": " "}]}, "a name is one line"),
        ({"cast": [{"name": "Mia", "kind": "animal"}]}, "character"),
        ({"cast": [{"name": "Mia", "traits": ["a"] * 5}]}, "at most 4"),
        ({"cast": [{"name": "Mia", "images": ["a.png"] * 5}]}, "at most 4"),
        ({"cast": [{"name": f"m{n}"} for n in range(17)]}, "at most 16"),
    ],
)
def test_invalid_casts_raise(fields: dict, reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        step = {"number": 1, "prompt": "a", "cast": fields.get("step")}
        Plan.model_validate({"steps": [step], "cast": fields["cast"]})


def test_a_list_replaces_the_names_in_the_prompt() -> None:
    assert names("Mia and Tom", ("old LAMP",)) == ["Old lamp"]
    assert names("Mia and Tom", ()) == []


def test_the_text_has_each_trait_once_and_the_exact_number_of_characters() -> None:
    text = cast_text(CAST, ["the lamp is lit"], listed=True)
    assert text == (
        "Mia: girl of seven, red coat. Old lamp: brass. Exactly 2 characters: Mia and Tom. the lamp is lit."
    )
    assert "Exactly 1 character: Tom." in cast_text([TOM], (), listed=True)
    assert cast_text([LAMP], (), listed=True) == "Old lamp: brass.", "props are not counted"


def test_without_a_list_the_number_of_characters_is_not_claimed() -> None:
    assert cast_text([MIA, TOM], (), listed=False).endswith("Mia and Tom each appear exactly once.")


def test_a_text_follows_the_prompt_once() -> None:
    assert followed_by("a house", "Mia: small.") == "a house. Mia: small."
    assert followed_by("a house! ", "Mia: small.") == "a house! Mia: small."
    assert followed_by("a house. Mia: small.", "Mia: small.") == "a house. Mia: small."
    assert followed_by("a house", "") == "a house"


def test_the_newest_image_of_each_comes_first_and_the_source_is_no_reference() -> None:
    red, green, blue, white = map(picture, ("red", "green", "blue", "white"))
    cast = [with_images(MIA, red, green), with_images(TOM, white, blue)]
    assert newest_images(cast, None) == [("Mia", green), ("Tom", blue), ("Mia", red), ("Tom", white)]
    assert newest_images(cast, green) == [("Tom", blue), ("Mia", red), ("Tom", white)]
    both = [with_images(MIA, red), with_images(TOM, red)]
    assert newest_images(both, None) == [("Mia", red)], "no image is shown twice"
