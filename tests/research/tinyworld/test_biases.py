"""The tiny world's biases: each does what its docstring says, and clauses prevent it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from interleave_thinker.research.tinyworld.world.scenes import RULES, biased, slips
from interleave_thinker.tinyworld.scene import Scene
from interleave_thinker.tinyworld.wording import Clause, clauses_of, read_prompt


def read(prompt: str) -> Any:
    """Return how a prompt is read; `day: red sun ...` is a day page with a red sun."""
    found = read_prompt(re.sub(r"^(day|sea|night): ", r"a \1 page with a ", prompt))
    assert found is not None
    return found


def page(prompt: str) -> Scene:
    found = read(prompt)
    return found[0].apply(None)


SLIPS = {
    "a blue sun is yellow": (None, "day: blue sun at the top", "day: yellow sun at the top"),
    "a sun painted blue stays yellow": (
        "day: yellow sun at the top",
        "make the sun blue",
        "day: yellow sun at the top",
    ),
    "a star at the bottom rises": (
        "sea: red fish at the left",
        "add a red star at the bottom right",
        "sea: red fish at the left and a red star at the top right",
    ),
    "a boat in the sky lands on the water": (None, "sea: red boat at the top", "sea: red boat at the bottom"),
    "the second thing takes the first one's colour": (
        None,
        "day: red bird at the top and a white house at the left",
        "day: red bird at the top and a red house at the left",
    ),
    "left and right are swapped where the right is named first": (
        None,
        "day: red bird at the right and a white fish at the left",
        "day: red bird at the left and a white fish at the right",
    ),
    "a tree that is moved stays": (
        "day: red tree at the left",
        "move the tree to the right",
        "day: red tree at the left and a red tree at the right",
    ),
    "the sun of a day page cannot be removed": (
        "day: yellow sun at the top",
        "remove the sun",
        "day: yellow sun at the top",
    ),
    "at night the sun becomes a moon": (
        "day: red sun at the top",
        "change the page to night",
        "night: red moon at the top",
    ),
    "a new fish has the old boat's colour": (
        "day: red boat at the left",
        "replace the boat with a white fish",
        "day: red fish at the left",
    ),
    "red paint runs over into the thing on the right": (
        "day: white boat at the left and a yellow tree at the middle",
        "make the boat red",
        "day: red boat at the left and a red tree at the middle",
    ),
}


@pytest.mark.parametrize("case", SLIPS.values(), ids=SLIPS)
def test_each_bias_applies_until_a_clause_prevents_it(case: tuple[str | None, str, str]) -> None:
    source, prompt, drawn = case
    before = page(source) if source else None
    edit, _ = read(prompt)
    after = edit.apply(before)
    assert biased(before, edit, ()) == page(drawn) != after

    (slip,) = slips(before, edit, ())
    named = [clauses_of(after, [cell]) for cell in slip.puts]
    assert all((slips(before, edit, one) == []) is (not slip.stubborn) for one in named)
    assert biased(before, edit, [clause for one in named for clause in one]) == after
    elsewhere = [cell for cell in range(9) if cell not in slip.puts]
    assert biased(before, edit, [*clauses_of(after, elsewhere), Clause(None, after.backdrop)]) == page(drawn)


def test_every_rule_has_its_example() -> None:
    shown = set()
    for source, prompt, _ in SLIPS.values():
        before, found = page(source) if source else None, read(prompt)
        after = found[0].apply(before)
        shown |= {rule for rule in RULES if list(rule(before, found[0], after))}
    assert shown == set(RULES)
