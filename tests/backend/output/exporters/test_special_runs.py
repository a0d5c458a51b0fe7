"""What only some runs have, in every export that shows it; the exports of other runs do not change."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from support.stories import make_trajectory

from interleave_thinker import CastMember, StopReason, StoryCheck, Trajectory, Verdict, load_trajectory
from interleave_thinker.backend.core.pictures import Picture
from interleave_thinker.backend.core.types import CheckedItem, StepImage, StepLora, StepSettings, StoryFinding
from interleave_thinker.backend.output.exporters import animation, export_by_name, sheet
from interleave_thinker.backend.output.exporters.record import read_record
from interleave_thinker.backend.output.exporters.story import StoryFile
from interleave_thinker.backend.output.report.export_options import words_in
from interleave_thinker.backend.story import outcomes
from interleave_thinker.backend.story.execution_record.trajectory import record_trajectory
from interleave_thinker.backend.story.journal.archive import copy_run

PLAIN = make_trajectory()
OLD, NEW = (Picture(Image.new("RGB", (40, 60), color)) for color in ("#aa0000", "#00aa00"))
HAT = "The fox must wear a <hat>."


def with_results(**changed: dict[str, Any]) -> Trajectory:
    """Return the run with other values in the results of some steps (`step_1`)."""
    results = [
        one.model_copy(update=changed.get(f"step_{number}", {}))
        for number, one in enumerate(PLAIN.results, 1)
    ]
    return PLAIN.model_copy(update={"results": tuple(results)})


def with_settings() -> Trajectory:
    lora = StepLora(name="ink_<b>.safetensors", digest="0123")
    own = StepSettings(seed=7, size="96x64", lora=lora, lora_strength=0.5)
    step = PLAIN.plan.steps[0].model_copy(update={"settings": own})
    plan = PLAIN.plan.model_copy(update={"steps": (step, *PLAIN.plan.steps[1:])})
    return with_results(step_1={"step": step}).model_copy(update={"plan": plan})


def with_items() -> Trajectory:
    items = (
        CheckedItem(text="there are two boats", kind="count", probability=0.1, passed=False),
        CheckedItem(text="the boat is red", kind="color", probability=0.9, passed=True),
        CheckedItem(text="<b>same</b> face", kind="identity", probability=0.3),
    )
    first, *others = PLAIN.results[0].attempts
    verdict = Verdict(success=False, reasoning="Only one boat.", items=items)
    return with_results(step_1={"attempts": (first.model_copy(update={"verdict": verdict}), *others)})


def with_checks() -> Trajectory:
    image = PLAIN.results[0].attempts[0].image
    assert image is not None
    found = StoryFinding(step=1, kind="identity", problem=HAT)
    checks = (
        StoryCheck(key="a", checker="c", images={1: image.digest}, findings=(found,), reopened=1),
        StoryCheck(key="b", checker="c", images={1: "0" * 40}, findings=(found,)),
        StoryCheck(key="c", checker="c", images={}, warning="No server."),
    )
    return PLAIN.model_copy(update={"checks": checks})


def with_cast() -> Trajectory:
    images = (StepImage(name="old.png", picture=OLD), StepImage(name="new.png", picture=NEW))
    cast = (
        CastMember(name="Mia", traits=("short black hair", "red coat"), images=images),
        CastMember(name="<b>lamp*", kind="prop"),
    )
    steps = (PLAIN.plan.steps[0].model_copy(update={"cast": ("Mia",)}), *PLAIN.plan.steps[1:])
    return PLAIN.model_copy(update={"plan": PLAIN.plan.model_copy(update={"cast": cast, "steps": steps})})


OWN = "seed 7, size 96x64, lora ink_<b>.safetensors, lora_strength 0.5"
TICKS = "\n".join(
    [
        "✗ there are two boats (P(yes) 0.10)",
        "✓ the boat is red (P(yes) 0.90)",
        "? <b>same</b> face (P(yes) 0.30): cannot judge identity\n\nOnly one boat.",
    ]
)
CAST = ['<section class="cast"', "short black hair, red coat", 'aria-label="Mia"', "<b>lamp*"]
CAST_TEXT = ["## The cast", "**Mia** (character): short black hair, red coat", r"**\<b\>lamp\***"]
PICKED = ['<span class="state good">Attempt 2 picked by hand</span>', 'kept">picked by hand</span>']
FOUND = [f"Story check, identity, attempt 1: {HAT}", "The story was not checked: No server."]
RUNS = {
    "settings": with_settings(),
    "items": with_items(),
    "checks": with_checks(),
    "cast": with_cast(),
    # The third step was never accepted, and the user picked its second attempt.
    "pick": with_results(step_3={"chosen": 1, "stop_reason": StopReason.picked}),
}
SHOWN = [
    ("settings", "page", {}, [f"<span>Step settings</span> {OWN}</p>"]),
    ("settings", "page", {"language": "zh"}, [f"步骤设置</span> {OWN}"]),
    ("settings", "markdown", {}, [r"Step settings: seed 7, size 96x64, lora ink\_\<b\>.safetensors"]),
    ("items", "page", {}, [TICKS]),
    ("checks", "page", {}, FOUND),
    ("checks", "page", {"language": "fr"}, [f"Contrôle de l'histoire, identité, essai 1 : {HAT}"]),
    ("cast", "page", {}, CAST),
    ("cast", "page", {"language": "zh"}, ["角色表"]),
    ("cast", "markdown", {}, CAST_TEXT),
    ("pick", "page", {}, PICKED),
    ("pick", "markdown", {}, ["- Attempt 2: not understood, picked by hand", "*Attempt 2 picked by hand.*"]),
]  # fmt: skip


@pytest.mark.parametrize(("run", "name", "options", "texts"), SHOWN)
def test_text_exports_show_it(
    tmp_path: Path, run: str, name: str, options: dict[str, Any], texts: list[str]
) -> None:
    written = export_by_name(name, RUNS[run], tmp_path, **options).read_text(encoding="utf-8")
    plain = export_by_name(name, PLAIN, tmp_path, **options).read_text(encoding="utf-8")
    shown, before = (html.unescape(one) if name == "page" else one for one in (written, plain))
    assert not [text for text in texts if text not in shown or text in before]
    assert shown.count(FOUND[0]) < 2, "not the finding about an older image"
    assert "<b>same" not in written and "<b>lamp" not in written and "<hat>" not in written


def test_the_newest_image_of_a_member_is_shown(tmp_path: Path) -> None:
    text = export_by_name("markdown", RUNS["cast"], tmp_path).read_text(encoding="utf-8")
    file = text.partition("![Mia](")[2].partition(")")[0]
    assert Picture.open(tmp_path / file) == NEW
    told = export_by_name("page", RUNS["cast"], tmp_path, audience=True).read_text(encoding="utf-8")
    assert "Mia" not in told


def test_story_json_has_settings_and_cast(tmp_path: Path) -> None:
    def story(run: Trajectory, folder: str) -> dict[str, Any]:
        return json.loads(export_by_name("story", run, tmp_path / folder).read_text(encoding="utf-8"))

    own = {"seed": 7, "size": "96x64", "lora": "ink_<b>.safetensors", "lora_strength": 0.5}
    steps = story(RUNS["settings"], "settings")["steps"]
    assert [step.get("settings") for step in steps] == [own, *[None] * (len(steps) - 1)]
    mia, lamp = StoryFile.model_validate(story(RUNS["cast"], "cast")).cast
    assert (mia.name, mia.kind, mia.traits) == ("Mia", "character", ("short black hair", "red coat"))
    assert [Picture.open(tmp_path / "cast" / one.file) for one in mia.images] == [OLD, NEW]
    assert (lamp.name, lamp.kind, lamp.images) == ("<b>lamp*", "prop", ())
    assert "cast" not in story(PLAIN, "plain")


def test_the_record_has_checks_and_cast(tmp_path: Path) -> None:
    path = export_by_name("record", RUNS["checks"], tmp_path / "checks")
    checks = json.loads(path.read_text(encoding="utf-8"))["story_checks"]
    assert [one["findings"][0]["problem"] for one in checks[:2]] == [HAT, HAT] and checks[0]["reopened"] == 1
    assert [check["warning"] for check in checks] == ["", "", "No server."]
    assert read_record(path).entries, "readers ignore it"
    found = record_trajectory(read_record(export_by_name("record", RUNS["cast"], tmp_path / "cast"))).plan
    known = RUNS["cast"].plan
    assert [step.cast for step in found.steps] == [step.cast for step in known.drawn_steps]
    assert [one.model_dump(exclude={"images"}) for one in found.cast] == [
        one.model_dump(exclude={"images"}) for one in known.cast
    ]
    plain = export_by_name("record", PLAIN, tmp_path / "plain").read_text(encoding="utf-8")
    assert "story_checks" not in plain and "cast" not in plain


def test_a_story_file_opened_elsewhere_has_its_cast(tmp_path: Path) -> None:
    path = export_by_name("zip", RUNS["cast"], tmp_path)
    elsewhere = copy_run(path, tmp_path / "elsewhere")
    path.unlink()
    assert load_trajectory(elsewhere) == RUNS["cast"]


def test_sheets_and_animations_show_picks_and_failed_items() -> None:
    def greens(trajectory: Trajectory) -> int:
        return sheet.contact_sheet(trajectory, columns=1).tobytes().count(bytes(sheet.GOOD))

    def cards(run: str, step: int, language: str = "en") -> list[sheet.Card]:
        shown = outcomes.story_steps(RUNS[run])[step - 1]
        return sheet.attempt_cards(shown, PLAIN.settings, words_in(language))

    assert greens(RUNS["pick"]) > greens(PLAIN)
    assert ["picked by hand" in one.mark for one in cards("pick", 3)] == [False, True, False]
    marks = [frame.mark for frame in animation.frames_of(RUNS["pick"], attempts=True)]
    assert "attempt 2: not understood, picked by hand" in marks
    assert not any(frame.mark for frame in animation.frames_of(RUNS["pick"]))
    prompts = [one.prompt for one in PLAIN.results[0].attempts]
    for language, start in (("en", "Not true: "), ("zh", "不成立：")):
        captions = [one.caption for one in cards("items", 1, language)]
        assert captions == [f"{start}there are two boats\n{prompts[0]}", *prompts[1:]]


def test_the_summary_counts_picks_separately() -> None:
    assert "2 of 4 images accepted · 1 picked by hand" in outcomes.summarize(RUNS["pick"]).sentence
    assert "picked by hand" not in outcomes.summarize(PLAIN).sentence
