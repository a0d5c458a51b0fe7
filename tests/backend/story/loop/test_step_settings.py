"""Settings of single steps, none of which is ignored, and steps without an image."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from support.journal_runs import told
from support.small_agents import Counting, GeneratorError, OnePlan, Verdicts

from interleave_thinker import Finished, Picture, Plan, RunSettings, SettingsError, load_trajectory
from interleave_thinker.backend.core.types import Attempt, Request, Step, StepSettings, StopReason, Trajectory
from interleave_thinker.backend.models.generators.fake import FakeGenerator
from interleave_thinker.backend.models.generators.wrappers import TO_SOURCE, color_matched
from interleave_thinker.backend.story.journal.journal import Journal
from interleave_thinker.backend.story.loop.collaborators import Collaborators
from interleave_thinker.backend.story.loop.external import first_draw, run_from_plan
from interleave_thinker.backend.story.loop.loop import run
from interleave_thinker.backend.story.loop.policy import attempt_seed, redraw_seed
from interleave_thinker.backend.story.outcomes import all_accepted

REQUEST = Request(text="a story")
GIVEN = Request(text="a story", images=(Picture.white((16, 16)),))


def plan(*settings: dict[str, Any]) -> Plan:
    steps = (
        Step(number=number, prompt=f"scene {number}", settings=StepSettings(**one))
        for number, one in enumerate(settings, 1)
    )
    return Plan(steps=tuple(steps))


def test_a_step_edits_its_own_source() -> None:
    sources = ({}, {}, {"source": 1}, {"source": "text"}, {"source": "first"}, {"source": "previous"})
    results = told(plan(*sources, {"source": "anchor"}), request=GIVEN).results
    images = [result.image for result in results]
    expected = [GIVEN.images[0], images[0], images[0], None, images[0], images[4], GIVEN.images[0]]
    assert [result.attempts[0].source for result in results] == expected


def test_a_step_has_its_own_first_seed_and_number_of_attempts() -> None:
    critic = Verdicts(*[False] * 6)
    first, second, third = told(plan({"seed": 77, "tries": 3}, {"tries": 1}, {}), Counting(), critic,
                                settings=RunSettings(max_attempts=2)).results  # fmt: skip
    assert [attempt.seed for attempt in first.attempts] == [
        77,
        attempt_seed(77, 1, 1),
        attempt_seed(77, 1, 2),
    ]
    assert second.stop_reason is StopReason.unjudged and len(second.attempts) == 1
    assert len(third.attempts) == 2 and third.attempts[0].seed == attempt_seed(0, 3, 0)
    same = told(plan({"seed": 5, "tries": 2}), Counting(), Verdicts(False, False),
                settings=RunSettings(seed_rule="every step"))  # fmt: skip
    assert [attempt.seed for attempt in same.results[0].attempts] == [5, 5]
    planned = told(None, Counting(), Verdicts(True), planner=OnePlan(plan({"tries": 1})))
    assert planned.identities.critic == "", "one attempt has no critic"


def test_denoise_and_negative_are_used_and_cached(tmp_path: Path) -> None:
    def drawn(*settings: dict[str, Any]) -> Trajectory:
        generator = color_matched(FakeGenerator(16), TO_SOURCE)
        return told(plan(*settings), generator, store=Journal(tmp_path))

    plain = drawn({}, {})
    own = drawn({}, {"denoise": 0.5, "negative": "people"})
    assert own.results[0] == plain.results[0] and own.results[1].image != plain.results[1].image
    records = len(list((tmp_path / "attempts").iterdir()))
    assert records == 3 and drawn({}, {"denoise": 0.5, "negative": "people"}) == own
    assert len(list((tmp_path / "attempts").iterdir())) == records
    (tmp_path / "trajectory.json").unlink()
    assert load_trajectory(tmp_path) == own


class WithLoras(FakeGenerator):
    """Applies the LoRAs in `files`: their content by name."""

    def __init__(self, files: dict[str, str]) -> None:
        super().__init__(16)
        self.files = files

    def lora_digest(self, name: str) -> str:
        if name not in self.files:
            raise SettingsError(f"The LoRA {name!r} does not exist.")
        return self.files[name]


@pytest.mark.parametrize("change", [{"seed": 8}, {"tries": 3}, {"lora": "b.safetensors"}], ids=str)
def test_a_changed_setting_generates_from_that_step_again(tmp_path: Path, change: dict[str, Any]) -> None:
    files = {"a.safetensors": "1", "b.safetensors": "2"}

    def drawn(own: dict[str, Any]) -> Trajectory:
        critic = Verdicts(*[False] * 20)
        settings = RunSettings(max_attempts=2, judge_last=False)
        return told(
            plan({}, {}, own, {}), WithLoras(files), critic, settings=settings, store=Journal(tmp_path)
        )

    own = {"seed": 7, "tries": 2, "size": "16x16", "lora": "a.safetensors", "lora_strength": 1.0}
    first, records = drawn(own), set((tmp_path / "attempts").iterdir())
    assert drawn(own).results == first.results and set((tmp_path / "attempts").iterdir()) == records
    again = drawn(own | change)
    assert again.results[:2] == first.results[:2], "earlier steps are cached"
    assert again.results[2].image != first.results[2].image
    assert again.results[3].image != first.results[3].image, "the step after it edits another image"
    new = {attempt.image for result in again.results[2:] for attempt in result.attempts}
    old = {attempt.image for result in first.results for attempt in result.attempts}
    assert len(set((tmp_path / "attempts").iterdir()) - records) == len(new - old), "nothing else is drawn"
    (tmp_path / "trajectory.json").unlink()
    assert load_trajectory(tmp_path) == again, "read from the records alone"


def test_the_content_of_a_lora_is_part_of_the_identity_of_its_step(tmp_path: Path) -> None:
    own = plan({}, {"lora": "a.safetensors"}, {})
    assert "digest" not in own.model_dump_json()

    def drawn(content: str) -> Trajectory:
        return told(own, WithLoras({"a.safetensors": content}), store=Journal(tmp_path))

    first, second = drawn("1"), drawn("2")
    assert first.results[0] == second.results[0] and first.results[1].image != second.results[1].image
    assert drawn("1").results == first.results
    lora = first.plan.steps[1].settings.lora
    assert lora is not None and (lora.name, lora.digest) == ("a.safetensors", "1")
    assert Plan.model_validate_json(first.plan.model_dump_json()) == first.plan
    assert first.plan.steps[1].settings.as_written == {"lora": "a.safetensors"}, "a user writes the name"
    resumed = run(REQUEST, Collaborators(None, WithLoras({"a.safetensors": "3"})), journal=Journal(tmp_path))
    third = next(event.trajectory for event in resumed if isinstance(event, Finished))
    assert third.results[1].image not in (first.results[1].image, second.results[1].image)


def test_a_missing_lora_or_impossible_size_is_an_error_before_the_first_step(tmp_path: Path) -> None:
    generator = WithLoras({})
    for own, reason in (
        ({"lora": "a.safetensors"}, "Step 2: The LoRA 'a.safetensors' does not exist"),
        ({"size": "32x16"}, "Step 2: Invalid size '32x16': fake images are square"),
    ):
        with pytest.raises(SettingsError, match=reason):
            told(plan({}, own), generator, store=Journal(tmp_path))
        assert not list((tmp_path / "attempts").glob("*"))


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (({}, {"source": "anchor"}), "Step 2 edits the request's first image, but the request has none"),
        (({}, {"denoise": 0.4}), "Step 2 sets its own denoise, but this generator does not support denoise"),
        (
            ({"size": "64x64"}, {"lora": "a.safetensors"}, {"size": "32x32"}),
            "Steps 1, 3 set their own size, but this generator does not support size ",
        ),
    ],
)
def test_unsupported_settings_are_rejected_before_the_first_step(settings, reason: str) -> None:
    generator = Counting()
    with pytest.raises(SettingsError, match=reason):
        told(plan(*settings), generator)
    assert generator.drawn == []


def test_a_missing_source_image_is_an_error_of_the_step() -> None:
    generator = Counting(failures=[GeneratorError("no memory"), None])
    results = told(plan({}, {}, {"source": 1}, {}), generator).results
    fault = results[2].attempts[0].error
    assert results[2].stop_reason is StopReason.error and fault is not None
    assert fault.message == "Step 1, which this step edits, does not have an image."
    assert results[3].attempts[0].source == results[1].image


def test_nodes_of_a_graph_generate_a_step_from_its_source() -> None:
    story = plan({}, {}, {"source": 1, "seed": 11}, {"denoise": 0.5}, {"lora": "a.safetensors"})
    drawn = told(plan({}, {})).results
    wanted = first_draw(run_from_plan(REQUEST, story, 3, None, 0, drawn))
    assert wanted.source == drawn[0].image and wanted.seed == 11
    with pytest.raises(SettingsError, match="Step 1, which this step edits, does not have an image"):
        run_from_plan(REQUEST, story, 3, None, 0)
    with pytest.raises(SettingsError, match="Step 4 sets its own denoise"):
        first_draw(run_from_plan(REQUEST, story, 4, None, 0, drawn))
    with pytest.raises(SettingsError, match="Step 5 sets its own lora"):
        first_draw(run_from_plan(REQUEST, story, 5, None, 0, drawn))
    anchored = plan({}, {"source": "anchor"})
    with pytest.raises(SettingsError, match="but the request has none"):
        run_from_plan(REQUEST, anchored, 2, None, 0)


def test_a_redraw_differs_and_keeps_the_steps_seed_under_the_seed_rule() -> None:
    step = Step(number=2, prompt="a", settings=StepSettings(seed=77))
    drawn = [Attempt(prompt="a", seed=77)]
    one_seed, each = RunSettings(seed=5, seed_rule="every step"), RunSettings(seed=5)
    assert redraw_seed(step, one_seed, 1, "b", drawn) == 77
    same = [redraw_seed(step, rule, number, "a", drawn) for rule in (each, one_seed) for number in (1, 2)]
    assert same[:2] == same[2:] and len({77, *same}) == 3
    other = RunSettings(seed=6)
    assert redraw_seed(step, other, 1, "a", drawn) != same[0]
    pictures = {FakeGenerator(16).draw("a", None, seed).digest for seed in (77, *same)}
    assert len(pictures) == 3


FRAME = Picture(Image.new("RGB", (32, 24), "navy"))
TEXT_REQUEST = Request(text="<image> Name the sub-tasks.", images=(FRAME,))
TEXTS = Plan(
    steps=(
        Step(number=1, name="Reach", auxiliary_text="The gripper moves above the cube."),
        Step(number=2, name="Grasp", auxiliary_text="The fingers close."),
    )
)
MIXED = Plan(steps=(*TEXTS.steps, Step(number=3, prompt="a cube"), Step(number=4, prompt="a bowl")))


def carried_out(plan: Plan, settings: RunSettings, folder: Path) -> Trajectory:
    last = list(run(TEXT_REQUEST, Collaborators(), settings, Journal(folder), plan))[-1]
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
