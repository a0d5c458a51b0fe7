"""The shifted generator, the simulated user who judges its images, and the exact teacher of critic rows."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("diffusers", reason='the tiny world needs: pip install ".[tinyworld]"')

from interleave_thinker import CriticLike, Finished, Plan, Request, RunSettings, SettingsError, Step
from interleave_thinker.backend.core.answers.reading import read_verdict
from interleave_thinker.backend.output.feedback_log import record_feedback
from interleave_thinker.backend.story.journal.journal import Journal
from interleave_thinker.backend.story.loop.collaborators import Collaborators
from interleave_thinker.backend.story.loop.loop import run
from interleave_thinker.research.tinyworld.data.critic_rows import PROMPT_SET
from interleave_thinker.research.tinyworld.shifted_generator import feedback_on, shifted_generator
from interleave_thinker.tinyworld.drawing import draw
from interleave_thinker.tinyworld.generator import TinyWorldGenerator
from interleave_thinker.tinyworld.generator import open as open_world
from interleave_thinker.tinyworld.oracle import OracleCritic
from interleave_thinker.tinyworld.scene import Scene, identity_of
from interleave_thinker.tinyworld.scorer import UNREADABLE, TinyWorldScorer, read_image
from interleave_thinker.tinyworld.wording import read_prompt
from interleave_thinker.training.from_runs.convert import RunConverter
from interleave_thinker.training.from_runs.settings import RunsData
from interleave_thinker.training.rows.sft import check_rows

PROMPT = "a sea page with a red boat at the middle"
NAMED = f"{PROMPT}; a red boat must be at the middle"
RIGHT = draw(Scene(2).put(4, identity_of("red", "boat")))


@pytest.fixture(scope="module")
def plain() -> TinyWorldGenerator:
    return open_world("")


@pytest.fixture(scope="module")
def shifted(plain: TinyWorldGenerator) -> TinyWorldGenerator:
    return shifted_generator(plain, 1.0)


def test_new_objects_are_cut_or_named(plain: TinyWorldGenerator, shifted: TinyWorldGenerator) -> None:
    assert shifted.identity != plain.identity
    pages = shifted.draw_many([PROMPT] * 8 + [NAMED] * 8, [None] * 16, [*range(8)] * 2)
    unreadable = [UNREADABLE in read_image(page).cells for page in pages]
    assert sum(unreadable[:8]) >= 6 and sum(unreadable[8:]) <= 1
    assert pages == shifted.draw_many([PROMPT] * 8 + [NAMED] * 8, [None] * 16, [*range(8)] * 2)
    assert shifted_generator(plain, 0.0).draw(PROMPT, None, 3) == plain.draw(PROMPT, None, 3)


def test_kept_objects_are_not_cut(plain: TinyWorldGenerator, shifted: TinyWorldGenerator) -> None:
    for prompt in ("change the page to night", "remove the boat", "draw whatever you like"):
        assert shifted.draw(prompt, RIGHT, 5) == plain.draw(prompt, RIGHT, 5)


def test_the_simulated_user_gives_better_prompts(shifted: TinyWorldGenerator, tmp_path: Path) -> None:
    class Credulous(CriticLike):
        identity, prompt_set_digest = "credulous", PROMPT_SET.digest

        def judge(self, before: object, after: object, original: str, used: str) -> object:
            return read_verdict(
                '<think>Fine.</think><answer>{"previous_step_success": true, "refine_prompt": ""}</answer>'
            )

    plan = Plan(
        steps=(Step(number=1, prompt=PROMPT), Step(number=2, prompt="add a white star at the top left"))
    )
    folder = tmp_path / "runs" / "a"
    events = list(
        run(
            Request(text="x"),
            Collaborators(None, shifted, Credulous()),
            RunSettings(seed=1),
            Journal(folder),
            plan,
        )  # type: ignore[arg-type]
    )
    assert isinstance(events[-1], Finished)
    first, second = (result.attempts[0] for result in events[-1].trajectory.results)
    assert first.image is not None and not TinyWorldScorer().success(None, first.image, PROMPT)
    given = feedback_on(1, 0, PROMPT, first)
    assert given is not None and given.accepted is False and given.better_prompt == NAMED
    assert feedback_on(2, 0, "add a white star at the top left", second) is None, "the fault cannot be seen"
    record_feedback(folder, given)

    settings = RunsData(reasoning="tinyworld", balance=0.0)
    with pytest.raises(SettingsError, match="needs an oracle"):
        RunConverter(settings, PROMPT_SET).convert([tmp_path / "runs"], tmp_path / "data")
    converter = RunConverter(settings, PROMPT_SET, TinyWorldScorer(), OracleCritic())
    made = converter.convert([tmp_path / "runs"], tmp_path / "data")
    assert made.sft is not None
    taught = read_verdict(check_rows(made.sft)[0][0].messages[-1].content)
    assert taught.success is False and taught.refined_prompt == NAMED
    assert "see middle smudge no" in taught.reasoning and taught.reasoning.endswith("so no")
    assert made.report.details[0].overall is not None and made.report.unscored == 1


def test_the_oracle_gives_no_answer_that_contradicts_the_images() -> None:
    teacher = OracleCritic()
    right = teacher.answer(None, RIGHT, PROMPT, PROMPT, True)
    assert right is not None and right.refined_prompt == PROMPT and right.reasoning.endswith("so yes")
    assert teacher.answer(None, RIGHT, PROMPT, PROMPT, False) is None
    assert teacher.answer(None, RIGHT, "draw whatever you like", PROMPT, True) is None
    assert teacher.answer(None, RIGHT, "remove the boat", PROMPT, False) is None
    assert read_prompt(NAMED) is not None
