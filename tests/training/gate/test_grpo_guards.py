"""Conditions that stop GRPO training or let it continue: collapse, outage, failures, another reference."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("trl", reason='training needs: pip install ".[training]"')

from support.short_trainings import GRPO, moved, weights
from support.small_grpo import run

from interleave_thinker.backend.core.errors import TrainingError
from interleave_thinker.backend.models.generators import open_generator
from interleave_thinker.training.gate.held_out import Check, CheckLog
from interleave_thinker.training.reward.redrawer import DrawingSettings
from interleave_thinker.training.stages import grpo
from interleave_thinker.training.stages.grpo_trainer import CollapseMonitor, Limits
from interleave_thinker.training.trainer.ending import Ending


class Reward:
    """A reward whose problems and warnings are set."""

    warning: str | None = None

    def __init__(self, problem: str | None = None, at_end: str | None = None) -> None:
        self.problems = {False: problem, True: at_end or problem}

    def problem(self, at_end: bool = False) -> str | None:
        return self.problems[at_end]


def recalls(*right: float) -> list[Check]:
    """Return checks with these recalls of right images."""
    fixed: dict[str, Any] = {"rows": 4, "format": 1, "tokens": 9, "accuracy": 0.9, "says_true": 0.5}
    return [Check(true_recall=one, false_recall=0.9, **fixed) for one in right]


def monitor(out: Path, checks: Sequence[Check], reward: Reward, ending: Ending | None = None) -> Any:
    """Return a monitor that checks every second step, with a floor of 0.5; `said` are its lines."""
    lines: list[str] = []
    found, log = iter(checks), CheckLog(out, Check)
    made: Any = CollapseMonitor(lambda: next(found), log, Limits(2, 0.5), reward, lines.append, ending)  # type: ignore[arg-type]
    made.said = lines
    return made


def step(monitor: CollapseMonitor, number: int, most: int = 8) -> Any:
    """Return the control after a step."""
    control = SimpleNamespace(should_save=None, should_training_stop=False)
    return monitor.on_step_end(None, SimpleNamespace(global_step=number, max_steps=most), control)


def test_an_agent_below_the_floor_is_not_trained_also_by_the_same_command(tmp_path: Path) -> None:
    for checks in (recalls(0.4), []):
        with pytest.raises(TrainingError, match="below the floor before any step"):
            monitor(tmp_path, checks, Reward()).on_train_begin(None, SimpleNamespace(global_step=0), None)


def test_a_collapse_is_found_at_the_next_check(tmp_path: Path) -> None:
    found = monitor(tmp_path, recalls(0.9, 0.8, 0.2), Reward())
    found.on_train_begin(None, SimpleNamespace(global_step=0), None)
    assert [step(found, number).should_training_stop for number in (1, 2, 3, 4)] == [False] * 3 + [True]
    assert found.stopped is not None and "recall 0.20 on right images" in found.stopped
    assert (
        found.taken() == {"held_out/accuracy": 0.9, "held_out/true_recall": 0.2, "held_out/false_recall": 0.9}
        and not found.taken()
    )


def test_an_outage_stops_at_once_and_few_failures_only_at_the_end(tmp_path: Path) -> None:
    found = monitor(tmp_path, recalls(0.9, 0.9, 0.9), Reward(at_end="3 redraws failed"))
    assert not step(found, 1).should_training_stop and not step(found, 2).should_training_stop
    control = step(found, 8)
    assert control.should_training_stop and control.should_save is False
    assert found.outage == "3 redraws failed" and found.stopped is None
    down = monitor(tmp_path, [], Reward("the judge is down"))
    assert step(down, 1).should_training_stop and down.outage == "the judge is down"


def test_a_request_to_end_is_checked_first(tmp_path: Path) -> None:
    ending = Ending(tmp_path, whole=2)
    ending.ask()
    good = monitor(tmp_path, recalls(0.9), Reward(), ending)
    control = step(good, 2)
    assert control.should_training_stop and control.should_save and good.stopped is None
    bad = monitor(tmp_path, recalls(0.1), Reward(), ending)
    assert step(bad, 2).should_save is False and bad.stopped is not None


def test_warnings_are_given_once_and_again_after_they_were_over(tmp_path: Path) -> None:
    found = monitor(tmp_path, [], Reward())
    for found.reward.warning in (None, "collapsing", "collapsing", None, "collapsing"):
        step(found, 1)
    assert found.said == ["WARNING: collapsing."] * 2
    for apart in (0.015, 0.201):
        logs = {"sampling/sampling_logp_difference/mean": apart}
        found.on_log(None, SimpleNamespace(global_step=3), None, logs)
    assert "differ by 0.20" in found.said[-1] and "outdated weights" in found.said[-1]
    assert len(found.said) == 3


def test_another_reference_than_the_start_is_noticed(tmp_path: Path) -> None:
    found = monitor(tmp_path, recalls(0.9), Reward())
    found.on_train_begin(None, SimpleNamespace(global_step=0), None)
    found.on_log(None, SimpleNamespace(global_step=1), None, {"kl": 1e-5})
    found.on_log(None, SimpleNamespace(global_step=2), None, {"kl": 0.5})
    with pytest.raises(TrainingError, match="KL between model and reference model"):
        found.on_log(None, SimpleNamespace(global_step=1), None, {"kl": 0.5})


def test_the_last_good_one_is_kept(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checks = iter(recalls(0.9, 0.8, 0.2))
    monkeypatch.setattr(grpo, "summarise", lambda *given: next(checks))
    lines: list[str] = []
    settings = GRPO.model_copy(update={"collapse_threshold": 0.5, "updates": 1})
    with pytest.raises(TrainingError, match=r"recall 0\.20 on right images"):
        run(folder / "critic_rl.jsonl", tmp_path, settings, lines.append)
    assert not moved(tmp_path / "final", tmp_path / "steps" / "checkpoint-1")
    assert any("keeping the checkpoint of step 1" in line for line in lines)
    assert "had to stop" in (tmp_path / "final" / "README.md").read_text()
    with pytest.raises(TrainingError, match="last good checkpoint"):
        run(folder / "critic_rl.jsonl", tmp_path, settings)


def test_the_best_one_is_kept_if_requested(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks = iter(recalls(0.9, 0.8, 0.7, 0.6))
    monkeypatch.setattr(grpo, "summarise", lambda *given: next(checks))
    settings = GRPO.model_copy(update={"updates": 1, "rollouts": 3, "keep_best": True})
    final = run(folder / "critic_rl.jsonl", tmp_path, settings)
    assert not moved(final, tmp_path / "steps" / "checkpoint-1")
    assert moved(final, tmp_path / "steps" / "checkpoint-3")
    assert "at step 1: " in (final / "README.md").read_text()


class Moody:
    """A generator that fails every second time, beginning with the first, or always until it is `mended`."""

    def __init__(self, always: bool = False) -> None:
        self.inner, self.always = open_generator("tinyworld"), always
        self.identity = f"moody {always}"
        self.numbers, self.mended = itertools.count(), False

    def draw(self, prompt: str, source: Any, seed: int) -> Any:
        fails = (self.always or next(self.numbers) % 2 == 0) and not self.mended
        if fails:
            raise ConnectionError("no server there")
        return self.inner.draw(prompt, source, seed)


# Long enough for an answer: images are generated only for answers that can be read.
ANSWERED = GRPO.model_copy(update={"max_completion_length": 120, "rollouts": 1, "updates": 1})


def test_failed_redraws_are_left_out_and_training_continues(folder: Path, tmp_path: Path) -> None:
    lines: list[str] = []
    drawing = DrawingSettings(tries=1, max_failures=1.0)
    settings = ANSWERED.model_copy(update={"num_generations": 4, "per_device_train_batch_size": 4})
    data = folder / "critic_rl.jsonl"
    final = run(data, tmp_path, settings, lines.append, generator=Moody(), drawing=drawing)
    rollout = (tmp_path / "rollouts" / "step_000000.jsonl").read_text().splitlines()
    samples = [json.loads(line) for line in rollout]
    masked = [sample for sample in samples if sample["overall"] is None]
    assert 0 < len(masked) < len(samples) and all("no server there" in one["fault"] for one in masked)
    asked = sum(sample["redrawn"] for sample in samples)
    assert any(f"failed {len(masked) / asked:.2f}" in line for line in lines)
    assert all(tensor.isfinite().all() for tensor in weights(final).values())


def test_a_short_training_whose_redraws_all_fail_is_not_finished(folder: Path, tmp_path: Path) -> None:
    broken, data = Moody(always=True), folder / "critic_rl.jsonl"
    with pytest.raises(TrainingError, match=r"redraws failed.*no server there.*resume from step 0"):
        run(data, tmp_path, ANSWERED, generator=broken)
    assert not (tmp_path / "final").exists()
    broken.mended = True
    assert run(data, tmp_path, ANSWERED, generator=broken) == tmp_path / "final"
