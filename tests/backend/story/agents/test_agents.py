"""Planner and critic: what the model gets, and the second attempt for a reply that cannot be parsed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from PIL import Image

from interleave_thinker import Critic, Picture, Plan, Planner, Reply, ReplySettings, Request, Step, Verdict
from interleave_thinker.backend.core.answers.reading import write_plan, write_verdict
from interleave_thinker.backend.core.errors import AnswerError, Cancelled, ChatError, SettingsError
from interleave_thinker.backend.core.prompts import prompt_set
from interleave_thinker.backend.core.prompts.prompt_set import PromptSet, default_prompt_set
from interleave_thinker.backend.models.chat.scripted import ScriptedChat

PLAN = Plan(steps=(Step(number=1, prompt="a boat"),), reasoning="one step")
REFUSAL = Verdict(success=False, refined_prompt="a blue boat", reasoning="It is red.")
FIRST, SECOND = (Picture(Image.new("RGB", (8, 6), (shade, 0, 0))) for shade in (10, 20))
SET = PromptSet(
    planner_text="T {text_input}.",
    planner_images="I {text_input}.",
    critic="C {original_instruction}|{rewritten_prompt}",
)


def shown(chat: ScriptedChat, request: int = 0) -> tuple[str | Picture, ...]:
    """Return the content of the first message of a request, with adjacent texts joined."""
    return chat.requests[request].messages[0].content


def planned(request: Request, prompt_set: PromptSet = SET) -> tuple[str | Picture, ...]:
    chat = ScriptedChat([write_plan(PLAN)])
    assert Planner(chat, prompt_set).plan(request) == PLAN
    return shown(chat)


def test_the_template_follows_the_images() -> None:
    assert planned(Request(text="a story")) == ("T a story.",)
    assert planned(Request(text="a story", images=(FIRST, SECOND))) == (FIRST, SECOND, "I a story.")


def test_images_are_placed_at_the_users_marks() -> None:
    request = Request(text="put <IMAGE> on <Image>", images=(FIRST, SECOND))
    assert planned(request) == ("I put ", FIRST, " on ", SECOND, ".")


def test_the_published_prompt_set_is_sent_in_its_runners_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """One phrase is removed from the request, and each part of the text is followed by an image."""
    told = Request(text="Explain it both visually and textually.", images=(FIRST,))
    marked = Request(text="From <image> both visually and textually", images=(FIRST,))
    own = [planned(told), planned(marked), planned(Request(text=told.text))]
    before = SET.digest
    monkeypatch.setattr(prompt_set, "WORDINGS", frozenset({SET.digest}))
    assert planned(told) == ("I Explain it..", FIRST)
    assert planned(marked) == ("I From ", FIRST, ".")
    assert planned(Request(text=told.text)) == ("T Explain it..",)
    assert planned(Request(text="go", images=(FIRST, SECOND))) == ("I go.", FIRST, SECOND)
    assert SET.digest == before, "runs that were started can be resumed"
    # Any other prompt set keeps the form that it was trained with.
    other = SET.model_copy(update={"critic": "another"})
    assert [planned(told, other), planned(marked, other), planned(Request(text=told.text), other)] == own
    assert own[0] == (FIRST, "I Explain it both visually and textually..")


def test_images_are_placed_at_the_templates_marks() -> None:
    marked = SET.model_copy(update={"planner_images": "<image>\nI {text_input}"})
    assert planned(Request(text="go", images=(FIRST,)), marked) == (FIRST, "\nI go")
    assert planned(Request(text="go on <image>", images=(FIRST,)), marked) == (FIRST, "\nI go on <image>")
    two = Request(text="<image> and <image>", images=(FIRST, SECOND))
    assert planned(two, marked) == ("\nI ", FIRST, " and ", SECOND)
    with pytest.raises(SettingsError, match="template has 1"):
        planned(Request(text="go", images=(FIRST, SECOND)), marked)


@pytest.mark.parametrize(
    ("text", "images"), [("<image>", ()), ("<image><image>", (FIRST,)), ("<image>", (FIRST, SECOND))]
)
def test_marks_and_images_must_be_as_many(text: str, images: tuple[Picture, ...]) -> None:
    chat = ScriptedChat([write_plan(PLAN)])
    with pytest.raises(SettingsError, match="mark"):
        Planner(chat, SET).plan(Request(text=text, images=images))
    assert not chat.requests


def judged(replies: list[str | Reply], before: Picture | None = FIRST) -> tuple[Verdict, ScriptedChat]:
    chat = ScriptedChat(replies)
    return Critic(chat, SET).judge(before, SECOND, "a {rewritten_prompt} <image> boat", "a red boat"), chat


def test_the_critic_is_shown_before_and_after_and_both_prompts() -> None:
    verdict, chat = judged([write_verdict(REFUSAL)])
    assert verdict == REFUSAL
    assert shown(chat) == (FIRST, SECOND, "C a {rewritten_prompt} <image> boat|a red boat")
    assert chat.requests[0].settings.watch_verdict
    assert chat.requests[0].settings.temperature == 0


def test_a_white_image_replaces_a_missing_source() -> None:
    _, chat = judged([write_verdict(REFUSAL)], before=None)
    assert shown(chat)[:2] == (Picture.white((8, 6)), SECOND)


def test_the_critics_template_may_place_the_images() -> None:
    chat = ScriptedChat([write_verdict(REFUSAL)])
    marked = SET.model_copy(update={"critic": "1 <image> 2 <image> {original_instruction}"})
    Critic(chat, marked).judge(FIRST, SECOND, "<image>", "b")
    assert shown(chat) == ("1 ", FIRST, " 2 ", SECOND, " <image>")
    with pytest.raises(SettingsError, match="1 <image>"):
        Critic(chat, SET.model_copy(update={"critic": "<image>"})).judge(FIRST, SECOND, "a", "b")


def test_an_accepting_verdict_keeps_the_used_prompt() -> None:
    accepted = Verdict(success=True, refined_prompt="something else", reasoning="fine")
    assert judged([write_verdict(accepted)])[0].refined_prompt == "a red boat"
    assert (
        judged(['<think>fine</think>\n\n<answer>{"previous_step_success": true,'])[0].refined_prompt
        == "a red boat"
    )
    empty = Verdict(success=False, refined_prompt="  ", reasoning="no")
    assert judged([write_verdict(empty)])[0] == Verdict(
        success=False, refined_prompt="a red boat", reasoning="no"
    )


def test_the_probability_comes_from_the_backend() -> None:
    verdict, _ = judged([Reply(text=write_verdict(REFUSAL), probability=0.25)])
    assert verdict.probability == 0.25
    assert judged([write_verdict(REFUSAL)])[0].probability is None


def test_an_unreadable_reply_is_requested_again_with_the_reason() -> None:
    verdict, chat = judged(['{"success": "maybe"}', write_verdict(REFUSAL)])
    assert verdict == REFUSAL
    first, reply, reason = chat.requests[1].messages
    assert (first,) == chat.requests[0].messages
    assert (reply.role, reply.content) == ("assistant", ('{"success": "maybe"}',))
    assert reason.role == "user"
    assert "maybe" in str(reason.content[0]) and "previous_step_success" in str(reason.content[0])


def test_a_truncated_reply_is_quoted_in_part() -> None:
    """The full reply would leave no room for the second answer."""
    for finish, quoted in (("length", 2_000), ("end", 9_000)):
        long = Reply(text="blah " * 1_800, tokens=1_800, finish=finish)
        _, chat = judged([long, write_verdict(REFUSAL)])
        assert len(str(chat.requests[1].messages[1].content[0])) == quoted


def test_two_unreadable_plans_raise() -> None:
    chat = ScriptedChat(["Sure!", Reply(text='{"execution_plan": [{"step', tokens=9, finish="length")])
    with pytest.raises(AnswerError, match="cut off after 9 tokens") as caught:
        Planner(chat, SET).plan(Request(text="a story"))
    assert caught.value.quote
    assert len(chat.requests) == 2
    chat = ScriptedChat(["Sure!", write_plan(PLAN)])
    assert Planner(chat, SET).plan(Request(text="a story")) == PLAN


def test_the_backends_errors_and_cancelling_pass_through() -> None:
    with pytest.raises(ChatError):
        judged([])

    def cancel(text: str) -> None:
        raise Cancelled("stop")

    with pytest.raises(Cancelled):
        Planner(ScriptedChat([write_plan(PLAN)])).plan(Request(text="a"), cancel)


def test_the_prompt_set_is_the_given_the_checkpoints_or_the_packs() -> None:
    other = SET.model_copy(update={"critic": "other"})
    assert Critic(ScriptedChat([]), SET).prompt_set is SET
    assert Critic(ScriptedChat([], other), SET).prompt_set is SET
    assert Critic(ScriptedChat([], other)).prompt_set is other
    assert Planner(ScriptedChat([])).prompt_set == default_prompt_set()
    assert Planner(ScriptedChat([])).prompt_set_digest == default_prompt_set().digest


def test_the_identity_changes_with_all_that_can_change_an_answer() -> None:
    base = Critic(ScriptedChat(["a"]), SET).identity
    assert Critic(ScriptedChat(["a"]), SET).identity == base
    others = (
        Critic(ScriptedChat(["b"]), SET),
        Critic(ScriptedChat(["a"])),
        Critic(ScriptedChat(["a"]), SET, ReplySettings(watch_verdict=True, max_tokens=9)),
    )
    assert base not in {critic.identity for critic in others}


def test_runs_without_recorded_settings_resume() -> None:
    """The cache keys of old plans and verdicts are unchanged."""
    told = '|prompts={}|{{"max_tokens":2048,"temperature":0.0,"seed":0,"watch_verdict":{}}}'
    chat = ScriptedChat(["a"])
    assert Planner(chat, SET).identity == chat.identity + told.format(SET.digest, "false")
    assert Critic(chat, SET).identity == chat.identity + told.format(SET.digest, "true")
    assert Planner(chat, SET, constrained_decoding="always").identity == (
        chat.identity + told.format(SET.digest, "false")[:-1] + ',"grammar":"plan"}'
    )


def test_every_setting_that_changes_a_reply_is_in_the_key() -> None:
    changed: dict[str, Any] = {
        "max_tokens": 2048, "temperature": 0.5, "top_p": 0.9, "top_k": 20, "seed": 1, "max_pixels": 65536,
        "watch_verdict": True, "watch_yes_no": True, "grammar": "plan",
    }  # fmt: skip
    assert changed.keys() | {"role"} == ReplySettings.model_fields.keys()
    assert ReplySettings(role="critic").key() == ReplySettings().key(), "it only selects a cache"
    chat = ScriptedChat(["a"])
    keys = {Planner(chat, SET, ReplySettings(**{name: value})).identity for name, value in changed.items()}
    assert len(keys | {Planner(chat, SET).identity}) == len(changed) + 1


def test_a_seed_enables_sampling() -> None:
    plain = ReplySettings()
    assert plain.seeded() == plain
    assert plain.seeded(3).temperature == 0.7 and plain.seeded(3).seed == 3
    warm = plain.model_copy(update={"temperature": 0.4, "seed": 8})
    assert warm.seeded(3) == warm.model_copy(update={"seed": 3})
    assert warm.seeded(0, 0.9) == warm.model_copy(update={"temperature": 0.9})


SECOND_PLAN = Plan(steps=(Step(number=1, prompt="a boat"),))
SECOND_SET = PromptSet(planner_text="T {text_input}", planner_images="I {text_input}", critic="C")
COPIED = {"step_number": 1, "step_name": "A", "prompt": "What the image model is told, or null"}
PLACEHOLDERS = f"<answer>{json.dumps({'execution_plan': [COPIED]})}</answer>"


def attempts(
    first: str | Reply, settings: ReplySettings | None = None, parts: bool = True, **options: Any
) -> ScriptedChat:
    """Plan with the pack's own prompt set, as it is found for a model without one."""
    chat = ScriptedChat([first, write_plan(SECOND_PLAN)])
    planner = Planner(chat, settings=settings, **options)
    if not parts:
        planner.prompt_set = planner.prompt_set.in_one_reply()
    assert planner.plan(Request(text="a story")).steps == SECOND_PLAN.steps
    return chat


@pytest.mark.parametrize(
    ("first", "problem", "hidden"),
    [
        (PLACEHOLDERS, "Step 1 of the plan is a copy of the example", "image model is told, or"),
        ("Sure! A boat it is.", "The reply does not contain an execution_plan", "boat it is"),
        (
            '{"execution_plan": [{"step_number": "first", "prompt": "a red boat"}]}',
            "execution_plan[0].step_number is 'first'; it must be a whole number",
            "red boat",
        ),
        (
            Reply(text="<think>on and on", tokens=9, finish="length"),
            "was cut off after 9 tokens",
            "on and on",
        ),
    ],
)
def test_the_problem_is_named_without_the_reply(first: str | Reply, problem: str, hidden: str) -> None:
    before, again = attempts(first, parts=False).requests
    (question,), (message,) = before.messages, again.messages
    assert message.role == "user" and message.content[:-1] == question.content
    reason = str(message.content[-1])
    assert problem in reason
    assert hidden not in reason and '"..."' not in reason, "a small model copies what it sees"


def test_an_agent_with_its_own_prompt_set_sees_its_first_reply() -> None:
    chat = ScriptedChat([PLACEHOLDERS, write_plan(SECOND_PLAN)], SECOND_SET)
    Planner(chat).plan(Request(text="a story"))
    message, reply, reason = chat.requests[1].messages
    assert message == chat.requests[0].messages[0] and reply.content == (PLACEHOLDERS,)
    assert str(reason.content[0]).startswith("Your answer could not be read. Step 1 of the plan is a copy")
    assert (chat.requests[1].settings.temperature, chat.requests[1].settings.seed) == (0.7, 0)
    planner = Planner(chat)
    assert planner.for_second_answer() is planner


@pytest.mark.parametrize(
    ("given", "temperature", "seed"),
    [({}, 0.7, 1), ({"temperature": 1.2, "seed": 5}, 1.2, 6), ({"temperature": 0.4, "seed": 2**53}, 0.4, 1)],
)
def test_a_second_attempt_has_another_seed(given: dict[str, Any], temperature: float, seed: int) -> None:
    settings = attempts("Sure!", ReplySettings(**given)).requests[1].settings
    assert (settings.temperature, settings.seed, settings.grammar) == (temperature, seed, "plan")
    assert attempts("Sure!", constrained_decoding="never").requests[1].settings.grammar is None


def test_a_resumed_planner_asks_the_same_second_question() -> None:
    first, second = attempts(PLACEHOLDERS), attempts(PLACEHOLDERS)
    assert first.requests == second.requests
    planner = Planner(first)
    assert planner.for_second_answer().settings == planner.for_second_answer().settings
    assert planner.for_second_answer().identity != planner.identity, "parts of two plans are kept apart"


def test_placeholders_in_both_replies_are_an_error() -> None:
    with pytest.raises(AnswerError, match="copy of the example"):
        Planner(ScriptedChat([PLACEHOLDERS] * 2)).plan(Request(text="a story"))
