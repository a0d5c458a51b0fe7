"""Training jobs of the ablation, each with its data and checkpoint in a separate folder.

They use the regular training functions (training/sft, training/grpo) with settings for a small machine. The
rows of the table differ only in the source of the training rows and in what is switched off. All agents have
the same architecture and start from two checkpoints, like the published ones start from one vision-language
model: `base` can read and see, `novice` can also judge images a little.

The base must be able to repeat text. A small model learns that from short word lists in random order. From
requests it learns to guess the next word instead: after 4,800 of them it wrote its own requests. Seeing comes
before copying: a model that copied first described 0.07 of the cells correctly after 2,600 steps. Images stay
among the lists and requests, because after 1,700 steps of images only nothing was copied any more. After each
round the agent is tested to decide whether it has learned enough, because copying appears suddenly and after
a varying number of steps. Each round is a separate training, so a stop costs at most one round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from shutil import copytree
from typing import TYPE_CHECKING, Literal

from ....backend.core.errors import SettingsError, TrainingError
from ....backend.core.files.atomic import writing_folder
from ....backend.core.pictures import Picture
from ....backend.core.seams.chat_model import Message
from ....backend.models.checkpoints.model_folder import check_files, check_weights
from ....tinyworld import checkpoint
from ....tinyworld.generator import TinyWorldGenerator, load_pipeline
from ....tinyworld.scorer import TinyWorldScorer
from ....training.reward.critic_reward import RewardSettings, RewardSetup
from ....training.reward.redrawer import DrawingSettings
from ....training.rows.rl import CriticRlRow, read_rl_rows
from ....training.rows.sft import MARK, RowSet, SftRow, read_rows, write_rows
from ....training.stages.grpo import CriticTask
from ....training.stages.grpo import train as train_by_reward
from ....training.stages.grpo_settings import GrpoTraining, TrainingData
from ....training.stages.sft import SftData, SftTraining, train
from ..batched import BatchedAgent
from ..data.critic_rows import PROMPT_SET, RL_FILE, make_rendered, make_rl
from ..data.planner_rows import in_buckets, make_copies, make_repeats, make_sentences
from ..data.planner_rows import make as make_requests
from ..data.trajectories import make_filtered, make_taught, make_unfiltered
from ..models.recipes import untrained
from .settings import AblationSettings
from .single_agent import corpus, make_planning

if TYPE_CHECKING:
    from ....tinyworld.pipeline import TinyWorldPipeline


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
    # An empty data file would be rejected as damaged.
    return read_rows(path) if path.stat().st_size > len("[]") else []


def fine_tuned(start: Path, rows: Sequence[SftRow], images: Path, out: Path, training: SftTraining) -> Path:
    """Train the checkpoint `start` on the rows in batches of similar length; returns the new one."""
    shuffled = list(rows)
    Random(f"order/{training.seed}").shuffle(shuffled)
    ordered = RowSet(in_buckets(shuffled, training.per_device_train_batch_size, training.seed), images)
    return train(start, SftData(ordered), out, training, PROMPT_SET, log_in(out))


def planner(folder: Path, settings: AblationSettings, seed: int, start: Path) -> None:
    """Train a planner for this seed."""
    rows = rows_of(folder, lambda data: make_requests(data, settings.planner_rows, DATA_SEED + seed))
    fine_tuned(final(start), rows, folder / "data", folder, sft_settings(BASE_RATE, seed))


def critic(folder: Path, settings: AblationSettings, seed: int, start: Path, is_filtered: bool) -> None:
    """Train the novice on images judged by the noisy teacher, either filtered and balanced or unfiltered."""
    make, count = make_filtered if is_filtered else make_unfiltered, settings.critic_rows
    rows = rows_of(folder, lambda data: make(data, open_generator(), count, DATA_SEED + seed))
    fine_tuned(final(start), rows, folder / "data", folder, sft_settings(CRITIC_RATE, seed))


def one_agent(
    folder: Path, settings: AblationSettings, seed: int, start: Path, planned: Path, judged: Path
) -> None:
    """Train a single agent for planning and judging.

    The novice learns the same rows as the planner in the job `planned` and the critic in the job `judged`,
    plus next steps after given images.
    """
    steps = rows_of(folder, lambda data: make_planning(data, settings.next_steps, DATA_SEED + seed))
    rows = [
        row.model_copy(update={"images": [f"{job.name}/data/{name}" for name in row.images]})
        for job, rows in (
            (folder, steps),
            *((job, read_rows(job / "data" / "rows.json")) for job in (planned, judged)),
        )
        for row in rows
    ]
    fine_tuned(final(start), rows, folder.parent, folder, sft_settings(BASE_RATE, seed))


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
    train_by_reward(final(start), rl, folder, training, task, log_in(folder))


def log_in(folder: Path) -> Callable[[str], None]:
    """Return a log function that writes to the job's own folder, because several jobs run at once."""

    def log(line: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "log.txt").open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")

    return log


LAYERS, PAGE_SIDE = 4, 48
COPYING_RATE = 2.5e-3
SHORT, LONG = 11, 29
"""Maximum number of words in the first lists, and in later ones."""
SENTENCES, STRANGERS = 0.15, 0.1
"""Mix of the novice's rows: share of single sentences to plan, and share of verdicts on unrelated images.

The unrelated images make it describe what is there and not what is expected.
"""
WORDS_FROM = 3000
"""Rows of each kind for learning the vocabulary; no weights are trained on them."""
ASKED, ASKED_SEED = 100, 1000
"""Number of new requests that the base must repeat after every round, and their seed, used by no round."""


def base(folder: Path, settings: AblationSettings) -> None:
    """Train an agent until it repeats requests word for word and describes images.

    The result of each round is written to the log.
    """

    def seen(data: Path) -> list[SftRow]:
        return make_rendered(data, settings.described, 0, 0)

    def listed(data: Path) -> list[SftRow]:
        kept = make_rendered(data, settings.described // 5, 0, 1)
        return [*make_copies(settings.copied, 0, SHORT), *kept]

    def read(data: Path, number: int) -> list[SftRow]:
        kept = make_rendered(data, settings.repeated // 2, 0, number + 1)
        longer = make_copies(settings.repeated // 3, number, LONG)
        return [*make_repeats(data, settings.repeated, number - 1), *longer, *kept]

    def round_of(number: int) -> tuple[Path, list[SftRow]]:
        out = folder / f"round_{number}"
        return out, rows_of(out, lambda data: read(data, number))

    pages, lists, fresh = folder / "pages", folder / "lists", folder / "fresh"
    if not (fresh / "prompt_set").exists():
        _, rows = round_of(1)
        judged = make_rendered(folder / "words", 0, min(WORDS_FROM, settings.described), 3)
        words = [*rows[:WORDS_FROM], *judged, *rows[-WORDS_FROM:]]
        texts = [message.content for row in words for message in row.messages]
        untrained(fresh, [*texts, *corpus(WORDS_FROM)], LAYERS, 0, PAGE_SIDE)
    quick = sft_settings(COPYING_RATE, 0)
    latest = fine_tuned(fresh, rows_of(pages, seen), pages / "data", pages, sft_settings(BASE_RATE, 0))
    latest = fine_tuned(latest, rows_of(lists, listed), lists / "data", lists, quick)
    asked = make_repeats(folder / "asked", ASKED, ASKED_SEED)
    for number in range(1, settings.base_rounds + 1):
        out, rows = round_of(number)
        latest = fine_tuned(latest, rows, out / "data", out, sft_settings(BASE_RATE, number - 1))
        right = repeated(agent_in(latest, settings), asked, folder / "asked") / len(asked)
        log_in(folder)(f"round {number}: {right:.2f} of {len(asked)} new requests repeated word for word")
        if right >= settings.base_right:
            break
    _keep(latest, folder)


def check_start(folder: Path) -> None:
    """Check that a folder contains both checkpoints as safetensors without code.

    Raises:
        SettingsError: If it does not.
    """
    for name in ("base", "novice"):
        if not (folder / name / "config.json").is_file():
            raise SettingsError(
                f"--start {str(folder)!r} does not contain the checkpoint {name!r}.",
                "Pass a folder with base and novice, or omit --start to train them.",
            )
        check_files(folder / name, SettingsError)
        check_weights(folder / name, SettingsError)


def given(folder: Path, checkpoint: Path) -> None:
    """Copy a checkpoint that was made elsewhere."""
    _keep(checkpoint, folder)


def repeated(agent: BatchedAgent, rows: Sequence[SftRow], images: Path) -> int:
    """Count the rows that an agent answers word for word; their images are below `images`."""
    said = agent.answers([_question(row, images) for row in rows], agent.plan_tokens)
    return sum(
        answer.strip() == row.messages[-1].content.strip() for answer, row in zip(said, rows, strict=True)
    )


def _question(row: SftRow, images: Path) -> Message:
    before, *texts = row.messages[0].content.split(MARK)
    parts: list[str | Picture] = [before]
    for name, text in zip(row.images, texts, strict=True):
        parts += [Picture.open(images / name), text]
    return Message(role="user", content=tuple(part for part in parts if part))


def novice(folder: Path, settings: AblationSettings, start: Path) -> None:
    """Train the base further, in rounds, until it judges generated images well enough.

    The result of each round is written to the log.
    """
    make_rl(folder / "pages", open_generator(), settings.novice_pages, PAGES_SEED)
    asked, _ = read_rl_rows(folder / "pages" / RL_FILE)
    sentences = round(settings.novice_rows * SENTENCES)
    latest = final(start)
    for number in range(1, settings.novice_rounds + 1):
        out = folder / f"round_{number}"

        def make(data: Path, number: int = number) -> list[SftRow]:
            judged = make_taught(data, settings.novice_rows - sentences, number, strangers=STRANGERS)
            return [*judged, *make_sentences(data, sentences, number)]

        latest = fine_tuned(latest, rows_of(out, make), out / "data", out, sft_settings(BASE_RATE, number))
        verdicts = agent_in(latest, settings).verdicts_of(asked, folder / "pages")
        right = sum(
            verdict is not None and verdict.success == row.evaluation.success
            for verdict, row in zip(verdicts, asked, strict=True)
        ) / len(asked)
        log_in(folder)(
            f"round {number}: {right:.3f} of the verdicts on {len(asked)} generated images are correct"
        )
        if right >= settings.novice_right:
            break
    _keep(latest, folder)


def _keep(checkpoint: Path, folder: Path) -> None:
    with writing_folder(final(folder), TrainingError, "The checkpoint") as temporary:
        copytree(checkpoint, temporary, dirs_exist_ok=True)
