"""Conditions that stop GRPO training or let it continue: collapse, outage, failures, another reference."""

from __future__ import annotations

import itertools
import json
import shutil
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("trl", reason='training needs: pip install "interleave-thinker[training]"')

from support.small_grpo import SMALL, make_data, run, weights

from interleave_thinker.backend.core.errors import TrainingError
from interleave_thinker.backend.core.seams.generator import GeneratorWrapper
from interleave_thinker.backend.models.generators import open_generator
from interleave_thinker.tinyworld import checkpoint
from interleave_thinker.training.reward.redrawer import DrawingSettings
from interleave_thinker.training.rows.rl import CriticRlRow, read_rl_rows
from interleave_thinker.training.stages.grpo_settings import split_held_out


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_data(tmp_path_factory.mktemp("rl"))


def _lied_about(rows: list[CriticRlRow]) -> list[CriticRlRow]:
    turned = [row.evaluation.model_copy(update={"success": not row.evaluation.success}) for row in rows]
    return [row.model_copy(update={"evaluation": one}) for row, one in zip(rows, turned, strict=True)]


def test_a_critic_below_the_floor_is_not_trained(data: Path, tmp_path: Path) -> None:
    rows, _ = read_rl_rows(data)
    held = _lied_about(split_held_out(rows, SMALL)[1])
    with pytest.raises(TrainingError, match="below the floor before any step"):
        run(data, tmp_path, SMALL.model_copy(update={"collapse_threshold": 0.9}), held=held)
    # The same command once more.
    with pytest.raises(TrainingError, match="below the floor before any step"):
        run(data, tmp_path, SMALL.model_copy(update={"collapse_threshold": 0.9}), held=held)


def test_a_collapse_stops_and_keeps_the_last_good_checkpoint(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from interleave_thinker.training.gate.held_out import summarise
    from interleave_thinker.training.stages import grpo as critic_task

    checked = 0

    def worse_and_worse(rows, answers, tokens, verdict_first):
        nonlocal checked
        checked += 1
        check = summarise(rows, answers, tokens, verdict_first)
        return check.model_copy(update={"true_recall": (0.9, 0.8, 0.2)[checked - 1]})

    monkeypatch.setattr(critic_task, "summarise", worse_and_worse)
    lines: list[str] = []
    settings = SMALL.model_copy(update={"collapse_threshold": 0.5, "rollouts": 3})
    with pytest.raises(TrainingError, match=r"recall 0\.20 on right images"):
        run(data, tmp_path, settings, lines.append)
    kept, good = weights(tmp_path / "final"), weights(tmp_path / "steps" / "checkpoint-2")
    assert all((kept[name] - good[name]).abs().max() == 0 for name in good)
    assert any("keeping the checkpoint of step 2" in line for line in lines)
    assert "had to stop" in (tmp_path / "final" / "README.md").read_text()
    with pytest.raises(TrainingError, match="last good checkpoint"):
        run(data, tmp_path, settings)


class Broken:
    """A generator that always fails."""

    identity = "down"

    def draw(self, prompt, source, seed):
        raise ConnectionError("no server there")


class Mended(GeneratorWrapper):
    """The failed generator after its repair."""

    identity = Broken.identity


class Moody(Broken):
    """A generator that fails in one way every second time, beginning with the first."""

    def __init__(self, way: str) -> None:
        self.inner = open_generator("tinyworld")
        self.identity = f"moody, {way}"
        self.way = way
        self.numbers = itertools.count()
        self.over = threading.Event()

    def draw(self, prompt, source, seed):
        if next(self.numbers) % 2:
            return self.inner.draw(prompt, source, seed)
        if self.way == "hangs":
            self.over.wait(120)
        if self.way == "dies":
            raise ConnectionError("not today")
        return "a picture"


FAULTS = {"dies": "not today", "talks nonsense": "objects for", "hangs": "did not respond within"}


@pytest.mark.parametrize(
    ("way", "scale"), [("dies", "batch"), ("talks nonsense", "group"), ("hangs", "none")]
)
def test_failed_redraws_are_left_out_and_training_continues(
    data: Path, tmp_path: Path, way: str, scale: str
) -> None:
    import torch

    generator = Moody(way)
    settings = SMALL.model_validate({**SMALL.model_dump(), "scale_rewards": scale, "rollouts": 1})
    lines: list[str] = []
    final = run(
        data,
        tmp_path,
        settings,
        lines.append,
        generator=generator,
        drawing=DrawingSettings(tries=1, max_failures=1.0, draw_seconds=2.0, parallel_draws=2),
    )
    generator.over.set()
    rollout = [
        json.loads(line) for line in (tmp_path / "rollouts" / "step_000000.jsonl").read_text().splitlines()
    ]
    masked = [sample for sample in rollout if sample["overall"] is None]
    assert 0 < len(masked) < len(rollout) and any(FAULTS[way] in sample["fault"] for sample in masked)
    asked = sum(sample["redrawn"] for sample in rollout)
    assert any(f"failed {len(masked) / asked:.2f}" in line for line in lines)
    assert all(tensor.isfinite().all() for tensor in weights(final).values())
    arguments = tmp_path / "steps" / "checkpoint-2" / "training_args.bin"
    assert torch.load(arguments, weights_only=False).scale_rewards == scale


def test_another_reference_than_the_start_is_noticed(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from safetensors.torch import load_file, save_file

    start = tmp_path / "start"
    shutil.copytree(checkpoint("critic"), start)

    from interleave_thinker.training.stages import grpo

    load = grpo.load_policy

    def loaded(folder, settings):
        # The folder is overwritten after the model is loaded and before the reference model is.
        policy = load(folder, settings)
        path = folder / "model.safetensors"
        save_file({name: 1.5 * one for name, one in load_file(path).items()}, path, {"format": "pt"})
        return policy

    monkeypatch.setattr(grpo, "load_policy", loaded)
    with pytest.raises(TrainingError, match="KL between model and reference model"):
        run(data, tmp_path / "run", SMALL.model_copy(update={"beta": 1e-3}), model=start)


def test_answers_written_with_old_weights_are_warned_about(tmp_path: Path) -> None:
    from interleave_thinker.training.gate.held_out import Check, CheckLog, summarise
    from interleave_thinker.training.stages.grpo_trainer import CollapseMonitor, Limits

    lines: list[str] = []
    checks = CheckLog(tmp_path, Check)
    monitor = CollapseMonitor(lambda: summarise([], [], []), checks, Limits(1, 0.0), None, lines.append)  # type: ignore[arg-type]
    for apart in (0.015, 0.201):
        logs = {"sampling/sampling_logp_difference/mean": apart}
        monitor.on_log(None, SimpleNamespace(global_step=3), None, logs)
    assert len(lines) == 1 and "differ by 0.20" in lines[0] and "outdated weights" in lines[0]


def test_a_short_training_whose_redraws_all_fail_is_not_finished(data: Path, tmp_path: Path) -> None:
    settings = SMALL.model_copy(update={"rollouts": 1, "updates": 1})
    broken = Broken()
    for _ in range(2):  # the same command fails again until the generator works
        with pytest.raises(TrainingError, match=r"redraws failed.*no server there.*resume from step 0"):
            run(data, tmp_path, settings, generator=broken)
        assert not (tmp_path / "final").exists()
    mended = Mended(open_generator("tinyworld"))
    assert run(data, tmp_path, settings, generator=mended) == tmp_path / "final"


def test_an_outage_stops_training_which_resumes_after_the_repair(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from interleave_thinker.training.reward import bounded_calls as failures

    monkeypatch.setattr(failures, "MIN_SEEN", 4)
    settings = SMALL.model_copy(update={"rollouts": 1})
    broken = Broken()
    with pytest.raises(TrainingError, match=r"no server there.*resume from step 0"):
        run(data, tmp_path, settings, generator=broken)
    assert not (tmp_path / "final").exists()
    mended = Mended(open_generator("tinyworld"))
    assert run(data, tmp_path, settings, generator=mended) == tmp_path / "final"
