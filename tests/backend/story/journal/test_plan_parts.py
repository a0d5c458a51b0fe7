"""A plan in parts whose process is killed or stopped in between: finished parts are not requested again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from interleave_thinker import ChatError, Plan, Planner, Reply, ReplySettings, Request
from interleave_thinker.backend.models.chat.scripted import ScriptedChat
from interleave_thinker.backend.story.journal.run_files import PlanParts

COUNT = 50
REQUEST = f"A walk in exactly {COUNT} steps."


def outline() -> str:
    return json.dumps({"outline": [f"{at}. mile {at}" for at in range(1, COUNT + 1)], "always": "ink"})


def part(first: int) -> str:
    made = [{"step_number": at, "auxiliary_text": f"Mile {at}."} for at in range(first, first + 10)]
    return json.dumps({"execution_plan": made, "state": f"at {first + 9}"})


def all_replies() -> list[str]:
    return [outline(), *(part(first) for first in range(1, COUNT + 1, 10))]


class OneAgent(ScriptedChat):
    """The same identity for any replies."""

    identity = "one agent"


def planned(
    replies: list[str | Reply], folder: Path, request: str = REQUEST, temperature: float = 0.0
) -> Plan:
    settings = ReplySettings(max_tokens=900, temperature=temperature)
    planner = Planner(OneAgent(replies), settings=settings)
    return planner.plan(Request(text=request), store=PlanParts(folder))


@pytest.mark.parametrize("done", range(1, 6))
def test_only_the_missing_parts_are_requested(done: int, tmp_path: Path) -> None:
    replies = all_replies()
    with pytest.raises(ChatError):
        planned([*replies[:done]], tmp_path / "planning")
    plan = planned([*replies[done:]], tmp_path / "planning")
    assert [step.auxiliary_text for step in plan.steps] == [f"Mile {at}." for at in range(1, COUNT + 1)]
    assert plan == planned([*replies], tmp_path / "again")
    PlanParts(tmp_path / "planning").clear()
    assert not (tmp_path / "planning").exists()


def test_another_request_or_agent_does_not_reuse_parts(tmp_path: Path) -> None:
    with pytest.raises(ChatError):
        planned([*all_replies()[:3]], tmp_path)
    other = f"A dance, not a walk: {REQUEST}"
    assert len(planned([*all_replies()], tmp_path, other).steps) == COUNT
    assert len(planned([*all_replies()], tmp_path, temperature=0.5).steps) == COUNT


def test_a_truncated_part_is_not_requested_in_full_again(tmp_path: Path) -> None:
    whole = all_replies()
    cut = Reply(text=whole[1][:80], tokens=900, finish="length")
    halves = [json.dumps({"execution_plan": json.loads(part(1))["execution_plan"][:5], "state": "at 5"})]
    halves += [json.dumps({"execution_plan": json.loads(part(1))["execution_plan"][5:], "state": "at 10"})]
    with pytest.raises(ChatError):
        planned([whole[0], cut, halves[0]], tmp_path)
    assert len(planned([halves[1], *whole[2:]], tmp_path).steps) == COUNT


def test_a_truncated_reply_before_the_parts_is_not_requested_again(tmp_path: Path) -> None:
    request = "A long walk."
    cut = Reply(text='{"execution_plan": [{"step_number": 1,', tokens=900, finish="length")
    with pytest.raises(ChatError):
        planned([cut, outline()], tmp_path, request)
    assert len(planned([*all_replies()[1:]], tmp_path, request).steps) == COUNT
