"""Answers that repeat an example of their own template are refused; answers of one's own are not."""

from __future__ import annotations

import json

import pytest
from support.copied_examples import Subject, accepts, examples, forms, replies_with, templates

COPIES = [
    (agent, reply)
    for agent, template in templates().items()
    for thought, answer in examples(agent, template)
    for reply in forms(thought, answer)
]


def test_every_template_has_an_example() -> None:
    assert {agent for agent, _ in COPIES} == templates().keys()
    assert len(COPIES) > 80


@pytest.mark.parametrize("agent", sorted(templates()))
def test_a_copy_is_asked_again_and_then_no_answer(agent: str) -> None:
    for copied, reply in COPIES:
        if copied == agent:
            replies = replies_with(agent, reply)
            assert accepts(agent, replies) == (False, len(replies)), reply


SUBJECTS = [
    Subject("A red dragon finds a cave, two images", ("A red dragon at a cave", "The dragon sleeps in it")),
    Subject("A dragon gets a hat", ("A green dragon", "Put a yellow hat on the dragon")),
    Subject(
        "A knitted octopus finds a hat. Two pictures with captions, then one sentence about octopuses.",
        ("A yellow hat on the octopus.", "Put a yellow hat on the octopus."),
    ),
    Subject("章鱼找到一顶帽子", ("一只紫色的章鱼坐在木架上", "给章鱼戴上一顶黄色的帽子")),
]


def own_replies(agent: str, subject: Subject) -> list[str]:
    """Return answers to the subject in the style of the examples, with sentences that anybody may write."""
    first, second = subject.prompts
    job = agent.partition(" ")[2] or agent
    about = [f"The image after the step shows it: {first}.", "The hat is red instead of yellow."]
    if job == "critic":
        about += ["The yellow hat is there, and nothing else has changed."]
        values = [
            {"previous_step_success": True, "refine_prompt": first},
            {"previous_step_success": False, "refine_prompt": f"{first}. Nothing else has changed."},
            {"previous_step_success": True, "refine_prompt": f"{first}!"},
        ]
        return [
            f"<think>{about[at]}</think><answer>{json.dumps(one)}</answer>" for at, one in enumerate(values)
        ]
    if job == "story_check":
        findings = [{"step_number": 4, "kind": "state", "problem": f"It must show this: {second}"}]
        values = [{"findings": []}, {"findings": findings}]
    elif job == "cast":
        cast = [{"name": "hat", "kind": "prop", "traits": ["small", "yellow felt"]}]
        facts = ["Nothing has changed.", f"It is true that {second}."]
        steps = [{"step_number": number, "cast": ["hat"], "facts": [facts[number - 1]]} for number in (1, 2)]
        values = [{"cast": cast, "steps": steps}, {"cast": [], "steps": []}]
    elif job in ("rewrite", "enhancer_text", "enhancer_edit"):
        return [
            f"{first}, seen from the front in soft light. Nothing else is on the table.",
            f"{second}, seen from the front. Keep the light and the view unchanged.",
        ]
    elif job == "planner_outline":
        lines = [f"{number}. {second}, part {number}" for number in range(1, 12)]
        values = [{"outline": [*lines, "12. It puts on a hat.", "13. A fact. (text only)"], "always": first}]
    else:
        wall = "white wall, soft light from the left, close-up photo"
        texts = [(first, "The hat", f"{first}, {wall}", "At last, a hat!"), (second, "Waiting", second, None)]
        steps = [
            {"step_name": name, "instruction": about, "prompt": prompt, "auxiliary_text": text}
            for about, name, prompt, text in texts
        ]
        if "octopus" in subject.request:
            fact = "A real octopus has three hearts."
            steps.append({"step_name": "Did you know?", "prompt": None, "auxiliary_text": fact})
        while job == "planner_part" and len(steps) < 6:
            steps.append({"step_name": "More", "prompt": f"{second}, seen from place {len(steps)}"})
        steps = [{"step_number": number, **step} for number, step in enumerate(steps, 1)]
        values = [{"execution_plan": steps, "state": f"This is true now: {second}."}]
    return [f"<think>{about[0]}</think><answer>{json.dumps(one)}</answer>" for one in values]


OWN = [(a, one, r) for a in sorted(templates()) for one in SUBJECTS for r in own_replies(a, one)]


def test_answers_of_ones_own_are_taken_at_once() -> None:
    assert len(OWN) > 100
    for agent, subject, reply in OWN:
        replies = replies_with(agent, reply)[:-1]
        if agent.endswith(("planner_part", "planner_outline")):
            # The parts after the one in question.
            more = [{"step_number": n, "prompt": f"{subject.prompts[1]}, later, {n}"} for n in range(1, 8)]
            rest = [f"<answer>{json.dumps({'execution_plan': more[:count]})}</answer>" for count in (6, 7)]
            replies += rest[-1:] if agent.endswith("part") else rest
        assert accepts(agent, replies, subject) == (True, len(replies)), (agent, reply)


def test_the_example_answers_its_own_question() -> None:
    artist = SUBJECTS[2]
    for agent in ("default planner_text", "default critic", "verdict-first critic", "short critic"):
        for thought, answer in examples(agent, templates()[agent]):
            assert accepts(agent, [next(forms(thought, answer))], artist) == (True, 1)


def test_a_second_answer_of_ones_own_is_taken() -> None:
    copied = next(reply for agent, reply in COPIES if agent == "default critic")
    assert accepts("default critic", [copied, own_replies("default critic", SUBJECTS[0])[0]]) == (True, 2)


MIXED = [
    {"previous_step_success": True, "refine_prompt": "A yellow hat on the octopus."},
    {
        "previous_step_success": False,
        "refine_prompt": "Oil painting. Put one bright yellow knitted hat on the "
        "head of the purple octopus. The dragon stays as it is.",
    },
    {"previous_step_success": False, "refine_prompt": "..."},
]


@pytest.mark.parametrize("value", MIXED)
def test_a_copied_prompt_alone_is_a_copy(value: dict[str, object]) -> None:
    reply = f"<think>The dragon has no cave yet.</think><answer>{json.dumps(value)}</answer>"
    assert accepts("default critic", [reply, reply], SUBJECTS[1]) == (False, 2)
