"""Pipeline: models as names and as objects, options, plans, a cast, folders."""

from __future__ import annotations

import json
import runpy
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest
from PIL import Image
from support.cli_calls import call

from interleave_thinker import (
    AttemptDrawn,
    Cancelled,
    JournalError,
    Picture,
    Pipeline,
    Plan,
    PlanConstraints,
    Request,
    RunSettings,
    SettingsError,
    Step,
    StepFinished,
    Story,
    Verdict,
    approve,
    load_trajectory,
    open_chat,
    open_generator,
    waiting_for,
)
from interleave_thinker.backend.core.seams.generator import FunctionGenerator
from interleave_thinker.backend.core.types import CastMember
from interleave_thinker.backend.core.types.roles import CriticLike, PlannerLike
from interleave_thinker.backend.models.chat.scripted import ScriptedChat
from interleave_thinker.backend.pipeline.cast_file import PlanCast, cast_next_to, read_cast
from interleave_thinker.backend.story.agents.text_writers import CastWriter
from interleave_thinker.backend.story.journal.choices import ask_redraw

PLAN = Plan(steps=(Step(number=1, prompt="a red boat"), Step(number=2, prompt="a blue boat")))


class OwnPlanner(PlannerLike):
    identity, prompt_set_digest = "own planner", ""

    def plan(self, request: Request) -> Plan:
        return PLAN


class OwnCritic(CriticLike):
    """Rejects the first image it sees, and then accepts."""

    identity, prompt_set_digest = "own critic", ""

    def __init__(self) -> None:
        self.asked = 0

    def judge(
        self, before: Picture | None, after: Picture, original_prompt: str, prompt_used: str
    ) -> Verdict:
        self.asked += 1
        return Verdict(success=self.asked > 1, refined_prompt=f"{original_prompt}, please")


def test_custom_objects_are_used(tmp_path: Path) -> None:
    critic = OwnCritic()
    pipeline = Pipeline(OwnPlanner(), open_generator("fake:32"), critic)
    story = pipeline("Two boats.", tmp_path / "run")
    assert story.complete and story.accepted and story.folder == tmp_path / "run"
    assert [len(step.attempts) for step in story.steps] == [2, 1] and critic.asked == 3
    assert story.steps[0].attempts[1].prompt == "a red boat, please"
    assert [image.size for image in story.images] == [(32, 32)] * 2
    assert Story(load_trajectory(tmp_path / "run")).trajectory == story.trajectory
    assert pipeline("Two boats.", tmp_path / "run").trajectory == story.trajectory and critic.asked == 3
    with pytest.raises(JournalError, match="another request"):
        pipeline("Three boats.", tmp_path / "run")


class Bare:
    """A planner and critic without a base class, and without any optional member."""

    identity = "bare"

    def plan(self, request: Request) -> Plan:
        return PLAN

    def judge(self, *images: object, **prompts: object) -> Verdict:
        return Verdict(success=True)


def test_agents_without_the_base_class_are_adopted(tmp_path: Path) -> None:
    bare = Bare()
    story = Pipeline(bare, "fake:32", bare)("Two boats.", tmp_path / "run")  # type: ignore[arg-type]
    assert story.accepted and len(story.images) == 2
    with pytest.raises(SettingsError, match="has no 'identity' and no 'judge'"):
        Pipeline(bare, "fake:32", object())("Two boats.")  # type: ignore[arg-type]


def test_a_stopped_stream_is_resumed(tmp_path: Path) -> None:
    pipeline = Pipeline(OwnPlanner(), "fake:32", None)
    stream = pipeline.stream("Two boats.", tmp_path / "run")
    for event in stream:
        if isinstance(event, StepFinished):
            break
    stream.close()
    with pytest.raises(Cancelled, match="resume"):
        stream.result()
    drawn = [one for one in pipeline.stream("Two boats.", tmp_path / "run") if isinstance(one, AttemptDrawn)]
    assert [one.reused for one in drawn] == [True, False]


def test_an_abandoned_stream_can_be_finished(tmp_path: Path) -> None:
    pipeline = Pipeline(OwnPlanner(), "fake:32", None)
    stream = pipeline.stream("Two boats.", tmp_path / "run")
    for event in stream:
        if isinstance(event, StepFinished):
            break
    with pytest.raises(JournalError, match="Another run is using"):
        pipeline("Two boats.", tmp_path / "run")
    assert stream.result().complete and pipeline("Two boats.", tmp_path / "run").complete


def test_a_given_plan_needs_no_planner_and_one_attempt_no_critic() -> None:
    pipeline = Pipeline("scripted:no such file", "fake", "scripted:no such file")
    story = pipeline("Two boats.", plan=PLAN, settings=RunSettings(max_attempts=1))
    assert story.complete and len(story.images) == 2
    with pytest.raises(SettingsError, match="folder="):
        story.export("page")


def test_constraints_reach_a_plan_and_raise_for_a_planner_without_support() -> None:
    constraints = PlanConstraints(style="Ink on paper.")
    story = Pipeline("tinyworld", "fake", None, constraints=constraints)("x", plan=PLAN)
    assert story.trajectory.plan.style == "Ink on paper."
    with pytest.raises(SettingsError, match="OwnPlanner does not support constraints"):
        Pipeline(OwnPlanner(), "fake", None, constraints=constraints)("Two boats.")


def test_options_go_to_the_models_that_take_them() -> None:
    story = Pipeline(OwnPlanner(), "fake", None, size="48x48")("Two boats.")
    assert story.images[0].size == (48, 48)
    with pytest.raises(SettingsError, match=r"accepts the option 'sizes'.*Supported options: .*size"):
        Pipeline(OwnPlanner(), "fake", None, sizes="48x48")
    with pytest.raises(SettingsError, match=r"open_chat\(NAME, adapter="):
        Pipeline("tinyworld", "fake", adapter="somewhere")
    with pytest.raises(SettingsError, match="Unknown generator 'fakes'"):
        Pipeline(generator="fakes")


def test_a_request_has_its_images(tmp_path: Path) -> None:
    image = Image.new("RGB", (40, 40), "red")
    image.save(tmp_path / "red.png")
    story = Pipeline(OwnPlanner(), "fake", None)("Boats.", images=[image, tmp_path / "red.png"])
    first, second = story.trajectory.request.images
    assert first == second
    for text, images in (("  ", []), ("Boats.", [tmp_path / "blue.png"]), ("Boats.", ["x" * 5000])):
        with pytest.raises(SettingsError):
            Pipeline(OwnPlanner(), "fake", None)(text, images=images)


def test_the_command_line_resumes_a_run_of_the_library(tmp_path: Path) -> None:
    request = "Draw a sea page with a red boat in the middle."
    agents = [open_chat(f"tinyworld:{role}") for role in ("planner", "critic")]
    story = Pipeline(agents[0], "fake:64", agents[1], settings=RunSettings(max_attempts=2))(
        request, tmp_path / "run"
    )
    options = ("--generator", "fake:64", "--max-attempts", "2", "--json")
    done = call("run", request, "--out", tmp_path / "run", *options)
    events = [json.loads(line) for line in done.output.splitlines() if line.startswith("{")]
    made = [one for one in events if one["event"] in ("plan_ready", "attempt_drawn", "attempt_judged")]
    assert len(made) >= 3 and all(one["reused"] for one in made), done.output
    assert load_trajectory(tmp_path / "run") == story.trajectory


def test_a_paused_story_continues_after_a_decision(tmp_path: Path) -> None:
    pipeline = Pipeline(
        OwnPlanner(), open_generator("fake:32"), OwnCritic(), settings=RunSettings(pause="every step")
    )
    story, waited = pipeline("Two boats.", tmp_path / "run"), []
    while story.waiting:
        assert not story.complete and not story.accepted and waiting_for(tmp_path / "run") == story.waiting
        waited.append(story.waiting.step)
        approve(tmp_path / "run", skip=story.waiting.step == 2)
        story = pipeline("Two boats.", tmp_path / "run")
    assert waited == [None, 1, 2]
    assert story.complete and story.accepted and len(story.images) == 1
    with pytest.raises(SettingsError, match="without a run folder"):
        pipeline("Two boats.")


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
        story = Pipeline(generator="fake:16", critic=None)("a run", tmp_path / "run", plan=plan, cast=cast)
        attempt = story.steps[0].attempts[0]
        assert attempt.cast is not None and attempt.cast.text.startswith("Mia: red coat.")
        assert len(attempt.beside) == 1
    assert ask_redraw(tmp_path / "run", 1).redraws[1], "the images of its cast are read with the plan"


def test_a_story_is_told_again_with_the_same_plan(tmp_path: Path) -> None:
    steps = [
        {"number": 1, "name": "Morning", "prompt": "Mia wakes up", "auxiliary_text": "Very early."},
        {"number": 2, "prompt": "an empty street", "settings": {"source": "text"}},
        {"number": 3, "prompt": "add rain", "settings": {"source": 1}},
    ]
    plan = Plan.model_validate({"steps": steps, "cast": [MIA]})
    drawn: list[str] = []

    def draw(prompt: str, source: Image.Image | None, seed: int) -> Image.Image:
        drawn.append(prompt)
        return Image.new("RGB", (8, 8), (len(prompt), 0, 0))

    first = Pipeline(generator=draw, critic=None)("a story", tmp_path / "one", plan=plan)
    drawn.clear()
    pipeline = Pipeline(ScriptedChat(["Der Morgen", '{"a": "plan"}', "Sehr früh."]), draw, None)
    cast = [CastMember(name="Mia", traits=("blue coat",))]
    tell = partial(pipeline.again, tmp_path / "one", tmp_path / "two", language="German", cast=cast)
    again = tell()
    assert [text.split(".")[0] for text in drawn] == ["Mia wakes up", "add rain"], "step 3 edits step 1"
    step = again.steps[0].step
    assert (step.name, step.auxiliary_text, step.prompt) == ("Der Morgen", "Sehr früh.", "Mia wakes up")
    assert load_trajectory(tmp_path / "one") == first.trajectory
    assert tell().trajectory == again.trajectory and len(drawn) == 2, "it is resumed"
    with pytest.raises(JournalError, match="another request"):
        Pipeline(critic=None)("a house", tmp_path / "two")
    paused = RunSettings(pause="after the plan")
    Pipeline(OwnPlanner(), draw, None, settings=paused)("two boats", tmp_path / "three")
    with pytest.raises(SettingsError, match="waits for your approval"):
        pipeline.again(tmp_path / "three", tmp_path / "four")


def test_the_example_streams_a_story_to_a_browser() -> None:
    pytest.importorskip("fastapi")
    from fastapi.testclient import TestClient

    root = Path(__file__).resolve().parents[3]
    example = runpy.run_path(str(root / "docs/examples/story_events.py"))
    pipelines = example["pipelines"]
    while pipelines.qsize():
        pipelines.get()
    for _ in range(2):
        pipelines.put(Pipeline(OwnPlanner(), "fake:32", OwnCritic()))
    first = example["events"]("A boat.")
    assert next(first).startswith("event: plan")  # and another visitor does not wait for its end:
    second = example["events"]("A house.")
    assert next(second).startswith("event: plan")
    assert [one.partition("\n")[0] for one in example["events"]("A sun.")] == ["event: failed"]
    second.close()
    with TestClient(example["app"]) as client:
        answers = [client.get("/story", params={"request": request}) for request in ("Two boats.", "")]
    sent = [[event.split("\ndata: ") for event in answer.text.split("\n\n")[:-1]] for answer in answers]
    first.close()
    assert pipelines.qsize() == 2
    names = ["plan", "attempt", "attempt", "step", "attempt", "step", "done"]
    assert [name for name, _ in sent[0]] == [f"event: {name}" for name in names]
    assert json.loads(sent[0][-1][1]) == {"accepted": True}
    assert [name for name, _ in sent[1]] == ["event: failed"]


def gray(prompt: str, source: Image.Image | None, seed: int) -> Image.Image:
    return Image.new("RGB", source.size if source else (32, 32), (seed % 256,) * 3)


class Returning(OwnPlanner):
    """A planner, generator and critic whose results are of the wrong class."""

    def plan(self, request: Any) -> Any:
        return [request]

    def draw(self, prompt: str, source: Any, seed: int) -> Any:
        return "image.png"

    judge = draw


def test_a_function_generates_and_wrong_models_are_typed_errors() -> None:
    plan = Plan(steps=(Step(number=1, prompt="a boat"), Step(number=2, prompt="make it blue")))
    assert [one.size for one in Pipeline(generator=gray, critic=None)("x", plan=plan).images] == [
        (32, 32)
    ] * 2
    wrong: list[tuple[dict[str, Any], Plan | None, str]] = [
        ({"generator": Returning()}, plan, "Return a PIL image"),
        ({"generator": Returning}, plan, "Pass an instance"),
        ({"generator": object()}, plan, "'draw' and no 'identity'"),
        ({"generator": gray, "critic": lambda *given: True}, plan, "subclass of CriticLike"),
        ({"generator": gray, "critic": OwnPlanner()}, plan, "no 'judge'"),
        ({"planner": Returning(), "generator": gray}, None, "Return a Plan"),
    ]
    for models, given, said in wrong:
        with pytest.raises(SettingsError, match=said):
            Pipeline(**{"critic": None, **models})("x", plan=given)


def test_the_identity_of_a_function_is_that_of_its_code() -> None:
    def identity(call: str) -> str:
        text = f"def own(prompt, source, seed): return [one.{call} for one in (lambda: prompt)()]"
        (code,) = [one for one in compile(text, "own", "exec").co_consts if isinstance(one, CodeType)]
        return FunctionGenerator(FunctionType(code, {"__name__": "own"})).identity

    assert identity("blur") == identity("blur") != identity("blend"), "nested code has no address in it"
