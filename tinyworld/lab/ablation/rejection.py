"""Best-of-n rejection fine-tuning, the baseline for RL: trains on the best of several sampled answers.

It uses the same inputs as GRPO: the same starting critic, the same number of answers to the same images at
the same temperature, and rewards from the same code with the same redraws. Only the use of the rewards
differs. An image whose best answer is not better than the group's mean has no gradient in GRPO and is left
out here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from random import Random
from shutil import copytree

from ....backend.errors import TrainingError
from ....backend.files.atomic import write_text, writing_folder
from ....backend.pictures import Picture
from ....backend.prompts import fill
from ....training.data.rows.rl import CriticRlRow, before_of, read_rl_rows
from ....training.data.rows.sft import SftRow
from ....training.reward.critic_reward import CriticReward, RewardSetup
from ....training.reward.rollout_reward import RolloutReading
from ....training.reward.samples import Sample
from ..data.critic_rows import ImageFolder, row_of
from ..data.prompts import PROMPT_SET
from ..data.rl_rows import RL_FILE
from ..runs.batched_agents import BatchedAgent, judging_of
from .settings import AblationSettings
from .stages import (
    ROWS,
    agent_in,
    final,
    fine_tuned,
    grpo_settings,
    log_in,
    reward_of,
    rows_of,
    sft_settings,
)

REJECTION_RATE = 5e-4
NOTHING = 1e-6
"""Tolerance for rounding errors of a reward."""


def best_answer(samples: Sequence[Sample]) -> Sample | None:
    """Return the answer with the highest reward in a group; the first of equal ones.

    Returns `None` if it is not better than the group's mean. Answers without a reward are ignored.
    """
    counted = [sample for sample in samples if sample.overall is not None]
    rewards = [sample.overall or 0.0 for sample in counted]
    if not rewards or max(rewards) <= sum(rewards) / len(rewards) + NOTHING:
        return None
    return counted[rewards.index(max(rewards))]


def rejection(folder: Path, settings: AblationSettings, seed: int, start: Path, data: Path) -> None:
    """Fine-tune a trained critic on the best of its own answers. Without such answers it stays unchanged."""
    images = data / ROWS
    rows, _ = read_rl_rows(images / RL_FILE)

    def make(target: Path) -> list[SftRow]:
        return best_rows(target, final(start), rows, images, (settings, seed))

    learned = rows_of(folder, make)
    log_in(folder)(f"training on {len(learned)} answers")
    if learned:
        fine_tuned(final(start), learned, folder / "data", folder, sft_settings(REJECTION_RATE, seed))
        return
    with writing_folder(final(folder), TrainingError, "The checkpoint") as temporary:
        copytree(final(start), temporary, dirs_exist_ok=True)


def best_rows(
    target: Path, critic: Path, rows: Sequence[CriticRlRow], images: Path, drawn: tuple[AblationSettings, int]
) -> list[SftRow]:
    """Return rows with the best of several sampled answers.

    Args:
        target: Folder for images; all answers with their rewards are written to `target / "samples"`.
        critic: Checkpoint of the critic.
        rows: Rows to answer, taken in random order.
        images: Folder of the rows' images.
        drawn: Settings and seed, which determine the number of answers as in GRPO.
    """
    settings, seed = drawn
    training = grpo_settings(settings, seed)
    order = list(rows)
    Random(f"rejection/{seed}").shuffle(order)
    asked = [order[number % len(order)] for number in range(settings.rollouts * training.prompts)]
    setup, agent, pages = reward_of("all"), agent_in(critic, settings), ImageFolder(target / "pages")
    reading = RolloutReading(images=images, decode=lambda ids: "", seed=seed)

    async def found() -> list[SftRow]:
        reward = _reward(setup, target, reading)
        best: list[SftRow] = []
        for number in range(settings.rollouts):
            some = asked[number * training.prompts : (number + 1) * training.prompts]
            groups = await _groups(agent, reward, some, training.num_generations, settings.temperature)
            write_text(
                target / "samples" / f"step_{number:06d}.jsonl",
                "".join(f"{sample.model_dump_json()}\n" for group in groups for sample in group),
                TrainingError,
                "The file of samples",
                durable=False,
            )
            for row, group in zip(some, groups, strict=True):
                sample = best_answer(group)
                if sample is not None:
                    best.append(_row(row, sample, images, pages))
        return best

    import torch

    torch.manual_seed(seed)
    return asyncio.run(found())


def _reward(setup: RewardSetup, target: Path, reading: RolloutReading) -> CriticReward:
    return CriticReward(setup.open_redrawer(target), setup.terms, reading)


async def _groups(
    agent: BatchedAgent, reward: CriticReward, rows: Sequence[CriticRlRow], size: int, temperature: float
) -> list[list[Sample]]:
    repeated = [row for row in rows for _ in range(size)]
    questions = [agent.question(judging_of(row, reward.reading.images)) for row in repeated]
    samples, _ = await reward.rewards(agent.answers(questions, agent.verdict_tokens, temperature), repeated)
    if reward.problem is not None:
        raise TrainingError(f"Sampling stopped: {reward.problem}", "Run the same command again to continue.")
    return [samples[start : start + size] for start in range(0, len(samples), size)]


def _row(row: CriticRlRow, sample: Sample, images: Path, pages: ImageFolder) -> SftRow:
    question = fill(
        PROMPT_SET.critic, original_instruction=row.origin_prompt, rewritten_prompt=row.rewritten_prompt
    )
    after = Picture.open(images / row.edited_image_path)
    before = before_of(row, images) or Picture.white(after.size)
    return row_of(question, sample.answer, [pages.name(before), pages.name(after)])
