"""The line about the cost of a hosted generator, and a run with the Gemini API."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.cli_calls import Scripts, call, verdict_reply
from support.gemini_api import BLOCKED, MODEL, gemini_service, images_in
from support.small_agents import STORY

from interleave_thinker.backend.core.answers.reading import write_plan
from interleave_thinker.backend.core.types import RunSettings, StepSettings
from interleave_thinker.backend.story.loop.replay import load_trajectory
from interleave_thinker.cli.run_request import cost_line

STEPS = sum(step.prompt is not None for step in STORY.steps)
GEMINI = "gemini:gemini-3-pro-image"


@pytest.mark.parametrize(
    ("settings", "judged", "images"),
    [
        (RunSettings(max_attempts=4), True, 4 * STEPS),
        (RunSettings(max_attempts=4), False, STEPS),
        (RunSettings(max_attempts=4, max_draws=5), True, 5),
    ],
)
def test_most_images_of_a_plan(settings: RunSettings, judged: bool, images: int) -> None:
    assert f"up to {images} images for {STEPS} steps." in cost_line(GEMINI, settings, judged, STORY)


def test_a_step_with_attempts_of_its_own_counts_them() -> None:
    first, *others = STORY.steps
    own = first.model_copy(update={"settings": StepSettings(tries=7)})
    plan = STORY.model_copy(update={"steps": (own, *others)})
    settings = RunSettings(max_attempts=2, candidates=2)
    images = 7 + 2 * (STEPS - 1)
    assert f"up to {images} images" in cost_line(GEMINI, settings, True, plan), "a candidate is an attempt"


def test_only_hosted_generators_have_a_line() -> None:
    settings = RunSettings()
    for own in ("fake:16", "diffusers:FOLDER", "http://gpu-1:8011", "images:m@http://127.0.0.1:8000"):
        assert cost_line(own, settings, True, STORY) == ""
    for hosted in (GEMINI, "gemini:m@http://127.0.0.1:8080", "images:m@https://api.openai.com/v1"):
        assert cost_line(hosted, settings, True, STORY).startswith(f"{hosted} is hosted.")


def test_a_run_with_gemini(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "AIza-a-key-of-ours-0123456789")
    scripts = Scripts(tmp_path)
    models = [*scripts.planner(write_plan(STORY)), *scripts.critic(*[verdict_reply(True)] * STEPS)]
    with gemini_service() as service:
        service.faults = [(200, BLOCKED)]
        generator = f"gemini:{MODEL}@{service.url}"
        options = [
            "--generator",
            generator,
            "--set",
            "input_side=64",
            "--set",
            "source=all",
            "--max-attempts",
            3,
        ]
        done = call("run", "tell of a house", "--out", tmp_path / "run", *models, *options)
    assert done.exit_code == 0, done.output
    line = f"provider may charge for each image: up to {3 * STEPS} images"
    assert done.output.index(line) < done.output.index("PROHIBITED_CONTENT"), "said before the first image"
    assert "seed had no effect" in done.output
    assert len(service.requests) == STEPS + 1, "a refusal is a failed attempt"
    assert [len(images_in(one)) for one in service.requests] == [0, *range(STEPS)], "all earlier images"
    assert {max(one.size) for body in service.requests for one in images_in(body)} <= {64}
    first = load_trajectory(tmp_path / "run").results[0].attempts
    assert len(first) == 2 and "PROHIBITED_CONTENT" in str(first[0].error)
    assert "AIza" not in done.output + "".join(
        path.read_text(errors="replace") for path in (tmp_path / "run").rglob("*.json")
    )
