"""Critic of clips: judges a clip between two images by some of its frames.

A clip critic is a critic that sees several frames instead of the images before and after. Model, settings,
form of the verdict and the second question are the critic's. The template for clips is that of the
checkpoint's prompt set, if it was trained on clips, else the pack's own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property

from ...agents.asking import OnToken
from ...agents.critic import Critic
from ...agents.messages import IMAGE_MARK, filled_parts, message_of
from ...chat.abilities import MayCheckStories
from ...chat.protocol import Message
from ...errors import SettingsError
from ...pictures import Picture
from ...prompts import TEMPLATES
from ...prompts.enhancer import read_template
from ...types import Verdict
from . import FEWEST, FRAMES, MOST

TEMPLATE = TEMPLATES / "clips" / "critic.txt"


class ClipCritic:
    """Judges clips with a critic's model.

    Args:
        critic: The critic.
        frames: Number of frames that it sees, evenly spaced from the first to the last. A clip with fewer
            frames is shown completely.

    Raises:
        SettingsError: The number is not possible, the template does not have one image mark, the critic
            cannot judge clips, or it has notes, which are about images.
    """

    def __init__(self, critic: Critic, frames: int = FRAMES) -> None:
        if not FEWEST <= frames <= MOST:
            raise SettingsError(
                f"A critic cannot judge clips by {frames} frame(s).",
                f"Use {FEWEST} to {MOST} frames; {FRAMES} is the default.",
            )
        if critic.notes is not None:
            raise SettingsError(
                "A critic of clips does not read notes: they were chosen and measured on images.",
                "Open the critic without them.",
            )
        self.critic, self.frames = critic, frames
        chat = critic.chat
        if isinstance(chat, MayCheckStories) and not chat.checks_stories:
            raise SettingsError(
                "The tiny world's critic cannot judge clips: it was trained on single images.",
                "Choose another critic of clips.",
            )
        if self.template.count(IMAGE_MARK) != 1:
            raise SettingsError(
                f"The template for clips has {self.template.count(IMAGE_MARK)} {IMAGE_MARK} marks.",
                "Use one mark, for all frames.",
            )

    @cached_property
    def template(self) -> str:
        """The template for clips: the checkpoint's, else the pack's own."""
        return self.critic.prompt_set.critic_clip or read_template(TEMPLATE)

    @property
    def identity(self) -> str:
        """Everything that affects a verdict, as a cache key."""
        template = hashlib.blake2b(self.template.encode(), digest_size=8).hexdigest()
        return f"{self.critic.identity}|clips={template},{self.frames}"

    def judge_clip(
        self,
        frames: Sequence[Picture],
        original_prompt: str,
        prompt_used: str,
        on_token: OnToken | None = None,
    ) -> Verdict:
        """Judge one clip.

        Args:
            frames: All frames of the clip, in order. The first is the image before the step.
            original_prompt: Prompt of the step from the plan. The verdict refers to this prompt.
            prompt_used: Prompt of this attempt, which may be a refined one.
            on_token: Called with each new piece of text.

        Returns:
            The verdict, as of `Critic.judge`.

        Raises:
            ChatError: The backend failed.
            SettingsError: A prompt is too long.
            Cancelled: The run was cancelled.
        """
        message = self.question(frames, original_prompt, prompt_used)
        reply = self.critic.chat.reply([message], self.critic.settings, on_token)
        return self.critic.verdict_in(reply, message, prompt_used, on_token, self.template)

    def question(self, frames: Sequence[Picture], original_prompt: str, prompt_used: str) -> Message:
        """Return the message about a clip, with the frames that the critic sees.

        Raises:
            SettingsError: A prompt is too long.
        """
        shown = evenly_spaced(frames, self.frames)
        return clip_message(self.template, shown, original_prompt, prompt_used)


def clip_message(template: str, shown: Sequence[Picture], original_prompt: str, prompt_used: str) -> Message:
    """Return the message about a clip. All frames are at the template's image mark.

    Raises:
        SettingsError: A prompt is too long.
    """
    before, after = filled_parts(
        template,
        original_instruction=original_prompt,
        rewritten_prompt=prompt_used,
        frames=str(len(shown)),
    )
    return message_of([before, *[""] * (len(shown) - 1), after], shown)


def evenly_spaced(frames: Sequence[Picture], count: int) -> tuple[Picture, ...]:
    """Return `count` evenly spaced frames with the first and the last; all frames if there are not more."""
    if len(frames) <= count:
        return tuple(frames)
    last = len(frames) - 1
    return tuple(frames[round(index * last / (count - 1))] for index in range(count))
