"""Experiment trackers are passed to the trainer, and a missing one is an error."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("trl", reason='training needs: pip install ".[training]"')

from interleave_thinker.backend.core.errors import SettingsError
from interleave_thinker.training.stages.grpo_settings import GrpoTraining
from interleave_thinker.training.stages.grpo_trainer import config_of
from interleave_thinker.training.stages.sft import SftTraining
from interleave_thinker.training.trainer import model_loading as policy

ABSENT = "wandb"


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy, "missing", lambda names: [name for name in names if name == ABSENT])


def trackers(**settings: object) -> list[str]:
    return policy.trackers_of(SftTraining(**settings))  # type: ignore[arg-type]


def test_trackers_are_passed_on_once_in_order() -> None:
    assert trackers(tensorboard=False) == []
    assert trackers() == ["tensorboard"]
    assert trackers(report_to="trackio, mlflow,trackio") == ["trackio", "mlflow", "tensorboard"]
    assert trackers(report_to="tensorboard", tensorboard=False) == ["tensorboard"]


def test_transformers_knows_every_tracker(tmp_path: Path) -> None:
    integrations = pytest.importorskip("transformers.integrations.integration_utils")
    assert set(policy.TRACKERS) <= set(integrations.INTEGRATION_TO_CALLBACK)
    config = config_of(GrpoTraining(device="cpu", report_to="trackio"), tmp_path, 4, 1)
    assert config.report_to == ["trackio", "tensorboard"]


def test_a_missing_or_unknown_tracker_raises_before_loading() -> None:
    with pytest.raises(
        SettingsError, match=r"report_to wandb,mlflow,tensorboard needs wandb .*pip install wandb"
    ):
        policy.check_options(SftTraining(report_to="wandb,mlflow"))
    with pytest.raises(
        SettingsError, match=r"unknown tracker 'weights'.*wandb, trackio, mlflow, tensorboard"
    ):
        policy.check_options(SftTraining(report_to="weights"))
