"""cast.yaml: what it may contain, where its images may be, and what it does to a plan."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from interleave_thinker.backend.core.errors import SettingsError
from interleave_thinker.backend.core.types import CastMember, Plan, Request, Step
from interleave_thinker.backend.models.chat.scripted import ScriptedChat
from interleave_thinker.backend.pipeline.cast_file import PlanCast, cast_next_to, read_cast
from interleave_thinker.backend.pipeline.pipeline import Pipeline
from interleave_thinker.backend.story.agents.text_writers import CastWriter

REQUEST = Request(text="a story")
MIA, TOM = CastMember(name="Mia"), CastMember(name="Tom")


def cast_file(folder: Path, text: str) -> Path:
    (folder / "images").mkdir(parents=True)
    Image.new("RGB", (8, 8), "red").save(folder / "images" / "mia.png")
    path = folder / "cast.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_cast_is_read_with_its_images(tmp_path: Path) -> None:
    path = cast_file(
        tmp_path / "story",
        "cast:\n- name: Mia\n  traits: [red coat]\n  images: [images/mia.png]\n- {name: Lamp, kind: prop}\n",
    )
    mia, lamp = read_cast(path)
    assert (mia.name, mia.kind, mia.traits) == ("Mia", "character", ("red coat",))
    assert mia.images[0].picture is not None and mia.images[0].picture.size == (8, 8)
    assert (lamp.name, lamp.kind) == ("Lamp", "prop")
    path.write_text('[{"name": "Mia"}]', encoding="utf-8")
    assert read_cast(path) == (MIA,), "a list alone, and JSON"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("cast: [{name: Mia, images: [../secret.png]}]", "Cast member 'Mia': Image '../secret.png' does not"),
        ("cast: [{name: Mia, images: [gone.png]}]", "Cast member 'Mia': Image 'gone.png' does not exist"),
        ("cast: [{name: Mia}, {name: mia}]", "two members named 'mia'"),
        ("cast: [{name: Mia, looks: red}]", "cast.0.looks"),
        ("members: []", "field 'cast'"),
        ("cast: [", "is not valid YAML"),
        ('cast: !!int ""', "is not valid YAML"),
        ("cast: []\ncast: []", "is there twice"),
    ],
)
def test_invalid_files_raise_with_the_member(tmp_path: Path, text: str, reason: str) -> None:
    Image.new("RGB", (8, 8)).save(tmp_path / "secret.png")
    with pytest.raises(SettingsError, match=reason):
        read_cast(cast_file(tmp_path / "story", text))


def test_the_file_next_to_a_run_folder_is_found(tmp_path: Path) -> None:
    assert cast_next_to(tmp_path / "run") is None
    (tmp_path / "cast.yaml").write_text("cast: []", encoding="utf-8")
    assert cast_next_to(tmp_path / "run") == tmp_path / "cast.yaml"
    assert cast_next_to(tmp_path / "other" / "run") is None


def test_a_plan_gets_the_cast_and_loses_lists_of_others() -> None:
    steps = (Step(number=1, prompt="a", cast=("Mia",)), Step(number=2, prompt="b", cast=("Tom",)))
    plan = Plan(steps=steps, cast=(MIA, TOM))
    changed = PlanCast((MIA,))(REQUEST, plan)
    assert changed.cast == (MIA,) and [step.cast for step in changed.steps] == [("Mia",), None]
    assert Plan.model_validate(changed.model_dump()) == changed
    assert PlanCast((MIA,))(REQUEST, changed) is changed, "so that it is not stored again"
    assert PlanCast()(REQUEST, plan) is plan


def test_the_writer_is_not_asked_about_a_plan_with_lists() -> None:
    chat = ScriptedChat([])
    plan = Plan(steps=(Step(number=1, prompt="a", cast=("Mia",)),), cast=(MIA,))
    assert PlanCast((), CastWriter(chat))(REQUEST, plan) is plan and not chat.requests


def test_a_pipeline_takes_a_cast(tmp_path: Path) -> None:
    path = cast_file(tmp_path / "story", "cast: [{name: Mia, traits: [red coat], images: [images/mia.png]}]")
    plan = Plan(steps=(Step(number=1, prompt="Mia runs"),))
    for cast in (path, read_cast(path)):
        attempt = (
            Pipeline(generator="fake:16", critic=None)("a run", plan=plan, cast=cast).steps[0].attempts[0]
        )
        assert attempt.cast is not None and attempt.cast.text.startswith("Mia: red coat.")
        assert len(attempt.beside) == 1
