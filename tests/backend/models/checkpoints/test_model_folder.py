"""Untrusted model folders: code, pickles, foreign indices and impossible sizes are rejected."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from support import tiny_pipelines
from support.tiny_pipelines import stable_diffusion

from interleave_thinker.backend.core.errors import ChatError, InterleaveError, SettingsError
from interleave_thinker.backend.models.checkpoints.checkpoint import check_adapter, find_checkpoint
from interleave_thinker.backend.models.checkpoints.model_folder import check_files, check_weights
from interleave_thinker.backend.models.generators import open_generator
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


def test_the_library_itself_does_not_run_it(tmp_path: Path) -> None:
    from diffusers.pipelines.pipeline_utils import DiffusionPipeline

    folder, ran = stable_diffusion(tmp_path / "model"), tmp_path / "ran"
    (folder / "text_encoder" / "transformers.py").write_text(
        f"open({str(ran)!r}, 'w')\nfrom transformers import *\nfrom transformers import CLIPTextModel\n"
    )
    with suppress(ValueError):
        DiffusionPipeline.from_pretrained(folder, use_safetensors=True, local_files_only=True)
    assert not ran.exists()


@pytest.mark.parametrize("version", ["0.35.2", "0.37.1"])
def test_library_that_would_run_code_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    import diffusers

    folder = stable_diffusion(tmp_path / "model")
    monkeypatch.setattr(diffusers, "__version__", version)
    with pytest.raises(SettingsError, match=r"0\.38"):
        open_generator(f"diffusers:{folder}", steps=1)


@pytest.mark.parametrize(
    "build",
    [
        stable_diffusion,
        tiny_pipelines.flux2_klein,
        tiny_pipelines.flux_kontext,
        tiny_pipelines.flux_fill,
        tiny_pipelines.qwen_image_edit_plus,
        tiny_pipelines.qwen_image21,
        tiny_pipelines.longcat_image_edit,
        tiny_pipelines.bria_fibo2,
    ],
)
def test_honest_pipelines_pass(tmp_path: Path, build: Callable[[Path], Path]) -> None:
    assert pipeline_class(build(tmp_path / "model"))


@pytest.mark.parametrize(
    "name", ["x.py", "sub/deep/x.py", "X.PY", "__pycache__/x.cpython-311.pyc", "x.so", "sub/x.pyd", "x.dll"]
)
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


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "model.pth", "model.ckpt", "model.PKL"])
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


@pytest.mark.parametrize(
    "shard", ["../agent/model.safetensors", "/etc/passwd", "none.safetensors", "model.bin", 3]
)
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
        {"intermediate_size": 10**9},
        {"num_hidden_layers": 10**9},
        {"num_hidden_layers": 100_000},
        {"vocab_size": 10**12},
        {"num_attention_heads": 10**7, "head_dim": 10**7},
        {"num_key_value_heads": 10**9},
        {"hidden_size": 9000, "num_hidden_layers": 200},
    ],
)
def test_a_configuration_larger_than_the_weights(agent: Path, fields: dict[str, int]) -> None:
    config = json.loads((agent / "config.json").read_text())
    change(agent / "config.json", text_config={**config["text_config"], **fields})
    with pytest.raises(ChatError, match=r"config\.json"):
        find_checkpoint(str(agent))


@pytest.mark.parametrize(
    ("component", "fields"),
    [
        ("unet", {"block_out_channels": [10**9, 32]}),
        ("unet", {"layers_per_block": 10**6}),
        ("unet", {"sample_size": 10**9}),
        ("unet", {"cross_attention_dim": 10**8}),
        ("vae", {"latent_channels": 10**9}),
        ("vae", {"norm_num_groups": 10**9}),
        ("text_encoder", {"hidden_size": 10**9}),
        ("text_encoder", {"vocab_size": 10**10}),
    ],
)
def test_a_component_larger_than_its_weights(tmp_path: Path, component: str, fields: dict[str, Any]) -> None:
    folder = stable_diffusion(tmp_path / "model")
    change(folder / component / "config.json", **fields)
    with pytest.raises(SettingsError, match=r"config\.json"):
        pipeline_class(folder)


def test_processor_that_enlarges_images(agent: Path) -> None:
    for name in ("preprocessor_config.json", "processor_config.json"):
        before = (agent / name).read_text() if (agent / name).exists() else None
        (agent / name).write_text(json.dumps({"size": {"shortest_edge": 10**12, "longest_edge": 10**13}}))
        with pytest.raises(ChatError, match="shortest_edge"):
            find_checkpoint(str(agent))
        (agent / name).unlink() if before is None else (agent / name).write_text(before)


@pytest.mark.parametrize(
    "fields",
    [
        {"r": 10**9},
        {"rank_pattern": {"q_proj": 10**9}},
        {"megatron_config": {"a": 1}},
        {"layer_replication": [[0, 9]]},
    ],
)
def test_adapters_with_more_rank_than_weights(adapter: Path, fields: dict[str, Any]) -> None:
    check_adapter(adapter)
    change(adapter / "adapter_config.json", **fields)
    with pytest.raises(ChatError):
        check_adapter(adapter)


@pytest.mark.parametrize(
    "fields",
    [
        {"unet": [["diffusers"], "UNet2DConditionModel"]},
        {"unet": ["diffusers"]},
        {"unet": ["diffusers", "a", "b"]},
        {"unet": {"library": "diffusers"}},
        {"unet": ["os", "system"]},
        {"unet": ["../x", "UNet"]},
        {"unet": ["diffusers", "../x"]},
        {"../unet": ["diffusers", "UNet2DConditionModel"]},
        {"unet": [[[[]]]]},
        {"_class_name": ["diffusers", "StableDiffusionPipeline"]},
        {"_class_name": {"a": 1}},
    ],
)
def test_indices_of_other_shapes(tmp_path: Path, fields: dict[str, Any]) -> None:
    folder = stable_diffusion(tmp_path / "model")
    change(folder / "model_index.json", **fields)
    with pytest.raises(SettingsError):
        pipeline_class(folder)


def test_an_index_nested_deep_or_with_a_key_twice(tmp_path: Path) -> None:
    folder = stable_diffusion(tmp_path / "model")
    for text in (
        '{"unet": ' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"_class_name": "A", "_class_name": "B"}',
    ):
        (folder / "model_index.json").write_text(text)
        with pytest.raises(SettingsError):
            pipeline_class(folder)


def test_endless_folder(tmp_path: Path) -> None:
    deep = tmp_path / "/".join("d" * 20)
    deep.mkdir(parents=True)
    with pytest.raises(SettingsError, match="nested more than"):
        check_files(tmp_path, SettingsError)


@pytest.mark.skipif(os.name != "posix", reason="pipes of POSIX")
def test_pipe_as_configuration(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "config.json")
    with pytest.raises(InterleaveError, match="not a regular file"):
        check_weights(tmp_path, SettingsError)
