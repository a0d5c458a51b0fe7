"""The memory plan: counts compared with the real classes, rules of what fits, the command's output."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from interleave_thinker.backend.core.errors import SettingsError
from interleave_thinker.backend.models.vram.models import NamedAgent, named_agent, named_image_model
from interleave_thinker.backend.models.vram.placement import (
    COMBINATIONS,
    GB,
    WHAT_MOVES,
    agent_weights,
    agent_work,
    kv_bytes,
    moments,
    plan_memory,
)
from interleave_thinker.backend.models.vram.shapes import (
    KNOWN,
    SHAPES,
    agent_shape,
    published_config,
    published_fields,
)
from interleave_thinker.cli import app
from interleave_thinker.tinyworld import checkpoint

ORDER = [*WHAT_MOVES, None]
CRITIC_8B = agent_shape(published_fields("Qwen/Qwen3-VL-8B-Instruct"))


def two_agents(name: str = "qwen3-vl-8b") -> tuple[NamedAgent, NamedAgent]:
    planner = named_agent(name, checkpoint)
    assert planner is not None
    return planner, NamedAgent("another", planner.shape)


def doctor(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["doctor", "--plan", *arguments])


@pytest.mark.parametrize("name", list(SHAPES))
def test_agent_weights_match_their_classes(name: str) -> None:
    torch = pytest.importorskip("torch")
    from transformers import Qwen3VLForConditionalGeneration

    with torch.device("meta"):
        model: Any = Qwen3VLForConditionalGeneration(published_config(name))
        model.tie_weights()
    shape = agent_shape(published_fields(name))
    assert shape.weights == sum(one.numel() for one in model.parameters())
    assert shape.vision_weights == sum(one.numel() for one in model.model.visual.parameters())
    layers = model.model.language_model
    assert shape.layer_weights == sum(
        one.numel() for part in (layers.layers, layers.norm) for one in part.parameters()
    )


def test_shipped_agents_are_counted_from_their_headers() -> None:
    found = named_agent("tinyworld:critic", checkpoint)
    assert found is not None
    config = json.loads((checkpoint("critic") / "config.json").read_text())
    assert found.shape == agent_shape(config)


def test_known_figures_of_8b() -> None:
    assert CRITIC_8B.kv_bytes_per_token == 147_456
    assert agent_weights(CRITIC_8B, "bf16") / GB == pytest.approx(17.5, abs=0.05)
    assert agent_weights(CRITIC_8B, "8-bit") / GB == pytest.approx(10.6, abs=0.05)
    assert agent_weights(CRITIC_8B, "4-bit") / GB == pytest.approx(7.6, abs=0.1)
    # The same model as files elsewhere: 18 GB, 9.8 GB in 8 bits (all of it), 7.0 in 4 with a vision tower of
    # 16.
    assert CRITIC_8B.image_tokens(1024 * 1024) == 1024 and CRITIC_8B.image_patches(1024 * 1024) == 4096
    assert kv_bytes(CRITIC_8B, 8000) / GB == pytest.approx(1.2, abs=0.05)


def test_work_grows_with_words_images_and_answers() -> None:
    base = agent_work(CRITIC_8B, 500, [1024 * 1024], 500)
    assert agent_work(CRITIC_8B, 900, [1024 * 1024], 500) > base
    assert agent_work(CRITIC_8B, 500, [1024 * 1024] * 2, 500) > base
    assert agent_work(CRITIC_8B, 500, [1024 * 1024], 2000) > base
    # What is larger than an agent is shown costs no more, unless it is shown more.
    assert agent_work(CRITIC_8B, 500, [4096 * 4096], 500) == base
    assert agent_work(CRITIC_8B, 500, [4096 * 4096], 500, largest=2048 * 2048) > base
    assert agent_work(CRITIC_8B, 500, [1024 * 1024] * 5, 500) > agent_work(
        CRITIC_8B, 500, [1024 * 1024] * 4, 500
    )


@pytest.mark.parametrize("name", [*KNOWN, "tinyworld"])
def test_larger_gpu_fits_at_least_as_much_and_larger_image_at_most(name: str) -> None:
    planner, critic = two_agents()
    shape = named_image_model(name, checkpoint)
    small = plan_memory(shape, planner, critic, (512, 512))
    large = plan_memory(shape, planner, critic, (2048, 2048))
    for plan in (small, large):
        for row, _ in enumerate(COMBINATIONS):
            ways = [ORDER.index(card.fits[row].arrangement) for card in plan.cards]
            assert ways == sorted(ways, reverse=True)
    for card, other in zip(small.cards, large.cards, strict=True):
        for fit, bigger in zip(card.fits, other.fits, strict=True):
            assert ORDER.index(fit.arrangement) <= ORDER.index(bigger.arrangement)


@pytest.mark.parametrize("name", list(KNOWN))
def test_lower_precision_never_needs_more_and_moving_more_never_peaks_higher(name: str) -> None:
    plan = plan_memory(named_image_model(name, checkpoint), *two_agents())
    for arrangement in WHAT_MOVES:
        peaks = {pair: max(moments(parts, arrangement).values()) for pair, parts in plan.parts.items()}
        for image in ("bf16", "fp8"):
            # At the same work: what 8 and 4 bits need to unpack is far less than what they save.
            assert peaks[f"4-bit + {image}"] <= peaks[f"8-bit + {image}"] <= peaks[f"bf16 + {image}"]
    for parts in plan.parts.values():
        peaks = [max(moments(parts, arrangement).values()) for arrangement in WHAT_MOVES]
        assert peaks == sorted(peaks, reverse=True)


def test_models_in_vram_at_each_moment() -> None:
    parts = plan_memory(KNOWN["flux2-klein-4b"], *two_agents()).parts["bf16 + bf16"]
    weights = {part.name: part.weights for part in parts}
    work = {part.name: 1.1 * part.work for part in parts}
    image = weights["denoiser"] + weights["encoder"] + weights["vae"]
    assert moments(parts, "together")["critic"] == pytest.approx(sum(weights.values()) + work["critic"])
    first = moments(parts, "planner first")
    assert first["planner"] == pytest.approx(weights["planner"] + work["planner"])
    assert first["vae"] == pytest.approx(weights["critic"] + image + work["vae"])
    turns = moments(parts, "in turns")
    assert turns["critic"] == pytest.approx(weights["critic"] + work["critic"])
    assert turns["denoiser"] == pytest.approx(image + work["denoiser"])
    apart = moments(parts, "part by part")
    assert apart["encoder"] == pytest.approx(weights["encoder"] + work["encoder"])
    assert apart["denoiser"] == pytest.approx(weights["denoiser"] + work["denoiser"])


def test_planner_and_critic_that_are_one_model_count_once() -> None:
    planner, other = two_agents()
    apart = plan_memory(KNOWN["sdxl"], planner, other).cards[3].fits[0]
    one = plan_memory(KNOWN["sdxl"], planner, planner).cards[3].fits[0]
    assert apart.arrangement == one.arrangement == "together"
    assert apart.peak - one.peak == pytest.approx(agent_weights(planner.shape, "bf16"))


def test_remote_models_need_no_vram() -> None:
    assert named_image_model("https://somewhere") is named_image_model("images:a@https://somewhere") is None
    plan = plan_memory(named_image_model("http:somewhere"), named_agent("openai:big@url"), two_agents()[0])
    assert [part.name for part in plan.parts["bf16 + bf16"]] == ["critic"]
    assert plan.generator == plan.planner == "not on this GPU"


def test_plan_that_does_not_fit_shows_missing_memory_and_suggestions() -> None:
    plan = plan_memory(KNOWN["qwen-image-edit"], *two_agents())
    smallest = plan.cards[0]
    assert smallest.finest is None and smallest.steady is None and smallest.lower
    assert all(
        fit.short == pytest.approx(fit.peak - smallest.usable) and fit.short > 0 for fit in smallest.fits
    )
    agent = plan_memory(None, *two_agents("qwen3-vl-32b")).cards[0]
    assert "qwen3-vl-4b" in agent.lower[0]
    huge = plan_memory(KNOWN["sd15"], None, None, (8192, 8192)).cards[0]
    assert "(size)" in huge.lower[0]


def test_folder_file_and_known_name_agree(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file

    tiny = named_image_model("tinyworld", checkpoint)
    assert tiny is not None and tiny == named_image_model(str(checkpoint("generator")))
    weights = {part: count for part, count in tiny.weights.items() if count}
    assert weights.keys() == {"denoiser", "encoder", "vae"}
    save_file({"a.weight": torch.zeros(10, 10, dtype=torch.float16)}, str(tmp_path / "x.safetensors"))
    with pytest.raises(SettingsError, match="100 weights, which matches no known image model"):
        named_image_model(str(tmp_path / "x.safetensors"))


def test_a_single_file_is_known_by_its_weights(tmp_path: Path) -> None:
    path = tmp_path / "mine.safetensors"
    size = 3_875_544_576
    header = {"double.weight": {"dtype": "F8_E4M3", "shape": [size], "data_offsets": [0, size]}}
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + size)  # its zeros take no room on the disk
    found = named_image_model(str(path))
    assert found is not None and found.encoder == KNOWN["flux2-klein-4b"].encoder
    assert "flux2-klein-4b" in found.name


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "Unknown image model 'nothing'"),
        (["sdxl", "--critic", "nobody"], "nobody"),
        (["sdxl", "--size", "big"], "WIDTHxHEIGHT"),
    ],
)
def test_invalid_plan_arguments_give_a_one_line_error(arguments: list[str], message: str) -> None:
    result = doctor(*arguments)
    assert result.exit_code != 0
    assert message in result.output and len(result.output.strip().splitlines()) == 1


def test_command_prints_a_table_and_json() -> None:
    table = doctor("flux2-klein-4b").output
    assert "24 GB" in table and "planner first" in table and "missing" not in table
    shown = json.loads(doctor("qwen-image-edit", "--size", "768x1344", "--json").output)
    assert shown["size"] == [768, 1344] and [gpu["card"] for gpu in shown["cards"]] == [12, 16, 24, 48, 80]
    assert shown["cards"][0]["finest"] is None and shown["cards"][-1]["finest"]["arrangement"]
    assert "does not fit" in doctor("qwen-image-edit").output
