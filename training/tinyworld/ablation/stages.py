"""The trainings of the ablation, each a job: its data, its checkpoint, in a folder of its own.

Decision: these are the same functions that train any critic (training/sft, training/grpo) with settings of a
small machine; only where the rows come from and what is switched off differs between the rows of the table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Literal

from ....backend.tinyworld import checkpoint
from ....backend.tinyworld.generator import TinyWorldGenerator, load_pipeline
from ....backend.tinyworld.scorer import TinyWorldScorer
from ...grpo.critic_task import CriticTask
from ...grpo.settings import GrpoTraining
from ...grpo.train import RlData
from ...grpo.train import train as train_by_reward
from ...reward.critic_reward import RewardSettings, RewardSetup
from ...reward.redraw import DrawingSettings
from ...rows.rl import read_rl_rows
from ...rows.row_sets import RowSet
from ...rows.sft import SftRow, read_rows, write_rows
from ...sft.train import SftData, SftTraining, train
from ..data.critic_rows import make_rendered
from ..data.planner_rows import in_buckets
from ..data.planner_rows import make as make_requests
from ..data.prompts import PROMPT_SET
from ..data.rl_rows import RL_FILE, make_rl
from ..data.trajectories import make_filtered, make_unfiltered
from ..models.agents import untrained
from .settings import AblationSettings
from .single_agent import corpus, make_planning

if TYPE_CHECKING:
    from ....backend.tinyworld.pipeline import TinyWorldPipeline

CRITIC_LAYERS, PLANNER_LAYERS, PAGE_SIDE = 3, 4, 48
RENDERED_RATE, REAL_RATE, PLANNER_RATE = 1.5e-3, 1.2e-3, 1.5e-3
PLANNER_BATCH = 16
"""Half of the critics': as many rows are learned from in twice the steps, in the same time. Seed 1 wrote 0.24
of its plans exactly after 24,000 rows in batches of 32 (14 minutes beside other work), 0.87 after 40,000 in
batches of 16 of equal length (16 minutes)."""
CHECKED = 100
RL_SEED, CRITIC_SEED = 10, 20_000

Remaining = Literal["all", "no step reward", "no accuracy reward", "refused redrawn"]
REWARDS: dict[Remaining, RewardSettings] = {
    "all": RewardSettings(seeds="row"),
    "no step reward": RewardSettings(semantic_weight=0.0, quality_weight=0.0),
    "no accuracy reward": RewardSettings(seeds="row", accuracy_weight=0.0),
    "refused redrawn": RewardSettings(seeds="row", redraw="refused"),
}
"""What is left of the reward; the last is the documented alternative to the published arithmetic. Redraws
have the seed of the failed page, as all attempts of a step have: only a better prompt is rewarded, never
better luck."""


def final(job: Path) -> Path:
    """The checkpoint that a training job makes."""
    return job / "final"


def _generator() -> TinyWorldPipeline:
    return load_pipeline(checkpoint("generator"))


def _settings(rate: float, seed: int, ordered: bool = False, batch: int = 32) -> SftTraining:
    return SftTraining(
        epochs=1,
        batch=batch,
        rate=rate,
        warm_up=0.05,
        weight_decay=0.01,
        second_moment=0.98,
        freeze_vision=False,
        ordered=ordered,
        save_every=250,
        device="cpu",
        precision="bf16",
        gradient_checkpointing=False,
        half="fp16",
        samples=0,
        tensorboard=False,
        seed=seed,
    )


def _rows(folder: Path, make: Callable[[Path], list[SftRow]]) -> list[SftRow]:
    path = folder / "data" / "rows.json"
    if not path.exists():
        write_rows(path, make(path.parent))
    return read_rows(path)


def _texts(rows: Sequence[SftRow]) -> list[str]:
    return [message.content for row in rows for message in row.messages]


def base(folder: Path, settings: AblationSettings) -> None:
    """The critic that all seeds share: it has learned to see and to compare on rendered pages, from an oracle
    (with the noisy teacher's remedies in its rows the critic fine-tuned from it refused 0.70 of 200
    failed pages, without them 0.90)."""
    rows = _rows(folder, lambda data: make_rendered(data, settings.describe, settings.rendered, 0))
    fresh = folder / "untrained"
    if not (fresh / "prompt_set").exists():
        texts = [*_texts([*rows[:1000], *rows[-4000:]]), *corpus(2000)]
        untrained(fresh, texts, CRITIC_LAYERS, 0, PAGE_SIDE)
    train(
        fresh,
        SftData(RowSet(rows, folder / "data")),
        folder,
        _settings(RENDERED_RATE, 0, ordered=True),
        PROMPT_SET,
        _log(folder),
    )


def planner(folder: Path, settings: AblationSettings, seed: int) -> None:
    """A planner of this seed."""
    rows = _rows(folder, lambda data: make_requests(data, settings.planner_rows, CRITIC_SEED + seed))
    fresh = folder / "untrained"
    if not (fresh / "prompt_set").exists():
        untrained(fresh, _texts(rows[:4000]), PLANNER_LAYERS, CRITIC_SEED + seed)
    train(
        fresh,
        SftData(RowSet(in_buckets(rows, PLANNER_BATCH, seed), folder / "data")),
        folder,
        _settings(PLANNER_RATE, seed, ordered=True, batch=PLANNER_BATCH),
        PROMPT_SET,
        _log(folder),
    )


def critic(folder: Path, settings: AblationSettings, seed: int, start: Path, is_filtered: bool) -> None:
    """The shared critic trained on this seed's judged pages, filtered and balanced or as they came."""
    make = make_filtered if is_filtered else make_unfiltered
    rows = _rows(folder, lambda data: make(data, _generator(), settings.critic_rows, CRITIC_SEED + seed))
    data = SftData(RowSet(rows, folder / "data"))
    train(final(start), data, folder, _settings(REAL_RATE, seed), PROMPT_SET, _log(folder))


def single_agent(folder: Path, settings: AblationSettings, seed: int, start: Path, judged: Path) -> None:
    """One agent that plans step by step and judges: the shared critic trained on next steps, as many as the
    planner has requests, and on the very rows that the critic in the job `judged` was trained on; in batches
    like the planner's."""
    planning = _rows(folder, lambda data: make_planning(data, settings.next_steps, CRITIC_SEED + seed))
    rows = [
        row.model_copy(update={"images": [f"{job.name}/data/{name}" for name in row.images]})
        for job, rows in ((folder, planning), (judged, read_rows(judged / "data" / "rows.json")))
        for row in rows
    ]
    Random(f"mixed/{seed}").shuffle(rows)
    train(
        final(start),
        SftData(RowSet(in_buckets(rows, PLANNER_BATCH, seed), folder.parent)),
        folder,
        _settings(REAL_RATE, seed, ordered=True, batch=PLANNER_BATCH),
        PROMPT_SET,
        _log(folder),
    )


def rl_rows(folder: Path, settings: AblationSettings, seed: int) -> None:
    """This seed's judged pages for reinforcement learning, and others to check on."""
    make_rl(folder / "rows", _generator(), settings.rl_rows, RL_SEED + 2 * seed)
    make_rl(folder / "checked", _generator(), CHECKED, RL_SEED + 2 * seed + 1)


def reinforced(
    folder: Path, settings: AblationSettings, seed: int, start: Path, data: Path, remaining: Remaining
) -> None:
    """A trained critic trained on by what is left of the reward."""
    rows, _ = read_rl_rows(data / "rows" / RL_FILE)
    checked, _ = read_rl_rows(data / "checked" / RL_FILE)
    training = GrpoTraining(
        rate=settings.rl_rate,
        weight_decay=0.01,
        temperature=settings.temperature,
        kl=settings.kl,
        scale="batch",
        prompts=16,
        group=8,
        updates=1,
        micro_batch=64,
        rollouts=settings.rollouts,
        answer_tokens=320,
        device="cpu",
        precision="bf16",
        half="fp16",
        save_every=max(1, settings.rollouts // 4),
        check_rows=CHECKED,
        check_batch=50,
        floor=0.0,
        tensorboard=False,
        seed=seed,
    )
    train_by_reward(
        final(start),
        RlData(rows, [row.moved(data / "checked") for row in checked], data / "rows"),
        folder,
        training,
        CriticTask(
            RewardSetup(
                generator=TinyWorldGenerator(_generator(), "tinyworld"),
                scorer=TinyWorldScorer(),
                terms=REWARDS[remaining],
                drawing=DrawingSettings(draw_batch=64),
            )
        ),
        _log(folder),
    )


def _log(folder: Path) -> Callable[[str], None]:
    """A log in the job's own folder: several jobs run at once."""

    def log(line: str) -> None:
        with (folder / "log.txt").open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")

    return log
