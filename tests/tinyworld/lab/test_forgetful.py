"""The forgetful generator: what drifts, what a prompt prevents, and what it follows."""

from __future__ import annotations

import pytest

from interleave_thinker.backend.pictures import Picture
from interleave_thinker.tinyworld.lab.runs.forgetful import ForgetfulGenerator, cast_in
from interleave_thinker.tinyworld.runtime.drawing import draw
from interleave_thinker.tinyworld.runtime.reading import read_image
from interleave_thinker.tinyworld.runtime.scene import Scene, color_and_thing, identity_of
from interleave_thinker.tinyworld.runtime.scorer import expected_scene

START = "a day page with a red fish at the top left and a blue tree at the bottom"
ADD = "add a white star at the top right"
FISH = identity_of("red", "fish")


class Exact:
    """Renders exactly what a prompt makes of its source."""

    identity = "exact"

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        return draw(expected_scene(source, prompt))


def pages(prompts: list[str], chance: float = 1.0, story: str = "a") -> list[Scene]:
    generator, page, seen = ForgetfulGenerator(Exact(), story, chance), None, []
    for prompt in prompts:
        page = generator.draw(prompt, page, 0)
        scene = read_image(page).scene
        assert scene is not None
        seen.append(scene)
    return seen


def fish(scene: Scene) -> tuple[str, int]:
    (cell,) = scene.find("fish")
    return color_and_thing(scene.cells[cell])[0], cell


def test_a_thing_drifts_two_steps_after_it_was_named() -> None:
    drifted = set()
    for story in "abcdefgh":
        first, second, third = map(fish, pages([START, ADD, "change the page to night"], story=story))
        assert first == second == ("red", 0)
        assert (third[0] != "red") != (third[1] != 0), "its color or its place, not both"
        drifted.add(third[0] != "red")
    assert drifted == {True, False}
    assert fish(pages([START, ADD, "change the page to night"], chance=0.0)[2]) == ("red", 0)


@pytest.mark.parametrize(
    "second",
    [
        f"{ADD}; a red fish must be at the top left",
        f"{ADD}. fish: red. the fish is at the top left.",
    ],
)
def test_a_clause_or_the_cast_prevents_it_for_two_steps(second: str) -> None:
    for story in "abcd":
        seen = pages([START, second, "change the page to night", "change the page to sea"], story=story)
        assert fish(seen[2]) == ("red", 0) != fish(seen[3])


def test_the_cast_prevents_only_what_it_states() -> None:
    colors = {fish(pages([START, f"{ADD}. fish: red.", "change the page to night. fish: red."], story=one)[2])
              for one in "abcdefgh"}  # fmt: skip
    assert {color for color, _ in colors} == {"red"} and len(colors) > 1, "its place drifts"


def test_the_cast_is_followed_even_if_it_is_wrong() -> None:
    assert fish(pages([START, f"{ADD}. fish: blue."])[1]) == ("blue", 0)
    assert fish(pages([START, f"{ADD}. the fish is at the left."])[1]) == ("red", 3)
    assert pages([START, f"{ADD}. boat: red."])[1].find("boat"), "what a prompt names appears"
    moved = pages([START, "move the fish to the left. fish: blue."])[1]
    assert moved.cells[3] == FISH, "the edit counts for the thing that it names"


def test_the_text_of_the_cast_is_read() -> None:
    found = cast_in("Fish: small, red. tree: old. the fish is blue. The moon is at the top left.")
    assert {name: (one.color, one.cell) for name, one in found.items()} == {
        "fish": ("blue", None),
        "tree": (None, None),
        "moon": (None, 0),
    }
