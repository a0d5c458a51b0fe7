"""The planner with a real instruct model in GGUF, named by INTERLEAVE_REAL_GGUF, on a real llama-server.

Small models often fail to write a plan. These tests do not measure how often. They check that the outcome is
a plan or an error that a user understands.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.llama_models import need_server, opened, real_model

from interleave_thinker.backend.core.errors import AnswerError
from interleave_thinker.backend.core.types import Plan, Request
from interleave_thinker.backend.models.chat import ReplySettings
from interleave_thinker.backend.models.chat.llamacpp_chat import LlamaCppChat
from interleave_thinker.backend.pipeline.pipeline import Pipeline
from interleave_thinker.backend.story.agents.plan_constraints import PlanConstraints, constrained_plan
from interleave_thinker.backend.story.agents.planner import Planner
from interleave_thinker.backend.story.loop.events import AttemptDrawn

pytestmark = [pytest.mark.real, pytest.mark.timeout(1800)]

STEPS = 3
REQUESTS = (
    "Tell the story of a fox who finds a lantern, in exactly 3 steps, with one image each.",
    "Show in exactly 3 steps how to plant a tree. Write a caption for every image.",
    "Exactly 3 images: a lighthouse in the morning, at noon and at night.",
)
SETTINGS = ReplySettings(max_tokens=700)
PlanOf = Callable[[str], "Plan | AnswerError"]


@pytest.fixture(scope="module")
def chat() -> Iterator[LlamaCppChat]:
    need_server()
    with opened(real_model(), context=8192) as agent:
        yield agent


@pytest.fixture(scope="module")
def outcome_of(chat: LlamaCppChat) -> PlanOf:
    """Return a function that plans a request. It asks once for each."""
    return functools.cache(lambda text: planned(chat, text))


def planned(chat: LlamaCppChat, text: str) -> Plan | AnswerError:
    pieces: list[str] = []
    planner = Planner(chat, settings=SETTINGS)
    try:
        return constrained_plan(planner, Request(text=text), PlanConstraints(), pieces.append)
    except AnswerError as error:
        return error
    finally:
        assert sum(bool(piece) for piece in pieces) > 10, "the reply was not streamed"


@pytest.mark.parametrize("text", REQUESTS)
def test_a_request_becomes_a_plan_or_an_error_with_advice(outcome_of: PlanOf, text: str) -> None:
    outcome = outcome_of(text)
    if isinstance(outcome, AnswerError):
        assert outcome.message and outcome.hint
        return
    assert all(step.prompt or step.auxiliary_text for step in outcome.steps)
    assert STEPS in (len(outcome.steps), _images(outcome)) or "3 steps were requested" in outcome.warning


def test_a_stopped_run_resumes_without_asking_again(
    chat: LlamaCppChat, outcome_of: PlanOf, tmp_path: Path
) -> None:
    text = next((text for text in REQUESTS if _images(outcome_of(text)) > 1), None)
    if text is None:
        pytest.skip("the model wrote no plan with two images for any of the requests")
    pipeline = Pipeline(Planner(chat, settings=SETTINGS), "fake:16", None)
    stream = pipeline.stream(text, tmp_path / "run")
    assert any(isinstance(event, AttemptDrawn) for event in stream)
    stream.close()
    assert len(list((tmp_path / "run" / "attempts").glob("*.json"))) == 1
    # A question would start the server again.
    chat.server.release()
    starts = chat.server.process.starts
    story = pipeline(text, tmp_path / "run")
    assert story.complete and len(story.images) == _images(story.trajectory.plan) > 1
    assert chat.server.process.starts == starts and not chat.server.process.runs


def _images(outcome: Plan | AnswerError) -> int:
    return sum(bool(step.prompt) for step in outcome.steps) if isinstance(outcome, Plan) else 0
