"""What every seed of the ablation starts from: `base`, which reads and sees and was never asked for a plan or
a verdict, and `novice`, which goes on from it until it judges real pages about as well as it should.

Decisions. They stand for a vision-language model, so the base must be able to say again what it was told. A
small model learns that from short lists of words in any order, and not from requests, whose next word it can
guess: after 4,800 of these it wrote requests of its own, and all that was trained on it had to learn to copy
first. Seeing comes before it (one that copied first told 0.07 of the cells after 2,600 steps), and pages stay
among the lists and the requests (after 1,700 steps of pages alone nothing was copied any more). The novice
learns right verdicts on rendered pages, with the noisy teacher's remedies, and plans of a single sentence.
When either has learned enough is seen by asking it, after rounds that are trainings of their own: copying
comes suddenly, and not after the same number of steps each time. So a stop costs one round.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from shutil import copytree

from ....backend.chat.protocol import Message
from ....backend.checkpoints.model_folder import check_files, check_weights
from ....backend.errors import SettingsError, TrainingError
from ....backend.files.atomic import writing_folder
from ....backend.pictures import Picture
from ....training.data.rows.conversations import MARK
from ....training.data.rows.rl import read_rl_rows
from ....training.data.rows.sft import SftRow
from ..data.critic_rows import make_rendered
from ..data.planner_rows import make_copies, make_repeats, make_sentences
from ..data.rl_rows import RL_FILE, make_rl
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
"""Words of the longest list among the first ones, and later."""
SENTENCES, STRANGERS = 0.15, 0.1
"""Share of the novice's rows that are single sentences to plan (the rest are verdicts), and share of its
verdicts that are on another page altogether, so that it says what is there and not what is wanted."""
WORDS_FROM = 3000
"""Rows of each kind that the vocabulary is learned from; no weight is."""
ASKED, ASKED_SEED = 100, 1000
"""New requests that the base is asked to repeat after every round, and their seed, which is no round's."""


def base(folder: Path, settings: AblationSettings) -> None:
    """An agent that repeats requests word for word and describes pages, trained on in rounds until it repeats
    new ones as well as the settings say; what each round came to is in the log."""

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
        log_in(folder)(f"round {number}: {right:.2f} of {len(asked)} new requests are repeated word for word")
        if right >= settings.base_right:
            break
    _keep(latest, folder)


def check_start(folder: Path) -> None:
    """Raise SettingsError unless a folder holds both checkpoints, in safetensors and with no code."""
    for name in ("base", "novice"):
        if not (folder / name / "config.json").is_file():
            raise SettingsError(
                f"--start {str(folder)!r} has no checkpoint {name!r}.",
                "Give a folder with base and novice, or leave it out: they are trained then.",
            )
        check_files(folder / name, SettingsError)
        check_weights(folder / name, SettingsError)


def given(folder: Path, checkpoint: Path) -> None:
    """One of both as it was made elsewhere."""
    _keep(checkpoint, folder)


def repeated(agent: BatchedAgent, rows: Sequence[SftRow], images: Path) -> int:
    """How many rows whose images lie below `images` an agent answers word for word as they are answered."""
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
    """The base trained on, round by round, until it judges real pages about as well as it should; what each
    round came to is in the log."""
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
        log_in(folder)(f"round {number}: {right:.3f} of the verdicts on {len(asked)} real pages are right")
        if right >= settings.novice_right:
            break
    _keep(latest, folder)


def _keep(checkpoint: Path, folder: Path) -> None:
    with writing_folder(final(folder), TrainingError, "The checkpoint") as temporary:
        copytree(checkpoint, temporary, dirs_exist_ok=True)
