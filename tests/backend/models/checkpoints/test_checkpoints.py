"""Checkpoint and adapter folders: digests by content, and clear errors for invalid folders."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path

import pytest
from support import tiny_checkpoint
from support.tiny_checkpoint import PLAIN, question

from interleave_thinker.backend.core.errors import ChatError, SettingsError
from interleave_thinker.backend.models.chat import open_chat
from interleave_thinker.backend.models.checkpoints.checkpoint import checkpoint_digest, find_checkpoint


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_checkpoint.taught_checkpoint(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="module")
def adapters(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return tiny_checkpoint.two_adapters(tmp_path_factory.getbasetemp())


def test_the_identity_follows_the_content(checkpoint: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(checkpoint, tmp_path / "copy")
    assert checkpoint_digest(copy) == checkpoint_digest(checkpoint)
    weights = bytearray((copy / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (copy / "model.safetensors").write_bytes(weights)
    assert checkpoint_digest(copy) != checkpoint_digest(checkpoint)


def test_the_digest_of_large_files_is_sampled(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interleave_thinker.backend.models.checkpoints.checkpoint.HASHED_WHOLE", 1000)
    copy = shutil.copytree(checkpoint, tmp_path / "copy")
    assert checkpoint_digest(copy) == checkpoint_digest(checkpoint)
    weights = bytearray((copy / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (copy / "model.safetensors").write_bytes(weights)
    assert checkpoint_digest(copy) != checkpoint_digest(checkpoint)


def damaged(checkpoint: Path, folder: Path, kind: str) -> Path:
    copy = shutil.copytree(checkpoint, folder / kind)
    weights, config = copy / "model.safetensors", copy / "config.json"
    if kind == "empty":
        shutil.rmtree(copy)
        copy.mkdir()
    elif kind == "pickle":
        weights.rename(copy / "pytorch_model.bin")
    elif kind == "no weights":
        weights.unlink()
    elif kind == "no shard":
        weights.unlink()
        index = {"weight_map": {"a": "model-1.safetensors"}}
        (copy / "model.safetensors.index.json").write_text(json.dumps(index))
    elif kind == "shard outside":
        index = {"weight_map": {"a": "../tiny/model.safetensors"}}
        (copy / "model.safetensors.index.json").write_text(json.dumps(index))
    elif kind == "other model":
        config.write_text(json.dumps({"model_type": "llama"}))
    elif kind == "broken config":
        config.write_text("{")
    elif kind == "cut weights":
        weights.write_bytes(weights.read_bytes()[:-1000])
    elif kind == "lacking weights":
        from safetensors.torch import load_file, save_file

        kept = {name: value for name, value in load_file(weights).items() if "layers.1.mlp" not in name}
        save_file(kept, weights, metadata={"format": "pt"})
    elif kind == "no processor":
        for name in ("processor_config.json", "tokenizer.json", "tokenizer_config.json"):
            (copy / name).unlink()
    return copy


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("empty", "no config.json"),
        ("pickle", "pickles"),
        ("no weights", "no weights"),
        ("no shard", "lacks the weight file 'model-1.safetensors'"),
        ("shard outside", "lacks the weight file"),
        ("other model", "'llama' checkpoint"),
        ("broken config", "not JSON"),
        ("cut weights", "model|tiny|cut"),
        ("lacking weights", "lacks 3 weights"),
        ("no processor", "image processor"),
    ],
)
def test_damaged_checkpoints_are_rejected_with_a_message(
    checkpoint: Path, tmp_path: Path, kind: str, said: str
) -> None:
    with pytest.raises(ChatError, match=said):
        open_chat(f"transformers:{damaged(checkpoint, tmp_path, kind)}", device="cpu")


def test_missing_checkpoint_is_not_downloaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(ChatError, match="Cannot find the checkpoint folder"):
        find_checkpoint(str(tmp_path / "nowhere"))
    with pytest.raises(ChatError, match="allow the download"):
        find_checkpoint("nobody/no-such-model-here")


def test_bad_options_and_adapters_are_rejected(
    checkpoint: Path, adapters: tuple[Path, Path], tmp_path: Path
) -> None:
    spec = f"transformers:{checkpoint}"
    for options in ({"dtype": "int3"}, {"quantization": "2bit"}, {"device": "abacus"}):
        with pytest.raises(SettingsError, match=next(iter(options.values()))):
            open_chat(spec, **options)
    with pytest.raises(ChatError, match="Cannot find the adapter folder"):
        open_chat(spec, device="cpu", adapter=str(tmp_path / "nowhere"))
    bad = shutil.copytree(adapters[0], tmp_path / "bad")
    (bad / "adapter_model.safetensors").rename(bad / "adapter_model.bin")
    with pytest.raises(ChatError, match=r"no adapter_model\.safetensors"):
        open_chat(spec, device="cpu", adapter=str(bad))
    with pytest.raises(ChatError, match="adapter"):
        open_chat(f"transformers:{adapters[0]}", device="cpu")


def test_an_adapter_that_does_not_fit_leaves_the_base_as_it_was(
    checkpoint: Path, adapters: tuple[Path, Path], tmp_path: Path
) -> None:
    from safetensors.torch import load_file, save_file

    spec = f"transformers:{checkpoint}"
    agent = open_chat(spec, device="cpu")
    before = agent.reply(question(240), PLAIN)
    weights = load_file(adapters[0] / "adapter_model.safetensors")
    narrow = {name: value[:, :-1] if "lora_A" in name else value for name, value in weights.items()}
    elsewhere = {name.replace("layers.1", "layers.7"): value for name, value in weights.items()}
    for kind, changed in {"narrow": narrow, "elsewhere": elsewhere, "empty": {}}.items():
        bad = shutil.copytree(adapters[0], tmp_path / kind)
        save_file(
            {name: value.contiguous() for name, value in changed.items()}, bad / "adapter_model.safetensors"
        )
        with pytest.raises(ChatError, match="base model"):
            open_chat(spec, device="cpu", adapter=str(bad))
    biased = shutil.copytree(adapters[0], tmp_path / "biased")
    config = json.loads((biased / "adapter_config.json").read_text()) | {"bias": "all"}
    (biased / "adapter_config.json").write_text(json.dumps(config))
    with pytest.raises(ChatError, match="own weights"):
        open_chat(spec, device="cpu", adapter=str(biased))
    assert agent.reply(question(240), PLAIN) == before


def test_a_missing_library_is_named(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    for library, options in {
        "bitsandbytes": {"quantization": "4bit"},
        "torchvision": {"share": False},
    }.items():
        monkeypatch.setattr(
            importlib.util, "find_spec", lambda name, gone=library: None if name == gone else find(name)
        )
        with pytest.raises(ChatError, match=library):
            open_chat(f"transformers:{checkpoint}", device="cpu", **options)
