"""Planner and critic: what the model gets, and the second attempt for a reply that cannot be parsed."""

from __future__ import annotations

from typing import Any

import pytest
from PIL import Image

from interleave_thinker.backend.core.answers.reading import write_plan, write_verdict
from interleave_thinker.backend.core.errors import AnswerError, Cancelled, ChatError, SettingsError
from interleave_thinker.backend.core.pictures import Picture
from interleave_thinker.backend.core.prompts import prompt_set
from interleave_thinker.backend.core.prompts.prompt_set import PromptSet, default_prompt_set
from interleave_thinker.backend.core.types import Plan, Request, Step, Verdict
from interleave_thinker.backend.models.chat import Reply, ReplySettings
from interleave_thinker.backend.models.chat.scripted import ScriptedChat
from interleave_thinker.backend.story.agents.critic import Critic
from interleave_thinker.backend.story.agents.planner import Planner

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


def test_two_unreadable_verdicts_are_reported() -> None:
    verdict, chat = judged(["What a nice boat!", '{"success": "maybe"}', write_verdict(REFUSAL)])
    assert verdict.success is None
    assert "maybe" in verdict.reasoning
    assert verdict.refined_prompt == ""
    assert len(chat.requests) == 2


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
        "max_tokens": 2048,
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 20,
        "seed": 1,
        "max_pixels": 65536,
        "watch_verdict": True,
        "watch_yes_no": True,
        "grammar": "plan",
    }
    assert changed.keys() | {"role"} == ReplySettings.model_fields.keys()
    assert ReplySettings(role="critic").key() == ReplySettings().key(), "it only selects a cache"
    chat = ScriptedChat(["a"])
    keys = {Planner(chat, SET, ReplySettings(**{name: value})).identity for name, value in changed.items()}
    assert len(keys | {Planner(chat, SET).identity}) == len(changed) + 1


@pytest.mark.parametrize(("asked", "planned", "judged_with"), [(None, 16384, 4096), (700, 700, 700)])
def test_a_plan_may_be_longer_than_a_verdict(asked: int | None, planned: int, judged_with: int) -> None:
    chat = ScriptedChat([write_plan(PLAN), write_verdict(REFUSAL)])
    Planner(chat, SET, ReplySettings(max_tokens=asked)).plan(Request(text="a story"))
    Critic(chat, SET, ReplySettings(max_tokens=asked)).judge(FIRST, SECOND, "a", "b")
    assert [request.settings.limit for request in chat.requests] == [planned, judged_with]


@pytest.mark.parametrize("temperature", [0.0, 1.2])
def test_a_retry_samples_so_that_the_reply_can_differ(temperature: float) -> None:
    chat = ScriptedChat(["Sure!", write_plan(PLAN), "Sure!", write_verdict(REFUSAL)])
    settings = ReplySettings(temperature=temperature, max_pixels=4096)
    Planner(chat, SET, settings).plan(Request(text="a story"))
    Critic(chat, SET, settings).judge(FIRST, SECOND, "a", "b")
    firsts, agains = chat.requests[::2], chat.requests[1::2]
    assert [one.settings.temperature for one in firsts] == [temperature] * 2
    for first, again in zip(firsts, agains, strict=True):
        assert again.settings.temperature == (temperature or 0.7)
        assert again.settings.max_pixels == 4096 and again.settings.limit == first.settings.limit
