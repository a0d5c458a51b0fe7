"""The clip critic: what its model is shown of a clip, and its verdict."""

from __future__ import annotations

import pytest
from PIL import Image

from interleave_thinker.backend.agents.critic import Critic
from interleave_thinker.backend.chat.protocol import Message
from interleave_thinker.backend.chat.scripted import ScriptedChat
from interleave_thinker.backend.errors import SettingsError
from interleave_thinker.backend.pictures import Picture
from interleave_thinker.backend.pipeline.clips.critic import ClipCritic
from interleave_thinker.backend.prompts import PromptSet

FRAMES = tuple(Picture(Image.new("RGB", (8, 8), (20 * shade, 0, 0))) for shade in range(9))
REJECTED = (
    '<think>It jumps.</think><answer>{"previous_step_success": false, "refine_prompt": "slowly"}</answer>'
)
OWN = PromptSet(
    planner_text="{text_input}",
    planner_images="{text_input}",
    critic="<image><image>{original_instruction}{rewritten_prompt}",
    critic_clip="{frames} frames: <image> for {original_instruction}, with {rewritten_prompt}",
)


def shown(message: Message) -> list[int]:
    """Return the frames of a message by their place in the clip."""
    return [FRAMES.index(part) for part in message.content if isinstance(part, Picture)]


def text(message: Message) -> str:
    return "|".join(part for part in message.content if isinstance(part, str))


@pytest.mark.parametrize(("count", "places"), [(2, [0, 8]), (3, [0, 4, 8]), (5, [0, 2, 4, 6, 8])])
def test_the_model_sees_evenly_spaced_frames_with_the_goal(count: int, places: list[int]) -> None:
    chat = ScriptedChat([REJECTED])
    verdict = ClipCritic(Critic(chat), count).judge_clip(FRAMES, "move the boat", "the boat moves")
    (message,) = chat.requests[0].messages
    assert shown(message) == places
    assert "move the boat" in text(message) and "the boat moves" in text(message)
    assert f"You see {count} of its frames" in text(message)
    assert (verdict.success, verdict.refined_prompt, verdict.reasoning) == (False, "slowly", "It jumps.")


def test_a_short_clip_is_shown_completely() -> None:
    critic = ClipCritic(Critic(ScriptedChat([REJECTED])), 5)
    assert shown(critic.question(FRAMES[:3], "a", "b")) == [0, 1, 2]


def test_a_checkpoint_trained_on_clips_is_asked_in_its_own_words() -> None:
    critic = ClipCritic(Critic(ScriptedChat([], OWN)), 2)
    message = critic.question(FRAMES, "the <image> goal", "{frames}")
    assert text(message) == "2 frames: | for the <image> goal, with {frames}"
    assert shown(message) == [0, 8]


def test_an_unreadable_reply_is_asked_for_again_with_the_same_frames() -> None:
    chat = ScriptedChat(["It is fine.", REJECTED])
    assert ClipCritic(Critic(chat), 3).judge_clip(FRAMES, "a", "b").success is False
    assert shown(chat.requests[1].messages[0]) == [0, 4, 8]
    twice = ClipCritic(Critic(ScriptedChat(["Fine.", "Fine."]))).judge_clip(FRAMES, "a", "b")
    assert twice.success is None


def test_the_identity_changes_with_frames_and_template() -> None:
    def identity(prompts: PromptSet, frames: int) -> str:
        return ClipCritic(Critic(ScriptedChat([REJECTED], prompts)), frames).identity

    other = OWN.model_copy(update={"critic_clip": "<image> {original_instruction}"})
    assert len({identity(OWN, 2), identity(OWN, 3), identity(other, 3)}) == 3


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(SettingsError, match="by 1 frame"):
        ClipCritic(Critic(ScriptedChat([])), 1)
    two_marks = OWN.model_copy(update={"critic_clip": "<image><image>"})
    with pytest.raises(SettingsError, match="2 <image> marks"):
        ClipCritic(Critic(ScriptedChat([], two_marks)), 3)
