"""Selects the judged images of runs that become rows, by the filter rules of the published data.

No thresholds are published. The defaults are the rules of EditThinker, with our numbers where one is needed
(docs/reference/file-formats.md). A person's annotation takes precedence over scores when attempts are
compared. An annotated image is kept regardless of its step: the rules are there to drop refined prompts
without success, not what people know. Balancing the verdicts drops no annotations either. Of the more common
verdict, rows are dropped whose only source is the critic. Rows of the rarer verdict are repeated, first those
in which the critic was overruled. The balance covers rows of both kinds. Held-out runs only contain answers
with a source other than the critic, since it cannot be tested on its own verdicts. Every decision depends
only on content and not on the order of folders, so the same runs give the same files.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import pvariance
from typing import Literal, NamedTuple

from .attempts import JudgedImage, JudgedStep
from .run_folders import TRAIN
from .settings import RunsData

MAX_POINTS = 10.0
Fate = Literal["sft", "rl", "sft and rl", "held out", "left out"]


class ImageDecision(NamedTuple):
    """Outcome of a judged image and the rule that decided it."""

    judged: JudgedImage
    fate: Fate
    reason: str
    copies: int = 1

    @property
    def verdict(self) -> bool:
        """Verdict that the row teaches."""
        assert self.judged.answer is not None and self.judged.answer.success is not None
        return self.judged.answer.success


def choose_rows(steps: Sequence[JudgedStep], settings: RunsData) -> list[ImageDecision]:
    """Return the outcome of every judged image, by all rules in order, in the order of the steps."""
    return _balanced(_said_once(_by_rules(steps, settings)), settings)


def _by_rules(steps: Sequence[JudgedStep], settings: RunsData) -> list[ImageDecision]:
    annotated = {
        step.run
        for step in steps
        if not step.split and any(one.source not in (None, "critic") for one in step.judged)
    }
    held_out = held_out_of(annotated, settings.held_out_runs, settings.held_out_seed)
    return [one for step in steps for one in _of_step(step, settings, step.run in held_out)]


def with_found_variance(steps: Sequence[JudgedStep], settings: RunsData) -> RunsData:
    """Return the settings with the score variance at which the share `rl_share` of the rows goes to RL.

    Steps are not divided, so the share is approximate. Without a share the settings are unchanged.
    """
    if settings.rl_share is None:
        return settings
    none_to_rl = settings.model_copy(update={"rl_variance": float("inf")})
    fates = [[one.fate for one in _by_rules([step], none_to_rl)] for step in steps]
    rows = [(spread_of(step), fate.count("sft")) for step, fate in zip(steps, fates, strict=True)]
    rows = sorted(((spread, count) for spread, count in rows if count), reverse=True)
    goal, taken = settings.rl_share * sum(count for _, count in rows), 0
    for place, (spread, count) in enumerate(rows):
        # A further step is added if that comes closer to the share.
        if taken + count / 2 > goal or spread == 0:
            above = rows[place - 1][0] if place else spread
            return settings.model_copy(update={"rl_variance": (above + spread) / 2 if place else spread})
        taken += count
    return settings.model_copy(update={"rl_variance": 0.0})


def value_of(judged: JudgedImage, scored: bool) -> float:
    """Return the value of an image, 0 to 10, from its overall score, else P(success) or the verdict."""
    if scored and judged.score is not None:
        return judged.score.overall
    said = judged.said
    if said is None or said.success is None:
        return MAX_POINTS / 2
    return MAX_POINTS * (float(said.success) if said.probability is None else said.probability)


def standings(step: JudgedStep) -> list[tuple[int, float]]:
    """Return each image's rank: a person's label (accepted 1, none 0, rejected -1), then its value.

    Scores count only if all images of the step have one, so that different scales are not compared.
    """
    scored = all(one.score is not None for one in step.judged)
    ranks = {True: 1, None: 0, False: -1}
    return [(ranks[one.label], value_of(one, scored)) for one in step.judged]


def spread_of(step: JudgedStep) -> float:
    """Return the variance of the overall scores of a step, 0 for fewer than two."""
    scores = [one.score.overall for one in step.judged if one.score is not None]
    return pvariance(scores) if len(scores) > 1 else 0.0


def held_out_of(runs: Iterable[str], share: float, seed: int) -> set[str]:
    """Return the held-out runs, at least this share, chosen by their names and the seed.

    Runs whose digest is below the share are always held out, so that a run is not trained on once and tested
    later. If these are too few, the next ones are added. At least one run is never held out.
    """
    digests = {run: int.from_bytes(_digest(f"{seed}\0{run}")[:4], "big") / 2**32 for run in runs}
    below = sum(digest < share for digest in digests.values())
    count = max(below, round(share * len(digests)), 1 if share else 0)
    return set(sorted(digests, key=digests.__getitem__)[: max(0, min(count, len(digests) - 1))])


def _of_step(step: JudgedStep, settings: RunsData, held_out: bool) -> list[ImageDecision]:
    ranks = standings(step)
    best = ranks.index(max(ranks))
    if step.split:
        # The teacher's verdicts are not those of the tested critic, so the split of the prompts applies.
        held_out = step.split != TRAIN
    wide = spread_of(step) > settings.rl_variance
    scores = [one.score.overall for one in step.judged if one.score is not None]
    low = settings.floor is not None and bool(scores) and max(scores) < settings.floor
    decided = []
    for index, one in enumerate(step.judged):
        left_out, reason = _rule(index, ranks, best, one, settings)
        if low and one.label is None:
            left_out, reason = True, "the step's best image scores below the minimum"
        if one.answer is None or one.answer.success is None:
            decided.append(ImageDecision(one, "left out", one.fault or "the right verdict is unknown"))
        elif held_out and one.source == "critic" and not step.split:
            decided.append(ImageDecision(one, "left out", "in a held-out run and not annotated"))
        elif left_out:
            decided.append(ImageDecision(one, "left out", reason))
        elif held_out:
            decided.append(ImageDecision(one, "held out", reason))
        else:
            to_rl = wide and one.score is not None
            reasoned = settings.reasoning == "own" or bool(one.answer.reasoning)
            if to_rl:
                # Annotations are few: those that go to RL are also used for fine-tuning.
                both = reasoned and (settings.both or one.label is not None)
                decided.append(ImageDecision(one, "sft and rl" if both else "rl", reason))
            elif reasoned:
                decided.append(ImageDecision(one, "sft", reason))
            else:
                decided.append(ImageDecision(one, "left out", "no reasoning"))
    return decided


def _rule(
    index: int, ranks: Sequence[tuple[int, float]], best: int, one: JudgedImage, settings: RunsData
) -> tuple[bool, str]:
    """Return whether the rules leave an image out, and the reason."""
    if one.label is not None:
        return False, "annotated by a person"
    if len(ranks) == 1:
        return not settings.single, "the step's only attempt"
    if settings.improved_only and max(ranks[1:]) < ranks[0]:
        return True, "no later attempt is as good as the first"
    if settings.cut_at_best and index > best:
        return True, "after the step's best attempt"
    return False, "up to the step's best attempt" if settings.cut_at_best else "in a step that improved"


def _question(one: JudgedImage) -> tuple[str, str, str, str]:
    return one.original, one.used, one.before or "", one.after


def _said_once(decided: Sequence[ImageDecision]) -> list[ImageDecision]:
    """Keep one row per question: a person's answer first, and none if people contradict each other."""
    groups: dict[tuple[str, str, str, str], list[int]] = defaultdict(list)
    for number, one in enumerate(decided):
        if one.fate != "left out":
            groups[_question(one.judged)].append(number)
    out = list(decided)
    for numbers in groups.values():
        by_rank = sorted(
            numbers, key=lambda number: (RANK[decided[number].judged.source or "critic"], number)
        )
        first = decided[by_rank[0]]
        rivals = [decided[n] for n in by_rank[1:] if decided[n].judged.source == first.judged.source]
        if any(rival.verdict != first.verdict for rival in rivals):
            for number in numbers:
                out[number] = ImageDecision(
                    decided[number].judged, "left out", "contradicting annotations of the same image"
                )
            continue
        for number in by_rank[1:]:
            out[number] = ImageDecision(decided[number].judged, "left out", "duplicate question")
    return out


RANK = {"human": 0, "scorer": 1, "critic": 2}


def _balanced(decided: Sequence[ImageDecision], settings: RunsData) -> list[ImageDecision]:
    """Balance the verdicts of all training rows, SFT and RL together, without dropping annotations."""
    least, copies = settings.balance, settings.copies
    rows = [number for number, one in enumerate(decided) if one.fate in ("sft", "rl", "sft and rl")]
    by_verdict = {truth: [n for n in rows if decided[n].verdict is truth] for truth in (True, False)}
    rarer, commoner = sorted(by_verdict.values(), key=len)
    if not rarer or least == 0:
        return list(decided)
    out = list(decided)
    spare = sorted(
        (n for n in commoner if decided[n].judged.source != "human"),
        key=lambda n: (
            -RANK[decided[n].judged.source or "critic"],
            decided[n].judged.overruled,
            _row_digest(decided[n]),
        ),
    )
    spare = [] if settings.balance_by == "repeat" else spare
    dropped = spare[: max(0, len(commoner) - max(len(rarer), round(len(rarer) * (1 - least) / least)))]
    for number in dropped:
        out[number] = ImageDecision(
            decided[number].judged,
            "left out",
            f"too many rows say {decided[number].verdict}, and this one is not annotated",
        )
    lacking = round((len(commoner) - len(dropped)) * least / (1 - least)) - len(rarer)
    repeated = sorted(
        (n for n in rarer if "sft" in decided[n].fate),
        key=lambda n: (
            not decided[n].judged.overruled,
            RANK[decided[n].judged.source or "critic"],
            _row_digest(decided[n]),
        ),
    )
    for more in range(1, 1 if settings.balance_by == "drop" else copies):
        for number in repeated[: max(0, lacking)]:
            out[number] = out[number]._replace(copies=more + 1)
        lacking -= len(repeated)
    return out


def _row_digest(one: ImageDecision) -> bytes:
    return _digest("\0".join(_question(one.judged)))


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=8).digest()


def counts_of(rows: Iterable[ImageDecision]) -> dict[str, int]:
    """Return the number of rows by reason, the most frequent first."""
    found: dict[str, int] = defaultdict(int)
    for row in rows:
        found[row.reason] += 1
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))
