"""The contract of scorers, tested with every implementation. Add a new one to FACTORIES."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from support.tiny_scorers import clip_folder

from interleave_thinker.backend.errors import ScorerError, SettingsError
from interleave_thinker.backend.pictures import Picture
from interleave_thinker.backend.scorers import REGISTRY, Scorer, about_scorer, open_scorer
from interleave_thinker.tinyworld.runtime.drawing import draw
from interleave_thinker.tinyworld.runtime.wording import read_prompt

PROMPTS = {
    "before": "a sea page with a red boat at the middle",
    "right": "a sea page with a red boat at the middle and a yellow sun at the top left",
    "wrong": "a night page with a blue tree at the bottom",
}
INSTRUCTION = "add a yellow sun at the top left"
INSTRUCTIONS = {"lettering": 'add a sign that says "OPEN"'}
"""Instructions of scorers that measure something else."""
RELATIVE = {"pairwise"}
"""Scorers that cannot score a single image without a source."""


def page(name: str) -> Picture:
    found = read_prompt(PROMPTS[name])
    assert found is not None
    return draw(found[0].scene)  # pyright: ignore[reportAttributeAccessIssue]


def scripted(folder: Path, name: str, right: bool, *replies: str) -> str:
    script = folder / f"{name}-{right}.json"
    script.write_text(json.dumps(list(replies) * 4))
    return f"{name}:scripted:{script}"


def judge(folder: Path, right: bool, name: str = "judge") -> str:
    pair = [9, 8] if right else [2, 8]
    return scripted(folder, name, right, f"<answer>{pair}</answer>", "<answer>[9, 9]</answer>")


def reward(folder: Path, right: bool, name: str) -> str:
    scores = [[22, 20], [23, 23]] if right else [[5, 20], [23, 23]]
    return scripted(folder, name, right, *(json.dumps({"reasoning": "It fits.", "score": s}) for s in scores))


def rational(folder: Path, right: bool) -> str:
    parts = ("Text Faithfulness", "Image Faithfulness", "Physical and Visual Quality", "Text Rendering")
    scores = ("3.8" if right else "1.5", "3.5", "3.9", "N/A")
    rated = "\n".join(
        f"{number}. {part}:\n## Score: {score}"
        for number, (part, score) in enumerate(zip(parts, scores, strict=True), 1)
    )
    return scripted(folder, "rationalrewards", right, f"# Detailed Judgement\n{rated}")


def similarity(folder: Path, right: bool) -> str:
    model = folder / "clip"
    return f"similarity[of=source]:{model if model.exists() else clip_folder(model)}"


def lettering(folder: Path, right: bool) -> str:
    return scripted(folder, "lettering", right, "OPEN" if right else "CLOSED")


def pairwise(folder: Path, right: bool) -> str:
    order = ("first", "second") if right else ("second", "first")
    return scripted(folder, "pairwise", right, *(f"<answer>{word}</answer>" for word in order))


def combination(folder: Path, right: bool, name: str) -> str:
    (folder / name).mkdir(exist_ok=True)
    return f"{name}:{judge(folder / name, right)} + {reward(folder / name, right, 'editscore')}"


FACTORIES: dict[str, Callable[[Path, bool], str]] = {
    "tinyworld": lambda folder, right: "tinyworld",
    "judge": judge,
    "judge-v1": lambda folder, right: judge(folder, right, "judge-v1"),
    "editscore": lambda folder, right: reward(folder, right, "editscore"),
    "unifiedreward": lambda folder, right: reward(folder, right, "unifiedreward"),
    "rationalrewards": rational,
    "similarity": similarity,
    "lettering": lettering,
    "pairwise": pairwise,
    "mean": lambda folder, right: combination(folder, right, "mean"),
    "min": lambda folder, right: combination(folder, right, "min"),
    "repeat": lambda folder, right: f"repeat:2:{judge(folder, right)}",
}
"""Functions that return a scorer's spec. `right`: whether a scripted scorer is shown the right image."""


def test_every_registered_scorer_is_tested_and_described() -> None:
    assert FACTORIES.keys() == REGISTRY.keys()
    for name in REGISTRY:
        about = about_scorer(name)
        assert about.usage.startswith(name)
        assert all((about.measures, about.license, about.memory, about.range))


@pytest.mark.parametrize("name", FACTORIES)
def test_correct_edit_scores_higher_than_wrong_edit(name: str, tmp_path: Path) -> None:
    right, wrong = (
        open_scorer(FACTORIES[name](tmp_path, is_right)).score(
            page("before"), page(image), INSTRUCTIONS.get(name, INSTRUCTION)
        )
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
    if name == "rationalrewards":
        pytest.skip("its answer without a source image has another form: test_reward_models.py")
    scorer = open_scorer(FACTORIES[name](tmp_path, True))
    if name in RELATIVE:
        with pytest.raises(ScorerError, match="single image"):
            scorer.score(None, page("right"), PROMPTS["right"])
        return
    assert scorer.score(None, page("right"), PROMPTS["right"]).semantics > 5


def test_unreadable_scores_raise_an_error(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps(["fine"] * 4))
    for spec, instruction in (("tinyworld", "make it nicer"), (f"judge:scripted:{script}", INSTRUCTION)):
        with pytest.raises(ScorerError):
            open_scorer(spec).score(page("before"), page("right"), instruction)
    with pytest.raises(SettingsError):
        open_scorer("none-such")
