"""Constraints of a plan in addition to the request: passed as text, and checked if they can be counted."""

from __future__ import annotations

import json

import pytest

from interleave_thinker import AnswerError, ChatError, Plan, PlanConstraints, Planner, Request, SettingsError
from interleave_thinker.backend.core.prompts.prompt_set import default_prompt_set
from interleave_thinker.backend.models.chat.scripted import ScriptedChat
from interleave_thinker.backend.story.agents.plan_constraints import (
    ConstrainedPlanner,
    constrained_plan,
    constraints_in,
)


def reply(count: int, text: str | None = "Words.") -> str:
    steps = [
        {"step_number": number, "step_name": "", "prompt": "a house", "auxiliary_text": text}
        for number in range(1, count + 1)
    ]
    steps[-1] |= {"prompt": None, "auxiliary_text": "The end."}
    return f"<think>.</think><answer>{json.dumps({'execution_plan': steps})}</answer>"


def asked(chat: ScriptedChat) -> list[str]:
    return [str(one.messages[0].content[-1]) for one in chat.requests]


def test_a_plan_of_the_wrong_length_is_requested_again() -> None:
    chat = ScriptedChat([reply(5), reply(3)])
    plan = constrained_plan(Planner(chat), Request(text="A tale."), PlanConstraints(step_count=3))
    assert len(plan.steps) == 3
    first, second = asked(chat)
    assert "In exactly 3 steps: A tale." in first and "In exactly 3 steps, not 5: A tale." in second


def test_a_second_plan_that_fails_does_not_cost_the_first() -> None:
    request = Request(text="A tale in exactly three steps.")
    for second in ([], ["no plan", "no plan"]):
        plan = constrained_plan(Planner(ScriptedChat([reply(5), *second])), request, PlanConstraints())
        assert len(plan.steps) == 5
        assert plan.warning.startswith(
            "3 steps were requested, but the planner wrote 5. Planning again failed: "
        )
        chat = ScriptedChat([reply(5), *second])
        with pytest.raises((AnswerError, ChatError)):
            constrained_plan(Planner(chat), request, PlanConstraints(exact_count=True))


@pytest.mark.parametrize(
    ("text", "steps"), [("A tale in three pictures.", 4), ("About three pictures.", 5), ("A tale.", 5)]
)
def test_a_matching_or_uncertain_step_count_is_not_requested_again(text: str, steps: int) -> None:
    """The last step of these plans is text only: four steps have three images."""
    chat = ScriptedChat([reply(steps)])
    assert constrained_plan(Planner(chat), Request(text=text), PlanConstraints()).warning == ""


def test_the_closest_of_two_plans_is_used_with_a_warning() -> None:
    wishes = PlanConstraints(step_count=3)
    for counts, nearest in ((5, 4), 4), ((4, 1), 4), ((4, 2), 2), ((1, 5), 5):
        replies = ScriptedChat([reply(count) for count in counts])
        plan = constrained_plan(Planner(replies), Request(text="A tale."), wishes)
        assert len(plan.steps) == nearest
        asked_for = f"3 steps were requested, but the planner wrote {counts[0]} and then {counts[1]}."
        assert plan.warning == f"{asked_for} The plan of {nearest} is used."


def test_with_an_exact_count_a_second_wrong_length_raises() -> None:
    with pytest.raises(
        AnswerError, match=r"3 steps were requested, but the planner wrote 5 and then 4\..*or 0"
    ):
        constrained_plan(
            Planner(ScriptedChat([reply(5), reply(4)])),
            Request(text="A tale."),
            PlanConstraints(step_count=3, exact_count=True),
        )


def test_a_style_is_added_to_the_plan_and_not_to_the_request() -> None:
    chat = ScriptedChat([reply(2)])
    plan = constrained_plan(Planner(chat), Request(text="A tale."), PlanConstraints(style=" Watercolour "))
    assert plan.style == "Watercolour" and "Watercolour" not in asked(chat)[0]
    assert plan.drawn_steps[0].prompt == "Watercolour. a house" and plan.steps[0].prompt == "a house"
    assert plan.drawn_steps[1] == plan.steps[1]  # of text alone


def test_only_given_constraints_change_the_planners_identity() -> None:
    planner = Planner(ScriptedChat([]))
    assert ConstrainedPlanner(planner, PlanConstraints()).identity == planner.identity
    others = [PlanConstraints(style="Ink"), PlanConstraints(step_count=3), PlanConstraints(captions="none")]
    identities = [ConstrainedPlanner(planner, one).identity for one in others]
    assert len({*identities, planner.identity}) == 4 and [*map(constraints_in, identities)] == others


def test_captions_are_requested_in_text_and_none_removes_them() -> None:
    chat = ScriptedChat([reply(3), reply(3)])
    short = constrained_plan(Planner(chat), Request(text="A tale."), PlanConstraints(captions="short"))
    none = constrained_plan(Planner(chat), Request(text="A tale."), PlanConstraints(captions="none"))
    assert [step.auxiliary_text for step in short.steps] == ["Words.", "Words.", "The end."]
    assert [step.auxiliary_text for step in none.steps] == [None, None, "The end."]
    assert "A tale. Write a short caption" in asked(chat)[0] and "A tale. No captions." in asked(chat)[1]


def text_only(count: int) -> str:
    steps = [{"step_number": number, "auxiliary_text": "Words."} for number in range(1, count + 1)]
    return f"<answer>{json.dumps({'execution_plan': steps})}</answer>"


def planned(text: str, *replies: str, **given: object) -> tuple[Plan, ScriptedChat]:
    chat = ScriptedChat(replies)
    return constrained_plan(Planner(chat), Request(text=text), PlanConstraints.model_validate(given)), chat


def test_seven_text_only_steps_for_a_request_to_draw_are_requested_again() -> None:
    request = "Explain how rain forms. Please draw every step."
    plan, chat = planned(request, text_only(7), reply(7))
    assert any(step.prompt for step in plan.steps) and plan.warning == ""
    assert f"{request} Every step needs an image: write its prompt." in asked(chat)[1]
    again, _ = planned(request, text_only(7), text_only(3))
    assert len(again.steps) == 3
    assert again.warning == (
        "The request asks for images, but the planner wrote only text, also when it was asked again."
    )
    failed, _ = planned(request, text_only(7))
    assert failed.warning.startswith(
        "The request asks for images, but the planner wrote only text. Planning again failed: "
    )


@pytest.mark.parametrize("text", ["Why does it rain?", "Explain without pictures why it rains."])
def test_a_text_only_plan_for_a_request_for_text_is_used(text: str) -> None:
    plan, chat = planned(text, text_only(3))
    assert len(plan.steps) == 3 and len(chat.requests) == 1 and plan.warning == ""


def test_a_plan_with_images_is_better_than_one_of_the_right_length() -> None:
    plan, _ = planned("Draw a tale in exactly 3 steps.", text_only(3), reply(5))
    assert len(plan.steps) == 5
    assert plan.warning == (
        "3 steps were requested, but the planner wrote 3 and then 5. "
        "The plan of 5, which has images, is used."
    )
    exact, _ = planned("Draw a tale.", text_only(3), reply(5), step_count=3, exact_count=True)
    assert len(exact.steps) == 3 and exact.warning.startswith("The request asks for images")


def test_a_long_plan_in_one_reply_is_requested_again() -> None:
    """A prompt set without templates for parts: no outline was counted."""
    whole = default_prompt_set().in_one_reply()
    chat = ScriptedChat([reply(30), reply(40)], whole)
    plan = constrained_plan(Planner(chat), Request(text="In exactly 40 steps: A walk."), PlanConstraints())
    assert len(plan.steps) == 40
    assert [one.settings.temperature for one in chat.requests] == [0, 0], "it was trained with these settings"


def test_a_second_request_that_the_model_does_not_support_does_not_cost_the_first_plan() -> None:
    class Strict(ScriptedChat):
        def check_request(self, text: str) -> None:
            if "image" in text:
                raise SettingsError("The word 'image' is unknown.", "Leave it out.")

        def plan_warning(self, text: str, plan: Plan) -> str:
            return ""

    chat = Strict([text_only(2)])
    plan = constrained_plan(Planner(chat), Request(text="Draw a boat."), PlanConstraints())
    assert len(plan.steps) == 2 and "The word 'image' is unknown" in plan.warning


def of_prompts(*prompts: str) -> str:
    steps = [{"step_number": number, "prompt": prompt} for number, prompt in enumerate(prompts, 1)]
    return f"<answer>{json.dumps({'execution_plan': steps})}</answer>"


FAULTY = of_prompts("a boat", "a boat")
TWICE_FAULTY = of_prompts("a boat", "a boat", "a boat")
GOOD = of_prompts("a boat on a lake", "make the boat blue")


def test_findings_are_told_to_the_planner_once_if_that_is_chosen() -> None:
    plan, chat = planned("A boat.", FAULTY, GOOD, repair_plan=True)
    assert [step.prompt for step in plan.steps] == ["a boat on a lake", "make the boat blue"]
    assert plan.warning == ""
    second = asked(chat)[1]
    assert "A first plan for this request had problems." in second
    assert "Step 2: The prompt is the same as in step 1." in second
    plan, chat = planned("A boat.", FAULTY)
    assert len(chat.requests) == 1 and plan.steps[1].prompt == "a boat"


def test_a_second_plan_with_as_many_findings_is_not_used() -> None:
    for second in (TWICE_FAULTY, FAULTY.replace("boat", "ship")):
        plan, chat = planned("A boat.", FAULTY, second, repair_plan=True)
        assert len(chat.requests) == 2 and plan.steps[1].prompt == "a boat"
    plan, _ = planned("A boat.", TWICE_FAULTY, FAULTY, repair_plan=True)
    assert len(plan.steps) == 2


def test_a_repair_never_costs_the_number_of_steps() -> None:
    request = "A boat in exactly two steps."
    plan, _ = planned(request, FAULTY, of_prompts("a boat on a lake"), repair_plan=True)
    assert len(plan.steps) == 2 and plan.warning == ""
    plan, chat = planned(request, TWICE_FAULTY, GOOD, repair_plan=True)
    assert len(plan.steps) == 2 and plan.warning == ""
    assert "In exactly 2 steps, not 3: " in asked(chat)[1] and "same as in step 2" in asked(chat)[1]
    assert len(chat.requests) == 2, "the number and the findings share one second attempt"


def test_a_checkpoint_with_its_own_prompt_set_and_a_long_plan_are_not_asked_again() -> None:
    repairing, request = PlanConstraints(repair_plan=True), Request(text="A boat.")
    chat = ScriptedChat([FAULTY, GOOD])
    own = Planner(chat, default_prompt_set())
    assert constrained_plan(own, request, repairing).steps[1].prompt == "a boat"
    assert len(chat.requests) == 1
    long = of_prompts(*(f"a boat with {number} sails" for number in range(12)), "a boat with 11 sails")
    assert len(planned("A boat.", long, GOOD, repair_plan=True)[0].steps) == 13
