"""Checks that a converted GGUF agent answers like the checkpoint that it was made from.

A conversion can go wrong without an error: another chat template, other image sizes, weights that f16 cannot
hold. Rounding alone changes a few words of long answers, so verdicts are compared, and of plans the number of
steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from ...backend.agents.critic import critic_message
from ...backend.agents.planner import planner_message
from ...backend.answers.reading import read_plan, read_verdict
from ...backend.chat import open_chat
from ...backend.chat.abilities import OnDevice
from ...backend.chat.llamacpp.chat import LlamaCppChat
from ...backend.chat.protocol import ChatModel, Message, ReplySettings
from ...backend.errors import AnswerError
from ...backend.pictures import Picture
from ...backend.prompts.prompt_set import default_prompt_set
from ...backend.prompts.trained_with import TrainedWith
from ...backend.types import Request
from ..gate.made_items import made_items
from .settings import GgufSettings

REQUEST = "A red boat at dusk, in three steps."
TOKENS = 1024
"""Maximum length of an answer."""


def check_answers(
    checkpoint: Path,
    files: Sequence[Path],
    trained: TrainedWith,
    settings: GgufSettings,
    log: Callable[[str], None] = print,
) -> bool:
    """Put the same questions to the checkpoint and to every GGUF model made from it, and log the result.

    A critic judges four generated images, a planner plans one request; both decode greedily.

    Returns:
        Whether all answers are readable and have the same meaning.

    Raises:
        ChatError: A model cannot be opened or does not answer.
    """
    planner = trained.card.role == "planner"
    prompts, reply = trained.prompt_set or default_prompt_set(), ReplySettings(max_tokens=TOKENS)
    if trained.image_pixels is not None:
        reply = reply.model_copy(update={"max_pixels": trained.image_pixels})
    if planner:
        questions = [planner_message(prompts, Request(text=REQUEST))]
    else:
        questions = [
            critic_message(prompts, (Picture.white(one.after.size), one.after), goal, goal)
            for one in made_items(1)
            if (goal := f"{one.prompt}; {one.item.text}")
        ]
    before = _meanings(open_chat(f"transformers:{checkpoint}", share=False), questions, reply, planner)
    same = None not in before
    if not same:
        log("WARNING: the safetensors do not answer the questions readably, so they prove little.")
    for file in files:
        chat = open_chat(
            f"llamacpp:{file}", llama_server=settings.llama_server, gpu_layers=settings.gpu_layers
        )
        after = _meanings(chat, questions, reply, planner)
        equal = sum(one is not None and one == other for one, other in zip(before, after, strict=True))
        log(f"{file.name}: {equal} of {len(questions)} answers mean the same as those of the safetensors")
        if equal < len(questions):
            same = False
            log("WARNING: not every answer is the same. Compare both on your own images before you use it.")
    return same


def _meanings(
    chat: ChatModel, questions: Sequence[Message], reply: ReplySettings, planner: bool
) -> list[bool | int | None]:
    """Return verdicts or numbers of steps (None: not readable), and free the model's memory."""
    found: list[bool | int | None] = []
    try:
        for question in questions:
            text = chat.reply([question], reply).whole
            try:
                found.append(len(read_plan(text).steps) if planner else read_verdict(text).success)
            except AnswerError:
                found.append(None)
    finally:
        if isinstance(chat, OnDevice):
            chat.offload()
        if isinstance(chat, LlamaCppChat):
            chat.server.release()
    return found
