"""Rewords requests with a chat model, keeping each original.

The model must only change the phrasing. Its answer is rejected, and the original kept, if a number of images
or quoted words are missing, or if it has several lines or a very different length. Every answer is stored
immediately, so that an interrupted run asks nothing again.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from ....backend.answers.reply_text import spoken
from ....backend.chat.protocol import ChatModel, Message, ReplySettings
from ....backend.errors import SettingsError
from ....backend.files.atomic import append_line
from ....backend.files.bounded_reader import opened, parse_json
from .rows import GeneratedRow
from .templates import NUMBERS

ANSWERS = "prompts.polished.jsonl"
MAX_LINE = 8192
MAX_TEXT = 1000


class Polisher:
    """Rewords rows one after the other; `reworded` and `refused` count the results."""

    def __init__(self, chat: ChatModel, name: str, out: Path, language: str = "") -> None:
        # The data must not contain the server's address.
        self._chat, self._name, self._language = chat, name.partition("@")[0], language
        self._path = out / ANSWERS
        self._answers = _read(self._path)
        self.reworded = self.refused = 0

    def __call__(self, row: GeneratedRow) -> GeneratedRow:
        """Return the reworded row, or the row itself if the answer is rejected.

        Raises:
            ChatError: The model failed.
            SettingsError: The answers cannot be stored.
        """
        key = f"{row.id}|{self._name}|{self._language}"
        text = self._answers.get(key)
        if text is None:
            text = self._asked(row)
            self._answers[key] = text
            self._write(key, text)
        if not self._fits(text, row):
            self.refused += 1
            return row
        self.reworded += 1
        return replace(
            row,
            user_input=text,
            original_input=row.user_input,
            polished_by=self._name,
            language=self._language or row.language,
        )

    def _asked(self, row: GeneratedRow) -> str:
        into = f" Answer in {self._language}." if self._language else ""
        question = (
            "Put the following request for a series of pictures into other words, as another person would "
            "say it. Keep every thing, number and quoted word, add nothing, and answer with the request "
            f"alone, in one line.{into}\n\n{row.user_input}"
        )
        settings = ReplySettings(max_tokens=400, temperature=0.7)
        reply = self._chat.reply([Message(role="user", content=(question,))], settings)
        return spoken(reply.whole)[: MAX_TEXT + 1]

    def _fits(self, text: str, row: GeneratedRow) -> bool:
        if not text or len(text) > MAX_TEXT or text == row.user_input:
            return False
        if any(words not in text for words in row.constraints.drawn_words):
            return False
        if self._language:
            return True
        count, spoken = row.constraints.step_count, text.casefold()
        if count and NUMBERS[count] not in spoken and str(count) not in spoken:
            return False
        return 0.4 <= len(text) / len(row.user_input) <= 2.5

    def _write(self, key: str, text: str) -> None:
        line = json.dumps({"key": key, "text": text}, ensure_ascii=False)
        append_line(self._path, line, SettingsError, "Answers")


def _read(path: Path) -> dict[str, str]:
    """Return the answers of an earlier run; an incomplete line is asked again."""
    answers: dict[str, str] = {}
    if not path.exists():
        return answers
    with opened(path, SettingsError, "Answers") as file:
        while line := file.readline(MAX_LINE):
            try:
                row: Any = parse_json(line, SettingsError, f"Answers {str(path)!r}")
            except SettingsError:
                continue
            if isinstance(row, dict) and isinstance(row.get("key"), str) and isinstance(row.get("text"), str):
                answers[row["key"]] = row["text"]
    return answers
