"""Other families of vision-language models are trained like Qwen3-VL, based on their modules."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.short_trainings import GRPO, SFT, quiet, sft_rows, weights
from support.small_families import FAMILIES, build_family, save_family
from support.small_grpo import run as reinforce
from support.tiny_checkpoint import build_checkpoint, page, question

pytest.importorskip("trl", reason='training needs: pip install ".[training]"')

from interleave_thinker import PromptSet, ReplySettings, open_chat
from interleave_thinker.training.reward.critic_reward import RewardSettings
from interleave_thinker.training.reward.redrawer import DrawingSettings
from interleave_thinker.training.rows.lengths import row_lengths, shown_of
from interleave_thinker.training.rows.sft import RowSet
from interleave_thinker.training.stages.sft import SftData, train
from interleave_thinker.training.trainer.model_loading import ModelParts, load_policy, load_processor

TRAINED = ("qwen3_vl", "qwen3_5", "glm4v", "internvl")
SHORT = PromptSet(
    planner_text="{text_input}",
    planner_images="{text_input}",
    critic="{original_instruction} {rewritten_prompt}",
)
"""The built-in prompts have thousands of tokens in the vocabulary of a tiny model."""
SMALLER = {"max_steps": 1, "per_device_train_batch_size": 2, "lora_r": 4, "freeze_vision": True}
FAST = SFT.model_copy(update=SMALLER)


@pytest.fixture(scope="module", params=TRAINED)
def base(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base") / request.param
    build_checkpoint(folder) if request.param == "qwen3_vl" else save_family(request.param, folder)
    SHORT.save(folder / "prompt_set")
    return folder


def test_an_adapter_learns_and_opens_on_its_base(base: Path, images: Path, tmp_path: Path) -> None:
    final = train(base, SftData(RowSet(sft_rows(2), images)), tmp_path / "run", FAST, log=quiet)
    learned = weights(final, "adapter_model.safetensors")
    parts = ModelParts(load_policy(base, FAST).model)
    prefix = f"base_model.model.{parts.language}."
    assert learned and all(name.startswith(prefix) for name in learned)
    assert all(bool(weight.any()) for name, weight in learned.items() if "lora_B" in name), "all took part"
    chat = open_chat(f"transformers:{base}", device="cpu", dtype="float32", adapter=str(final))
    assert isinstance(chat.reply(question(0, 255), ReplySettings(max_tokens=3)).text, str)


def test_row_lengths_use_the_familys_tokenizer(base: Path, images: Path) -> None:
    processor = load_processor(base)
    shown = [shown_of(row, images) for row in sft_rows(2)]
    exact = row_lengths(shown, processor, limit=1)
    for one, length in zip(shown, exact, strict=True):
        text = processor.apply_chat_template(one.conversation(), tokenize=False)
        pages = [[page(0).image, page(0).image]]
        assert length == len(processor(text=[text], images=pages)["input_ids"][0])


def test_a_critic_is_reinforced(base: Path, folder: Path, tmp_path: Path) -> None:
    small = {"updates": 1, "per_device_train_batch_size": 4, "rollouts": 1, "max_completion_length": 6}
    reward = RewardSettings(semantic_weight=0, quality_weight=0)
    drawing = DrawingSettings(tries=1, take_turns=True)
    settings = GRPO.model_copy(update={**small, "lora_r": 4})
    data = folder / "critic_rl.jsonl"
    final = reinforce(data, tmp_path / "run", settings, model=base, reward=reward, drawing=drawing)
    assert (final / "adapter_model.safetensors").is_file()


def test_only_the_language_model_is_quantised(base: Path) -> None:
    pytest.importorskip("bitsandbytes", reason="quantisation needs bitsandbytes")
    model = load_policy(base, FAST.model_copy(update={"load_in_4bit": True})).model
    quantised = [name for name, one in model.named_modules() if type(one).__name__ == "Linear4bit"]
    language = ModelParts(model).language
    assert quantised and all(name.startswith(f"{language}.") for name in quantised)


@pytest.mark.parametrize("name", FAMILIES)
def test_targets_are_exactly_the_linear_layers(name: str) -> None:
    from torch.nn import Linear

    model, _ = build_family(name)
    parts = ModelParts(model)
    linear = {path for path, one in model.named_modules() if isinstance(one, Linear) and one.out_features > 1}
    language = {path for path in linear if path.startswith(f"{parts.language}.")}
    for targets, wanted in (
        (parts.adapter_targets(with_seeing=False), language),
        (parts.adapter_targets(with_seeing=True), linear - {parts.head}),
    ):
        assert set(targets) == wanted and wanted, f"{name}: {set(targets) ^ wanted}"
    parts.freeze_seeing()
    free = {path for path, weight in model.named_parameters() if weight.requires_grad}
    kept = {path for path, weight in model.named_parameters() if not weight.requires_grad}
    assert kept and not any(path.startswith((parts.language, parts.head)) for path in kept)
    assert all(path.startswith((f"{parts.language}.", f"{parts.head}.")) for path in free)
