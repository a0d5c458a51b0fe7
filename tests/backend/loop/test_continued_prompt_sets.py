"""A run that was made with an earlier default prompt set resumes with it and asks nothing again."""

from __future__ import annotations

from pathlib import Path

from interleave_thinker.backend.agents.constrained_planner import ConstrainedPlanner
from interleave_thinker.backend.agents.critic import Critic
from interleave_thinker.backend.agents.plan_constraints import PlanConstraints
from interleave_thinker.backend.agents.planner import Planner
from interleave_thinker.backend.answers.reading import write_plan, write_verdict
from interleave_thinker.backend.chat.scripted import ScriptedChat
from interleave_thinker.backend.generators.fake import FakeGenerator
from interleave_thinker.backend.journal.journal import Journal
from interleave_thinker.backend.loop.events import Finished
from interleave_thinker.backend.loop.loop import run
from interleave_thinker.backend.prompts import TEMPLATES, PromptSet, default_prompt_set
from interleave_thinker.backend.types import Plan, Request, RunSettings, Step, Trajectory, Verdict

REQUEST = Request(text="a house and a sun")
PLAN = Plan(steps=(Step(number=1, prompt="a house"), Step(number=2, prompt="add a sun")))
EARLIER = PromptSet.load(TEMPLATES / "default_2")


def chats() -> tuple[ScriptedChat, ScriptedChat]:
    verdicts = [write_verdict(Verdict(success=True, refined_prompt=step.prompt or "")) for step in PLAN.steps]
    return ScriptedChat([write_plan(PLAN)]), ScriptedChat(verdicts)


def trajectory(
    folder: Path, prompt_set: PromptSet | None, chats: tuple[ScriptedChat, ScriptedChat]
) -> Trajectory:
    planner = ConstrainedPlanner(Planner(chats[0], prompt_set), PlanConstraints())
    critic = Critic(chats[1], prompt_set)
    events = list(run(REQUEST, planner, FakeGenerator(), critic, RunSettings(), Journal(folder)))
    assert isinstance(events[-1], Finished)
    return events[-1].trajectory


def test_a_run_of_the_earlier_version_asks_nothing_again(tmp_path: Path) -> None:
    first = trajectory(tmp_path, EARLIER, chats())
    again = chats()
    second = trajectory(tmp_path, None, again)
    assert [chat.requests for chat in again] == [[], []]
    assert second.identities == first.identities and second.results == first.results


def test_a_new_run_and_a_given_prompt_set_are_not_affected(tmp_path: Path) -> None:
    new = chats()
    made = trajectory(tmp_path / "new", None, new)
    assert made.identities.prompt_set == default_prompt_set().digest
    trajectory(tmp_path / "old", EARLIER, chats())
    given = chats()
    made = trajectory(tmp_path / "old", default_prompt_set(), given)
    assert made.identities.prompt_set == default_prompt_set().digest
    assert all(len(chat.requests) for chat in given), "another prompt set is another agent"
