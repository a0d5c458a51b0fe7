"""A plan of text-only steps is carried out without a generator; any other plan needs one."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from interleave_thinker.backend.core.errors import SettingsError
from interleave_thinker.backend.core.pictures import Picture
from interleave_thinker.backend.core.types import Plan, Request, RunSettings, Step, StopReason, Trajectory
from interleave_thinker.backend.pipeline.pipeline import Pipeline
from interleave_thinker.backend.story.journal.journal import Journal
from interleave_thinker.backend.story.loop.collaborators import Collaborators
from interleave_thinker.backend.story.loop.events import Finished
from interleave_thinker.backend.story.loop.loop import run
from interleave_thinker.backend.story.loop.replay import load_trajectory
from interleave_thinker.backend.story.outcomes import all_accepted

FRAME = Picture(Image.new("RGB", (32, 24), "navy"))
REQUEST = Request(text="<image> Name the sub-tasks.", images=(FRAME,))
TEXTS = Plan(
    steps=(
        Step(number=1, name="Reach", auxiliary_text="The gripper moves above the cube."),
        Step(number=2, name="Grasp", auxiliary_text="The fingers close."),
    )
)
MIXED = Plan(steps=(*TEXTS.steps, Step(number=3, prompt="a cube"), Step(number=4, prompt="a bowl")))


def carried_out(plan: Plan, settings: RunSettings, folder: Path) -> Trajectory:
    last = list(run(REQUEST, Collaborators(), settings, Journal(folder), plan))[-1]
    assert isinstance(last, Finished)
    return last.trajectory


@pytest.mark.parametrize("source", ["previous", "all"])
def test_a_plan_of_texts_needs_no_generator(tmp_path: Path, source: str) -> None:
    made = carried_out(TEXTS, RunSettings.model_validate({"source": source}), tmp_path)
    assert [one.stop_reason for one in made.results] == [StopReason.text_only] * 2
    assert made.identities.generator == made.identities.critic == ""
    assert all_accepted(made)
    read = load_trajectory(tmp_path)
    assert read == made and read.request.images == (FRAME,)


def test_a_step_with_a_prompt_needs_one_and_the_plan_is_kept(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="Steps 3, 4 generate images, but the run has no generator"):
        carried_out(MIXED, RunSettings(), tmp_path)
    assert (tmp_path / "plan.json").exists(), "it can be edited there"


def test_the_library_opens_no_model_for_a_plan_of_texts() -> None:
    pipeline = Pipeline(generator="diffusers:/nowhere", critic="transformers:/nowhere")
    made = pipeline("Name them.", plan=TEXTS).trajectory
    assert [one.step.name for one in made.results] == ["Reach", "Grasp"]
    with pytest.raises(SettingsError, match="no generator"):
        Pipeline(generator=None, critic=None)("Name them.", plan=MIXED)
