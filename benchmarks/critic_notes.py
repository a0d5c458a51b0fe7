"""Measures critic's notes with a scripted critic whose mistakes are known.

    OMP_NUM_THREADS=1 python -m benchmarks.critic_notes

The critic overlooks changed colors and rejects images for their style, until a telling note says otherwise.
Every note also flips some verdicts, in the useful and in the useless direction. A simulated user accepts and
rejects images and gives reasons, half of which are vague. Notes are chosen and measured by the code of
`feedback notes`; a third set of images shows what the choice is worth. The last part counts how often the
gate keeps random notes that teach nothing, and how often a whole choice among such notes is kept. The
scripted critic shows that the method finds what notes can teach. How well a real critic learns from notes is
not measured here. The last line is JSON.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from PIL import Image

from interleave_thinker.backend.agents.critic import Critic
from interleave_thinker.backend.answers.reading import write_verdict
from interleave_thinker.backend.chat.protocol import Message, Reply, ReplySettings
from interleave_thinker.backend.pictures import Picture
from interleave_thinker.backend.prompts import PromptSet
from interleave_thinker.backend.prompts.critic_notes import AFTER, BEFORE, CriticNote
from interleave_thinker.backend.types import Verdict
from interleave_thinker.training.own_critic.notes.asking import NotedCritic
from interleave_thinker.training.own_critic.notes.cases import Case
from interleave_thinker.training.own_critic.notes.make import (
    NotesReport,
    chosen_and_measured,
    faults_of,
    gate_of,
    splits_of,
)
from interleave_thinker.training.own_critic.notes.settings import NotesSettings
from interleave_thinker.training.statistics.bootstrap import two_level_mean
from interleave_thinker.training.statistics.intervals import share

REASONS = {
    "color": ("the color of the coat changed", "wrong color, it was yellow before"),
    "count": ("one bird is missing", "there are three cups instead of two"),
    "hand": ("the hand has six fingers", "an arm grows out of the table"),
    "style": ("the style may be looser, this is fine", "brush strokes are a style and no error"),
}
VAGUE = ("not what I asked for", "no", "this is fine", "good enough for me")
WRONG, RIGHT = {"color": 0.5, "count": 0.3, "hand": 0.2}, {"plain": 0.8, "style": 0.2}
NOTE = re.compile(r"^Note \d+\. (.*)$", re.MULTILINE)
THINGS = ("coat", "boat", "house", "lamp", "dog")
IMAGES_EACH = 5
"""Images of a run."""


@dataclass(frozen=True)
class Flaws:
    """How the scripted critic judges.

    Attributes:
        overlooked: Kinds of images that it judges wrongly, until a telling note names the kind.
        blind: Share of these images that it judges rightly without such a note.
        taught: The same with such a note.
        able: Share of all other images that it judges rightly.
        misled: Share of verdicts that each note flips.
        even: Whether a note flips wrong verdicts more often, so that it harms and helps equally often.
        narrow: Whether a note teaches only about its own thing, one of five.
    """

    overlooked: tuple[str, ...] = ("color", "style")
    blind: float = 0.2
    taught: float = 0.8
    able: float = 0.92
    misled: float = 0.005
    even: bool = False
    narrow: bool = False


class FlawedChat:
    """A chat model that knows the kind of every image, and judges as `flaws` says."""

    prompt_set: PromptSet | None = None

    def __init__(self, flaws: Flaws) -> None:
        self.flaws = flaws
        self.kinds: dict[str, tuple[str, str]] = {}
        """Kind of each image, and the thing that it is about."""
        self.wrong_share = 0.0
        """Share of images that are judged wrongly without notes, for `even`."""

    @property
    def identity(self) -> str:
        """Name and flaws."""
        return f"flawed {self.flaws}"

    def reply(
        self,
        messages: Sequence[Message],
        settings: ReplySettings,
        on_token: Callable[[str], None] | None = None,
    ) -> Reply:
        """Judge the last image of the message, having read the notes before it."""
        content = messages[0].content
        image = [part for part in content if isinstance(part, Picture)][-1].digest
        first = str(content[0])
        notes = first.partition(AFTER)[0] if first.startswith(BEFORE) else ""
        success = self.verdict(image, NOTE.findall(notes))
        verdict = Verdict(success=success, refined_prompt="again", reasoning="looked")
        return Reply(text=write_verdict(verdict))

    def verdict(self, image: str, notes: Sequence[str]) -> bool:
        """Return the verdict on an image after reading notes."""
        kind, thing = self.kinds[image]
        right = _chance(image, "able") < self.able(kind, thing, notes)
        for note in notes:
            rate = self.flaws.misled
            if self.flaws.even and not right:
                rate = min(1.0, rate * (1 - self.wrong_share) / self.wrong_share)
            if _chance(image, note) < rate:
                right = not right
        return right == (kind in RIGHT)

    def able(self, kind: str, thing: str, notes: Sequence[str]) -> float:
        """Return the probability of a right verdict on an image of this kind and thing."""
        if kind not in self.flaws.overlooked:
            return self.flaws.able
        about = [note for note in notes if not self.flaws.narrow or f"Reason: {thing}:" in note]
        told = any(reason in note for note in about for reason in REASONS[kind])
        return self.flaws.taught if told else self.flaws.blind


class DirectCritic(NotedCritic):
    """Takes the verdicts of the scripted critic without messages, which is faster. A test compares both."""

    def verdicts(self, critic: Critic, cases: Sequence[Case]) -> list[bool | None]:
        """Return the verdict of the critic on each case."""
        self.questions += len(cases)
        notes = [note.text for note in critic.notes.notes] if critic.notes else []
        assert isinstance(critic.chat, FlawedChat)
        return [critic.chat.verdict(case.after.digest, notes) for case in cases]


def images_of(chat: FlawedChat, count: int, seed: int, telling: float) -> list[Case]:
    """Return images with the verdicts of a simulated user, half of them right.

    A share `telling` of the reasons names the kind, the others are vague.
    """
    rng = Random(f"{seed}/{count}")
    cases = []
    for number in range(count):
        success = number % 2 == 0
        shares = RIGHT if success else WRONG
        kind = rng.choices(list(shares), list(shares.values()))[0]
        pixels = hashlib.blake2b(f"{seed}/{count}/{number}".encode(), digest_size=12).digest()
        picture = Picture(Image.frombytes("RGB", (2, 2), pixels))
        thing = rng.choice(THINGS)
        chat.kinds[picture.digest] = kind, thing
        reason = rng.choice(REASONS.get(kind, VAGUE) if rng.random() < telling else VAGUE)
        goal = f"page {number} of story {seed}"
        case = Case(f"run {number // IMAGES_EACH}", None, picture, goal, goal, success, f"{thing}: {reason}")
        cases.append(case)
    return cases


@dataclass(frozen=True)
class User:
    """What one user's notes are worth.

    Attributes:
        report: Result of `feedback notes`.
        before: Whether each verdict on the unseen images is right without notes.
        after: The same with the chosen notes, or without if they were not kept.
        random: The same with random corrections, up to the maximum number of notes.
    """

    report: NotesReport
    before: list[bool]
    after: list[bool]
    random: list[bool]


def user(flaws: Flaws, images: int, unseen: int, seed: int, most: int) -> User:
    """Choose the notes of one user, and measure them on unseen images."""
    chat = FlawedChat(flaws)
    cases, others = images_of(chat, images, 2 * seed, 0.5), images_of(chat, unseen, 2 * seed + 1, 0.5)
    settings = NotesSettings(images=images, seed=seed, max_questions=most)
    choosing, checking = splits_of(cases, settings)
    with DirectCritic(Critic(chat), most) as asked:
        report = chosen_and_measured(asked, choosing, checking, settings, log=lambda line: None)
        plain = asked.verdicts(asked.with_notes(()), choosing)
        wrong = [one for one, said in zip(choosing, plain, strict=True) if said != one.success and one.note]
        corrections = [note for one in wrong if (note := one.note)]
        some = Random(seed).sample(corrections, min(settings.max_notes, len(corrections)))

        def hits(notes: Sequence[CriticNote]) -> list[bool]:
            said = asked.verdicts(asked.with_notes(notes), others)
            return [one == case.success for one, case in zip(said, others, strict=True)]

        before = hits(())
        return User(report, before, before if report.faults else hits(report.choice.notes), hits(some))


def row_of(users: Sequence[User]) -> dict[str, Any]:
    """Return the figures of several users."""
    gates = [one.report.gate for one in users if one.report.gate is not None]
    changes = [[new - old for old, new in zip(one.before, one.after, strict=True)] for one in users]
    numbers = [len(one.report.choice.notes) for one in users]
    return {
        "kept": str(share([not one.report.faults for one in users])),
        "notes": [min(numbers), sum(numbers) / len(numbers), max(numbers)],
        "questions": round(sum(one.report.questions for one in users) / len(users)),
        "held_out_before": str(two_level_mean([one.before.hits for one in gates])) if gates else None,
        "held_out_after": str(two_level_mean([one.after.hits for one in gates])) if gates else None,
        "unseen_before": str(two_level_mean([one.before for one in users])),
        "unseen_after": str(two_level_mean([one.after for one in users])),
        "unseen_change": str(two_level_mean(changes, bounds=(-1.0, 1.0))),
        "unseen_random": str(two_level_mean([one.random for one in users])),
    }


def useless_sets(flaws: Flaws, sets: int, notes: int, images: int) -> dict[str, Any]:
    """Return how often the gate keeps random notes that teach nothing, each set on images of its own."""
    kept = []
    for seed in range(sets):
        chat = FlawedChat(flaws)
        cases = images_of(chat, images, 10_000 + seed, 0.0)
        some = [
            CriticNote(goal=f"page {seed}/{number}", success=False, reason=Random(number).choice(VAGUE))
            for number in range(notes)
        ]
        with DirectCritic(Critic(chat), 10**6) as asked:
            plain = asked.verdicts(asked.with_notes(()), cases)
            wrong = sum(said != case.success for said, case in zip(plain, cases, strict=True))
            chat.wrong_share = wrong / len(cases)
            kept.append(not faults_of(gate_of(asked, some, cases)))
    return {"kept": str(share(kept)), "notes": notes, "images": images}


def useless_choices(flaws: Flaws, users: int, images: int, most: int) -> dict[str, Any]:
    """Return how often notes are kept that were chosen where no note teaches anything."""
    kept, chosen = [], 0
    for seed in range(users):
        chat = FlawedChat(flaws)
        cases = images_of(chat, images, 20_000 + seed, 0.0)
        chat.wrong_share = sum(chat.verdict(one.after.digest, ()) != one.success for one in cases) / images
        settings = NotesSettings(images=images, seed=seed, max_questions=most)
        choosing, checking = splits_of(cases, settings)
        with DirectCritic(Critic(chat), most) as asked:
            report = chosen_and_measured(asked, choosing, checking, settings, log=lambda line: None)
        kept.append(not report.faults)
        chosen += len(report.choice.notes)
    return {"kept": str(share(kept)), "mean_notes_chosen": chosen / users, "images": images}


def _chance(image: str, what: str) -> float:
    digest = hashlib.blake2b(f"{image}\0{what}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


def main() -> None:
    """Run the experiment and print its figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--users", type=int, default=20)
    parser.add_argument("--unseen", type=int, default=500)
    parser.add_argument("--sets", type=int, default=200)
    parser.add_argument("--questions", type=int, default=4000)
    options = parser.parse_args()
    began = time.process_time()
    found: dict[str, Any] = {}
    for name, flaws in {
        "wide notes": Flaws(),
        "wide notes that mislead": Flaws(misled=0.02),
        "narrow notes": Flaws(narrow=True),
    }.items():
        for images in (100, 200, 400):
            users = [
                user(flaws, images, options.unseen, seed, options.questions) for seed in range(options.users)
            ]
            found[f"{name}, {images} images"] = row_of(users)
            print(f"{name}, {images} images", json.dumps(found[f"{name}, {images} images"]), flush=True)
    stubborn = Flaws(taught=Flaws.blind)
    for name, flaws in {
        "notes that harm": replace(stubborn, misled=0.01),
        "notes that flip evenly": replace(stubborn, misled=0.01, even=True),
    }.items():
        sets = useless_sets(flaws, options.sets, 10, 200)
        choices = useless_choices(flaws, options.sets, 200, options.questions)
        found[f"useless: {name}"] = {"random sets": sets, "choices": choices}
        print(name, json.dumps(found[f"useless: {name}"]), flush=True)
    print(json.dumps({**found, "processor_seconds": round(time.process_time() - began)}))


if __name__ == "__main__":
    main()
