"""One command from runs to a critic of one's own: data, fine-tuning among old rows, the gate, reinforcement,
the gate again.

Decisions. What people said of runs is little and one-sided, and a critic that is tuned on it alone forgets;
so rows it learned from before are mixed in, and part of them, never trained on, is what the gate asks about.
What it learned is asked about the words on runs that were held out. The result is `out / "final"`, which
appears only once the gate is passed. Every part is skipped when its result is there, so the same command goes
on after a stop. Reinforcement starts from the critic that passed; if it makes it worse, that one stays.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..backend.errors import SettingsError
from ..backend.generators import Generator
from ..backend.prompts import default_prompt_set, prompt_set_of
from ..backend.scorers import Scorer
from .evaluation.gate_rows import GateSettings, examination, refuse_trained
from .evaluation.regression_gate import check_gate, enforce, publish, tell_learned
from .grpo.settings import GrpoTraining, rollouts_of, split_held_out
from .reward.critic_reward import RewardSettings
from .reward.redraw import DrawingSettings
from .rows.rl import CriticRlRow, read_rl_rows
from .rows.row_sets import RowSet, read_row_set
from .rows.sft import show_balance
from .runs.convert import MadeData, make_data
from .runs.filter import RunsData
from .runs.rehearsal import Rehearsal, check_enough, mix, split, without
from .sft.train import FINAL, SftTraining
from .sft.train import train as fine_tune

TRAINED = "trained"
"""Folder of a trained critic that has not passed the gate yet."""

Log = Callable[[str], None]


@dataclass(frozen=True)
class Reinforcement:
    """The last part: who redraws, who scores, and how."""

    generator: Generator
    scorer: Scorer
    settings: GrpoTraining
    reward: RewardSettings
    drawing: DrawingSettings


def train_own_critic(
    runs: Sequence[Path],
    checkpoint: Path,
    out: Path,
    data: RunsData,
    sft: SftTraining,
    rehearsal: Rehearsal,
    gate: GateSettings,
    old: Path | None = None,
    held_out: Path | None = None,
    scorer: Scorer | None = None,
    reinforcement: Reinforcement | None = None,
    skip_bad: bool = False,
    force: bool = False,
    log: Log = print,
    images: Path | None = None,
) -> Path:
    """Retrain the critic in `checkpoint` on what `runs` and people's words on them teach; returns `out /
    "final"`.

    A share of the runs is held out, and what was learned is told by people's words on them. `old` are rows it
    learned from before (a critic_sft.json), mixed in and, unless `held_out` is another such file, split for
    the gate; images of both may lie below `images`. Raises SettingsError for files that cannot be used and
    for too few rows or steps, GateRefused if the critic came out worse than `gate` allows, unless `force`.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise SettingsError(
            "own-critic is one process.",
            (
                "On several devices run its parts: data from-runs, then critic-sft --held-out under the "
                "launcher."
            ),
        )
    prompt_set = prompt_set_of(checkpoint) or default_prompt_set()
    if reinforcement is None:  # what would go to RL is not to be lost
        data = data.model_copy(update={"both": True})
    made = make_data(runs, out / "data", data, prompt_set, scorer, skip_bad, log)
    if made.sft is None:
        raise SettingsError("These runs give no row for fine-tuning.", "The table above says why.")
    rl_rows = _rl_rows(made, reinforcement) if reinforcement else None
    new = read_row_set(made.sft, skip_bad, log).moved(out)
    words = read_row_set(made.held_out, skip_bad, log).moved(out) if made.held_out else RowSet([], out)
    given = read_row_set(old, skip_bad, log, images).moved(out) if old else RowSet([], out)
    # Asked again with the answers of today: as old rows they would contradict, or give away what is asked at
    # the end.
    old_rows = without(without(given, new), words)
    if len(given.rows) > len(old_rows.rows):
        log(f"{len(given.rows) - len(old_rows.rows)} old rows left out: these runs ask the same")
    asked, old_rows = _gate_rows(made, new, old_rows, held_out, rehearsal, gate, out, skip_bad, log, images)
    mixed = mix(new.rows, old_rows.rows, rehearsal.old_share)
    log(f"{len(new.rows)} rows from runs, {len(mixed) - len(new.rows)} old ones")
    show_balance(mixed, log)
    check_enough(new.rows, len(mixed), sft, rehearsal)
    trained = fine_tune(checkpoint, mixed, out, out / "sft", sft, prompt_set, log, skip_bad, TRAINED, asked)
    result = check_gate(checkpoint, trained, asked, out / "sft", gate, sft.device, log)
    if words.rows:
        tell_learned(checkpoint, trained, words, out / "sft", gate, sft.device, log)
    else:
        log("nobody spoke of a held-out run: what was learned cannot be told")
    enforce(result, trained, force, log)
    final = publish(trained, out / FINAL)
    if reinforcement is None or rl_rows is None:
        return final
    return _reinforce(
        checkpoint, trained, rl_rows, made.folder, out, reinforcement, asked, words, gate, force, log
    )


def _gate_rows(
    made: MadeData,
    new: RowSet,
    old: RowSet,
    held_out: Path | None,
    rehearsal: Rehearsal,
    gate: GateSettings,
    out: Path,
    skip_bad: bool,
    log: Log,
    images: Path | None,
) -> tuple[RowSet, RowSet]:
    """The rows that the gate asks about, none of which is trained on, and the old rows that are left to train
    on."""
    if held_out is not None:
        given = read_row_set(held_out, skip_bad, log, images).moved(out)
        for trained in (new, old):
            refuse_trained(given, trained)
        return examination(given, gate), old
    if old.rows:
        held, rest = split(old, rehearsal.held_out_share, gate)
        return examination(held, gate), rest
    if made.held_out is None:
        raise SettingsError(
            "There are no rows to ask the retrained critic about.",
            "Give --held-out or --old, or hold runs with words out: --held-out-runs 0.2.",
        )
    log("WARNING: no old rows (--old): nothing keeps the critic from forgetting what these runs do not show.")
    return examination(read_row_set(made.held_out, skip_bad, log).moved(out), gate), old


def _rl_rows(made: MadeData, how: Reinforcement) -> tuple[list[CriticRlRow], list[CriticRlRow]]:
    """(rows to learn from, rows to check on); raises SettingsError, before anything was trained, if there are
    too few."""
    if made.rl is None:
        raise SettingsError(
            "These runs give no row for reinforcement: its rows need scores that vary.",
            "Give --scorer, lower --rl-variance, or leave --grpo out.",
        )
    rest, held = split_held_out(read_rl_rows(made.rl)[0], how.settings)
    rollouts_of(how.settings, len(rest))
    return rest, held


def _reinforce(
    first: Path,
    trained: Path,
    rows: tuple[list[CriticRlRow], list[CriticRlRow]],
    images: Path,
    out: Path,
    how: Reinforcement,
    asked: RowSet,
    words: RowSet,
    gate: GateSettings,
    force: bool,
    log: Log,
) -> Path:
    """Reinforcement from the critic that passed; its result is published if it passes too."""
    from .grpo.train import train
    from .trainer.merge import merge

    if (trained / "adapter_config.json").is_file():
        merged = out / "sft" / "merged"
        trained = merged if merged.is_dir() else merge(first, trained, merged)
    reinforced = train(
        trained,
        *rows,
        images,
        out / "grpo",
        how.settings,
        how.reward,
        how.drawing,
        how.generator,
        how.scorer,
        None,
        log,
    )
    base = trained if (reinforced / "adapter_config.json").is_file() else None
    if base is not None:
        merged = out / "grpo" / "merged"
        reinforced = merged if merged.is_dir() else merge(base, reinforced, merged)
    result = check_gate(first, reinforced, asked, out / "grpo", gate, how.settings.device, log)
    if words.rows:
        tell_learned(first, reinforced, words, out / "grpo", gate, how.settings.device, log)
    enforce(result, reinforced, force, log)
    return publish(reinforced, out / FINAL)
