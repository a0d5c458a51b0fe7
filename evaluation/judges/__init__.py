"""Judges by name: any chat backend, or `fake:RATE`, in front of one store of answers.

Decision: a benchmark is judged in ten thousand questions, so each is asked once: who scores again, with the
same judge, pays for nothing. Both the evaluators of others and our own questions are answered from here.
"""

from __future__ import annotations

from pathlib import Path

from ...backend.chat import CHAT_BACKENDS, open_chat
from ...backend.chat.protocol import ChatModel
from .judge import DEADLINE, BenchmarkJudge

FAKE = "fake"
__all__ = ["DEADLINE", "FAKE", "BenchmarkJudge", "open_judge"]


def open_judge(spec: str, answers: Path, deadline: float = DEADLINE, **options: object) -> BenchmarkJudge:
    """The judge `openai:MODEL@URL`, `transformers:FOLDER`, ... or `fake:RATE`, whose answers are kept in the
    file `answers`. `deadline`: seconds for one try of an answer. `options` are the backend's, None where they
    are not set. Raises SettingsError, ChatError."""
    return BenchmarkJudge(_open(spec, deadline, options), answers, deadline)


def _open(spec: str, deadline: float, options: dict[str, object]) -> ChatModel:
    name, _, argument = spec.partition(":")
    if name == FAKE:
        from .fake import open_fake

        return open_fake(argument)
    if "deadline" in CHAT_BACKENDS.option_names(spec):
        options = {"deadline": deadline, **options}
    return open_chat(spec, **options)
