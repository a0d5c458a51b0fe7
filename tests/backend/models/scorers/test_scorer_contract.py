"""The contract of scorers, tested with every implementation. Add a new one to FACTORIES."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from interleave_thinker.backend.core.errors import ScorerError, SettingsError
from interleave_thinker.backend.core.pictures import Picture
from interleave_thinker.backend.models.scorers import REGISTRY, Scorer, open_scorer
from interleave_thinker.tinyworld.drawing import draw
from interleave_thinker.tinyworld.wording import read_prompt

PROMPTS = {
    "before": "a sea page with a red boat at the middle",
    "right": "a sea page with a red boat at the middle and a yellow sun at the top left",
    "wrong": "a night page with a blue tree at the bottom",
}
INSTRUCTION = "add a yellow sun at the top left"


def page(name: str) -> Picture:
    found = read_prompt(PROMPTS[name])
    assert found is not None
    return draw(found[0].scene)  # pyright: ignore[reportAttributeAccessIssue]


def judge(folder: Path, right: bool) -> str:
    pair = [9, 8] if right else [2, 8]
    script = folder / f"judge-{right}.json"
    script.write_text(json.dumps([f"<answer>{pair}</answer>", "<answer>[9, 9]</answer>"] * 4))
    return f"judge:scripted:{script}"


FACTORIES: dict[str, Callable[[Path, bool], str]] = {
    "tinyworld": lambda folder, right: "tinyworld",
    "judge": judge,
}
"""Functions that return a scorer's spec. `right`: whether a scripted scorer is shown the right image."""


def test_every_registered_scorer_is_tested() -> None:
    assert FACTORIES.keys() == REGISTRY.keys()


@pytest.mark.parametrize("name", FACTORIES)
def test_correct_edit_scores_higher_than_wrong_edit(name: str, tmp_path: Path) -> None:
    right, wrong = (
        open_scorer(FACTORIES[name](tmp_path, is_right)).score(page("before"), page(image), INSTRUCTION)
        for is_right, image in ((True, "right"), (False, "wrong"))
    )
    assert right.semantics > wrong.semantics
    assert right.overall > wrong.overall


@pytest.mark.parametrize("name", FACTORIES)
def test_scores_are_repeatable_and_images_unchanged(name: str, tmp_path: Path) -> None:
    scorer = open_scorer(FACTORIES[name](tmp_path, True))
    assert isinstance(scorer, Scorer)
    before, after = page("before"), page("right")
    digests = before.digest, after.digest
    first, second = (scorer.score(before, after, INSTRUCTION) for _ in range(2))
    assert first == second
    assert digests == tuple(Picture(one.image).digest for one in (before, after))
    assert scorer.identity == open_scorer(FACTORIES[name](tmp_path, True)).identity


@pytest.mark.parametrize("name", FACTORIES)
def test_image_generated_from_text_has_no_source_image(name: str, tmp_path: Path) -> None:
    scorer = open_scorer(FACTORIES[name](tmp_path, True))
    assert scorer.score(None, page("right"), PROMPTS["right"]).semantics > 5


def test_unreadable_scores_raise_an_error(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps(["fine"] * 4))
    for spec, instruction in (("tinyworld", "make it nicer"), (f"judge:scripted:{script}", INSTRUCTION)):
        with pytest.raises(ScorerError):
            open_scorer(spec).score(page("before"), page("right"), instruction)
    with pytest.raises(SettingsError):
        open_scorer("none-such")
