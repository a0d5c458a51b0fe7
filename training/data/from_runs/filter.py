"""Which judged images of runs become rows: the filtering rules of the published data.

Decisions. No thresholds are published; the defaults are EditThinker's rules (FORMATS: data files) with ours
where a number is needed. A person's annotation outranks any score when attempts are compared, and an
annotated image stays whatever became of its step: the rules are there to leave out refined prompts that led
nowhere, not what people know. Balancing the verdicts costs no annotation either: the commoner verdict gives
up rows of which only the critic is sure, and the rarer one's rows stand in the file several times, those
first by which the critic was overruled. It is one balance over rows of both kinds. Held-out runs hold only
what somebody else than the critic said, because by its own verdicts it cannot be examined. Everything is
decided by content, never by the order of folders, so the same runs give the same files.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import pvariance
from typing import Literal, NamedTuple

from .attempts import JudgedImage, JudgedStep
from .settings import RunsData

MAX_POINTS = 10.0
TRAIN = "train"


Fate = Literal["sft", "rl", "sft and rl", "held out", "left out"]


class ImageDecision(NamedTuple):
    """What became of a judged image, and why."""

    judged: JudgedImage
    fate: Fate
    reason: str
    copies: int = 1

    @property
    def verdict(self) -> bool:
        assert self.judged.answer is not None and self.judged.answer.success is not None
        return self.judged.answer.success


def choose_rows(steps: Sequence[JudgedStep], settings: RunsData) -> list[ImageDecision]:
    """What becomes of every judged image, by all rules in turn, in the order of the steps."""
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
    """The settings with the variance at which `rl_share` of the rows goes to RL, as near as whole steps
    come to it; as they are without a share."""
    if settings.rl_share is None:
        return settings
    none_to_rl = settings.model_copy(update={"rl_variance": float("inf")})
    fates = [[one.fate for one in _by_rules([step], none_to_rl)] for step in steps]
    rows = [(spread_of(step), fate.count("sft")) for step, fate in zip(steps, fates, strict=True)]
    rows = sorted(((spread, count) for spread, count in rows if count), reverse=True)
    wanted, taken = settings.rl_share * sum(count for _, count in rows), 0
    for place, (spread, count) in enumerate(rows):
        # A step more is taken where that comes nearer.
        if taken + count / 2 > wanted or spread == 0:
            above = rows[place - 1][0] if place else spread
            return settings.model_copy(update={"rl_variance": (above + spread) / 2 if place else spread})
        taken += count
    return settings.model_copy(update={"rl_variance": 0.0})


def value_of(judged: JudgedImage, scored: bool) -> float:
    """How good an image is, 0..10: its overall score, else the critic's probability of success, else its
    verdict."""
    if scored and judged.score is not None:
        return judged.score.overall
    said = judged.said
    if said is None or said.success is None:
        return MAX_POINTS / 2
    return MAX_POINTS * (float(said.success) if said.probability is None else said.probability)


def standings(step: JudgedStep) -> list[tuple[int, float]]:
    """Rank of each image of a step: a person's label first (accepted 1, none 0, rejected -1), then its value.

    Scores count only if every image of the step has one, so that one scale is never held against another.
    """
    scored = all(one.score is not None for one in step.judged)
    ranks = {True: 1, None: 0, False: -1}
    return [(ranks[one.label], value_of(one, scored)) for one in step.judged]


def spread_of(step: JudgedStep) -> float:
    """Variance of the overall scores of a step, 0 where there are fewer than two."""
    scores = [one.score.overall for one in step.judged if one.score is not None]
    return pvariance(scores) if len(scores) > 1 else 0.0


def held_out_of(runs: Iterable[str], share: float, seed: int) -> set[str]:
    """The runs that are held out, this share of them at least, by their names and the seed.

    Those whose digest is below the share are held out in any company, so that a run is not trained on today
    and examined tomorrow; where these are too few, the next ones are. Never all of several, and none of one.
    """
    digests = {run: int.from_bytes(_digest(f"{seed}\0{run}")[:4], "big") / 2**32 for run in runs}
    below = sum(digest < share for digest in digests.values())
    count = max(below, round(share * len(digests)), 1 if share else 0)
    return set(sorted(digests, key=digests.__getitem__)[: max(0, min(count, len(digests) - 1))])


def _of_step(step: JudgedStep, settings: RunsData, held_out: bool) -> list[ImageDecision]:
    ranks = standings(step)
    best = ranks.index(max(ranks))
    if step.split:
        # A teacher's word is not that of the critic that will be asked: its prompts' own split holds.
        held_out = step.split != TRAIN
    wide = spread_of(step) > settings.rl_variance
    scores = [one.score.overall for one in step.judged if one.score is not None]
    low = settings.floor is not None and bool(scores) and max(scores) < settings.floor
    decided = []
    for index, one in enumerate(step.judged):
        left_out, reason = _rule(index, ranks, best, one, settings)
        if low and (one.label is None or not settings.keep_labelled):
            left_out, reason = True, "of a step whose best image scores below the floor"
        if one.answer is None or one.answer.success is None:
            decided.append(ImageDecision(one, "left out", one.fault or "nobody knows whether it is right"))
        elif held_out and one.source == "critic" and not step.split:
            decided.append(ImageDecision(one, "left out", "of a held-out run, and not annotated"))
        elif left_out:
            decided.append(ImageDecision(one, "left out", reason))
        elif held_out:
            decided.append(ImageDecision(one, "held out", reason))
        else:
            to_rl = wide and one.score is not None
            reasoned = settings.reasoning == "own" or bool(one.answer.reasoning)
            if to_rl:
                # Annotations are few: what goes to RL as well must not be lost to fine-tuning.
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
    """Whether the rules leave an image out, and why (or why not)."""
    if one.label is not None and settings.keep_labelled:
        return False, "annotated by a person"
    if len(ranks) == 1:
        return not settings.single, "the step's only attempt"
    if settings.improved_only and max(ranks[1:]) < ranks[0]:
        return True, "no later attempt was as good as the first"
    if settings.cut_at_best and index > best:
        return True, "after the step's best attempt"
    return False, "up to the step's best attempt" if settings.cut_at_best else "of a step that got better"


def _question(one: JudgedImage) -> tuple[str, str, str, str]:
    return one.original, one.used, one.before or "", one.after


def _said_once(decided: Sequence[ImageDecision]) -> list[ImageDecision]:
    """Equal questions are asked once: a person's answer before others, nobody's where people contradict one
    another."""
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
                    decided[number].judged, "left out", "contradicting annotations of one image"
                )
            continue
        for number in by_rank[1:]:
            out[number] = ImageDecision(
                decided[number].judged, "left out", "the same question was asked before"
            )
    return out


RANK = {"human": 0, "scorer": 1, "critic": 2}


def _balanced(decided: Sequence[ImageDecision], settings: RunsData) -> list[ImageDecision]:
    """Balance the verdicts of all rows that are trained on, SFT and RL together, without losing an
    annotation."""
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
            f"too many say {decided[number].verdict}, and not annotated",
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
    """Rows by reason, the most frequent first."""
    found: dict[str, int] = defaultdict(int)
    for row in rows:
        found[row.reason] += 1
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))
