"""What the stages read: trajectories in which every step was accepted, and a teacher's cached answers.

A step is accepted by a critic or picked by a person. A step without a verdict does not count: whether its
image is right is unknown, and a model would learn from it as if it were.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ....backend.chat.protocol import ChatModel, Message, Reply, ReplySettings
from ....backend.errors import ChatError, JournalError, PictureError
from ....backend.loop.replay import load_trajectory
from ....backend.pictures import Picture
from ....backend.types import StopReason, Trajectory
from ...content_cache import ContentCache, key_of
from ..decontamination.guard import Guard
from ..from_runs.run_folders import TRAIN, find_runs, prompt_of

GIVE_UP = 5
"""Consecutive questions without an answer after which the teacher counts as unavailable."""
ACCEPTED = frozenset({StopReason.accepted, StopReason.picked, StopReason.text_only})


class AcceptedRun(NamedTuple):
    """A run that is taught: its name, the id of its prompt, and whether this prompt is held out."""

    name: str
    id: str
    held_out: bool
    trajectory: Trajectory


def not_accepted(trajectory: Trajectory) -> str:
    """Return why a trajectory must not be taught as it is, or an empty text."""
    reasons = {one.stop_reason for one in trajectory.results}
    if len(trajectory.results) < len(trajectory.plan.steps) or reasons - ACCEPTED - {StopReason.unjudged}:
        return "not every step was accepted"
    return "a step was not judged" if StopReason.unjudged in reasons else ""


def accepted_runs(
    runs: Sequence[Path], unfit: Callable[[Trajectory], str], guard: Guard, left_out: Counter[str]
) -> Iterator[AcceptedRun]:
    """Yield the accepted runs in these folders, sorted by name; `left_out` counts the others by reason.

    Raises:
        SettingsError: A folder does not contain a run.
    """
    for folder, name in sorted(find_runs(runs), key=lambda run: run[1]) if runs else ():
        try:
            trajectory, prompt = load_trajectory(folder), prompt_of(folder)
            reason = not_accepted(trajectory) or unfit(trajectory)
            if not reason and (found := guard.finds_trajectory(name, trajectory)):
                reason = f"in a benchmark: {found}"
        except (JournalError, PictureError):
            left_out["its folder cannot be read"] += 1
            continue
        if reason:
            left_out[reason] += 1
        else:
            yield AcceptedRun(name, prompt.id or name, prompt.split not in ("", TRAIN), trajectory)


class Teacher:
    """Asks `chat`, from several threads; answers are cached next to the data folder `out`."""

    def __init__(self, chat: ChatModel, out: Path) -> None:
        """Open the cache.

        Raises:
            SettingsError: The file cannot be used.
        """
        self.chat, self._cache = chat, ContentCache(out.with_name(f"{out.name}.teacher.sqlite"))
        self._lock, self._failed = threading.Lock(), 0

    def close(self) -> None:
        """Close the cache."""
        self._cache.close()

    def answer(
        self,
        content: Sequence[str | Picture],
        settings: ReplySettings,
        read: Callable[[Reply], str],
    ) -> str | None:
        """Return the text that `read` takes from the reply, or None if there was no answer.

        `read` may ask again with `chat`.

        Raises:
            ChatError: The teacher failed GIVE_UP times in a row, which is an outage.
            SettingsError: The cache cannot be written.
        """
        parts = [one.digest if isinstance(one, Picture) else one for one in content]
        key = key_of("teacher", self.chat.identity, *parts)
        kept = self._cache.text(key)
        if kept is not None:
            return kept
        try:
            text = read(self.chat.reply([Message(role="user", content=tuple(content))], settings))
        except ChatError:
            with self._lock:
                self._failed += 1
                if self._failed >= GIVE_UP:
                    raise
            return None
        with self._lock:
            self._failed = 0
        self._cache.keep_text(key, text)
        return text
