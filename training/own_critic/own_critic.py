"""One command from runs to a critic of one's own: data, fine-tuning among old rows, the gate, reinforcement,
the gate again.

Decisions. What people annotate is little and one-sided, and a critic that is tuned on it alone forgets; so
rows it learned from before are mixed in, and part of them, never trained on, is what the gate asks about.
What it learned is measured on annotated runs that were held out. The result is `out / "final"`, which
appears only once the gate is passed. Every part is skipped when its result is there, so the same command goes
on after a stop. Reinforcement starts from the critic that passed; if it makes it worse, that one stays.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ...backend.errors import SettingsError
from ...backend.prompts import PromptSet, default_prompt_set, prompt_set_of
from ...backend.scorers import Scorer
from ..data.from_runs.attempts import Oracle
from ..data.from_runs.convert import MadeData, RunConverter
from ..data.from_runs.settings import RunsData
from ..data.rows.lengths import TokenLimit
from ..data.rows.rl import read_rl_rows
from ..data.rows.row_sets import RowSet, read_row_set
from ..data.rows.sft import show_balance
from ..gate.gate_rows import GateSettings, askable, examination, refuse_trained
from ..gate.monitored_run import TrainingData
from ..gate.regression_gate import RegressionGate, enforce, publish
from ..grpo.settings import GrpoTraining, rollouts_of, split_held_out
from ..reward.critic_reward import RewardSetup
from ..sft.data import FINAL, SftData
from ..sft.train import SftTraining
from ..sft.train import train as fine_tune
from .rehearsal import Rehearsal, check_enough, mix, split, without

TRAINED = "trained"
"""Folder of a trained critic that has not passed the gate yet."""

Log = Callable[[str], None]


@dataclass(frozen=True)
class ReinforcementStage:
    """The last part, if wanted: how the critic is reinforced, and where rewards come from."""

    settings: GrpoTraining
    reward: RewardSetup


@dataclass(frozen=True)
class OwnCriticData:
    """The files of a critic of one's own. `runs`: run folders, or folders of them. `old`: rows that it
    learned from before (a critic_sft.json), mixed in and, without a `held_out` file, split for the gate.
    `images`: a folder below which images of both are looked for, too."""

    runs: Sequence[Path]
    old: Path | None = None
    held_out: Path | None = None
    images: Path | None = None
    skip_bad: bool = False


@dataclass(frozen=True)
class OwnCriticAgents:
    """Who takes part beside the critic: who scores images without a score, who writes exact reasoning, and
    who reinforces; nobody where None."""

    scorer: Scorer | None = None
    oracle: Oracle | None = None
    reinforcement: ReinforcementStage | None = None


@dataclass(frozen=True)
class OwnCriticSettings:
    """How its parts are done; `force` publishes a critic that did not pass the gate."""

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
    """Retrain the critic in `checkpoint` on what `runs` and people's annotations teach; returns `out /
    "final"`.

    A share of the runs is held out, and what was learned is measured on their annotations. Raises
    SettingsError for files that cannot be used and for too few rows or steps, GateRefused if the critic came
    out worse than `settings.gate` allows, unless forced.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise SettingsError(
            "own-critic is one process.",
            (
                "On several devices run its parts: data from-runs, then critic-sft --held-out under the "
                "launcher."
            ),
        )
    return _OwnCritic(checkpoint, data, out, settings, agents or OwnCriticAgents(), log).run()


class _Rows(NamedTuple):
    """Rows by what they are for: new ones from runs, old ones, the annotated ones of held-out runs, the
    gate's."""

    new: RowSet
    old: RowSet
    annotated: RowSet
    asked: RowSet


@dataclass(frozen=True)
class _OwnCritic:
    """One such training under way: what `train_own_critic` was given, and its parts in their order."""

    checkpoint: Path
    data: OwnCriticData
    out: Path
    settings: OwnCriticSettings
    agents: OwnCriticAgents
    log: Log

    def run(self) -> Path:
        prompt_set = prompt_set_of(self.checkpoint) or default_prompt_set()
        made = self._convert(prompt_set)
        stage = self.agents.reinforcement
        rl_rows = _rl_rows(made, stage) if stage else None
        rows = self._rows(made)
        sft = self.settings.sft
        mixed = mix(rows.new.rows, rows.old.rows, self.settings.rehearsal.old_share)
        self.log(f"{len(rows.new.rows)} rows from runs, {len(mixed) - len(rows.new.rows)} old ones")
        show_balance(mixed, self.log)
        check_enough(rows.new.rows, len(mixed), sft, self.settings.rehearsal)
        data = SftData(RowSet(mixed, self.out), rows.asked, self.data.skip_bad, TRAINED)
        trained = fine_tune(self.checkpoint, data, self.out / "sft", sft, prompt_set, self.log)
        final = self._examined(trained, rows, self.out / "sft", sft.device)
        if stage is None or rl_rows is None:
            return final
        return self._examined(
            self._reinforced(trained, rl_rows, stage), rows, self.out / "grpo", stage.settings.device
        )

    def _convert(self, prompt_set: PromptSet) -> MadeData:
        settings = self.settings.data
        if self.agents.reinforcement is None:  # what would go to RL is not to be lost
            settings = settings.model_copy(update={"both": True})
        converter = RunConverter(
            settings, prompt_set, self.agents.scorer, self.agents.oracle, self.data.skip_bad, self.log
        )
        made = converter.convert(self.data.runs, self.out / "data")
        if made.sft is None:
            raise SettingsError("These runs give no row for fine-tuning.", "The table above says why.")
        return made

    def _read(self, path: Path | None, images: Path | None = None) -> RowSet:
        """The rows of a file with paths relative to the training's folder; none without a file."""
        if path is None:
            return RowSet([], self.out)
        return read_row_set(path, "critic", self.data.skip_bad, self.log, images).moved(self.out)

    def _rows(self, made: MadeData) -> _Rows:
        new, annotated = self._read(made.sft), self._read(made.held_out)
        given = self._read(self.data.old, self.data.images)
        # Asked again with the answers of today: as old rows they would contradict, or give away what is asked
        # at the end.
        old = without(without(given, new), annotated)
        if len(given.rows) > len(old.rows):
            self.log(f"{len(given.rows) - len(old.rows)} old rows left out: these runs ask the same")
        asked, old = self._gate_rows(new, old, annotated)
        return _Rows(new, old, annotated, asked)

    def _gate_rows(self, new: RowSet, old: RowSet, annotated: RowSet) -> tuple[RowSet, RowSet]:
        """The rows that the gate asks about, none of which is trained on, and the old rows that are left to
        train on."""
        gate = self.settings.gate
        if self.data.held_out is not None:
            given = self._read(self.data.held_out, self.data.images)
            for trained in (new, old):
                refuse_trained(given, trained)
            return examination(self._askable(given), gate), old
        if old.rows:
            held, rest = split(old, self.settings.rehearsal.held_out_share, gate)
            return examination(self._askable(held), gate), rest
        if not annotated.rows:
            raise SettingsError(
                "There are no rows to ask the retrained critic about.",
                "Give --held-out or --old, or hold annotated runs out: --held-out-runs 0.2.",
            )
        self.log(
            "WARNING: no old rows (--old): nothing keeps the critic from forgetting what these runs do not "
            "show."
        )
        return examination(self._askable(annotated), gate), old

    def _askable(self, rows: RowSet) -> RowSet:
        sft = self.settings.sft
        limit = TokenLimit(sft.max_length, "--max-length", self.data.skip_bad)
        return askable(rows, self.checkpoint, limit, sft.image_pixels, self.log)

    def _examined(self, trained: Path, rows: _Rows, folder: Path, device: str) -> Path:
        """Publish a critic that passes the gate; what it learned is reported before."""
        gate = RegressionGate(self.settings.gate, device, self.log)
        result = gate.check(self.checkpoint, trained, rows.asked, folder)
        if rows.annotated.rows:
            gate.measure_learned(self.checkpoint, trained, rows.annotated, folder)
        else:
            self.log("no held-out run is annotated: what was learned cannot be measured")
        enforce(result, trained, self.settings.force, self.log)
        return publish(trained, self.out / FINAL)

    def _reinforced(self, trained: Path, data: TrainingData, stage: ReinforcementStage) -> Path:
        """The critic that passed, reinforced; adapters are merged."""
        from ..grpo.critic_task import CriticTask
        from ..grpo.train import train

        trained = self._merged(self.checkpoint, trained, self.out / "sft" / "merged")
        made = train(trained, data, self.out / "grpo", stage.settings, CriticTask(stage.reward), self.log)
        return self._merged(trained, made, self.out / "grpo" / "merged")

    def _merged(self, base: Path, made: Path, folder: Path) -> Path:
        """The checkpoint itself, or the adapter that it is merged into its base."""
        from ..trainer.merge import merge

        if not (made / "adapter_config.json").is_file():
            return made
        return folder if folder.is_dir() else merge(base, made, folder)


def _rl_rows(made: MadeData, stage: ReinforcementStage) -> TrainingData:
    """The rows of the reinforcement; raises SettingsError, before anything is trained, if there are too
    few."""
    if made.rl is None:
        raise SettingsError(
            "These runs give no row for reinforcement: its rows need scores that vary.",
            "Give --scorer, lower --rl-variance, or leave --grpo out.",
        )
    rest, held = split_held_out(read_rl_rows(made.rl)[0], stage.settings)
    rollouts_of(stage.settings, len(rest))
    return TrainingData(rest, held, made.folder)
