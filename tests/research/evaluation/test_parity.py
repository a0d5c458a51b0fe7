"""Two classes of the published code and this package do the same in the same scripted cases.

They need a checkout of github.com/zhengdian1/InterleaveThinker, which INTERLEAVE_PUBLISHED names, and no
weights: `just parity CHECKOUT`. Its code is executed in a child process without API keys.

Not compared: decoding, text-only steps, empty refined prompts, replies that cannot be parsed, and the numbers
of the seeds.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest
from support.published_child import digest, paint

from interleave_thinker import Critic, Finished, Picture, Plan, Planner, Request, RunSettings, Step, Verdict
from interleave_thinker.backend.core.answers.reading import write_plan, write_verdict
from interleave_thinker.backend.core.machine.environment import restricted
from interleave_thinker.backend.core.prompts.importer import import_official
from interleave_thinker.backend.core.prompts.prompt_set import ENDING
from interleave_thinker.backend.core.seams.chat_model import Message, Reply, ReplySettings
from interleave_thinker.backend.pipeline.as_published import BENCHMARK_SETTINGS, STORY_SETTINGS
from interleave_thinker.backend.story.loop.collaborators import Collaborators
from interleave_thinker.backend.story.loop.loop import run
from interleave_thinker.research.benchmarks.benchmark import ItemAnswer

CHECKOUT = Path(os.environ.get("INTERLEAVE_PUBLISHED") or "/nonexistent").absolute()
pytestmark = pytest.mark.skipif(
    not CHECKOUT.is_dir(), reason="INTERLEAVE_PUBLISHED names no checkout of the published code"
)
SECONDS = 300.0
"""Deadline of a class."""
THINGS = ("a red fox", "a stone bridge", "a paper lantern \u706f\u7c60")
CAPTIONS = ("\u201cOnce,\u201d there was a fox. ", None, "A lantern glows: 100 % of the night. ")
"""Captions of the steps. The second step has none, so its instruction is its text."""


class Case(NamedTuple):
    """A request with a plan, and verdicts by the prompt of the attempt, each of which occurs once.

    So a side that generates or judges in another order still gets the verdicts of the case.
    """

    request: Request
    plan: Plan
    verdicts: dict[str, Verdict]


def make_case(verdicts: str, text: str, images: Sequence[Picture] = ()) -> Case:
    """Return a case whose verdicts are given as one word per step: `y` accepts, `n` rejects."""
    steps: list[Step] = []
    judged: dict[str, Verdict] = {}
    for index, (thing, row) in enumerate(zip(THINGS, verdicts.split(), strict=True)):
        prompt = f'Add {thing} to the page, in "soft" water colors.'
        told = {"name": f"Draw {thing}", "instruction": f"Show {thing}.", "auxiliary_text": CAPTIONS[index]}
        steps.append(Step.model_validate({"number": index + 1, "prompt": prompt, **told}))
        for number, answer in enumerate(row, 1):
            refined = prompt if answer == "y" else f"Add {thing} to the page, whole. Version {number}."
            reasoning = f"{thing} is {'there' if answer == 'y' else 'cut off'}."
            judged[prompt] = Verdict(success=answer == "y", reasoning=reasoning, refined_prompt=refined)
            prompt = refined
    return Case(Request(text=text, images=tuple(images)), Plan(steps=tuple(steps)), judged)


FIRST, SECOND = (Picture(paint(f"image {number} of the user", None)) for number in (1, 2))
TEXT = "A fox crosses a bridge by lantern light, \u00e0 pas de loup"
CASES = {
    "accepted": make_case("y y y", f"{TEXT}{ENDING}."),
    "mixed": make_case("y ny nny", TEXT),
    "rejected": make_case("nnn nnn nnn", TEXT),
    "one image": make_case("nnn y ny", TEXT, [FIRST]),
    "two images": make_case("y ny nnn", f"The fox of <image> meets that of <image>. {TEXT}", [FIRST, SECOND]),
}


class PublishedClass(NamedTuple):
    """A class of the published code: its file, its white image, and the settings of this package.

    The white image is copied from the checkout to the second path in the working folder. `joined`: the class
    returns the joined text of all steps, and accepts no images in the request. `lead`: the demo begins the
    text of a request to the critic with a line break and the runner does not, so no request can equal both.
    """

    file: str
    white: tuple[str, str]
    settings: dict[str, Any]
    joined: bool
    lead: str

    @property
    def cases(self) -> dict[str, Case]:
        return {name: one for name, one in CASES.items() if not (self.joined and one.request.images)}


CLASSES = {
    "demo": PublishedClass(
        "demo_klein.py",
        ("data_gen/white.png", "data_gen/white.png"),
        STORY_SETTINGS["released"],
        joined=False,
        lead="\n",
    ),
    "runner": PublishedClass(
        "UEval/ueval_klein.py",
        ("UEval/white.png", "white.png"),
        BENCHMARK_SETTINGS["released"],
        joined=True,
        lead="",
    ),
}
Observed = dict[str, Any]
"""What a side asked its models in a case: conversations, generator calls, texts and digests of images."""


@cache
def run_published(kind: str) -> dict[str, Observed]:
    with TemporaryDirectory() as work:
        return observe(CLASSES[kind], kind, Path(work))


def observe(one: PublishedClass, kind: str, folder: Path) -> dict[str, Observed]:
    (folder / one.white[1]).parent.mkdir(exist_ok=True)
    shutil.copyfile(CHECKOUT / one.white[0], folder / one.white[1])
    asked = []
    for name, case in one.cases.items():
        images = [str(folder / f"{name} {number}.png") for number in range(len(case.request.images))]
        for picture, path in zip(case.request.images, images, strict=True):
            picture.image.save(path)
        verdicts = {prompt: write_verdict(verdict) for prompt, verdict in case.verdicts.items()}
        asked.append({"name": name, "request": case.request.text, "images": images})
        asked[-1] |= {"plan": write_plan(case.plan), "verdicts": verdicts}
    (folder / "asked.json").write_text(json.dumps(asked), encoding="utf-8")
    child = Path(__file__).parents[2] / "support" / "published_child.py"
    subprocess.run(
        [sys.executable, "-B", "-s", str(child), kind, "asked.json", "observed.json"],
        cwd=folder,
        env=restricted(folder / "home", PYTHONPATH=str((CHECKOUT / one.file).parent)),
        timeout=SECONDS,
        check=True,
    )
    found = json.loads((folder / "observed.json").read_text(encoding="utf-8"))
    return dict(zip(one.cases, found, strict=True))


class Painter:
    """A generator that records its calls."""

    identity = "parity painter"

    def __init__(self) -> None:
        self.draws: list[dict[str, Any]] = []

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        image = source.image if source else None
        self.draws.append({"prompt": prompt, "source": image and digest(image), "seed": seed})
        return Picture(paint(prompt, image))


class Chat:
    """A chat model that records its messages, texts with `lead` before them, and returns scripted replies."""

    def __init__(self, identity: str, reply: Callable[[], str], lead: str) -> None:
        self.identity, self._reply, self._lead = identity, reply, lead
        self.prompt_set = import_official(CHECKOUT)
        self.asked: list[list[list[str]]] = []

    def reply(self, messages: Sequence[Message], settings: ReplySettings, on_token: Any = None) -> Reply:
        parts: list[list[str]] = []
        for message in messages:
            parts.append(["role", message.role])
            for part in message.content:
                is_text = isinstance(part, str)
                parts.append(["text", self._lead + part] if is_text else ["image", digest(part.image)])
        self.asked.append(parts)
        return Reply(text=self._reply())


def run_ours(case: Case, one: PublishedClass) -> Observed:
    painter = Painter()
    planner = Chat("parity planner", lambda: write_plan(case.plan), lead="")
    critic = Chat(
        "parity critic", lambda: write_verdict(case.verdicts[painter.draws[-1]["prompt"]]), one.lead
    )
    told = RunSettings.model_validate(one.settings)
    events = run(case.request, Collaborators(Planner(planner), painter, Critic(critic)), told)
    (trajectory,) = [event.trajectory for event in events if isinstance(event, Finished)]
    steps = [result.step for result in trajectory.results]
    texts = [step.auxiliary_text or step.instruction or "" for step in steps]
    return {
        "planner": planner.asked,
        "critic": critic.asked,
        "draws": painter.draws,
        "texts": [ItemAnswer.of(trajectory).joined] if one.joined else texts,
        "final": [digest(result.image.image) for result in trajectory.results if result.image],
    }


def without_seeds(draws: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return generator calls with the number of the first one with the same seed instead of the seed."""
    seeds = [draw["seed"] for draw in draws]
    return [{**draw, "seed": seeds.index(draw["seed"])} for draw in draws]


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, one in CLASSES.items() for name in one.cases]
)
def test_a_class_of_the_published_code_and_this_package_do_the_same(kind: str, name: str) -> None:
    one, theirs = CLASSES[kind], run_published(kind)[name]
    ours = run_ours(CASES[name], one)
    assert theirs["planner"] and theirs["critic"] and theirs["final"]
    for item in ("planner", "critic", "texts", "final"):
        assert ours[item] == theirs[item], item
    assert without_seeds(ours["draws"]) == without_seeds(theirs["draws"])


def test_the_prompts_of_the_checkout_are_the_published_ones() -> None:
    assert import_official(CHECKOUT).is_published
