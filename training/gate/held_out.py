"""Checks of an agent on a fixed held-out set during training: greedy answers, their measures, the check log.

The reward can rise while the critic gets worse: a policy that always rejects loses a tenth of the reward at
most. The check therefore measures recall on right and on wrong images separately, decoded as in use. Greedy
decoding uses no random numbers, so that checks do not change the course of the training.

The judge of the rewards also judges the greedy answers to rows that are not trained on. Ways to gain reward
without planning better are measured too: longer answers and copied requests.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, Field

from ...backend.core.errors import TrainingError
from ...backend.core.files.atomic import write_text
from ...backend.core.files.bounded_reader import read_json
from ...backend.core.pictures import Picture
from ...backend.core.seams.chat_model import MAX_PIXELS, scaled_down
from ...backend.models.chat.chat_template import as_read, rendered
from ..reward.plan_reward import PlanSample
from ..reward.rollout_reward import mean
from ..reward.terms import format_reward, read_answer
from ..rows.rl import CriticRlRow
from ..statistics import share
from .measures import Answer, measured_verdicts

CHECKS_FILE = "checks.json"
STORED_ANSWERS = 12


class HeldOutCheck(BaseModel):
    """Result of a check.

    Attributes:
        rows: Number of rows.
        format: Share of answers in the right format.
        tokens: Mean length of the answers, in tokens.
        answers: Answers to the first rows.
    """

    rows: int
    format: float = Field(ge=0, le=1)
    tokens: float = Field(ge=0)
    answers: list[str] = []

    def measures(self) -> dict[str, float]:
        """Return the entries for the training's log, in addition to the rewards."""
        raise NotImplementedError

    @property
    def score(self) -> float:
        """Mean of both recalls (critic), or match (planner), by which checkpoints are compared."""
        named = ("true_recall", "false_recall", "match")
        return mean([one for name, one in self.measures().items() if name.rpartition("/")[2] in named])

    def low(self, floor: float, first: HeldOutCheck) -> str | None:
        """Return the reason to stop the training, such as a measure below `floor`, or None.

        `first` is the check before the first step.
        """
        raise NotImplementedError


Found = TypeVar("Found", bound=HeldOutCheck)


class Check(HeldOutCheck):
    """Result of a check of a critic; a recall is None if the set has no such row."""

    accuracy: float = Field(ge=0, le=1)
    true_recall: float | None
    false_recall: float | None
    says_true: float = Field(ge=0, le=1)

    def __str__(self) -> str:
        recalls = [f"{'-' if one is None else f'{one:.2f}'}" for one in (self.true_recall, self.false_recall)]
        return (
            f"accuracy {self.accuracy:.2f}, recall of right images {recalls[0]}, of wrong "
            f"images {recalls[1]}, accepted {self.says_true:.2f}, format {self.format:.2f}, "
            f"{self.tokens:.0f} tokens ({self.rows} rows)"
        )

    def measures(self) -> dict[str, float]:
        """Return accuracy and recalls."""
        shares = {
            "accuracy": self.accuracy,
            "true_recall": self.true_recall,
            "false_recall": self.false_recall,
        }
        return {f"held_out/{name}": value for name, value in shares.items() if value is not None}

    def low(self, floor: float, first: HeldOutCheck) -> str | None:
        """Return the recalls below the floor."""
        low = [
            f"recall {recall:.2f} on {name} images"
            for name, recall in (("right", self.true_recall), ("wrong", self.false_recall))
            if recall is not None and recall < floor
        ]
        return f"{' and '.join(low)} of the held-out set, below the floor of {floor:g}" if low else None


def summarise(
    rows: Sequence[CriticRlRow], answers: Sequence[str], tokens: Sequence[int], verdict_first: bool = False
) -> Check:
    """Return the check of these answers; an answer without a readable verdict is wrong."""
    verdicts = [read_answer(answer) for answer in answers]
    said = [Answer(verdict.success if verdict else None) for verdict in verdicts]
    found = measured_verdicts(said, [row.evaluation.success for row in rows])
    recalls = found.true_recall, found.false_recall
    forms = [format_reward(answer, verdict_first) == 1.0 for answer in answers]
    return Check(
        rows=len(rows),
        accuracy=found.accuracy.rate,
        true_recall=recalls[0].rate if recalls[0].n else None,
        false_recall=recalls[1].rate if recalls[1].n else None,
        says_true=found.says_true.rate,
        format=share(forms).rate,
        tokens=sum(tokens) / len(tokens) if tokens else 0.0,
        answers=list(answers[:STORED_ANSWERS]),
    )


class CheckLog(Generic[Found]):
    """Checks of a run by step, all of the same `kind`, stored in one file."""

    def __init__(self, out: Path, kind: type[Found]) -> None:
        self.path = out / CHECKS_FILE
        self._checks: dict[int, Found] = {}
        if self.path.exists():
            try:
                stored = read_json(self.path, TrainingError)
                self._checks = {int(step): kind.model_validate(one) for step, one in stored.items()}
            except (TrainingError, ValueError, AttributeError) as error:
                raise TrainingError(
                    f"Cannot read {str(self.path)!r}: {error}.", "Delete the file to continue without it."
                ) from error

    @property
    def all(self) -> dict[int, Found]:
        """The checks, ordered by step."""
        return dict(sorted(self._checks.items()))

    def at(self, step: int) -> Found | None:
        """Return the check of a step, if there is one."""
        return self._checks.get(step)

    def best(self, steps: Iterable[int]) -> int | None:
        """Return the step with the highest score, the last of equal ones, or None if no step was checked."""
        checked = [step for step in steps if step in self._checks]
        return max(checked, key=lambda step: (self._checks[step].score, step), default=None)

    def add(self, step: int, check: Found) -> None:
        """Add a check and write the file."""
        self._checks[step] = check
        self._write()

    def forget_after(self, step: int) -> None:
        """Drop the checks of steps after this one, which will be repeated."""
        if any(one > step for one in self._checks):
            self._checks = {one: check for one, check in self._checks.items() if one <= step}
            self._write()

    def _write(self) -> None:
        if os.environ.get("RANK", "0") != "0":
            return
        text = json.dumps({step: check.model_dump() for step, check in self.all.items()})
        write_text(self.path, text, TrainingError, "The held-out checks' file")


def _shown(images: Sequence[str | Picture]) -> list[Any]:
    """Return the images, or those at these paths, scaled as by the running agents."""
    pictures = [image if isinstance(image, Picture) else Picture.open(image) for image in images]
    return [scaled_down(picture, MAX_PIXELS).image for picture in pictures]


def greedy_answers(
    model: Any,
    processor: Any,
    questions: Sequence[dict[str, Any]],
    tokens: int,
    batch: int,
    temperature: float = 0.0,
) -> tuple[list[str], list[int]]:
    """Generate answers to questions in batches.

    Args:
        model: The model; its training mode is restored afterwards.
        processor: Its processor.
        questions: Questions (see `RlRow.question`).
        tokens: Maximum length of an answer, in tokens.
        batch: Questions per batch.
        temperature: Sampling temperature; 0 decodes greedily.

    Returns:
        (answers, their lengths in tokens). An answer includes the <think> that the chat template opened.
    """
    import torch

    answers: list[str] = []
    lengths: list[int] = []
    sample = temperature > 0
    decoding = {"do_sample": sample, "temperature": temperature or None, "top_k": 0 if sample else None}
    training = model.training
    model.eval()
    try:
        for start in range(0, len(questions), batch):
            some = questions[start : start + batch]
            texts = [rendered(processor, one["prompt"]) for one in some]
            images = [_shown(one["images"]) for one in some]
            inputs = processor(
                text=texts,
                images=images if any(images) else None,
                return_tensors="pt",
                padding=True,
                padding_side="left",
            )
            inputs = inputs.to(model.device)
            with torch.no_grad():
                made = model.generate(**inputs, max_new_tokens=tokens, **decoding, top_p=None)
            made = made[:, inputs["input_ids"].shape[1] :]
            said = processor.tokenizer.batch_decode(made, skip_special_tokens=True)
            answers += [as_read(text, answer) for text, answer in zip(texts, said, strict=True)]
            padding = processor.tokenizer.pad_token_id
            lengths += [int((row != padding).sum()) for row in made]
    finally:
        model.train(training)
    return answers, lengths


MAX_GROWTH = 2.0
"""Ratio of the answers' length to that of the first check above which training stops."""
MAX_COPIES = 0.2
"""Share of held-out plans that copy their requests, above that of the first check, at which training stops.
"""

MIN_JUDGED = 0.5
"""Share of held-out plans that must be judged for a valid check."""


class PlanCheck(HeldOutCheck):
    """Means over held-out plans.

    Attributes:
        judged: Number of plans that could be judged.
        match: Share of the required content that the plans have.
        exact: Share of exact plans, or None if unknown.
        consistency: Consistency term of the reward.
        length: Length term of the reward.
        copies: Share of plans that copy their requests.
    """

    judged: int
    match: float = Field(ge=0, le=1)
    exact: float | None
    consistency: float = Field(ge=0, le=1)
    length: float = Field(ge=0, le=1)
    copies: float = Field(ge=0, le=1)

    def __str__(self) -> str:
        exact = "" if self.exact is None else f"exact {self.exact:.2f}, "
        return (
            f"{exact}match {self.match:.2f}, consistency {self.consistency:.2f}, "
            f"length {self.length:.2f}, format {self.format:.2f}, copied {self.copies:.2f}, "
            f"{self.tokens:.0f} tokens ({self.rows} rows)"
        )

    def measures(self) -> dict[str, float]:
        """Return match, exactness and copies."""
        found = {"match": self.match, "exact": self.exact, "copies": self.copies}
        return {f"held_out/{name}": value for name, value in found.items() if value is not None}

    def low(self, floor: float, first: HeldOutCheck) -> str | None:
        """Return a low match, grown answers or copied requests as a reason to stop, else None."""
        assert isinstance(first, PlanCheck)
        if first.match == 0.0 and self is first:
            return "none of the held-out plans has any of the required content"
        if self.match < floor * first.match:
            return (
                f"the match on held-out rows is {self.match:.2f}, below {floor:g} times the "
                f"{first.match:.2f} at the start"
            )
        if self.tokens > MAX_GROWTH * max(1.0, first.tokens):
            return f"answers have grown to {self.tokens:.0f} tokens, from {first.tokens:.0f} at the start"
        if self.copies > first.copies + MAX_COPIES:
            return f"{self.copies:.0%} of the held-out plans copy their request into a prompt"
        return None


def plan_check(samples: Sequence[PlanSample], tokens: Sequence[int], most_copied: float) -> PlanCheck:
    """Return the check of these held-out answers.

    Raises:
        TrainingError: Too few of them could be judged.
    """
    counted = [sample for sample in samples if sample.overall is not None]
    # The mean of the few judged during an outage could stop the training for good.
    if len(counted) < MIN_JUDGED * len(samples):
        fault = next(sample.fault for sample in samples if sample.overall is None)
        raise TrainingError(
            f"Only {len(counted)} of {len(samples)} held-out plans could be judged: {fault}",
            "Fix the problem, then run the same command again.",
        )
    known = [sample.exact for sample in counted if sample.exact is not None]
    return PlanCheck(
        rows=len(samples),
        judged=len(counted),
        match=mean([sample.match for sample in counted]),
        exact=mean([float(exact) for exact in known]) if known else None,
        consistency=mean([sample.consistency for sample in counted]),
        length=mean([sample.length for sample in counted]),
        copies=mean([float(sample.copied > most_copied) for sample in samples]),
        format=mean([sample.format for sample in samples]),
        tokens=mean([float(length) for length in tokens]),
        answers=[sample.answer for sample in samples[:STORED_ANSWERS]],
    )
