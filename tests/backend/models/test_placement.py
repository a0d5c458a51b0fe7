"""The memory plan: counts compared with the real classes, rules of what fits, the command's output."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from interleave_thinker.backend.models.vram.models import NamedAgent, named_agent, named_image_model
from interleave_thinker.backend.models.vram.placement import (
    GB,
    agent_weights,
    agent_work,
    kv_bytes,
    moments,
    plan_memory,
)
from interleave_thinker.backend.models.vram.shapes import KNOWN, SHAPES, agent_shape
from interleave_thinker.cli import app
from interleave_thinker.tinyworld import checkpoint

CRITIC_8B = agent_shape(SHAPES["Qwen/Qwen3-VL-8B-Instruct"])


def two_agents(name: str = "qwen3-vl-8b") -> tuple[NamedAgent, NamedAgent]:
    planner = named_agent(name, checkpoint)
    assert planner is not None
    return planner, NamedAgent("another", planner.shape)


def doctor(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["doctor", "--plan", *arguments])


@pytest.mark.parametrize("name", list(SHAPES))
def test_agent_weights_match_their_classes(name: str) -> None:
    torch = pytest.importorskip("torch")
    from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

    with torch.device("meta"):
        model: Any = Qwen3VLForConditionalGeneration(Qwen3VLConfig(**SHAPES[name]))
        model.tie_weights()
    shape = agent_shape(SHAPES[name])
    assert shape.weights == sum(one.numel() for one in model.parameters())
    assert shape.vision_weights == sum(one.numel() for one in model.model.visual.parameters())
    layers = model.model.language_model
    assert shape.layer_weights == sum(
        one.numel() for part in (layers.layers, layers.norm) for one in part.parameters()
    )


def test_models_of_this_package_and_of_other_machines() -> None:
    found, tiny = named_agent("tinyworld:critic", checkpoint), named_image_model("tinyworld", checkpoint)
    assert found is not None and tiny is not None
    config = json.loads((checkpoint("critic") / "config.json").read_text())
    assert found.shape == agent_shape(config), "counted from its headers"
    assert tiny == named_image_model(str(checkpoint("generator")))
    assert {part for part, count in tiny.weights.items() if count} == {"denoiser", "encoder", "vae"}
    assert named_image_model("https://somewhere") is named_image_model("images:a@https://somewhere") is None
    plan = plan_memory(named_image_model("http:somewhere"), named_agent("openai:big@url"), two_agents()[0])
    assert [part.name for part in plan.parts["bf16 + bf16"]] == ["critic"]
    assert plan.generator == plan.planner == "not on this GPU"


def test_known_figures() -> None:
    sizes = [agent_weights(CRITIC_8B, precision) / GB for precision in ("bf16", "8-bit", "4-bit")]
    assert sizes == pytest.approx([17.534, 10.588, 7.549], abs=0.001)
    assert kv_bytes(CRITIC_8B, 8000) / GB == pytest.approx(1.2124, abs=0.0001)
    area = 1024 * 1024
    assert CRITIC_8B.image_tokens(area) == 1024 and CRITIC_8B.image_patches(area) == 4096
    base = agent_work(CRITIC_8B, 500, [area], 500)
    assert agent_work(CRITIC_8B, 500, [4096 * 4096], 500) == base, "a larger image is scaled down"
    for words, images, answer in ((900, 1, 500), (500, 2, 500), (500, 1, 2000)):
        assert agent_work(CRITIC_8B, words, [area] * images, answer) > base
    card = plan_memory(KNOWN["flux2-klein-4b"], *two_agents()).cards[2]
    fits = [(fit.arrangement, round(fit.peak / GB, 1)) for fit in card.fits]
    turns, first = "in turns", "planner first"
    assert fits == [
        *((turns, 19.6), (turns, 19.4), (turns, 19.6), (first, 22.1), (turns, 19.4), (first, 19.0))
    ]
    assert card.finest is card.fits[0] and card.steady is card.fits[3]


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


def test_command_prints_a_table_and_json() -> None:
    table = doctor("flux2-klein-4b").output
    assert "24 GB" in table and "planner first" in table and "missing" not in table
    shown = json.loads(doctor("qwen-image-edit", "--size", "768x1344", "--json").output)
    assert shown["size"] == [768, 1344] and [gpu["card"] for gpu in shown["cards"]] == [12, 16, 24, 48, 80]
    assert shown["cards"][0]["finest"] is None and shown["cards"][-1]["finest"]["arrangement"]
    assert "does not fit" in doctor("qwen-image-edit").output


# Damaged and hostile files


def edited(role: str, folder: Path, file: str, change: dict[str, Any]) -> str:
    """Copy a shipped checkpoint with other fields in a configuration."""
    shutil.copytree(checkpoint(role), folder)
    fields = json.loads((folder / file).read_text())
    for name, value in change.items():
        part, _, field = name.rpartition(":")
        (fields[part] if part else fields)[field] = value
    (folder / file).write_text(json.dumps(fields))
    return str(folder)


@pytest.mark.parametrize(
    "change",
    [
        {"text_config": 5},
        {"text_config:hidden_size": "wide"},
        {"text_config:num_hidden_layers": -3},
        {"text_config:num_hidden_layers": 0},
        {"vision_config:deepstack_visual_indexes": None},
    ],
)
def test_an_invalid_agent_configuration_is_one_line(tmp_path: Path, change: dict[str, Any]) -> None:
    folder = edited("critic", tmp_path / "agent", "config.json", change)
    result = doctor("sd15", "--critic", folder)
    assert result.exit_code != 0 and isinstance(result.exception, SystemExit)
    assert folder in result.output and len(result.output.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("model_index.json", {"x" * 400: ["a", "b"], "../elsewhere": ["a", "b"]}),
        ("transformer/config.json", {"num_attention_heads": -4}),
        ("transformer/config.json", {"block_out_channels": ["x"]}),
        ("codec/config.json", {"channels": float("inf")}),
    ],
)
def test_an_invalid_pipeline_is_one_line(tmp_path: Path, file: str, change: dict[str, Any]) -> None:
    folder = edited("generator", tmp_path / "pipeline", file, change)
    result = doctor(folder, "--planner", "qwen3-vl-2b")
    assert result.exit_code != 0 and isinstance(result.exception, SystemExit)
    assert folder in result.output and len(result.output.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "Unknown image model 'nothing'"),
        (["sdxl", "--critic", "nobody"], "nobody"),
        (["sdxl", "--size", "big"], "WIDTHxHEIGHT"),
        (["sdxl", "--reserve", "nan"], "reserve"),
    ],
)
def test_invalid_plan_arguments_are_reported(arguments: list[str], message: str) -> None:
    result = doctor(*arguments)
    assert result.exit_code != 0 and message in result.output
