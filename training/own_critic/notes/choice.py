"""Chooses notes one after the other on one split of a user's feedback.

Each correction is tried as a further note. First the critic is asked about the images that it still judges
wrongly. If the note corrects too few other images, it is dropped at once, which is the common case and the
cheap one. Else the critic is asked about the images that it judges rightly, until the note has harmed too
many. The images of chosen notes do not count: a critic that repeats a note has not learned from it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from pydantic import BaseModel, Field

from ....backend.agents.critic import Critic
from ....backend.prompts.critic_notes import CriticNote
from .asking import NotedCritic
from .cases import Case
from .settings import NotesSettings

MIN_GAIN = 2
"""Fewest images that a note must correct on balance. One may be luck: benchmarks/critic_notes.py has better
critics with 2 than with 1."""
Log = Callable[[str], None]


class TriedNote(BaseModel):
    """A correction that was tried as a further note.

    Attributes:
        note: The note.
        fixed: Other images that are judged rightly with it and wrongly without.
        broken: Images that are judged wrongly with it and rightly without, as far as was asked.
        kept: Whether it was chosen.
    """

    note: CriticNote
    fixed: int
    broken: int = 0
    kept: bool = False


class Choice(BaseModel):
    """The chosen notes, in the order of choice, and all that were tried.

    Attributes:
        tried: Corrections that were tried.
        untried: Corrections for which no questions were left.
    """

    tried: list[TriedNote] = Field(default_factory=list)
    untried: int = 0

    @property
    def notes(self) -> list[CriticNote]:
        """The chosen notes."""
        return [one.note for one in self.tried if one.kept]


def choose(
    asked: NotedCritic,
    cases: Sequence[Case],
    before: Sequence[bool | None],
    settings: NotesSettings,
    reserve: int,
    log: Log = print,
) -> Choice:
    """Choose notes from the corrections of cases that the critic judged wrongly.

    Args:
        asked: The critic.
        cases: The cases.
        before: Its verdicts on them without notes.
        settings: Maximum number of notes, and the seed of the order in which corrections are tried.
        reserve: Number of questions that have to be left at the end.
        log: Receives a line for each chosen note.

    Raises:
        ChatError: The critic failed.
    """
    right = [said == case.success for said, case in zip(before, cases, strict=True)]
    return _Choosing(asked, cases, right, reserve, log).run(settings)


class _Choosing:
    """The state of a choice: which cases are judged rightly with the notes chosen so far."""

    def __init__(
        self, asked: NotedCritic, cases: Sequence[Case], right: list[bool], reserve: int, log: Log
    ) -> None:
        self.asked, self.cases, self.right, self.reserve, self.log = asked, cases, right, reserve, log
        self.used: set[int] = set()
        self.choice = Choice()

    def run(self, settings: NotesSettings) -> Choice:
        corrections = [
            number
            for number, case in enumerate(self.cases)
            if not self.right[number] and case.note is not None
        ]
        Random(settings.seed).shuffle(corrections)
        for position, number in enumerate(corrections):
            if len(self.used) == settings.max_notes:
                break
            if self.right[number]:
                continue  # an earlier note corrects it already
            if not self._try(number):
                self.choice.untried = len(corrections) - position
                self.log(f"no questions are left; {self.choice.untried} corrections were not tried")
                break
        return self.choice

    def _try(self, number: int) -> bool:
        """Try the correction of a case as a further note, and return whether enough questions were left."""
        note = self.cases[number].note
        assert note is not None
        critic = self.asked.with_notes([*self.choice.notes, note])
        counted = [one for one in range(len(self.cases)) if one not in self.used and one != number]
        after: dict[int, bool] = {}
        wrong = [one for one in counted if not self.right[one]]
        if not self._ask(critic, wrong, after):
            return False
        tried = TriedNote(note=note, fixed=sum(after.values()))
        right = [one for one in counted if self.right[one]]
        step = max(1, self.asked.parallel)
        for start in range(0, len(right), step):
            if tried.fixed - tried.broken < MIN_GAIN:
                break
            if not self._ask(critic, right[start : start + step], after):
                return False
            tried.broken = sum(self.right[one] and not now for one, now in after.items())
        tried.kept = tried.fixed - tried.broken >= MIN_GAIN
        self.choice.tried.append(tried)
        if tried.kept:
            self.used.add(number)
            for one, now in after.items():
                self.right[one] = now
            self.log(
                f"note {len(self.used)}: {tried.fixed} more right, {tried.broken} more wrong. "
                f"{note.text[:200]}"
            )
        return True

    def _ask(self, critic: Critic, numbers: Sequence[int], after: dict[int, bool]) -> bool:
        if len(numbers) > self.asked.left - self.reserve:
            return False
        cases = [self.cases[number] for number in numbers]
        said = self.asked.verdicts(critic, cases)
        for number, verdict in zip(numbers, said, strict=True):
            after[number] = verdict == self.cases[number].success
        return True
