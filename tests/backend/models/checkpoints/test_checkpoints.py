"""Checkpoint and adapter folders: digests by content, and clear errors for invalid folders."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from interleave_thinker import ChatError, SettingsError, open_chat
from interleave_thinker.backend.models.checkpoints import checkpoint as checkpoints
from interleave_thinker.backend.models.checkpoints.checkpoint import checkpoint_digest, find_checkpoint
from interleave_thinker.backend.models.checkpoints.model_folder import (
    MAX_HEADER,
    check_safetensors,
    tensors_of,
)


@pytest.mark.parametrize("whole", [checkpoints.HASHED_WHOLE, 1000], ids=["whole", "sampled"])
def test_the_identity(checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: int) -> None:
    monkeypatch.setattr(checkpoints, "HASHED_WHOLE", whole)
    copy = shutil.copytree(checkpoint, tmp_path / "copy")
    assert checkpoint_digest(copy) == checkpoint_digest(checkpoint)
    weights = bytearray((copy / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (copy / "model.safetensors").write_bytes(weights)
    assert checkpoint_digest(copy) != checkpoint_digest(checkpoint)


@pytest.mark.parametrize(
    ("whole", "digests"), [(1000, ["228e8fb781e91903"] * 2), (100, ["9a51e8f9d4f464c2", "9f50fb7cc501aa09"])]
)
def test_digests_are_those_of_stored_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: int, digests: list[str]
) -> None:
    """Other digests would lose the replies and images of runs that can be resumed."""
    monkeypatch.setattr(checkpoints, "SAMPLE_BYTES", 16)
    weights = tmp_path / "m.safetensors"
    weights.write_bytes((40).to_bytes(8, "little") + b"{" + b" " * 40 + bytes(range(256)) * 3)
    found = []
    for skip in (8, 0):
        made = hashlib.blake2b(digest_size=8)
        checkpoints.add_content(made, weights, "m", whole, skip)
        found.append(made.hexdigest())
    assert found == digests


def damaged(checkpoint: Path, folder: Path, kind: str) -> Path:
    copy = shutil.copytree(checkpoint, folder / kind)
    weights = copy / "model.safetensors"
    if kind == "empty":
        shutil.rmtree(copy)
        copy.mkdir()
    elif kind == "pickle":
        weights.rename(copy / "pytorch_model.bin")
    elif kind == "no shard":
        weights.unlink()
        index = {"weight_map": {"a": "model-1.safetensors"}}
        (copy / "model.safetensors.index.json").write_text(json.dumps(index))
    elif kind == "shard outside":
        index = {"weight_map": {"a": "../tiny/model.safetensors"}}
        (copy / "model.safetensors.index.json").write_text(json.dumps(index))
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
        ("no shard", "lacks the weight file 'model-1.safetensors'"),
        ("shard outside", "lacks the weight file"),
        ("cut weights", "model|tiny|cut"),
        ("lacking weights", "lacks 3 weights"),
        ("no processor", "image processor"),
    ],
)
def test_damaged_checkpoints_are_rejected(checkpoint: Path, tmp_path: Path, kind: str, said: str) -> None:
    with pytest.raises(ChatError, match=said):
        open_chat(f"transformers:{damaged(checkpoint, tmp_path, kind)}", device="cpu")


def test_missing_checkpoint_is_not_downloaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(ChatError, match="Cannot find the checkpoint folder"):
        find_checkpoint(str(tmp_path / "nowhere"))
    with pytest.raises(ChatError, match="allow the download"):
        find_checkpoint("nobody/no-such-model-here")


def test_bad_options_are_rejected(checkpoint: Path, adapters: tuple[Path, Path], tmp_path: Path) -> None:
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


# Weight files


def laid_out(header: dict[str, Any] | bytes, content: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + content


def tensor(shape: list[int], begin: int, end: int, dtype: str = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


WHOLE = {"a": tensor([2, 3], 0, 24), "b": tensor([], 24, 28), "__metadata__": {"format": "pt"}}


def test_weights_are_counted_by_name(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(laid_out(WHOLE, bytes(28)))
    assert tensors_of(path) == tensors_of(tmp_path) == {"a": 6, "b": 1}
    check_safetensors(path)


@pytest.mark.parametrize(
    "content",
    [
        laid_out(WHOLE, bytes(27)),
        b"",
        laid_out({"a": tensor([10**12, 10**12], 0, 24)}, bytes(24)),
        laid_out(b"{" + b"[" * 100_000),
        laid_out(b"{" + b" " * MAX_HEADER + b"}"),
        (2**60).to_bytes(8, "little") + b"{}",
    ],
)
def test_a_truncated_or_inconsistent_file_gives_a_one_line_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    with pytest.raises(ChatError, match="damaged or incomplete") as error:
        check_safetensors(path)
    assert len(str(error.value).splitlines()) == 1 and "model.safetensors" in str(error.value)
    with pytest.raises(SettingsError, match="damaged or incomplete"):
        tensors_of(path)
