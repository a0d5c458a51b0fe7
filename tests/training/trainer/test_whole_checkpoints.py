"""Incomplete checkpoints are rejected by agents, merging and training with the same message."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from support.short_trainings import SFT
from support.tiny_checkpoint import build_adapter

pytest.importorskip("trl", reason='training needs: pip install ".[training]"')

from interleave_thinker.backend.core.errors import InterleaveError, TrainingError
from interleave_thinker.backend.core.prompts.trained_with import TrainedWith
from interleave_thinker.backend.models.chat import open_chat
from interleave_thinker.backend.models.checkpoints.checkpoint import load_whole
from interleave_thinker.training.trainer.model_loading import load_policy, load_processor
from interleave_thinker.training.trainer.saving import Result, merge, save_trained


@pytest.fixture(scope="module")
def made(base: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return base, build_adapter(base, tmp_path_factory.mktemp("made") / "adapter", 1, 0.5)


def lacking(part: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        file = folder / "model.safetensors"
        kept = {name: value for name, value in load_file(file).items() if part not in name}
        save_file(kept, file, metadata={"format": "pt"})

    return change


def without(*names: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        for name in names:
            (folder / name).unlink()

    return change


def narrower(folder: Path) -> None:
    file = folder / "model.safetensors"
    cut = {name: value[:-1] if "up_proj" in name else value for name, value in load_file(file).items()}
    save_file(cut, file, metadata={"format": "pt"})


def deeper(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    config["text_config"]["num_hidden_layers"] = 3
    config["text_config"].pop("layer_types", None)
    (folder / "config.json").write_text(json.dumps(config))


DAMAGED: dict[str, tuple[Callable[[Path], None], str]] = {
    "a layer's weights": (lacking("layers.1.mlp"), "lacks 3 weights"),
    "one layer more": (deeper, "lacks 11 weights"),
    "narrower": (narrower, "size|mismatch|shape"),
    "no chat template": (without("chat_template.jinja"), "not have a chat template"),
    "no processor": (without("processor_config.json"), "image processor"),
    "no tokenizer": (without("tokenizer.json", "tokenizer_config.json"), "tokenizer"),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_an_incomplete_checkpoint_is_rejected(kind: str, made: tuple[Path, Path], tmp_path: Path) -> None:
    change, said = DAMAGED[kind]
    base, adapter = made
    folder = shutil.copytree(base, tmp_path / "base")
    change(folder)
    uses: list[Callable[[], Any]] = [
        lambda: open_chat(f"transformers:{folder}", device="cpu"),
        lambda: load_policy(folder, SFT),
        lambda: merge(folder, adapter, tmp_path / "merged"),
    ]
    found: list[InterleaveError] = []
    for use in uses:
        with pytest.raises(InterleaveError, match=said) as error:
            use()
        found.append(error.value)
    assert len({str(error) for error in found}) == 1 or kind == "narrower"
    assert found[0].hint or kind == "narrower"
    assert not (tmp_path / "merged").exists()


def test_merging_a_full_fine_tuning_raises_an_explanation(made: tuple[Path, Path], tmp_path: Path) -> None:
    base, _ = made
    with pytest.raises(InterleaveError, match=r"not an adapter.*full checkpoint"):
        merge(base, base, tmp_path / "merged")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "modules.json").symlink_to("gone")
    with pytest.raises(InterleaveError, match=r"no adapter_config\.json"):
        merge(base, tmp_path / "empty", tmp_path / "merged")


@pytest.fixture
def small_files(made: tuple[Path, Path]) -> Iterator[None]:
    """A full disk in the middle of the base's weights."""
    resource: Any = pytest.importorskip("resource")
    size = (made[0] / "model.safetensors").stat().st_size
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size // 2, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.usefixtures("small_files")
def test_a_full_disk_while_merging_raises_and_leaves_nothing(made: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"merged' cannot be written.*large"):
        merge(*made, tmp_path / "merged")
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("small_files")
def test_a_full_disk_while_saving_a_training_raises(made: tuple[Path, Path], tmp_path: Path) -> None:
    model = load_whole(made[0], dtype=torch.float32)
    accelerator = SimpleNamespace(is_main_process=True, wait_for_everyone=int)
    trainer = SimpleNamespace(accelerator=accelerator, save_model=model.save_pretrained)
    with pytest.raises(TrainingError, match=r"final' cannot be written.*large"):
        save_trained(trainer, load_processor(made[0]), tmp_path / "final", Result(TrainedWith("run"), "none"))
    assert not (tmp_path / "final").exists()
