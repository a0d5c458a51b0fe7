"""A cast in the loop: what the image model is told and shown, identities, resume, and one-image models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from support.journal_runs import told
from support.small_agents import OnePlan, Verdicts

from interleave_thinker import CastMember, Finished, Picture, Plan, RunSettings, SettingUnused, Trajectory
from interleave_thinker.backend.core.errors import SettingsError
from interleave_thinker.backend.core.types import Enhancement, Request, Step, StepImage, StepSettings, Verdict
from interleave_thinker.backend.models.generators.fake import FakeGenerator
from interleave_thinker.backend.models.generators.wrappers import EnhancedGenerator
from interleave_thinker.backend.story.journal.journal import Journal
from interleave_thinker.backend.story.loop.collaborators import Collaborators
from interleave_thinker.backend.story.loop.external import (
    DrawNeeded,
    ExternalAttempts,
    ExternalDrawResult,
    run_from_plan,
)
from interleave_thinker.backend.story.loop.loop import run

REQUEST = Request(text="a story")


def picture(color: str) -> Picture:
    return Picture(Image.new("RGB", (16, 16), color))


RED, BLUE, WHITE = picture("red"), picture("blue"), picture("white")
MIA = CastMember(name="Mia", traits=("red coat",), images=(StepImage(name="mia.png", picture=RED),))
TOM = CastMember(name="Tom", images=(StepImage(name="tom.png", picture=BLUE),))
STORY = Plan(
    steps=(
        Step(number=1, prompt="Mia wakes up"),
        Step(number=2, prompt="they leave", cast=("Mia", "Tom"), facts=("it rains",)),
        Step(number=3, prompt="an empty street", cast=()),
    ),
    cast=(MIA, TOM),
)
TEXTS = [
    "Mia: red coat. Mia appears exactly once.",
    "Mia: red coat. Exactly 2 characters: Mia and Tom. it rains.",
]


class Recording(FakeGenerator):
    """Records the prompts that the image model is given, with the number of images next to the source."""

    def __init__(self, most: int = 15) -> None:
        super().__init__(16)
        self.given: list[tuple[str, int]] = []
        self.most = most

    @property
    def max_reference_images(self) -> int:
        return self.most

    def with_step_settings(self, settings: StepSettings) -> Recording:
        other = Recording(self.most)
        other.given, other._step = self.given, settings
        return other

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        self.given.append((prompt, len(getattr(self._step, "beside", ()))))
        return super().draw(prompt, source, seed)


def played(plan: Plan | None = STORY, generator: Any = None, **rest: Any) -> Trajectory:
    return told(plan, generator or Recording(), **rest)


def test_the_model_is_told_and_shown_only_who_is_present() -> None:
    generator = Recording()
    trajectory = played(generator=generator)
    assert generator.given == [
        (f"Mia wakes up. {TEXTS[0]} Image 1 shows Mia.", 1),
        (f"they leave. {TEXTS[1]} Image 2 shows Mia. Image 3 shows Tom.", 2),
        ("an empty street", 0),
    ], "with a source image, which is image 1, the others follow"
    attempts = [result.attempts[0] for result in trajectory.results]
    assert [one.prompt for one in attempts] == ["Mia wakes up", "they leave", "an empty street"]
    assert [one.cast.text if one.cast else None for one in attempts] == [*TEXTS, None]
    assert [one.beside for one in attempts] == [(RED,), (RED, BLUE), ()]


def test_references_are_named_in_the_models_notation_after_its_own() -> None:
    class Marked(Recording):
        image_mark, own_references = "<image{}>", 2

        def with_step_settings(self, settings: StepSettings) -> Marked:
            self._step = settings
            return self

    generator = Marked()
    played(generator=generator)
    assert generator.given[1][0].endswith("<image4> shows Mia. <image5> shows Tom.")


def test_the_number_of_references_is_limited_and_earlier_images_take_what_is_left() -> None:
    settings = RunSettings(source="all")
    trajectory = played(generator=Recording(2), settings=settings, request=Request(text="a", images=(WHITE,)))
    first = trajectory.results[0].image
    beside = [result.attempts[0].beside for result in trajectory.results]
    assert beside == [(RED,), (RED, BLUE), (WHITE, first)]
    assert played(generator=Recording(1)).results[1].attempts[0].beside == (RED,)


def test_the_source_is_never_a_reference() -> None:
    trajectory = played(request=Request(text="from Mia's photo", images=(RED,)))
    assert trajectory.results[0].attempts[0].source == RED
    assert trajectory.results[0].attempts[0].beside == ()


def test_a_model_of_one_image_gets_the_words_and_the_run_says_so() -> None:
    generator = Recording(0)
    events = list(run(REQUEST, Collaborators(None, generator), RunSettings(), plan=STORY))
    assert SettingUnused("cast_images") in events
    assert generator.given[1] == (f"they leave. {TEXTS[1]}", 0)
    last = events[-1]
    assert isinstance(last, Finished) and last.trajectory.unused == ("cast_images",)
    words = STORY.model_copy(update={"cast": (MIA.model_copy(update={"images": ()}), TOM)})
    assert played(words, Recording()).unused == ()


def test_refined_prompts_are_followed_by_the_cast_too() -> None:
    generator = Recording()
    refused = Verdict(success=False, refined_prompt="Mia wakes up in bed")
    critic = Verdicts(refused, True)
    plan = STORY.model_copy(update={"steps": STORY.steps[:1]})
    played(plan, generator, critic=critic)
    assert generator.given[1][0] == f"Mia wakes up in bed. {TEXTS[0]} Image 1 shows Mia."
    assert [one[2:] for one in critic.shown] == [
        ("Mia wakes up", "Mia wakes up"),
        ("Mia wakes up", "Mia wakes up in bed"),
    ]


def test_every_change_of_the_cast_generates_only_the_steps_that_it_is_in(tmp_path: Path) -> None:
    assert played(store=Journal(tmp_path / "run"))
    again = Recording()
    played(generator=again, store=Journal(tmp_path / "run"))
    assert again.given == []
    # Without a source image, a step does not depend on the steps before.
    steps = tuple(step.model_copy(update={"settings": StepSettings(source="text")}) for step in STORY.steps)
    free = STORY.model_copy(update={"steps": steps})
    played(free, store=Journal(tmp_path / "free"))
    for change in ({"traits": ("boy",)}, {"images": (StepImage(name="tom.png", picture=WHITE),)}):
        changed = free.model_copy(update={"cast": (MIA, TOM.model_copy(update=change))})
        generator = Recording()
        played(changed, generator, store=Journal(tmp_path / "free"))
        assert [prompt[:10] for prompt, _ in generator.given] == ["they leave"]


def test_a_cached_plan_gets_a_new_cast_without_planning_again(tmp_path: Path) -> None:
    plain = Plan(steps=(Step(number=1, prompt="Mia wakes up"),))
    planner = OnePlan(plain)
    played(None, planner=planner, store=Journal(tmp_path / "run"))

    def cast(_: Request, plan: Plan) -> Plan:
        return plan.model_copy(update={"cast": (MIA,)})

    played(None, planner=planner, cast=cast, store=Journal(tmp_path / "run"))
    later = played(None, planner=planner, store=Journal(tmp_path / "run"))
    assert later.plan.cast == (MIA,), "stored with the plan"
    assert Journal(tmp_path / "run").written_plan() is None, "it is still the planner's plan"


def test_an_enhancer_gets_the_cast() -> None:
    class Loud:
        identity = "loud"

        def enhance(self, prompt: str, is_edit: bool) -> Enhancement:
            return Enhancement(prompt=prompt.upper())

    generator = Recording()
    played(generator=EnhancedGenerator(generator, Loud().enhance, Loud.identity))
    assert generator.given[0][0] == f"Mia wakes up. {TEXTS[0]} Image 1 shows Mia.".upper()


def test_a_graph_of_the_user_gets_the_words(tmp_path: Path) -> None:
    external = run_from_plan(REQUEST, STORY, 2, WHITE, 0)
    attempts = ExternalAttempts(external, "graph", RunSettings(), tmp_path / "run")
    try:
        attempts.follow(None, None, lambda event: None)
    except DrawNeeded as needed:
        wanted = needed.wanted
    assert wanted.prompt == f"they leave. {TEXTS[1]}" and wanted.plain == "they leave"
    trajectory = attempts.follow(None, ExternalDrawResult(wanted, (BLUE,)), lambda event: None)
    assert trajectory.results[0].image == BLUE


def test_facts_need_no_cast() -> None:
    generator = Recording()
    played(Plan(steps=(Step(number=1, prompt="a street", facts=("it rains",)),)), generator)
    assert generator.given == [("a street. it rains.", 0)]


def test_a_source_of_all_images_with_a_limit_of_one_is_an_error() -> None:
    with pytest.raises(SettingsError, match="most_images is 1"):
        played(settings=RunSettings(source="all", most_images=1))
    alone = played(settings=RunSettings(most_images=1)).results[1].attempts[0]
    assert alone.beside == () and alone.cast is not None, "the limit of the run: words alone"
