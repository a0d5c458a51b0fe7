"""One command from runs to a critic of one's own: data, fine-tuning among old rows, the gate, reinforcement, the gate again.

Decisions. What people said of runs is little and one-sided, and a critic that is tuned on it alone forgets; so rows it
learned from before are mixed in, and part of them, never trained on, is what the gate asks about. The result is
`out / "final"`, which appears only once the gate is passed. Every part is skipped when its result is there, so the same
command goes on after a stop. Reinforcement starts from the critic that passed; if it makes it worse, that one stays.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from ..backend.errors import SettingsError
from ..backend.generators import Generator
from ..backend.prompts import default_prompt_set, prompt_set_of
from ..backend.scorers import Scorer
from ..backend.sft_rows import SftRow
from .critic_reward import RewardSettings
from .data import check_rows, show_balance, show_problems
from .from_runs import MadeData, make_data
from .gate import GateSettings, check_gate, enforce, publish
from .grpo_data import CriticRlRow, read_rl_rows
from .grpo_settings import GrpoTraining, rollouts_of, split_held_out
from .run_filter import RunsData
from .sft import FINAL, SftTraining
from .sft import train as fine_tune
from .step_rewards import DrawingSettings

TRAINED = "trained"
"""Folder of a trained critic that has not passed the gate yet."""

Log = Callable[[str], None]


class Rehearsal(BaseModel):
    """The rows that keep a critic from forgetting."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    old_share: float = Field(
        default=0.5, ge=0, lt=1, description="Share of old rows among those that are trained on."
    )
    held_out_share: float = Field(
        default=0.2,
        gt=0,
        lt=1,
        description="Share of the old rows for the gate, if --held-out names no file.",
    )


@dataclass(frozen=True)
class Reinforcement:
    """The last part: who redraws, who scores, and how."""

    generator: Generator
    scorer: Scorer
    settings: GrpoTraining
    reward: RewardSettings
    drawing: DrawingSettings


@dataclass(frozen=True)
class Rows:
    """Rows of a data file, with image paths relative to one folder."""

    rows: list[SftRow]
    folder: Path

    def moved(self, folder: Path) -> Rows:
        """The same rows as seen from another folder."""
        names = {
            name: os.path.relpath((self.folder / name).resolve(), folder.resolve())
            for row in self.rows
            for name in row.images
        }
        rows = [row.model_copy(update={"images": [names[name] for name in row.images]}) for row in self.rows]
        return Rows(rows, folder)


def read_file(path: Path, skip_bad: bool, log: Log, images: Path | None = None) -> Rows:
    """The rows of a data file, all checked, with images beside it or below `images`; raises SettingsError."""
    rows, problems = check_rows(path, skip_bad, images)
    show_problems(problems, len(rows), log)
    return Rows(rows, path.parent)


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
    """Retrain the critic in `checkpoint` on what `runs` and people's words on them teach; returns `out / "final"`.

    `old` are rows it learned from before (a critic_sft.json), mixed in and, unless `held_out` is another such file,
    split for the gate; images of both may lie below `images`. Raises SettingsError for files that cannot be used, GateRefused if the critic came out worse than
    `gate` allows, unless `force`.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise SettingsError(
            "own-critic is one process.",
            "On several devices run its parts: data from-runs, then critic-sft --held-out under the launcher.",
        )
    prompt_set = prompt_set_of(checkpoint) or default_prompt_set()
    if reinforcement is None:  # what would go to RL is not to be lost
        data = data.model_copy(update={"both": True})
    made = make_data(runs, out / "data", data, prompt_set, scorer, skip_bad, log)
    if made.sft is None:
        raise SettingsError("These runs give no row for fine-tuning.", "The table above says why.")
    rl_rows = _rl_rows(made, reinforcement) if reinforcement else None
    new = Rows(read_file(made.sft, skip_bad, log).rows, made.folder).moved(out)
    old_rows = read_file(old, skip_bad, log, images).moved(out) if old else Rows([], out)
    asked, old_rows = _gate_rows(made, old_rows, held_out, rehearsal, gate, out, skip_bad, log, images)
    mixed = mix(new.rows, old_rows.rows, rehearsal.old_share)
    log(f"{len(new.rows)} rows from runs, {len(mixed) - len(new.rows)} old ones")
    show_balance(mixed, log)
    trained = fine_tune(checkpoint, mixed, out, out / "sft", sft, prompt_set, log, skip_bad, TRAINED)
    result = check_gate(checkpoint, trained, asked.rows, asked.folder, out / "sft", gate, sft.device, log)
    if made.held_out is not None:
        on_runs = read_file(made.held_out, skip_bad, log)
        log("\nfor comparison, runs that were not trained on:")
        check_gate(
            checkpoint,
            trained,
            on_runs.rows,
            on_runs.folder,
            out / "sft" / "runs",
            gate,
            sft.device,
            log,
            "runs'",
        )
    enforce(result, trained, force, log)
    final = publish(trained, out / FINAL)
    if reinforcement is None or rl_rows is None:
        return final
    return _reinforce(checkpoint, trained, rl_rows, made.folder, out, reinforcement, asked, gate, force, log)


def _gate_rows(
    made: MadeData,
    old: Rows,
    held_out: Path | None,
    rehearsal: Rehearsal,
    gate: GateSettings,
    out: Path,
    skip_bad: bool,
    log: Log,
    images: Path | None,
) -> tuple[Rows, Rows]:
    """The rows that the gate asks about, and the old rows that are left to train on."""
    if held_out is not None:
        return read_file(held_out, skip_bad, log, images).moved(out), old
    if old.rows:
        held, rest = split(old.rows, rehearsal.held_out_share, gate.gate_rows)
        return Rows(held, out), Rows(rest, out)
    if made.held_out is None:
        raise SettingsError(
            "There are no rows to ask the retrained critic about.",
            "Give --held-out or --old, or hold runs out: --held-out-runs 0.2.",
        )
    log("WARNING: no old rows (--old): nothing keeps the critic from forgetting what these runs do not show.")
    return read_file(made.held_out, skip_bad, log).moved(out), old


def split(rows: Sequence[SftRow], held_share: float, most: int) -> tuple[list[SftRow], list[SftRow]]:
    """(held out, the rest): by content, so that the order of a file changes nothing.

    Rows about an image that a held-out row judges are in neither.
    """
    ordered = sorted(rows, key=_digest)
    count = min(most, max(1, round(held_share * len(rows))))
    held = ordered[:count]
    judged = {row.images[-1] for row in held if row.images}
    return held, [row for row in ordered[count:] if not row.images or row.images[-1] not in judged]


def mix(new: Sequence[SftRow], old: Sequence[SftRow], old_share: float) -> list[SftRow]:
    """All new rows, and so many old ones (the same ones every time) that they are this share of all."""
    wanted = round(len(new) * old_share / (1 - old_share))
    return [*new, *sorted(old, key=_digest)[:wanted]]


def _digest(row: SftRow) -> bytes:
    told = "\0".join(message.content for message in row.messages) + "\0".join(
        map(os.path.basename, row.images)
    )
    return hashlib.blake2b(told.encode(), digest_size=8).digest()


def _rl_rows(made: MadeData, how: Reinforcement) -> tuple[list[CriticRlRow], list[CriticRlRow]]:
    """(rows to learn from, rows to check on); raises SettingsError, before anything was trained, if there are too few."""
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
    asked: Rows,
    gate: GateSettings,
    force: bool,
    log: Log,
) -> Path:
    """Reinforcement from the critic that passed; its result is published if it passes too."""
    from .grpo import train
    from .merge import merge

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
    result = check_gate(
        first, reinforced, asked.rows, asked.folder, out / "grpo", gate, how.settings.device, log
    )
    enforce(result, reinforced, force, log)
    return publish(reinforced, out / FINAL)
