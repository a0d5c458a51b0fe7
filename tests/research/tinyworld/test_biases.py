"""The tiny world's biases: each does what its docstring says, and clauses prevent it."""

from __future__ import annotations

import pytest

from interleave_thinker.research.tinyworld.world.scenes import RULES, biased, slips
from interleave_thinker.tinyworld.scene import Scene
from interleave_thinker.tinyworld.wording import Clause, clauses_of, read_prompt


def page(prompt: str) -> Scene:
    found = read_prompt(prompt)
    assert found is not None
    return found[0].apply(None)  # pyright: ignore[reportArgumentType]


SLIPS = {
    "a blue sun is yellow": (
        None,
        "a day page with a blue sun at the top",
        "a day page with a yellow sun at the top",
    ),
    "a sun painted blue stays yellow": (
        "a day page with a yellow sun at the top",
        "make the sun blue",
        "a day page with a yellow sun at the top",
    ),
    "a star at the bottom rises": (
        "a sea page with a red fish at the left",
        "add a red star at the bottom right",
        "a sea page with a red fish at the left and a red star at the top right",
    ),
    "a boat in the sky lands on the water": (
        None,
        "a sea page with a red boat at the top",
        "a sea page with a red boat at the bottom",
    ),
    "the second thing takes the first one's colour": (
        None,
        "a day page with a red bird at the top and a white house at the left",
        "a day page with a red bird at the top and a red house at the left",
    ),
    "left and right are swapped where the right is named first": (
        None,
        "a day page with a red bird at the right and a white fish at the left",
        "a day page with a red bird at the left and a white fish at the right",
    ),
    "a tree that is moved stays": (
        "a day page with a red tree at the left",
        "move the tree to the right",
        "a day page with a red tree at the left and a red tree at the right",
    ),
    "the sun of a day page cannot be removed": (
        "a day page with a yellow sun at the top",
        "remove the sun",
        "a day page with a yellow sun at the top",
    ),
    "at night the sun becomes a moon": (
        "a day page with a red sun at the top",
        "change the page to night",
        "a night page with a red moon at the top",
    ),
    "a new fish has the old boat's colour": (
        "a day page with a red boat at the left",
        "replace the boat with a white fish",
        "a day page with a red fish at the left",
    ),
    "red paint runs over into the thing on the right": (
        "a day page with a white boat at the left and a yellow tree at the middle",
        "make the boat red",
        "a day page with a red boat at the left and a red tree at the middle",
    ),
}


@pytest.mark.parametrize("case", SLIPS.values(), ids=SLIPS)
def test_each_bias_applies_until_a_clause_prevents_it(case: tuple[str | None, str, str]) -> None:
    source, prompt, drawn = case
    before = page(source) if source else None
    found = read_prompt(prompt)
    assert found is not None
    edit, _ = found
    after = edit.apply(before)  # pyright: ignore[reportArgumentType]
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
        before, found = page(source) if source else None, read_prompt(prompt)
        assert found is not None
        after = found[0].apply(before)  # pyright: ignore[reportArgumentType]
        shown |= {rule for rule in RULES if list(rule(before, found[0], after))}
    assert shown == set(RULES)
