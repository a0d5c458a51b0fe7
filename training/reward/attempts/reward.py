"""Reward of a critic's answers, each continued by the trained critic to the end of its step.

The answers of a group are about the same image, so their rewards differ only by what follows from them. Later
verdicts are sampled from the weights that gave the answers, and are not trained in this rollout: they answer
other questions, for which a group has no common baseline. Images of later attempts are trained as rows of
their own, which data from runs contains.

trl's environments are not used. They put all attempts into one conversation with tool calls, while a running
critic sees one attempt at a time, and its chat template needs no tools. A `rollout_func` of trl cannot return
images.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ....backend.agents.critic import critic_message, next_prompt
from ....backend.chat.image_limits import MAX_PIXELS, scaled_down
from ....backend.errors import SettingsError
from ....backend.pictures import Picture
from ....backend.prompts import PromptSet
from ....backend.types import Verdict
from ...data.rows.rl import CriticRlRow, as_conversation, before_of, row_redraw_seed
from ...trainer.step_clock import StepClock
from ..critic_reward import CriticReward, RewardSettings
from ..redraws.batch_counts import BatchCounts
from ..redraws.redrawer import Outcome, Redraw, Redrawer
from ..rollout_reward import RolloutReading, mean
from ..samples import Sample
from ..terms import NEUTRAL, accuracy_reward, format_reward, read_answer
from .terms import AttemptSettings, JudgedImage, StepTerms, combine_steps, step_terms


class StepSample(Sample):
    """An answer with the images of its step, the first of which is the row's."""

    images: tuple[JudgedImage, ...] = ()
    stop: float | None = None
    thrift: float | None = None


@dataclass
class _Step:
    """A step while it is continued; `refined` is the prompt of its next image, None if it has ended."""

    row: CriticRlRow
    before: Picture | None
    images: list[JudgedImage]
    refined: str | None
    fault: str = ""
    pictures: list[Picture] = field(default_factory=list)

    def judge(self, verdict: Verdict | None) -> None:
        """Add the verdict on the last image. A rejection asks for another one."""
        success = verdict.success if verdict else None
        last = self.images[-1]
        self.images[-1] = last.model_copy(update={"verdict": success, "judged": True})
        self.refined = next_prompt(verdict, last.prompt) if verdict and success is False else None


class AttemptsReward(CriticReward):
    """Rewards the answers of a critic for the steps that follow from them."""

    def __init__(
        self,
        redrawer: Redrawer,
        settings: RewardSettings,
        attempts: AttemptSettings,
        reading: RolloutReading,
        rollouts: Path | None = None,
        clock: StepClock | None = None,
    ) -> None:
        super().__init__(redrawer, settings, reading, rollouts, clock)
        self.attempts = attempts
        self._trainer: Any = None

    def begin(self, trainer: Any, processor: Any) -> None:
        """Prepare for training: the trained model judges the later attempts.

        Raises:
            SettingsError: Its answers need other processes, which may be at another attempt.
        """
        sharded = trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled
        if sharded or (trainer.use_vllm and trainer.accelerator.num_processes > 1):
            kind = "is sharded" if sharded else "answers with vLLM on several devices"
            raise SettingsError(
                f"--turns {self.attempts.turns} needs answers of each process alone, but the model {kind}.",
                "Train on one device, or on several with whole models and without vLLM, or use --turns 1.",
            )
        super().begin(trainer, processor)
        self._trainer = trainer

    async def judged(
        self, answers: Sequence[str], rows: Sequence[CriticRlRow]
    ) -> tuple[list[Sample], dict[str, float]]:
        """Return a sample for each answer to the row at the same index, and the measures of the batch."""
        samples, measured = await super().judged(answers, rows)
        return samples, {**measured, **step_measures(samples)}

    async def rewards(
        self, answers: Sequence[str], rows: Sequence[CriticRlRow]
    ) -> tuple[list[Sample], BatchCounts]:
        """Return a sample for each answer to the row at the same index, and the counts of all attempts.

        Raises:
            SettingsError: The cache cannot be used.
            Cancelled: The run was cancelled.
        """
        steps = [self._begun(answer, row) for answer, row in zip(answers, rows, strict=True)]
        first = [step.images[0].verdict for step in steps]
        counts = BatchCounts()
        for number in range(self.attempts.turns - 1):
            still = [step for step in steps if step.refined is not None]
            if not still:
                break
            counts = counts.plus(await self._generate(still, number))
            if number + 2 < self.attempts.turns:
                self._judge([step for step in still if not step.images[-1].judged])
        made = zip(answers, steps, first, strict=True)
        samples: list[Sample] = [self._sample(*one) for one in made]
        self.verdicts.extend((said, row.evaluation.success) for said, row in zip(first, rows, strict=True))
        return samples, counts

    def _begun(self, answer: str, row: CriticRlRow) -> _Step:
        truth = row.evaluation
        shown = JudgedImage(prompt=row.prompt_used, score=truth.score, right=truth.success)
        step = _Step(row, before_of(row, self.reading.images, self._picture), [shown], None)
        step.judge(read_answer(answer))
        return step

    async def _generate(self, steps: Sequence[_Step], number: int) -> BatchCounts:
        """Generate and score the next image of each step. A step without one has ended."""
        wanted = []
        for step in steps:
            seed = row_redraw_seed(step.row, number, self.reading.seed)
            wanted.append(Redraw(step.before, step.row.origin_prompt, step.refined or "", seed))
        outcomes, counts = await self.redrawer.score_all(wanted)
        for step, redraw, outcome in zip(steps, wanted, outcomes, strict=True):
            step.refined = None
            self._add(step, redraw.prompt, outcome)
        return counts

    def _add(self, step: _Step, prompt: str, outcome: Outcome) -> None:
        if outcome.score is None or outcome.picture is None:
            step.fault = outcome.fault or "no image"
            return
        right = outcome.score.semantics >= self.attempts.right_at
        step.images.append(JudgedImage(prompt=prompt, score=outcome.score, right=right, judged=False))
        step.pictures.append(outcome.picture)

    def _judge(self, steps: Sequence[_Step]) -> None:
        """Let the trained critic judge the last image of each step, as in use."""
        if not steps:
            return
        prompt_set = self.reading.prompt_set
        assert prompt_set is not None
        questions = [_question(step, prompt_set, self.reading.pixels) for step in steps]
        answers = [self.reading.decode(ids) for ids in self._trainer.sampled(questions)]
        for step, answer in zip(steps, answers, strict=True):
            step.judge(read_answer(answer))

    def _sample(self, answer: str, step: _Step, verdict: bool | None) -> StepSample:
        truth = step.images[0].right
        sample = StepSample(
            answer=answer,
            origin_prompt=step.row.origin_prompt,
            truth=truth,
            verdict=verdict,
            refined_prompt=step.images[1].prompt if len(step.images) > 1 else "",
            redrawn=len(step.images) > 1,
            format=format_reward(answer, self.reading.verdict_first),
            accuracy=accuracy_reward(verdict, truth),
            fault=step.fault,
            images=tuple(step.images),
        )
        if step.fault and self.settings.masks:
            return sample
        terms = (
            StepTerms(NEUTRAL, NEUTRAL, NEUTRAL, NEUTRAL)
            if step.fault
            else step_terms(step.images, self.attempts.turns)
        )
        overall = combine_steps(
            format=sample.format,
            accuracy=sample.accuracy,
            terms=terms,
            reward=self.settings,
            attempts=self.attempts,
        )
        return sample.model_copy(update={**vars(terms), "overall": overall})


def _question(step: _Step, prompt_set: PromptSet, pixels: int) -> dict[str, Any]:
    after, last = step.pictures[-1], step.images[-1]
    pictures = (step.before or Picture.white(after.size), after)
    message = critic_message(prompt_set, pictures, step.row.origin_prompt, last.prompt)
    shown = [scaled_down(one, min(pixels, MAX_PIXELS)).image for one in pictures]
    return {"prompt": as_conversation(message), "images": shown}


def step_measures(samples: Sequence[Sample]) -> dict[str, float]:
    """Return the measures of the steps of a batch; a share of nothing is NaN.

    Images per step include the row's. Shares are those of steps that end with a right image, that accept a
    right one, and of right images that were generated again.
    """
    steps = [sample for sample in samples if isinstance(sample, StepSample) and sample.overall is not None]
    ends = [sample.images[-1] for sample in steps]
    rejected = [one for sample in steps for one in sample.images[:-1]]
    return {
        "reward/stop": mean([sample.stop or 0.0 for sample in steps]),
        "reward/thrift": mean([sample.thrift or 0.0 for sample in steps]),
        "steps/images": mean([float(len(sample.images)) for sample in steps]),
        "steps/right": mean([float(end.right) for end in ends]),
        "steps/accepted_right": mean([float(end.right and end.verdict is True) for end in ends]),
        "steps/needless": mean([float(one.right) for one in rejected]),
    }
