"""What llama.cpp's server is sent: a slot for each role, so that prompts stay cached, and grammars."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from support.fake_llama_server import requests_of, starts_of, write_agent, write_program
from support.tiny_checkpoint import ACCEPTED, PLAIN, REFUSED, WATCH, page, question

from interleave_thinker.backend.core.answers.reading import write_plan
from interleave_thinker.backend.core.types import Plan, Request, Step
from interleave_thinker.backend.models.chat import open_chat
from interleave_thinker.backend.models.chat.grammars import answer_gbnf
from interleave_thinker.backend.story.agents.critic import Critic
from interleave_thinker.backend.story.agents.planner import Planner

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the stand-in is a shell script")
PLAN = write_plan(Plan(steps=(Step(number=1, prompt="a red boat"),)))


def opened(folder: Path, text: str, fault: str = "none") -> tuple[Any, Path]:
    program = write_program(folder, fault, text)
    return open_chat(f"llamacpp:{write_agent(folder / 'models')}", llama_server=str(program)), program


def after(arguments: list[str], name: str) -> str:
    return arguments[arguments.index(name) + 1]


def test_planner_critic_and_judge_of_one_model_have_a_slot_each(tmp_path: Path) -> None:
    chat, program = opened(tmp_path, PLAN)
    Planner(chat).plan(Request(text="a boat"))
    Critic(chat).judge(None, page(200), "a boat", "a boat")
    chat.reply(question(200), PLAIN)
    Planner(chat).plan(Request(text="another boat"))
    ((_, arguments),) = starts_of(program)
    bodies = requests_of(program)
    planner, critic, judge, again = (body["id_slot"] for body in bodies)
    assert all(body["cache_prompt"] is True for body in bodies)
    assert planner == again and len({planner, critic, judge}) == 3
    assert max(planner, critic, judge) < int(after(arguments, "--parallel"))
    assert "--kv-unified" in arguments and after(arguments, "-c") == "16384", "all of it for each reply"


def test_an_older_server_starts_with_one_slot(tmp_path: Path) -> None:
    chat, program = opened(tmp_path, ACCEPTED, "no slots")
    assert chat.reply(question(200), PLAIN).text == ACCEPTED
    ((_, arguments),) = starts_of(program)
    assert after(arguments, "--parallel") == "1" and "--kv-unified" not in arguments
    (body,) = requests_of(program)
    assert "id_slot" not in body and body["cache_prompt"] is True


@pytest.mark.parametrize(("fault", "thinking"), [("none", False), ("thinks", True)])
def test_a_constrained_reply_is_sent_the_grammar_of_its_answer(
    tmp_path: Path, fault: str, thinking: bool
) -> None:
    chat, program = opened(tmp_path, PLAN, fault)
    planner = Planner(chat, constrained_decoding="always")
    assert planner.unused_settings == ()
    assert planner.plan(Request(text="a boat")).steps[0].prompt == "a red boat"
    (body,) = requests_of(program)
    assert body["grammar"] == answer_gbnf("plan", thinking) and "response_format" not in body


def test_only_the_second_attempt_is_constrained_by_default(tmp_path: Path) -> None:
    chat, program = opened(tmp_path, "It looks fine.")
    assert Critic(chat).judge(None, page(200), "a boat", "a boat").success is None
    first, second = requests_of(program)
    assert "grammar" not in first and second["grammar"] == answer_gbnf("verdict")


def test_a_constrained_reply_ends_at_true_and_keeps_its_probability(tmp_path: Path) -> None:
    chat, _ = opened(tmp_path, ACCEPTED)
    held = chat.reply(question(200), WATCH.model_copy(update={"grammar": "verdict"}))
    assert held.finish == "verdict" and held.text == ACCEPTED[: ACCEPTED.index(", ") + 1]
    assert held.probability == pytest.approx(0.9, abs=0.02)
    free = chat.reply(question(200), WATCH)
    assert (free.finish, free.text) == ("end", ACCEPTED), "it may correct itself"
    (tmp_path / "second").mkdir()
    chat, _ = opened(tmp_path / "second", REFUSED)
    held = chat.reply(question(200), WATCH.model_copy(update={"grammar": "verdict"}))
    assert (held.finish, held.text) == ("end", REFUSED)
