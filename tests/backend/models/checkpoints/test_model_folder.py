"""Untrusted model folders: code, pickles, foreign indices and impossible sizes are rejected."""

from __future__ import annotations

import json
import pickle
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.tiny_pipelines import stable_diffusion

from interleave_thinker import ChatError, SettingsError, open_generator
from interleave_thinker.backend.models.checkpoints.checkpoint import (
    check_adapter,
    check_checkpoint,
    find_checkpoint,
)
from interleave_thinker.backend.models.checkpoints.model_folder import check_pattern, check_patterns
from interleave_thinker.backend.models.generators.pipelines.folder import pipeline_class
from interleave_thinker.tinyworld import checkpoint


@pytest.fixture
def agent(tmp_path: Path) -> Path:
    return Path(shutil.copytree(checkpoint("critic"), tmp_path / "agent"))


@pytest.fixture
def adapter(tmp_path: Path) -> Path:
    from safetensors.torch import save_file
    from torch import ones

    folder = tmp_path / "adapter"
    folder.mkdir()
    (folder / "adapter_config.json").write_text(
        '{"peft_type": "LORA", "r": 4, "megatron_core": "megatron.core"}'
    )
    save_file({"base_model.model.q_proj.lora_A.weight": ones(4, 8)}, folder / "adapter_model.safetensors")
    return folder


def change(path: Path, **fields: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def test_a_module_that_shadows_a_library_is_not_run(tmp_path: Path) -> None:
    folder, ran = stable_diffusion(tmp_path / "model"), tmp_path / "ran"
    index = json.loads((folder / "model_index.json").read_text())
    assert index["text_encoder"] == ["transformers", "CLIPTextModel"]
    (folder / "text_encoder" / "transformers.py").write_text(
        f"open({str(ran)!r}, 'w')\nCLIPTextModel = None\n"
    )
    with pytest.raises(SettingsError, match="contains code"):
        open_generator(f"diffusers:{folder}", steps=1)
    assert not ran.exists()


@pytest.mark.parametrize("version", ["0.37.1"])
def test_a_library_must_not_run_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    import diffusers

    folder = stable_diffusion(tmp_path / "model")
    monkeypatch.setattr(diffusers, "__version__", version)
    with pytest.raises(SettingsError, match=r"0\.38"):
        open_generator(f"diffusers:{folder}", steps=1)


@pytest.mark.parametrize("name", ["sub/deep/x.py", "X.PY", "x.so"])
def test_code_anywhere_in_the_folder(agent: Path, adapter: Path, name: str) -> None:
    for folder in (agent, adapter):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")
    with pytest.raises(ChatError, match="contains code"):
        find_checkpoint(str(agent))
    with pytest.raises(ChatError, match="contains code"):
        check_adapter(adapter)
    with pytest.raises(SettingsError, match="contains code"):
        pipeline = Path(shutil.copytree(checkpoint("generator"), agent.parent / "pipeline"))
        (pipeline / name).parent.mkdir(parents=True, exist_ok=True)
        (pipeline / name).write_text("")
        open_generator(f"tinyworld:{pipeline}")


def test_code_behind_a_link_and_loops_of_links(agent: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (agent / "linked").symlink_to(tmp_path / "elsewhere")
    find_checkpoint(str(agent))
    (tmp_path / "elsewhere" / "x.py").write_text("")
    with pytest.raises(ChatError, match="contains code"):
        find_checkpoint(str(agent))
    (tmp_path / "elsewhere" / "x.py").unlink()
    (tmp_path / "elsewhere" / "again").symlink_to(agent)
    with pytest.raises(ChatError, match="nested more than"):
        find_checkpoint(str(agent))


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.PKL"])
def test_pickles_instead_of_weights(agent: Path, tmp_path: Path, name: str) -> None:
    pickled = pickle.dumps({"weights": 1})
    # A file that a trainer leaves next to the weights is not read.
    (agent / "training_args.bin").write_bytes(pickled)
    find_checkpoint(str(agent))
    (agent / "training_args.bin").unlink()
    (agent / "model.safetensors").unlink()
    (agent / name).write_bytes(pickled)
    with pytest.raises(ChatError, match="pickles"):
        find_checkpoint(str(agent))
    pipeline = stable_diffusion(tmp_path / "pipeline")
    (pipeline / "unet" / "diffusion_pytorch_model.safetensors").rename(pipeline / "unet" / name)
    with pytest.raises(SettingsError, match="pickles"):
        pipeline_class(pipeline)


@pytest.mark.parametrize("shard", ["../agent/model.safetensors", "/etc/passwd", "model.bin", 3])
def test_index_of_weights_in_another_folder(tmp_path: Path, shard: Any) -> None:
    folder = stable_diffusion(tmp_path / "model")
    index = folder / "unet" / "diffusion_pytorch_model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": shard}}))
    with pytest.raises(SettingsError, match="lacks the weight file"):
        pipeline_class(folder)


@pytest.mark.parametrize(
    "fields",
    [
        {"hidden_size": 10**9},
        {"num_hidden_layers": 100_000},
        {"vocab_size": 10**12},
        {"num_attention_heads": 10**7, "head_dim": 10**7},
        {"hidden_size": 9000, "num_hidden_layers": 200},
        {"norm_num_groups": 10**9},
    ],
)
def test_a_configuration_larger_than_the_weights(agent: Path, fields: dict[str, int]) -> None:
    config = json.loads((agent / "config.json").read_text())
    change(agent / "config.json", text_config={**config["text_config"], **fields})
    with pytest.raises(ChatError, match=r"config\.json"):
        find_checkpoint(str(agent))


def test_processor_that_enlarges_images(agent: Path) -> None:
    for name in ("preprocessor_config.json", "processor_config.json"):
        before = (agent / name).read_text() if (agent / name).exists() else None
        (agent / name).write_text(json.dumps({"size": {"shortest_edge": 10**12, "longest_edge": 10**13}}))
        with pytest.raises(ChatError, match="shortest_edge"):
            find_checkpoint(str(agent))
        (agent / name).unlink() if before is None else (agent / name).write_text(before)


@pytest.mark.parametrize("fields", [{"r": 10**9}, {"rank_pattern": {"q_proj": 10**9}}])
def test_adapters_with_more_rank_than_weights(adapter: Path, fields: dict[str, Any]) -> None:
    check_adapter(adapter)
    change(adapter / "adapter_config.json", **fields)
    with pytest.raises(ChatError):
        check_adapter(adapter)


@pytest.mark.parametrize(
    "fields",
    [
        {"unet": ["diffusers"]},
        {"unet": {"library": "diffusers"}},
        {"unet": ["os", "system"]},
        {"unet": ["diffusers", "../x"]},
        {"../unet": ["diffusers", "UNet2DConditionModel"]},
        {"_class_name": ["diffusers", "StableDiffusionPipeline"]},
        {"_class_name": "NoSuchPipeline"},
    ],
)
def test_indices_of_other_shapes(tmp_path: Path, fields: dict[str, Any]) -> None:
    folder = stable_diffusion(tmp_path / "model")
    change(folder / "model_index.json", **fields)
    with pytest.raises(SettingsError):
        pipeline_class(folder)


# Patterns and folders of other trainers


SHARD = "model_world_size_8_rank_0.pt"


@pytest.mark.parametrize(
    ("file", "trainer", "converts"),
    [
        (f"actor/{SHARD}", "verl or EasyR1", "--local_dir {}/actor"),
        (f"global_step_9/actor/{SHARD}", "verl or EasyR1", "--local_dir {}/global_step_9/actor"),
        ("zero_to_fp32.py", "DeepSpeed ZeRO", "zero_to_fp32 {} "),
        ("global_step9/zero_pp_rank_0_mp_rank_00_optim_states.pt", "DeepSpeed ZeRO", "zero_to_fp32 {} "),
        ("pytorch_model_fsdp_0/__0_0.distcp", "FSDP", "merge-weights {}/pytorch_model_fsdp_0 "),
        ("__0_0.distcp", "FSDP", "merge-weights {} "),
    ],
)
def test_a_foreign_folder_is_rejected(file: str, trainer: str, converts: str, tmp_path: Path) -> None:
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text("{}")
    for check in (lambda path: find_checkpoint(str(path), untested=True), check_adapter):
        with pytest.raises(ChatError, match=trainer) as error:
            check(tmp_path)
        assert converts.format(tmp_path) in error.value.hint


def test_a_folder_of_weights_is_not_one_of_another_trainer(tmp_path: Path) -> None:
    (tmp_path / "global_stepper").mkdir()
    with pytest.raises(ChatError, match=r"no config\.json"):
        find_checkpoint(str(tmp_path), untested=True)


PLAIN = [
    "lm_head",
    "model.visual",
    "re:.*lm_head",
    r"re:.*layers\.\d+\.mlp\.experts\..*",
    "(?:q_proj|k_proj|v_proj)",
    "-:.*visual.*",
    "re:.*mlp.gate$",
    r"model\.layers\.\d+\.q_proj|model\.layers\.\d+\.v_proj",
    "2024-01-01",
    r"(?:.*\.)?layers\.(?:" + "|".join(map(str, range(64))) + r")\.(?:self_attn|mlp)\.(?:q|k|v|o)_proj",
    "|".join(f"layers.{number}.mlp.?" for number in range(1000)),
]
HOSTILE = [
    "(.+)+Z", "(?:a?a?){30}Z", ".*.*.*.*.*.*Z", r"\w+\w+\w+\w+\w+Z", r"\d+\d+\d+Z", "(?:.*|x)" * 10 + "Z",
    "(a|a)" * 40 + "Z", "a" * 30_000, ".?" * 45 + "Z", "(.|.|.|.|.|.|.)" * 12 + "Z", "(?x:(.+) *)Z",
]  # fmt: skip


@pytest.mark.parametrize("pattern", PLAIN)
def test_a_plain_pattern_passes(pattern: str) -> None:
    check_pattern(pattern, ChatError, "here")
    re.compile(pattern)


@pytest.mark.parametrize("pattern", HOSTILE)
def test_pattern_that_could_take_forever_is_rejected(pattern: str) -> None:
    with pytest.raises(ChatError, match="take forever"):
        check_pattern(pattern, ChatError, "here")


@pytest.mark.parametrize("place", ["list", "key", "text_config"])
def test_patterns_of_a_configuration_are_checked(place: str, agent: Path) -> None:
    pattern, folder = HOSTILE[0], agent
    config = json.loads((folder / "config.json").read_text())
    part = config["text_config"] if place == "text_config" else config
    skipped: object = {pattern: {}} if place == "key" else [pattern]
    part["quantization_config"] = {"quant_method": "bitsandbytes", "llm_int8_skip_modules": skipped}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ChatError, match="take forever"):
        check_checkpoint(folder)


def test_too_many_patterns_together_are_rejected() -> None:
    check_patterns([f"layers.{number}.mlp" for number in range(5000)], ChatError, "here")
    check_patterns([rf"re:.*layers\.{number}\.mlp.*" for number in range(500)], ChatError, "here")
    with pytest.raises(ChatError, match="too many patterns"):
        check_patterns([f".*.*.*{number}" for number in range(1000)], ChatError, "here")
