"""Images with a user's verdict: the cases that notes are chosen from and measured on.

The runs are split in two. Notes are chosen on one split and measured on the other. All images of a run are in
the same split, because they share prompts and characters.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ....backend.errors import SettingsError
from ....backend.pictures import Picture
from ....backend.prompts.critic_notes import CriticNote
from ...content_cache import key_of
from ...data.from_runs.attempts import JudgedImage, Log, RunReader
from ...data.from_runs.run_folders import read_runs

MAX_SHOWN = 300
"""Maximum length of a text in a chosen note, in characters. Thirty notes then have about 7,000 tokens."""
CONFIRMED = ("person", "later try", "teacher")
"""Sources of refined prompts that are known to be better."""


@dataclass(frozen=True)
class Case:
    """An image and the user's verdict on it.

    Attributes:
        run: Run that it is from.
        before: Image before the step.
        after: The image.
        goal: Prompt from the plan.
        used: Prompt that it was generated with.
        success: The user's verdict.
        reason: The user's reason, if there is one.
        better_prompt: A better prompt, if one is known.
    """

    run: str
    before: Picture | None
    after: Picture
    goal: str
    used: str
    success: bool
    reason: str = ""
    better_prompt: str = ""

    @property
    def key(self) -> str:
        """Digest of the question about the image."""
        before = self.before.digest if self.before else None
        return key_of(before, self.after.digest, self.goal, self.used)

    @property
    def note(self) -> CriticNote | None:
        """The verdict as a note, `None` if neither a reason nor a better prompt is known."""
        reason, better = shortened(self.reason), "" if self.success else shortened(self.better_prompt)
        if not (reason or better) or not self.goal.strip():
            return None
        return CriticNote(
            goal=shortened(self.goal), success=self.success, reason=reason, better_prompt=better
        )


def cases_of(runs: Sequence[Path], prompt_set: str, skip_bad: bool, log: Log) -> list[Case]:
    """Return the images in runs that have the user's verdict, each question once.

    A question with both verdicts, of several people or runs, is left out.

    Args:
        runs: Run folders, or folders of them.
        prompt_set: Digest of the critic's prompt set.
        skip_bad: Leave out damaged runs.
        log: Receives progress lines.

    Raises:
        JournalError: A run is damaged, and `skip_bad` is false.
        SettingsError: A folder does not contain a run.
    """
    steps, problems = read_runs(runs, RunReader(prompt_set), skip_bad, log)
    for problem in problems:
        log(f"left out: {problem}")
    images = [one for step in steps for one in step.judged if one.label is not None]
    found: dict[str, Case] = {}
    disputed: set[str] = set()
    for case in map(_case, images):
        if found.setdefault(case.key, case).success != case.success:
            disputed.add(case.key)
    if disputed:
        log(f"{len(disputed)} images with different verdicts are left out")
    return [case for key, case in found.items() if key not in disputed]


def shortened(text: str) -> str:
    """Return a text of at most `MAX_SHOWN` characters in one line."""
    line = " ".join(text.split())
    return line if len(line) <= MAX_SHOWN else f"{line[: MAX_SHOWN - 3].rstrip()}..."


def some_of(cases: Sequence[Case], most: int, seed: int) -> list[Case]:
    """Return up to `most` cases chosen by `seed`, with equal numbers of both verdicts where possible."""
    ordered = sorted(cases, key=lambda case: _digest(seed, case.key))
    right, wrong = ([case for case in ordered if case.success is verdict] for verdict in (True, False))
    first = min(len(right), max(most // 2, most - len(wrong)))
    return sorted([*right[:first], *wrong[: most - first]], key=lambda case: _digest(seed, case.key))


def split_by_run(cases: Sequence[Case], seed: int) -> tuple[list[Case], list[Case]]:
    """Return two splits with about the same number of each verdict. All cases of a run are in the same one.

    Raises:
        SettingsError: All cases are from one run.
    """
    by_run: dict[str, list[Case]] = {}
    for case in cases:
        by_run.setdefault(case.run, []).append(case)
    if len(by_run) < 2:
        raise SettingsError(
            f"Notes need verdicts in at least 2 runs, but there are some in {len(by_run)}.",
            "Give verdicts in runs of other stories: notes are chosen on some and measured on the others.",
        )
    splits: tuple[list[Case], list[Case]] = ([], [])
    for run in sorted(by_run, key=lambda run: (-len(by_run[run]), _digest(seed, run))):
        # The split that has fewer of the verdicts that this run has.
        given = Counter(case.success for case in by_run[run])
        min(splits, key=lambda split: sum(given[case.success] for case in split)).extend(by_run[run])
    return splits


def _case(one: JudgedImage) -> Case:
    answer = one.answer
    assert answer is not None and answer.success is not None, "it has a label"
    return Case(
        run=one.run,
        before=None if one.before is None else _opened(one.pictures / f"{one.before}.png"),
        after=_opened(one.pictures / f"{one.after}.png"),
        goal=one.original,
        used=one.used,
        success=answer.success,
        reason=answer.reasoning,
        better_prompt=answer.refined_prompt if one.remedy in CONFIRMED else "",
    )


def _opened(path: Path) -> Picture:
    picture = Picture.open(path)
    picture.kept_by(lambda: Picture.open(path).image)
    return picture


def _digest(seed: int, text: str) -> bytes:
    return hashlib.blake2b(f"{seed}\0{text}".encode(), digest_size=8).digest()
