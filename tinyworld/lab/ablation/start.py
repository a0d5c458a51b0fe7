"""Starting checkpoints of all seeds: `base` can read and see; `novice` can also judge images a little.

They stand for a vision-language model, so the base must be able to repeat text. A small model learns that
from short word lists in random order. From requests it learns to guess the next word instead: after 4,800 of
them it wrote its own requests, and everything trained on it had to learn copying first. Seeing comes before
copying: a model that copied first described 0.07 of the cells correctly after 2,600 steps. Images stay among
the lists and requests, because after 1,700 steps of images only nothing was copied any more. The novice
learns correct verdicts on rendered images, with the noisy teacher's refined prompts, and plans for single
sentences.

After each round the agent is tested to decide whether it has learned enough, because copying appears suddenly
and after a varying number of steps. Each round is a separate training, so a stop costs at most one round.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from shutil import copytree

from ....backend.chat.chat_model import Message
from ....backend.checkpoints.model_folder import check_files, check_weights
from ....backend.errors import SettingsError, TrainingError
from ....backend.files.atomic import writing_folder
from ....backend.pictures import Picture
from ....training.data.rows.rl import read_rl_rows
from ....training.data.rows.sft import MARK, SftRow
from ..data.critic_rows import RL_FILE, make_rendered, make_rl
from ..data.planner_rows import make_copies, make_repeats, make_sentences
from ..data.trajectories import make_taught
from ..models.agents import untrained
from ..runs.batched_agents import BatchedAgent
from .settings import AblationSettings
from .single_agent import corpus
from .stages import (
    BASE_RATE,
    PAGES_SEED,
    agent_in,
    final,
    fine_tuned,
    log_in,
    open_generator,
    rows_of,
    sft_settings,
)

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
