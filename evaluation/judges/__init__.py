"""Opens judges by name: any chat backend, or `fake:RATE`, with a cache of answers.

Judging a benchmark takes about ten thousand questions, so each is asked once. Scoring again with the same
judge costs nothing. The official evaluators and our own questions share this cache.
"""

from __future__ import annotations

from pathlib import Path

from ...backend.chat import CHAT_BACKENDS, open_chat
from ...backend.chat.protocol import ChatModel
from .judge import DEADLINE, BenchmarkJudge

FAKE = "fake"
__all__ = ["DEADLINE", "FAKE", "BenchmarkJudge", "open_judge"]


def open_judge(spec: str, answers: Path, deadline: float = DEADLINE, **options: object) -> BenchmarkJudge:
    """Open a judge.

    Args:
        spec: `openai:MODEL@URL`, `transformers:FOLDER`, ... or `fake:RATE`.
        answers: File of the cached answers.
        deadline: Timeout of one attempt to answer, in seconds.
        options: Options of the backend; `None` if not set.

    Raises:
        SettingsError: If the name or an option is invalid.
        ChatError: If the backend cannot be opened.
    """
    return BenchmarkJudge(_open(spec, deadline, options), answers, deadline)


def _open(spec: str, deadline: float, options: dict[str, object]) -> ChatModel:
    name, _, argument = spec.partition(":")
    if name == FAKE:
        from .fake import open_fake

        return open_fake(argument)
    if "deadline" in CHAT_BACKENDS.option_names(spec):
        options = {"deadline": deadline, **options}
    return open_chat(spec, **options)
