"""Trains a critic of clips from the shipped critic, and asks it about many clips in a batch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ....backend.agents.critic import next_prompt
from ....backend.errors import SettingsError
from ....backend.pictures import Picture
from ....backend.pipeline.clips.critic import clip_message, evenly_spaced
from ....backend.types import Verdict
from ....training.data.rows.row_sets import RowSet
from ....training.reward.terms import read_answer
from ....training.sft.train import SftData, train
from ...runtime import checkpoint
from ..models.recipes import CriticRecipe, Log, sft_settings, stored_rows
from ..runs.batched_agents import BatchedAgent
from ..runs.batched_tasks import BatchedTasks
from .rows import CLIP_PROMPT_SET, TOGETHER, make_rows

ROWS = 4_000
LEARNING_RATE = 8e-4
VERDICT_TOKENS = 448

JudgingClip = tuple[Sequence[Picture], str, str]
"""Frames, prompt of the step, prompt of the attempt."""


def train_clip_critic(out: Path, rows: int = ROWS, seed: int = 0, log: Log = print) -> Path:
    """Fine-tune the shipped critic on clips, below `out`, and return the checkpoint's folder.

    Args:
        out: Folder of the training. A stopped training is resumed, and a finished one is returned.
        rows: Number of training rows. They show 2, 3 or 5 frames of a clip.
        seed: Seed of the rows and of their order.
        log: Receives progress lines.
    """
    data = out / "data"
    made = stored_rows(data, "clips_sft.json", lambda folder: make_rows(folder, rows, seed), log)
    recipe = CriticRecipe(per_device_train_batch_size=TOGETHER, device="cpu", bf16=True, seed=seed)
    settings = sft_settings(LEARNING_RATE, recipe, ordered=True)
    settings = settings.model_copy(update={"samples": 0, "save_steps": 100})
    finished = out / "sft" / "final"
    if (finished / "prompt_set").exists():
        return finished
    return train(
        checkpoint("critic"),
        SftData(RowSet(made, data), role="critic"),
        out / "sft",
        settings,
        CLIP_PROMPT_SET,
        log,
    )


class BatchedClipCritic:
    """The clip critic in a checkpoint folder. It answers greedily, as in use, but many clips at once."""

    def __init__(self, folder: Path, frames: int) -> None:
        self._agent, self.frames = BatchedAgent(folder, VERDICT_TOKENS, 0), frames
        template = self._agent.prompt_set.critic_clip
        if template is None:
            raise SettingsError(f"{str(folder)!r} is not a critic of clips.", "Train one on rows of clips.")
        self._template = template

    def judge(self, clips: Sequence[JudgingClip]) -> list[Verdict]:
        """Return the verdicts on clips. `success` is `None` if a reply cannot be read."""
        messages = [
            clip_message(self._template, evenly_spaced(frames, self.frames), original, used)
            for frames, original, used in clips
        ]
        found = map(read_answer, self._agent.answers(messages, VERDICT_TOKENS))
        return [
            Verdict(success=None)
            if verdict is None
            else verdict.model_copy(update={"refined_prompt": next_prompt(verdict, used)})
            for verdict, (_, _, used) in zip(found, clips, strict=True)
        ]


class SharedClipCritic:
    """A clip critic for parallel tasks; `judge` questions are (frames, original prompt, prompt used)."""

    def __init__(self, together: BatchedTasks, identity: str) -> None:
        self.together, self.identity = together, identity

    def judge_clip(self, frames: Sequence[Picture], original_prompt: str, prompt_used: str) -> Verdict:
        """Judge a clip in a batch with those of other tasks."""
        return self.together.ask("judge", (frames, original_prompt, prompt_used))
