"""Trains a user's own critic from annotated runs: data, fine-tuning with old rows, gate, GRPO and gate again.

Annotations are few and one-sided, and a critic fine-tuned only on them forgets. Rows that the critic learned
from before are therefore mixed in, and some of them, which are never trained on, are used by the gate. What
the critic learned is measured on annotated runs that were held out. The result is `out / "final"`, which
appears only after the gate is passed. Stages whose result exists are skipped, so the same command resumes
after an interruption. GRPO starts from the critic that passed the gate; if it makes the critic worse, the
fine-tuned critic stays.

Old rows keep the critic from forgetting. They also balance the verdicts of the new rows, so that no
annotation is dropped for balance. Old rows with a question of a new row are dropped, since the newer answer
counts. A minimum number of rows and steps is required: a critic that could not have learned anything would
pass a gate that only tests what it knew before. Both numbers were measured in the tiny world
(research/experiments/notes/training.md).
"""

from __future__ import annotations

import hashlib
import math
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from ...backend.core.errors import SettingsError
from ...backend.core.pictures import Picture
from ...backend.core.prompts.prompt_set import PromptSet, default_prompt_set
from ...backend.models.scorers import Scorer
from ...backend.output.sft_rows import SftRow
from ..from_runs.attempts import Oracle
from ..from_runs.convert import MadeData, RunConverter
from ..from_runs.settings import RunsData
from ..gate.gate_rows import (
    GateSettings,
    askable,
    chosen,
    content_of,
    examination,
    needed,
    refuse_trained,
)
from ..gate.regression_gate import RegressionGate, enforce, publish
from ..reward.critic_reward import RewardSetup
from ..rows.lengths import TokenLimit
from ..rows.rl import read_rl_rows
from ..rows.sft import RowSet, asked_in_both, read_row_set, show_balance, truth_of
from ..trainer.ending import Ending
from ..trainer.progress import planned
from .grpo_settings import GrpoTraining, TrainingData, batches, fitting_values, rollouts_of, split_held_out
from .sft import FINAL, SftData, SftTraining
from .sft import train as fine_tune


class Rehearsal(BaseModel):
    """Settings of the rows that prevent forgetting, and of the minimum size of a training."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    old_share: float = Field(default=0.5, ge=0, lt=1, description="Share of old rows in the training rows.")
    held_out_share: float = Field(
        default=0.2,
        gt=0,
        lt=1,
        description="Share of the old rows that the gate uses if --held-out is not given.",
    )
    least_rows: int = Field(
        default=40, ge=1, description="Minimum number of different rows from runs to train on."
    )
    least_steps: int = Field(default=20, ge=1, description="Minimum number of optimizer steps.")


def split(old: RowSet, held_share: float, gate: GateSettings) -> tuple[RowSet, RowSet]:
    """Return (held-out rows, remaining rows) of the old rows, chosen by content and the gate's seed.

    The order of the file therefore does not matter. Rows about an image that a held-out row judges are in
    neither.
    """
    count = max(round(held_share * len(old.rows)), 2 * needed(gate))
    held = RowSet(chosen(old.rows, min(gate.gate_rows, count), gate.gate_seed), old.folder)
    judged = {row.images[-1] for row in held.rows if row.images}
    apart = [row for row in old.rows if not row.images or row.images[-1] not in judged]
    return held, without(RowSet(apart, old.folder), held)


def without(rows: RowSet, others: RowSet) -> RowSet:
    """Return the rows whose question is not in `others`."""
    both = set(asked_in_both(rows, others))
    return RowSet([row for number, row in enumerate(rows.rows) if number not in both], rows.folder)


def mix(new: Sequence[SftRow], old: Sequence[SftRow], old_share: float) -> list[SftRow]:
    """Return all new rows, and old ones up to this share of all, chosen so that both verdicts are balanced.

    The choice of old rows is deterministic.
    """
    count = round(len(new) * old_share / (1 - old_share))
    ordered = sorted(old, key=lambda row: hashlib.blake2b(content_of(row).encode(), digest_size=8).digest())
    right, wrong = ([row for row in ordered if truth_of(row) is truth] for truth in (True, False))
    truths = [truth_of(row) for row in new]
    lacking = (len(new) + count) // 2 - truths.count(True)
    first = min(max(0, lacking), count)
    return [*new, *right[:first], *wrong[: count - first]]


def check_rows(new: Sequence[SftRow], rehearsal: Rehearsal) -> None:
    """Raise SettingsError if there are too few different rows to learn anything from."""
    rows = len({row.line() for row in new})
    if rows < rehearsal.least_rows:
        raise SettingsError(
            f"These runs give only {rows} rows to fine-tune on, fewer than the minimum of "
            f"{rehearsal.least_rows}.",
            f"Annotate at least {rehearsal.least_rows - rows} more images, or lower the minimum with "
            f"--set least_rows={rows}.",
        )


def check_steps(mixed: int, settings: SftTraining, rehearsal: Rehearsal) -> None:
    """Raise SettingsError if `mixed` rows make too few optimizer steps to learn anything."""
    steps = settings.optimizer_steps(mixed)
    if steps < rehearsal.least_steps:
        epochs = math.ceil(
            rehearsal.least_steps
            / max(1, settings.model_copy(update={"num_train_epochs": 1.0}).optimizer_steps(mixed))
        )
        raise SettingsError(
            f"{mixed} rows make only {steps} optimizer steps, fewer than the minimum of "
            f"{rehearsal.least_steps}.",
            f"Set --num-train-epochs {epochs} or a smaller --per-device-train-batch-size, or lower the "
            "minimum with --set least_steps=N.",
        )


def rl_rows(made: MadeData, settings: GrpoTraining) -> TrainingData:
    """Return the rows of GRPO, before anything is trained.

    Raises:
        SettingsError: There are too few rows.
    """
    if made.rl is None:
        raise SettingsError(
            "No rows for GRPO could be created from these runs: it needs scores that vary.",
            "Set --scorer, lower rl_variance, or omit --grpo.",
        )
    rows, held = split_held_out(read_rl_rows(made.rl)[0], settings)
    lacking = settings.prompts - len(rows)
    if lacking > 0:
        fitting = fitting_values(settings, len(rows))
        values = " and ".join(f"{name}: {value}" for name, value in fitting.items()) or "fewer updates"
        raise SettingsError(
            f"Only {len(rows)} rows for GRPO; one rollout needs {settings.prompts} (prompts in the recipe).",
            f"Annotate steps with several attempts until there are {lacking} more rows, or set {values} in "
            "the section critic-grpo of a copy of the recipe.",
        )
    rollouts_of(settings, len(rows))
    batches(settings, 1)
    return TrainingData(rows, held, made.folder)


TRAINED = "trained"
"""Folder of a trained critic that has not passed the gate yet."""

Log = Callable[[str], None]


@dataclass(frozen=True)
class ReinforcementStage:
    """Optional last stage: the settings of GRPO and the source of its rewards."""

    settings: GrpoTraining
    reward: RewardSetup


@dataclass(frozen=True)
class OwnCriticData:
    """Files to train a user's own critic from.

    Attributes:
        runs: Run folders, or folders of them.
        old: Rows that the critic learned from before (a critic_sft.json). They are mixed in and, without
            `held_out`, also split for the gate.
        held_out: Rows for the gate.
        images: Additional folder to look for the images of `old` and `held_out`.
        skip_bad: Leave out rows and runs that cannot be used instead of raising an error.
    """

    runs: Sequence[Path]
    old: Path | None = None
    held_out: Path | None = None
    images: Path | None = None
    skip_bad: bool = False


@dataclass(frozen=True)
class OwnCriticAgents:
    """Optional helpers: scorer of images without a score, source of exact reasoning, and GRPO stage."""

    scorer: Scorer | None = None
    oracle: Oracle | None = None
    reinforcement: ReinforcementStage | None = None


@dataclass(frozen=True)
class OwnCriticSettings:
    """Settings of the stages; with `force` a critic that did not pass the gate is published anyway."""

    data: RunsData
    sft: SftTraining
    rehearsal: Rehearsal
    gate: GateSettings
    force: bool = False


def train_own_critic(
    checkpoint: Path,
    data: OwnCriticData,
    out: Path,
    settings: OwnCriticSettings,
    agents: OwnCriticAgents | None = None,
    log: Log = print,
) -> Path:
    """Retrain the critic in `checkpoint` on runs and their annotations.

    A share of the runs is held out, and what was learned is measured on their annotations.

    Returns:
        `out / "final"`.

    Raises:
        SettingsError: Files cannot be used, or there are too few rows or steps.
        GateRefused: The critic became worse than `settings.gate` allows, and `settings.force` is false.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise SettingsError(
            "own-critic does not run under a distributed launcher.",
            "On several GPUs run data from-runs, then critic-sft --held-out with accelerate launch.",
        )
    return _OwnCritic(checkpoint, data, out, settings, agents or OwnCriticAgents(), log).run()


class _Rows(NamedTuple):
    """Rows by purpose: new ones from runs, old ones, annotated ones of held-out runs, the gate's."""

    new: RowSet
    old: RowSet
    annotated: RowSet
    asked: RowSet


@dataclass(frozen=True)
class _OwnCritic:
    """One such training: the arguments of `train_own_critic`, and its stages in order."""

    checkpoint: Path
    data: OwnCriticData
    out: Path
    settings: OwnCriticSettings
    agents: OwnCriticAgents
    log: Log

    def run(self) -> Path:
        if planned.get():
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
                replace(self, out=Path(scratch) / "dry-run")._dry_run()
            return self.out / FINAL
        return self._run()

    @property
    def _gate(self) -> RegressionGate:
        return RegressionGate(self.settings.gate, self.settings.sft, self.log)

    def _dry_run(self) -> None:
        """Check everything, and time some steps of both stages; GRPO starts from the present critic."""
        prompt_set, data, _, for_grpo = self._data()
        fine_tune(self.checkpoint, data, self.out / "sft", self.settings.sft, prompt_set, self.log)
        self.log(self._gate.estimate(self.checkpoint))
        stage = self.agents.reinforcement
        if stage is not None and for_grpo is not None:
            self.log("critic-grpo, from the present critic:")
            self._trained_on(self.checkpoint, for_grpo, stage, self.settings.sft.adapter)

    def _data(self) -> tuple[PromptSet, SftData, _Rows, TrainingData | None]:
        """Return the prompt set, the rows of the fine-tuning, all rows, and those of GRPO."""
        prompt_set = self.settings.sft.prompt_set(self.checkpoint) or default_prompt_set()
        made = self._convert(prompt_set)
        stage = self.agents.reinforcement
        rows, sft = self._rows(made), self.settings.sft
        mixed = mix(rows.new.rows, rows.old.rows, self.settings.rehearsal.old_share)
        old = len(mixed) - len(rows.new.rows)
        self.log(f"{len(rows.new.rows)} rows from runs, repeated ones included, {old} old rows")
        show_balance(mixed, self.log)
        check_steps(len(mixed), sft, self.settings.rehearsal)
        for_grpo = rl_rows(made, stage.settings) if stage else None
        data = SftData(RowSet(mixed, self.out), self.data.skip_bad, TRAINED, role="critic")
        return prompt_set, data, rows, for_grpo

    def _run(self) -> Path:
        prompt_set, data, rows, for_grpo = self._data()
        stage, sft = self.agents.reinforcement, self.settings.sft
        trained = fine_tune(self.checkpoint, data, self.out / "sft", sft, prompt_set, self.log)
        final = self._examined(trained, rows, self.out / "sft")
        if stage is None or for_grpo is None:
            return final
        if Ending(self.out / "sft").asked:
            self.log("the user ended this training, so it is not continued with reinforcement learning")
            return final
        return self._examined(self._reinforced(trained, for_grpo, stage), rows, self.out / "grpo")

    def _convert(self, prompt_set: PromptSet) -> MadeData:
        settings = self.settings.data
        if self.agents.reinforcement is None:  # keep the rows that would be used for GRPO
            settings = settings.model_copy(update={"both": True})
        converter = RunConverter(
            settings, prompt_set, self.agents.scorer, self.agents.oracle, self.data.skip_bad, self.log
        )
        made = converter.convert(self.data.runs, self.out / "data")
        if made.sft is None:
            raise SettingsError(
                "No rows for fine-tuning could be created from these runs.",
                "The table above gives the reasons.",
            )
        return made

    def _read(self, path: Path | None, images: Path | None = None) -> RowSet:
        """Return the rows of a file, with paths relative to the training's folder; empty without a file."""
        if path is None:
            return RowSet([], self.out)
        return read_row_set(path, "critic", self.data.skip_bad, self.log, images).moved(self.out)

    def _rows(self, made: MadeData) -> _Rows:
        new, annotated = self._read(made.sft), self._read(made.held_out)
        check_rows(new.rows, self.settings.rehearsal)
        given = self._read(self.data.old, self.data.images)
        # Old rows with the same questions could contradict the new answers, or contain held-out questions.
        old = without(without(given, new), annotated)
        reinforced = self._reinforced_images(made)
        judging = set(old.judging(reinforced))
        old = RowSet([row for number, row in enumerate(old.rows) if number not in judging], old.folder)
        if len(given.rows) > len(old.rows):
            self.log(f"{len(given.rows) - len(old.rows)} old rows left out, because these runs ask the same")
        asked, old = self._gate_rows(new, old, annotated)
        if asked.judging(reinforced):
            raise SettingsError(
                "GRPO would train on images of --held-out rows.",
                "Use --held-out rows about other images than those of the runs.",
            )
        return _Rows(new, old, annotated, asked)

    def _reinforced_images(self, made: MadeData) -> set[str]:
        """Return the digests of the images that GRPO rows judge."""
        if self.agents.reinforcement is None or made.rl is None:
            return set()
        rows = read_rl_rows(made.rl, self.data.skip_bad)[0]
        return {Picture.open(made.folder / row.edited_image_path).digest for row in rows}

    def _gate_rows(self, new: RowSet, old: RowSet, annotated: RowSet) -> tuple[RowSet, RowSet]:
        """Return the rows of the gate, none of which is trained on, and the remaining old rows."""
        gate = self.settings.gate
        if self.data.held_out is not None:
            given = self._read(self.data.held_out, self.data.images)
            for trained in (new, old):
                refuse_trained(given, trained)
            return examination(self._askable(given), gate), old
        if old.rows:
            return self._held_out_of(old, gate)
        if not annotated.rows:
            raise SettingsError(
                "The gate has nothing to test the retrained critic on.",
                "Give --old or --held-out, or annotate more runs and raise held_out_runs.",
            )
        self.log("WARNING: no old rows (--old). The critic may forget what these runs do not show.")
        share = self.settings.data.held_out_runs
        return examination(self._askable(annotated), gate, annotated_share=share), old

    def _held_out_of(self, old: RowSet, gate: GateSettings) -> tuple[RowSet, RowSet]:
        """Return the old rows for the gate, and the others. Rows that cannot be asked are replaced."""
        while True:
            held, rest = split(old, self.settings.rehearsal.held_out_share, gate)
            asked = self._askable(held)
            lost = without(held, asked)
            if not lost.rows:
                return examination(asked, gate, "--old"), rest
            old = without(old, lost)

    def _askable(self, rows: RowSet) -> RowSet:
        sft = self.settings.sft
        limit = TokenLimit(sft.max_length, "max_length", self.data.skip_bad)
        return askable(rows, self.checkpoint, limit, sft.image_pixels, self.log)

    def _examined(self, trained: Path, rows: _Rows, folder: Path) -> Path:
        """Run the gate, report what was learned, and publish the critic if it passed."""
        gate = self._gate
        result = gate.check(self.checkpoint, trained, rows.asked, folder)
        if rows.annotated.rows:
            learned = gate.measure_learned(self.checkpoint, trained, rows.annotated, folder)
        else:
            learned = None
            self.log("what was learned is not measured, because no annotated run is held out (held_out_runs)")
        enforce(result, trained, self.settings.force, self.log)
        return publish(trained, self.out / FINAL, result, learned)

    def _reinforced(self, trained: Path, data: TrainingData, stage: ReinforcementStage) -> Path:
        """Train the critic that passed the gate with GRPO: its adapter further, or its merged weights."""
        merged = self.out / "sft" / "merged"
        # A training that began from merged weights, in an earlier version, continues with them.
        if stage.settings.adapts and (trained / "adapter_config.json").is_file() and not merged.is_dir():
            return self._trained_on(self.checkpoint, data, stage, str(trained))
        trained = self._merged(self.checkpoint, trained, merged)
        made = self._trained_on(trained, data, stage)
        return self._merged(trained, made, self.out / "grpo" / "merged")

    def _trained_on(
        self, start: Path, data: TrainingData, stage: ReinforcementStage, adapter: str | None = None
    ) -> Path:
        from .grpo import CriticTask, train

        settings = stage.settings.model_copy(update={"adapter": adapter} if stage.settings.adapts else {})
        return train(start, data, self.out / "grpo", settings, CriticTask(stage.reward), self.log)

    def _merged(self, base: Path, made: Path, folder: Path) -> Path:
        """Return the checkpoint, merged with its base if it is an adapter."""
        from ..trainer.saving import merge

        if not (made / "adapter_config.json").is_file():
            return made
        return folder if folder.is_dir() else merge(base, made, folder)
