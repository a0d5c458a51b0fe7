"""GRPO training whose answers are continued: the trained critic judges the images of later attempts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason='training needs: pip install "interleave-thinker[training]"')

from support.small_grpo import SMALL, make_data, run

from interleave_thinker.backend.errors import SettingsError, TrainingError
from interleave_thinker.backend.generators import open_generator
from interleave_thinker.backend.scorers import open_scorer
from interleave_thinker.training.grpo.critic_task import CriticTask
from interleave_thinker.training.grpo.trainer import RewardTrainer
from interleave_thinker.training.reward.attempts.terms import AttemptSettings
from interleave_thinker.training.reward.critic_reward import RewardSettings, RewardSetup
from interleave_thinker.training.reward.redraws.drawing_settings import DrawingSettings

ONE = SMALL.model_copy(update={"rollouts": 1, "check_rows": 2})
THREE = AttemptSettings(turns=3)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_data(tmp_path_factory.mktemp("rl"), 4, 8)


def test_a_training_continues_its_answers_to_the_end_of_their_steps(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sampled, asked = RewardTrainer.sampled, []

    def counted(self: RewardTrainer, questions: Any) -> list[list[int]]:
        answers = sampled(self, questions)
        asked.append((len(questions), len(answers)))
        return answers

    monkeypatch.setattr(RewardTrainer, "sampled", counted)
    lines: list[str] = []
    out = tmp_path / "run"
    run(data, out, ONE, lines.append, attempts=THREE)
    assert (out / "final" / "model.safetensors").is_file()
    text = (out / "rollouts" / "step_000000.jsonl").read_text()
    samples = [json.loads(line) for line in text.splitlines()]
    assert len(samples) == 8 and all(0 <= sample["overall"] <= 1 for sample in samples)
    later = [image for sample in samples for image in sample["images"][1:]]
    judged = [image for image in later if image["judged"]]
    # The second images are judged by the trained critic, which answers in its format.
    assert judged and asked == [(len(judged), len(judged))]
    assert all(isinstance(image["verdict"], bool) for image in judged)
    log = json.loads((out / "steps" / "checkpoint-2" / "trainer_state.json").read_text())["log_history"][0]
    assert log["steps/images"] == sum(len(sample["images"]) for sample in samples) / 8 > 1
    assert any("images 1." in line or "images 2." in line for line in lines if line.startswith("step 1/2"))
    assert '"turns"' in (out / "training.json").read_text()
    with pytest.raises(TrainingError, match="different turns"):
        run(data, out, ONE, attempts=AttemptSettings(turns=2))


def test_settings_that_contradict_several_turns_are_refused_before_the_model_is_loaded(
    data: Path, tmp_path: Path
) -> None:
    with pytest.raises(SettingsError, match="--turns 2 cannot be combined with --draws 3"):
        run(data, tmp_path, ONE, attempts=AttemptSettings(turns=2), reward=RewardSettings(draws=3))
    assert not (tmp_path / "steps").exists()


def test_single_steps_have_the_identity_of_earlier_trainings() -> None:
    setup = RewardSetup(
        open_generator("tinyworld"), open_scorer("tinyworld"), RewardSettings(), DrawingSettings()
    )
    assert {"turns", "stop_weight"}.isdisjoint(CriticTask(setup).identity())
    assert CriticTask(setup, THREE).identity()["turns"] == 3
    assert len(CriticTask(setup, THREE).parts) > len(CriticTask(setup).parts)
    assert CriticTask(setup, THREE).longest(8) == 2 * CriticTask(setup).longest(8)
