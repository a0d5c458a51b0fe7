"""Drift over a chain of edits: figures for known changes, and color match against a tint."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFilter
from support import journal_runs

from interleave_thinker import Picture, Plan, Request, SettingsError, Step, Trajectory
from interleave_thinker.backend.core.drift import VISIBLE, drift
from interleave_thinker.backend.models.generators.fake import FakeGenerator
from interleave_thinker.backend.models.generators.wrappers import MATCHES, color_matched, match_colors
from interleave_thinker.backend.output.report.run_report import drift_of_steps
from interleave_thinker.backend.story.journal.store import InMemoryStore

SIZE = (320, 240)
TINT = np.array([1.012, 1.0, 0.975])
WANTED = ((230, 60, 40), (40, 90, 220), (250, 220, 60), (60, 190, 80))


def landscape(seed: int = 0) -> Picture:
    """Return soft shapes of many colors with grain, similar to a photograph."""
    random = np.random.default_rng(seed)
    image = Image.new("RGB", SIZE, (150, 180, 200))
    pen = ImageDraw.Draw(image)
    for _ in range(60):
        x, y = random.integers(0, SIZE[0]), random.integers(0, SIZE[1])
        radius = int(random.integers(8, 60))
        pen.ellipse(
            (x - radius, y - radius, x + radius, y + radius),
            fill=tuple(int(value) for value in random.integers(30, 225, 3)),
        )
    soft = np.asarray(image.filter(ImageFilter.GaussianBlur(2)), dtype=float)
    return Picture(Image.fromarray(np.clip(soft + random.normal(0, 3, soft.shape), 0, 255).astype(np.uint8)))


def tinted(picture: Picture, gain: np.ndarray, offset: float = 0.0) -> Picture:
    pixels = np.asarray(picture.image, dtype=float) * gain + offset
    return Picture(Image.fromarray(np.clip(np.rint(pixels), 0, 255).astype(np.uint8)))


class DriftingEditor:
    """Simulates the edits of a model that drifts: paints one disc, and tints the whole image a little."""

    identity = "drifting"

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        if source is None:
            return landscape()
        image = source.image.copy()
        place = int(prompt)
        left = 20 + 70 * place
        ImageDraw.Draw(image).ellipse((left, 90, left + 50, 140), fill=WANTED[place])
        return tinted(Picture(image), TINT)


def told(match: str, steps: int = 5, memory: InMemoryStore | None = None) -> Trajectory:
    plan = Plan(steps=[Step(number=number, prompt=str((number - 2) % 4)) for number in range(1, steps + 1)])
    generator = color_matched(DriftingEditor(), match)
    return journal_runs.told(plan, generator, store=memory, request=Request(text="chain"))


# The figures


def test_tint_changes_color_and_not_structure() -> None:
    slid = drift(landscape(), tinted(landscape(), np.array([1.08, 1.0, 0.9])))
    assert slid.color > VISIBLE and slid.structure < 0.01
    same = drift(landscape(), landscape())
    assert same.color == same.structure == 0
    half = Picture(landscape().image.resize((160, 120), Image.Resampling.BOX))
    assert drift(landscape(), half).color < 1, "another size"


def test_a_known_shift_of_lightness_has_its_known_size() -> None:
    gray = Picture(Image.new("RGB", SIZE, (119, 119, 119)))  # L* = 50.03
    lighter = Picture(Image.new("RGB", SIZE, (132, 132, 132)))  # L* = 55.16
    assert drift(gray, lighter).color == pytest.approx(5.1, abs=0.2)


def test_a_shift_and_lost_detail_are_structure() -> None:
    image = landscape().image
    shifted = image.transform(SIZE, Image.Transform.AFFINE, (1, 0, 6, 0, 1, 4))
    for changed in (shifted, image.filter(ImageFilter.GaussianBlur(5))):
        assert drift(landscape(), Picture(changed)).structure > 0.02


def test_intended_change_of_a_third_of_the_image_is_not_drift() -> None:
    image = landscape().image.copy()
    ImageDraw.Draw(image).rectangle((0, 0, 110, 240), fill=(240, 30, 30))
    changed = drift(landscape(), Picture(image))
    assert changed.color < 0.5 and changed.structure < 0.01


def test_drift_accumulates_over_a_chain_and_is_reported_per_step() -> None:
    drifts = drift_of_steps(told("off"))
    assert list(drifts) == [1, 2, 3, 4, 5]
    assert drifts[1].from_source is None and drifts[1].from_anchor is None and drifts[1].sentence == ""
    anchors = [one.from_anchor.color for number, one in drifts.items() if number > 1 and one.from_anchor]
    sources = [one.from_source.color for number, one in drifts.items() if number > 1 and one.from_source]
    assert anchors == sorted(anchors) and anchors[-1] > 3 * anchors[0]
    assert max(sources) < 2 * min(sources)
    assert "from the first image" in drifts[5].sentence and "(visible)" in drifts[5].sentence


# The match


@pytest.mark.parametrize("match", ["to the source", "to the first image"])
def test_color_match_stops_the_drift_of_a_chain_and_keeps_its_edits(match: str) -> None:
    story = told(match)
    free, held = (drift_of_steps(one)[5].from_anchor for one in (told("off"), story))
    assert free is not None and held is not None
    assert free.color > VISIBLE and held.color < free.color / 5 and held.color < 1
    result = story.results[-1].image
    assert result is not None
    for place, color in enumerate(WANTED):
        found = np.asarray(result.image)[115, 45 + 70 * place]
        assert np.abs(found.astype(int) - color).max() <= 10


@pytest.mark.parametrize(
    "wanted",
    [
        tinted(landscape(), np.array([0.35, 0.4, 0.6])),
        tinted(landscape(), np.ones(3), 60),
        Picture(landscape().image.convert("L").convert("RGB")),
        landscape(1),
        Picture(Image.new("RGB", SIZE, (20, 20, 30))),
    ],
    ids=["night", "fog", "gray", "another scene", "dark"],
)
def test_intended_change_of_all_colors_is_kept(wanted: Picture) -> None:
    assert match_colors(wanted, landscape()) is wanted


def test_the_match_is_part_of_the_identity() -> None:
    assert len({color_matched(FakeGenerator(), match).identity for match in MATCHES}) == len(MATCHES)
    with pytest.raises(SettingsError, match="Known"):
        color_matched(FakeGenerator(), "sometimes")


def test_the_match_to_the_first_image_is_the_same_after_a_resume() -> None:
    whole = told("to the first image")
    memory = InMemoryStore()
    told("to the first image", steps=3, memory=memory)
    resumed = told("to the first image", memory=memory)
    assert [one.image for one in resumed.results] == [one.image for one in whole.results]
