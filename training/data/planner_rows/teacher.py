"""Teacher that writes prompts for images that were not generated from a prompt.

It sees the previous image, the image and the text of the step, and answers with only the prompt. Answers are
cached next to the data, so that an interrupted call asks nothing again. Prompts that no image model could
follow (with step numbers, references to other images, or too long) are rejected. If the teacher is
unavailable the call ends, since the remaining prompts are unknown.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

from ....backend.answers.reply_text import spoken
from ....backend.chat.protocol import ChatModel, Message, ReplySettings
from ....backend.errors import ChatError
from ....backend.pictures import Picture
from ...content_cache import ContentCache, key_of
from .comm import CommStory
from .kinds import NOT_IN_PROMPTS

GIVE_UP = 5
"""Consecutive stories that the teacher may leave without an answer."""
MAX_PROMPT_LENGTH = 1200
SETTINGS = ReplySettings(max_tokens=600, temperature=0.0)
FIRST = (
    "An image model is to draw this picture from words alone. Write the prompt for it: what is to be seen, "
    "where, in what style and light. Answer with the prompt alone, in one paragraph."
)
NEXT = (
    "An image model is to turn the first picture into the second. Write the prompt for it: what changes, "
    'what is added or goes, and how it looks. Do not say "first", "second" or "previous picture": the model '
    "sees the first one alone. Answer with the prompt alone, in one paragraph."
)


class PromptTeacher:
    """Asks `chat` for the prompts of stories; answers are cached in the file `cache`."""

    def __init__(self, chat: ChatModel, cache: Path) -> None:
        self._chat, self._cache = chat, ContentCache(cache)
        self._lock = threading.Lock()
        self._failed = 0
        self._down: ChatError | None = None

    def close(self) -> None:
        """Close the cache."""
        self._cache.close()

    def prompts_of(self, story: CommStory) -> list[str] | str:
        """Return a prompt for each image of the story, or the reason why there are none.

        Raises:
            ChatError: The teacher failed at GIVE_UP stories in a row.
            SettingsError: The cache cannot be written.
        """
        if self._down is not None:
            raise self._down
        prompts: list[str] = []
        before: Picture | None = None
        try:
            for words, picture in story.steps:
                if picture is None:
                    continue
                prompts.append(self._prompt(before, picture, words))
                before = picture
        except ChatError as error:
            with self._lock:
                self._failed += 1
                if self._failed >= GIVE_UP:
                    self._down = error
                    raise
            return "a story for which the teacher gave no answer"
        with self._lock:
            self._failed = 0
        return (
            prompts if all(map(_usable, prompts)) else "a story with a prompt that no image model can follow"
        )

    def _prompt(self, before: Picture | None, after: Picture, words: str) -> str:
        key = key_of("prompt of", self._chat.identity, before and before.digest, after.digest, words)
        found = self._cache.text(key)
        if found is None:
            said = f"\nIts words: {words}" if words else ""
            asked = (before, after, NEXT + said) if before is not None else (after, FIRST + said)
            reply = self._chat.reply([Message(role="user", content=asked)], SETTINGS)
            found = spoken(reply.whole)[: MAX_PROMPT_LENGTH + 1]
            self._cache.keep_text(key, found)
        return found


def _usable(prompt: str) -> bool:
    return bool(prompt) and len(prompt) <= MAX_PROMPT_LENGTH and not NOT_IN_PROMPTS.search(prompt)


def all_of(stories: Sequence[CommStory], teacher: PromptTeacher, parallel: int) -> list[list[str] | str]:
    """Return the result of `prompts_of` for each story, `parallel` at a time; raises as it does."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(min(parallel, max(1, len(stories))), thread_name_prefix="teacher") as pool:
        return list(pool.map(teacher.prompts_of, stories))
