"""`run` with a plan of text-only steps: no image model is opened, and the given images are in the page."""

from __future__ import annotations

import json
from pathlib import Path

from PIL import Image
from support.cli_calls import Scripts, call

from interleave_thinker.backend.core.answers.reading import write_plan
from interleave_thinker.backend.core.types import Plan, Step
from interleave_thinker.backend.story.journal.journal import Journal

REQUEST = "<image> Name the sub-tasks."
TEXTS = Plan(
    steps=(
        Step(number=1, name="Reach", auxiliary_text="The gripper moves above the cube."),
        Step(number=2, name="Grasp", auxiliary_text="The fingers close."),
    )
)
MISSING = ("--generator", "diffusers:/nowhere", "--critic", "transformers:/nowhere")


def frame(folder: Path) -> Path:
    path = folder / "frame.png"
    Image.new("RGB", (48, 32), "navy").save(path)
    return path


def test_a_plan_of_texts_opens_no_image_model_and_no_critic(tmp_path: Path) -> None:
    plan = tmp_path / "notes.json"
    plan.write_text(write_plan(TEXTS))
    out = tmp_path / "run"
    done = call("run", REQUEST, "--image", frame(tmp_path), "--plan", plan, *MISSING, "--out", out)
    assert done.exit_code == 0, done.output
    assert "2 steps · 0 images generated" in done.output
    assert Journal(out).record().identities.generator == ""
    page = (out / "index.html").read_text()
    assert "The fingers close." in page
    assert page.count('<symbol id="') == 1, "the given image"
    for form in ("pdf", "sheet", "markdown"):
        assert call("export", out, "--to", form).exit_code == 0


def test_a_planner_that_writes_texts_needs_no_generator(tmp_path: Path) -> None:
    planner = Scripts(tmp_path).planner(write_plan(TEXTS))
    arguments = (*planner, "--generator", "none", "--out", tmp_path / "run")
    done = call("run", REQUEST, "--image", frame(tmp_path), *arguments)
    assert done.exit_code == 0, done.output
    again = call("run", REQUEST, "--image", frame(tmp_path), *arguments, "--json")
    assert json.loads(again.stdout.splitlines()[-1])["exit_code"] == 0


def test_a_planner_that_writes_prompts_is_an_error_without_a_generator(tmp_path: Path) -> None:
    drawn = Plan(steps=(*TEXTS.steps, Step(number=3, prompt="a cube in a bowl")))
    planner = Scripts(tmp_path).planner(write_plan(drawn))
    without = (*planner, "--generator", "none", "--out", tmp_path / "run")
    done = call("run", REQUEST, "--image", frame(tmp_path), *without)
    assert done.exit_code == 2
    assert "Step 3 generates an image, but the run has no generator." in done.output
