"""Scenes, prompts and the exact scorer, on which all claims about the tiny world are based."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageFilter

from interleave_thinker import Picture, ScorerError
from interleave_thinker.tinyworld.drawing import draw
from interleave_thinker.tinyworld.scene import (
    BACKDROPS,
    COLORS,
    IDENTITIES,
    THINGS,
    Add,
    ChangeBackdrop,
    Move,
    Recolor,
    Remove,
    Replace,
    Scene,
    StartScene,
    applies,
    identity_of,
)
from interleave_thinker.tinyworld.scorer import UNREADABLE, TinyWorldScorer, read_image
from interleave_thinker.tinyworld.wording import Clause, edit_text, prompt_text, read_prompt

scenes = st.builds(
    lambda backdrop, cells: Scene(backdrop, tuple(cells)),
    st.integers(0, len(BACKDROPS) - 1),
    st.lists(st.integers(0, IDENTITIES - 1), min_size=9, max_size=9),
)
things, colors, places = st.sampled_from(THINGS), st.sampled_from(COLORS), st.integers(0, 8)
contents = st.integers(1, IDENTITIES - 1)
edits = st.one_of(
    st.builds(StartScene, scenes),
    st.builds(Add, contents, places),
    st.builds(Remove, things),
    st.builds(Recolor, things, colors),
    st.builds(Move, things, places),
    st.builds(Replace, things, contents),
    st.builds(ChangeBackdrop, st.integers(0, len(BACKDROPS) - 1)),
)
clauses = st.one_of(
    st.builds(Clause, places, st.integers(0, IDENTITIES - 1)),
    st.builds(Clause, st.none(), st.integers(0, len(BACKDROPS) - 1)),
)
SUN = identity_of("yellow", "sun")
BOAT = identity_of("red", "boat")
PAGE = Scene(2).put(2, SUN).put(4, BOAT)


@given(scenes)
def test_a_rendered_page_is_parsed_exactly(scene: Scene) -> None:
    assert read_image(draw(scene)).scene == scene


@given(edits, st.lists(clauses, max_size=4))
def test_prompts_round_trip(edit, stated) -> None:
    assert read_prompt(prompt_text(edit, stated)) == (edit, stated)


@given(st.text(max_size=80))
def test_reading_a_prompt_never_fails(text: str) -> None:
    read_prompt(text)


@pytest.mark.parametrize("seed", range(4))
def test_blur_noise_and_rescaling_do_not_confuse_the_reader(seed: int) -> None:
    scene = PAGE.put(0, identity_of(COLORS[seed], THINGS[seed]))
    page = draw(scene).image
    noisy = np.asarray(page).astype(float) + np.random.default_rng(seed).normal(0, 8, (96, 96, 3))
    spoilt = [
        page.filter(ImageFilter.GaussianBlur(0.7)),
        Image.fromarray(noisy.clip(0, 255).astype(np.uint8)),
        page.resize((384, 384), Image.Resampling.LANCZOS),
    ]
    assert all(read_image(Picture(image)).scene == scene for image in spoilt)


def test_a_ghost_of_two_things_is_unreadable() -> None:
    mixed = Image.blend(draw(PAGE).image, draw(PAGE.put(4, identity_of("blue", "tree"))).image, 0.5)
    reading = read_image(Picture(mixed))
    assert reading.cells[4] == UNREADABLE and reading.scene is None
    assert reading.cells[2] == SUN


FAULTS = {
    "right": (PAGE.put(4, 0).put(6, BOAT), 0),
    "left behind": (PAGE.put(6, BOAT), 1),
    "lost": (PAGE.put(4, 0), 1),
    "wrong cell": (PAGE.put(4, 0).put(7, BOAT), 2),
    "wrong colour": (PAGE.put(4, 0).put(6, identity_of("blue", "boat")), 1),
    "another altered": (PAGE.put(4, 0).put(6, BOAT).put(2, identity_of("white", "sun")), 1),
    "wrong backdrop": (PAGE.put(4, 0).put(6, BOAT).with_backdrop(1), 1),
}


@pytest.mark.parametrize("kind", FAULTS)
def test_the_scorer_detects_every_kind_of_fault(kind: str) -> None:
    page, wrong = FAULTS[kind]
    scorer, before, after = TinyWorldScorer(), draw(PAGE), draw(page)
    score = scorer.score(before, after, "move the boat to the bottom left")
    assert score.semantics == max(0.0, 10.0 - 5.0 * wrong)
    assert scorer.success(before, after, "move the boat to the bottom left") == (wrong == 0)
    assert score.quality == 10.0


def test_quality_falls_with_damage_and_not_with_content() -> None:
    after = draw(PAGE).image
    worse = [
        TinyWorldScorer()
        .score(None, Picture(after.filter(ImageFilter.GaussianBlur(r))), edit_text(StartScene(PAGE)))
        .quality
        for r in (0, 1, 2, 4)
    ]
    assert worse[0] == 10.0 and worse == sorted(worse, reverse=True) and worse[-1] < 8.0


@pytest.mark.parametrize("instruction", ["paint it nicely", "remove the sun"])
def test_unscorable_images_are_errors(instruction: str) -> None:
    with pytest.raises(ScorerError):
        TinyWorldScorer().score(None, draw(PAGE), instruction)


def test_edits_apply_only_to_matching_objects() -> None:
    assert applies(Add(identity_of("red", "fish"), 0), PAGE)
    assert not applies(Add(identity_of("red", "fish"), 2), PAGE)
    assert not applies(Remove("fish"), PAGE)
    assert not applies(Recolor("sun", "yellow"), PAGE)
    assert not applies(ChangeBackdrop(PAGE.backdrop), PAGE)
    assert applies(Move("sun", 0), PAGE) and not applies(Move("sun", 4), PAGE)
    assert Replace("sun", BOAT).apply(PAGE).cells[2] == BOAT
