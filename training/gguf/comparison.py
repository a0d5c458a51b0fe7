"""Compares a converted GGUF agent with the checkpoint that it was made from.

Both answer the same questions, decoded greedily. A conversion can go wrong without an error: another chat
template, other image sizes, weights that f16 cannot hold. Rounding alone changes a few words of long answers,
so equal verdicts or plans count, and equal texts are reported next to them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, Field

from ...backend.agents.critic import critic_message
from ...backend.answers.reading import read_plan, read_verdict
from ...backend.chat import open_chat
from ...backend.chat.abilities import OnDevice
from ...backend.chat.llamacpp.chat import LlamaCppChat
from ...backend.chat.protocol import ChatModel, Message, ReplySettings
from ...backend.errors import AnswerError, SettingsError, TrainingError
from ...backend.feedback.sft_row import MARK, SftRow
from ...backend.files.atomic import write_text
from ...backend.pictures import Picture
from ...backend.prompts import PromptSet, default_prompt_set
from ...backend.prompts.trained_with import TrainedWith
from ..data.rows.row_kinds import Role, refuse_other_role
from ..data.rows.sft import read_rows
from ..gate.gate_rows import chosen
from ..gate.made_items import made_items
from ..statistics.intervals import share
from .settings import GgufSettings

COMPARISON = "comparison.json"
DATA = "--compare-data"
KINDS = 4
"""Kinds of generated items; see training/gate/made_items.py."""
Log = Callable[[str], None]
Question = Sequence[Message]


class AnsweredRow(BaseModel):
    """The answers of both models to one question."""

    safetensors: str
    gguf: str
    same_meaning: bool = Field(description="Whether both verdicts or plans are readable and equal.")

    @property
    def same_text(self) -> bool:
        """Whether both texts are equal."""
        return self.safetensors == self.gguf


class Comparison(BaseModel):
    """A GGUF model and its answers, next to those of the checkpoint."""

    file: str
    megabytes: float
    role: Role
    rows: list[AnsweredRow]

    @property
    def equal(self) -> int:
        """Number of rows with equal verdicts or plans."""
        return sum(row.same_meaning for row in self.rows)


@dataclass(frozen=True)
class Questions:
    """The questions of a comparison, for an agent of this role."""

    role: Role
    asked: Sequence[Question]
    settings: ReplySettings


def prepare_questions(trained: TrainedWith, settings: GgufSettings) -> Questions:
    """Return the questions that the settings name, for a model that was trained like this.

    Raises:
        SettingsError: The data file cannot be used, or there is none for a planner.
    """
    role: Role = trained.card.role or "critic"
    reply = ReplySettings(max_tokens=settings.compare_tokens, role=role)
    if trained.image_pixels is not None:
        reply = reply.model_copy(update={"max_pixels": trained.image_pixels})
    if settings.compare_data is not None:
        path = Path(settings.compare_data).expanduser()
        rows = read_rows(path)
        refuse_other_role(path, rows, role)
        most = settings.compare_rows
        picked = chosen(rows, most, seed=0) if role == "critic" else rows[:most]
        return Questions(role, [_asked(row, path.parent) for row in picked], reply)
    if role == "planner":
        raise SettingsError(
            "A planner is compared on the questions of a planner_sft.json.",
            f"Name one with {DATA}, or skip the comparison with --compare-rows 0.",
        )
    return Questions(role, _made_questions(trained.prompt_set, settings.compare_rows), reply)


def compare(
    checkpoint: Path, files: Sequence[Path], questions: Questions, settings: GgufSettings, log: Log = print
) -> list[Comparison]:
    """Put the questions to the checkpoint and to every GGUF model, and write the answers next to these.

    The checkpoint is removed from memory before a GGUF model is loaded.

    Args:
        checkpoint: Checkpoint folder.
        files: GGUF models created from it, all in one folder.
        questions: The questions.
        settings: How llama-server is started.
        log: Receives a line about each model.

    Raises:
        ChatError: A model cannot be opened or does not answer.
    """
    log(f"asking the safetensors {len(questions.asked)} questions")
    before = _answers(open_chat(f"transformers:{checkpoint}", share=False), questions)
    results = []
    for file in files:
        log(f"asking {file.name} the same questions")
        chat = open_chat(
            f"llamacpp:{file}", llama_server=settings.llama_server, gpu_layers=settings.gpu_layers
        )
        after = _answers(chat, questions)
        rows = [
            AnsweredRow(safetensors=one, gguf=other, same_meaning=_same_meaning(one, other, questions.role))
            for one, other in zip(before, after, strict=True)
        ]
        size = file.stat().st_size / 1e6
        results.append(Comparison(file=file.name, megabytes=size, role=questions.role, rows=rows))
    if files:
        stored = json.dumps([one.model_dump() for one in results], ensure_ascii=False, indent=1)
        write_text(files[0].parent / COMPARISON, stored, TrainingError, "The comparison")
    return results


def as_lines(results: Sequence[Comparison]) -> list[str]:
    """Return the comparison as lines of a Markdown table, and what to know about it."""
    if not results:
        return []
    what = "verdict" if results[0].role == "critic" else "plan"
    lines = [
        f"| model | MB | same {what} as the safetensors (95 % CI) | same text | unreadable: safetensors, "
        "GGUF |",
        "|---|---|---|---|---|",
    ]
    for one in results:
        equal = share([row.same_meaning for row in one.rows])
        texts = sum(row.same_text for row in one.rows)
        unreadable = [
            sum(_meaning(text, one.role) is None for text in answers)
            for answers in ([row.safetensors for row in one.rows], [row.gguf for row in one.rows])
        ]
        lines.append(
            f"| {one.file} | {one.megabytes:.1f} | {one.equal} of {equal.n} ({equal.low:.2f} to "
            f"{equal.high:.2f}) | {texts} of {equal.n} | {unreadable[0]}, {unreadable[1]} |"
        )
    lost = sum(_meaning(row.safetensors, results[0].role) is None for row in results[0].rows)
    if 2 * lost > len(results[0].rows):
        lines += [
            "",
            f"WARNING: the safetensors cannot answer most of these questions. Name others with {DATA}.",
        ]
    if any(one.equal < len(one.rows) for one in results):
        lines += ["", f"WARNING: not every {what} is the same. The answers are in {COMPARISON}."]
    return lines


def _asked(row: SftRow, folder: Path) -> Question:
    """Return the turns before a row's answer, with their images."""
    images = iter(row.images)
    turns = []
    for turn in row.messages[:-1]:
        parts: list[str | Picture] = []
        for number, text in enumerate(turn.content.split(MARK)):
            parts += [Picture.open(folder / next(images))] if number else []
            parts += [text] if text else []
        turns.append(Message(role=turn.role, content=tuple(parts)))
    return turns


def _made_questions(prompts: PromptSet | None, count: int) -> list[Question]:
    """Return questions about generated images, half of which fulfill their prompt."""
    items = made_items(-(-count // KINDS))[:count]
    return [
        [
            critic_message(
                prompts or default_prompt_set(),
                (Picture.white(one.after.size), one.after),
                f"{one.prompt}; {one.item.text}",
                f"{one.prompt}; {one.item.text}",
            )
        ]
        for one in items
    ]


def _answers(chat: ChatModel, questions: Questions) -> list[str]:
    """Return the answers of a model, and free its memory."""
    try:
        return [chat.reply(question, questions.settings).whole for question in questions.asked]
    finally:
        if isinstance(chat, OnDevice):
            chat.offload()
        if isinstance(chat, LlamaCppChat):
            chat.server.release()


def _same_meaning(one: str, other: str, role: Role) -> bool:
    meaning = _meaning(one, role)
    return meaning is not None and meaning == _meaning(other, role)


def _meaning(answer: str, role: Role) -> bool | str | None:
    """Return the verdict or the plan in an answer; None if it is not readable."""
    try:
        if role == "critic":
            return read_verdict(answer).success
        return read_plan(answer).model_dump_json()
    except AnswerError:
        return None
