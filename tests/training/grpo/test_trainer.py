"""Configuration of trl's GRPO trainer and the changes to it: the loss, and the order of initialization."""

from __future__ import annotations

import itertools
import json
from contextlib import nullcontext
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import pytest

pytest.importorskip("trl", reason='training needs: pip install ".[training]"')

from support.small_grpo import SMALL, recipe_settings, run

from interleave_thinker import SettingsError, open_generator
from interleave_thinker.training.recipes.recipe import read_recipe
from interleave_thinker.training.reward.critic_reward import CriticReward
from interleave_thinker.training.reward.redrawer import DrawingSettings
from interleave_thinker.training.stages import grpo, grpo_trainer
from interleave_thinker.training.stages.grpo_trainer import RewardTrainer, config_of


class EveryOther:
    """A generator that fails every second time."""

    identity = "every other"

    def __init__(self) -> None:
        self.inner = open_generator("tinyworld")
        self.numbers = itertools.count()

    def draw(self, prompt, source, seed):
        if next(self.numbers) % 2:
            raise ConnectionError("not today")
        return self.inner.draw(prompt, source, seed)


def test_skipped_answers_weigh_nothing(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lengths: list[int] = []
    losses: dict[str, list[float]] = {"dapo": [], "grpo": [], "dr_grpo": [], "bnpo": [], "kl": []}
    by_batch: list[float] = []
    shown: list[Any] = []
    seen = RewardTrainer._get_per_token_logps_and_entropies
    rewarded, loss_of = CriticReward.__call__, RewardTrainer.compute_loss

    async def counted(self: CriticReward, completion_ids: Any, *rest: Any, **columns: Any) -> Any:
        lengths.extend(map(len, completion_ids))
        return await rewarded(self, completion_ids, *rest, **columns)

    def noted(self: RewardTrainer, *arguments: Any, **options: Any) -> Any:
        shown.append(seen(self, *arguments, **options))
        return shown[-1]

    def kept(self: RewardTrainer, model: Any, inputs: Any, *others: Any, **options: Any) -> Any:
        for kind, found in losses.items():
            self.loss_type = "dapo" if kind == "kl" else kind
            self.beta = 0.5 if kind == "kl" else 0.0
            reference = shown[-1][0].detach() + 1 if shown else None
            found.append(loss_of(self, model, {**inputs, "ref_per_token_logps": reference}).item())
        self._metrics["train"].pop("kl")
        tokens = inputs["completion_mask"].sum(1)
        by_batch.append(-float((inputs["advantages"] * tokens).sum() / tokens.sum() / 2))
        self.loss_type, self.beta = "dapo", 0.0
        return loss_of(self, model, inputs, *others, **options)

    monkeypatch.setattr(RewardTrainer, "_get_per_token_logps_and_entropies", noted)
    monkeypatch.setattr(CriticReward, "__call__", counted)
    monkeypatch.setattr(RewardTrainer, "compute_loss", kept)
    settings = SMALL.model_copy(update={"rollouts": 1, "updates": 1, "temperature": 1.8, "seed": 3})
    order: list[str] = []
    made, load = grpo_trainer.config_of, grpo.load_policy
    monkeypatch.setattr(grpo_trainer, "config_of", lambda *a: (order.append("arguments"), made(*a))[1])
    monkeypatch.setattr(grpo, "load_policy", lambda *a: (order.append("model"), load(*a))[1])
    drawing = DrawingSettings(tries=1, max_failures=1.0)
    data = folder / "critic_rl.jsonl"
    run(data, tmp_path / "run", settings, generator=EveryOther(), drawing=drawing)
    assert order == ["arguments", "model"], "the process group starts before the model is loaded"
    lines = (tmp_path / "run" / "rollouts" / "step_000000.jsonl").read_text().splitlines()
    rewards = [json.loads(line)["overall"] for line in lines]
    assert len(rewards) == len(lengths) == 8 and len(losses["dapo"]) == 2
    assert None in rewards and any(one is not None for one in rewards)
    # At the first step every ratio is 1, so that the loss of a token is minus its answer's advantage.
    total = by_answer = 0.0
    for start in (0, 4):
        counting = [one for one in rewards[start : start + 4] if one is not None]
        for reward, length in zip(rewards[start : start + 4], lengths[start : start + 4], strict=True):
            if reward is not None and len(counting) > 1:
                advantage = (reward - mean(counting)) / (stdev(counting) + 1e-4)
                total, by_answer = total - advantage * length, by_answer - advantage
    tokens = sum(n for n, reward in zip(lengths, rewards, strict=True) if reward is not None)
    assert abs(total) > 1 and sum(losses["dapo"]) == pytest.approx(total / tokens, rel=1e-3)
    answers = sum(reward is not None for reward in rewards)
    assert sum(losses["grpo"]) == pytest.approx(by_answer / answers, rel=1e-3, abs=1e-5)
    assert sum(losses["dr_grpo"]) == pytest.approx(total / answers / 200, rel=1e-3)
    assert losses["bnpo"] == pytest.approx(by_batch, rel=1e-3)
    # The KL of every token is e - 2; answers that were left out neither add to its mean nor raise it.
    assert sum(losses["kl"]) - sum(losses["dapo"]) == pytest.approx(0.5 * (2.718281828 - 2), rel=1e-3)


def told(tmp_path: Path, devices: int = 8, **changes: Any) -> Any:
    settings = recipe_settings("paper-8b", "critic-grpo", device="cpu", bf16=False, **changes)
    return config_of(settings, tmp_path, 100, devices)


def test_trl_gets_the_settings_of_the_published_run(tmp_path: Path) -> None:
    config = told(tmp_path)
    assert config.lr_scheduler_type == "constant_with_warmup" and config.warmup_steps == 0
    assert (config.learning_rate, config.weight_decay, config.seed) == (2e-6, 1e-2, 1)
    assert (config.adam_beta1, config.adam_beta2, config.max_grad_norm) == (0.9, 0.999, 1.0)
    assert (config.epsilon, config.epsilon_high, config.delta, config.beta) == (0.2, 0.3, 3.0, 0.0)
    assert (config.num_generations, config.temperature, config.top_p) == (8, 1.0, 1.0)
    assert config.max_completion_length == 4096 and config.loss_type == "dapo"
    # 16 prompts x 8 answers a rollout, in two updates of 64.
    assert config.per_device_train_batch_size * config.steps_per_generation * 8 == 128
    assert config.steps_per_generation == 2 * config.gradient_accumulation_steps
    values = read_recipe("paper-8b", "critic-grpo")
    assert values["published_quirks"] is True


@pytest.mark.parametrize(("trl", "rejected"), [("1.14.0", [[7, 8], 8]), ("1.15.0", [])])
def test_an_end_token_that_trl_does_not_know_is_an_error(
    trl: str, rejected: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grpo_trainer, "installed", lambda name: trl)
    for ends in (7, [7], None, [7, 8], 8):
        (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": ends}))
        with pytest.raises(SettingsError, match="Python 3") if ends in rejected else nullcontext():
            grpo_trainer.check_ends(tmp_path, 7)


def test_vllm_reserves_the_cache_of_one_answer(tmp_path: Path) -> None:
    config = told(tmp_path)
    assert config.use_vllm and config.vllm_mode == "colocate" and not config.vllm_enable_sleep_mode
    assert config.vllm_max_model_length == 16384 + 4096
    assert told(tmp_path, vllm_max_model_length=32768).vllm_max_model_length == 32768
    assert told(tmp_path, vllm_tensor_parallel_size=4).vllm_tensor_parallel_size == 4
    served = told(tmp_path, vllm_mode="server", vllm_server_base_url="http://elsewhere:8000")
    assert served.vllm_mode == "server" and served.vllm_server_base_url == "http://elsewhere:8000"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"vllm_mode": "server"}, "no URL.*vllm_server_base_url"),
        ({"vllm_mode": "server", "vllm_server_base_url": "elsewhere:8000"}, "http://"),
    ],
)
def test_a_vllm_that_cannot_start_gives_one_error(changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=said):
        told(tmp_path, **changes)
