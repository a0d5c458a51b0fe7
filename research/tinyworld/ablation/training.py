"""Settings and training jobs of the ablation, each with its data and checkpoint in a separate folder.

The sizes let the whole table finish in an afternoon on two processor cores. The jobs use the regular training
functions (training/stages). The rows of the table differ only in the source of the training rows and in what
is switched off. All agents have the same architecture and start from two checkpoints (`--start`), like the
published ones start from one vision-language model: `base` can read and see, `novice` can also judge images a
little (how they were made: research/experiments/notes/ablation-setup.md). Critics must have something left to
learn, so they get few rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field

from ....backend.core.errors import SettingsError
from ....backend.core.types.values import DIRECT
from ....backend.models.checkpoints.model_folder import check_files, check_weights
from ....tinyworld import checkpoint
from ....tinyworld.generator import TinyWorldGenerator, load_pipeline
from ....tinyworld.scorer import TinyWorldScorer
from ....training.reward.critic_reward import RewardSettings, RewardSetup
from ....training.reward.redrawer import DrawingSettings
from ....training.rows.rl import CriticRlRow, read_rl_rows
from ....training.rows.sft import RowSet, SftRow, read_rows, write_rows
from ....training.stages.grpo import CriticTask
from ....training.stages.grpo import train as train_by_reward
from ....training.stages.grpo_settings import GrpoTraining, TrainingData
from ....training.stages.sft import SftData, SftTraining, train
from ..data.critic_rows import PROMPT_SET, RL_FILE, make_rl
from ..data.planner_rl import in_buckets
from ..data.planner_rl import make as make_requests
from ..data.trajectories import make_filtered, make_unfiltered
from ..stories import BatchedAgent

if TYPE_CHECKING:
    from ....tinyworld.pipeline import TinyWorldPipeline


class AblationSettings(BaseModel):
    """Sizes of the ablation. The defaults are those of the published table."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)
    """Reports of earlier releases have settings that no longer exist."""

    seeds: int = Field(
        default=5,
        ge=1,
        le=20,
        description="Number of seeds. A folder can be extended by more.",
        json_schema_extra=DIRECT,
    )
    first_seed: int = Field(default=0, ge=0, le=1000, description="First seed, if other seeds run elsewhere.")
    stories: int = Field(
        default=200, ge=1, description="Stories per table row and seed.", json_schema_extra=DIRECT
    )
    untrained_stories: int = Field(
        default=40, ge=1, description="Stories for untrained agents. They are slow, and nearly all fail."
    )
    planner_rows: int = Field(default=20000, ge=16, description="Requests that each planner is trained on.")
    critic_rows: int = Field(default=1200, ge=16, description="Judged images that each critic is trained on.")
    rl_rows: int = Field(default=384, ge=16, description="Judged images for reinforcement learning.")
    rollouts: int = Field(
        default=24, ge=1, description="Rollouts of 16 x 8 answers; each is used for four optimizer steps."
    )
    rl_rate: float = Field(default=1.5e-4, gt=0, description="Learning rate of reinforcement learning.")
    temperature: float = Field(default=1.0, gt=0, le=2, description="Sampling temperature of answers.")
    kl: float = Field(default=0.0, ge=0, description="Weight of the KL divergence from the starting critic.")
    checked: int = Field(
        default=64, ge=2, description="Held-out images for checks during reinforcement learning."
    )
    judged: int = Field(
        default=200, ge=2, description="Images that each critic judges, half of them correct."
    )
    verdict_tokens: int = Field(default=224, ge=16, description="Maximum tokens of a critic's answer.")
    plan_tokens: int = Field(default=640, ge=16, description="Maximum tokens of a planner's answer.")
    workers: int = Field(
        default=2,
        ge=1,
        description="Number of parallel processes, with one thread each.",
        json_schema_extra=DIRECT,
    )

    @property
    def all_seeds(self) -> range:
        """Numbers of the seeds."""
        return range(self.first_seed, self.first_seed + self.seeds)


BATCH = 16
BASE_RATE, CRITIC_RATE = 1.5e-3, 1e-3
PAGES_SEED, DATA_SEED = 10, 20_000
ROWS, JUDGED = "rows", "judged"
"""Folders below the job `pages`: images for RL, and for judging by every critic."""

Remaining = Literal["all", "no step reward", "no accuracy reward"]
REWARDS: dict[Remaining, RewardSettings] = {
    "all": RewardSettings(),
    "no step reward": RewardSettings(semantic_weight=0.0, quality_weight=0.0),
    "no accuracy reward": RewardSettings(accuracy_weight=0.0),
}
"""Remaining terms of the reward.

All answers to a row are redrawn with one seed that differs from that of the failed image, like the next
attempt in use. Only a better prompt is rewarded, not luck.
"""


def final(job: Path) -> Path:
    """Return the checkpoint that a training job writes."""
    return job / "final"


def open_generator() -> TinyWorldPipeline:
    """Open the generator whose images are used everywhere here."""
    return load_pipeline(checkpoint("generator"))


def agent_in(folder: Path, settings: AblationSettings) -> BatchedAgent:
    """Open the agent in a checkpoint folder."""
    return BatchedAgent(folder, settings.verdict_tokens, settings.plan_tokens)


def sft_settings(rate: float, seed: int) -> SftTraining:
    """Return the fine-tuning settings of all agents. Rows are used in the given order."""
    return SftTraining(
        num_train_epochs=1,
        per_device_train_batch_size=BATCH,
        learning_rate=rate,
        warmup_steps=0.05,
        weight_decay=0.01,
        adam_beta2=0.98,
        freeze_vision=False,
        train_sampling_strategy="sequential",
        save_steps=250,
        device="cpu",
        bf16=True,
        gradient_checkpointing=False,
        save_dtype="float16",
        tensorboard=False,
        seed=seed,
    )


def rows_of(folder: Path, make: Callable[[Path], list[SftRow]]) -> list[SftRow]:
    """Return the rows of the job in `folder`; they are created if missing."""
    path = folder / "data" / "rows.json"
    if not path.exists():
        write_rows(path, make(path.parent))
    return read_rows(path)


def fine_tuned(start: Path, rows: Sequence[SftRow], images: Path, out: Path, training: SftTraining) -> Path:
    """Train the checkpoint `start` on the rows in batches of similar length; returns the new one."""
    shuffled = list(rows)
    Random(f"order/{training.seed}").shuffle(shuffled)
    ordered = RowSet(in_buckets(shuffled, training.per_device_train_batch_size, training.seed), images)
    return train(start, SftData(ordered), out, training, PROMPT_SET, log_in(out))


def planner(folder: Path, settings: AblationSettings, seed: int, start: Path) -> None:
    """Train a planner for this seed."""
    rows = rows_of(folder, lambda data: make_requests(data, settings.planner_rows, DATA_SEED + seed))
    fine_tuned(start, rows, folder / "data", folder, sft_settings(BASE_RATE, seed))


def critic(folder: Path, settings: AblationSettings, seed: int, start: Path, is_filtered: bool) -> None:
    """Train the novice on images judged by the noisy teacher, either filtered and balanced or unfiltered."""
    make, count = make_filtered if is_filtered else make_unfiltered, settings.critic_rows
    rows = rows_of(folder, lambda data: make(data, open_generator(), count, DATA_SEED + seed))
    fine_tuned(start, rows, folder / "data", folder, sft_settings(CRITIC_RATE, seed))


def one_agent(
    folder: Path, settings: AblationSettings, seed: int, start: Path, planned: Path, judged: Path
) -> None:
    """Train a single agent for planning and judging.

    The novice learns the same rows as the planner in the job `planned` and the critic in the job `judged`.
    """
    rows = [
        row.model_copy(update={"images": [f"{job.name}/data/{name}" for name in row.images]})
        for job in (planned, judged)
        for row in read_rows(job / "data" / "rows.json")
    ]
    fine_tuned(start, rows, folder.parent, folder, sft_settings(BASE_RATE, seed))


def pages(folder: Path, settings: AblationSettings, seed: int) -> None:
    """Create this seed's judged images.

    They are for RL, its held-out checks and the verdicts of every critic.
    """
    counts = {
        ROWS: settings.rl_rows,
        "checked": settings.checked,
        JUDGED: settings.judged,
    }
    for number, (name, count) in enumerate(counts.items(), 1):
        make_rl(folder / name, open_generator(), count, PAGES_SEED + 10 * seed + number)


def reward_of(remaining: Remaining) -> RewardSetup:
    """Return the generator, scorer and terms of the reward for refined prompts."""
    return RewardSetup(
        generator=TinyWorldGenerator(open_generator(), "tinyworld"),
        scorer=TinyWorldScorer(),
        terms=REWARDS[remaining],
        drawing=DrawingSettings(draw_batch=64),
    )


def grpo_settings(settings: AblationSettings, seed: int) -> GrpoTraining:
    """Return the settings of reinforcement learning."""
    return GrpoTraining(
        learning_rate=settings.rl_rate,
        weight_decay=0.01,
        temperature=settings.temperature,
        beta=settings.kl,
        scale_rewards="group",
        prompts=16,
        num_generations=8,
        updates=4,
        per_device_train_batch_size=32,
        rollouts=settings.rollouts,
        max_completion_length=settings.verdict_tokens,
        device="cpu",
        bf16=True,
        save_dtype="float16",
        save_every=max(1, settings.rollouts // 2),
        check_rows=settings.checked,
        check_batch=settings.checked,
        collapse_threshold=0.0,
        tensorboard=False,
        seed=seed,
    )


def reinforced(
    folder: Path, settings: AblationSettings, seed: int, start: Path, data: Path, remaining: Remaining
) -> None:
    """Train a critic further with the remaining terms of the reward, on the images of the job `data`."""
    training, task = grpo_settings(settings, seed), CriticTask(reward_of(remaining))
    rows, _ = read_rl_rows(data / ROWS / RL_FILE)
    checked, _ = read_rl_rows(data / "checked" / RL_FILE)
    held_out: list[CriticRlRow] = [row.moved(data / "checked") for row in checked]
    rl = TrainingData(rows, held_out, data / ROWS)
    train_by_reward(start, rl, folder, training, task, log_in(folder))


def log_in(folder: Path) -> Callable[[str], None]:
    """Return a log function that writes to the job's own folder, because several jobs run at once."""

    def log(line: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "log.txt").open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")

    return log


def check_start(folder: Path) -> None:
    """Check that a folder contains both checkpoints as safetensors without code.

    Raises:
        SettingsError: If it does not.
    """
    for name in ("base", "novice"):
        if not (folder / name / "config.json").is_file():
            raise SettingsError(
                f"--start {str(folder)!r} does not contain the checkpoint {name!r}.",
                "Pass a folder with base and novice, such as tests/data/agents of a checkout.",
            )
        check_files(folder / name, SettingsError)
        check_weights(folder / name, SettingsError)
