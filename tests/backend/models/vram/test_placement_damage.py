"""Damaged and hostile files in the memory plan: each is one error, never a hang or a traceback."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from interleave_thinker.backend.core.errors import ChatError, SettingsError
from interleave_thinker.backend.models.checkpoints.checkpoint import check_safetensors, read_json
from interleave_thinker.backend.models.vram.models import named_agent, named_image_model
from interleave_thinker.cli import app
from interleave_thinker.tinyworld import checkpoint


def doctor(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["doctor", "--plan", *arguments])


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
        {"vision_config": []},
        {"text_config:hidden_size": "wide"},
        {"text_config:num_hidden_layers": -3},
        {"text_config:num_hidden_layers": 0},
        {"text_config:hidden_size": 10**400},
        {"vision_config:spatial_merge_size": 0},
        {"vision_config:deepstack_visual_indexes": None},
    ],
)
def test_an_invalid_agent_configuration_gives_a_one_line_error(
    tmp_path: Path, change: dict[str, Any]
) -> None:
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
        ("transformer/config.json", {"_class_name": ["x"]}),
        ("text_encoder/config.json", {"text_config": [1]}),
        ("codec/config.json", {"channels": float("inf")}),
    ],
)
def test_an_invalid_pipeline_configuration_gives_a_one_line_error(
    tmp_path: Path, file: str, change: dict[str, Any]
) -> None:
    folder = edited("generator", tmp_path / "pipeline", file, change)
    result = doctor(folder, "--planner", "qwen3-vl-2b")
    assert result.exit_code != 0 and isinstance(result.exception, SystemExit)
    assert folder in result.output and len(result.output.strip().splitlines()) == 1


@pytest.mark.parametrize("side", [b"1e400", b"-5", b'"9"', b"9" * 5000, b"[2]"])
def test_a_header_with_false_shapes_raises_one_error(tmp_path: Path, side: bytes) -> None:
    path = tmp_path / "mine.safetensors"
    text = b'{"a": {"dtype": "BF16", "shape": [' + side + b'], "data_offsets": [0, 0]}}'
    path.write_bytes(len(text).to_bytes(8, "little") + text)
    with pytest.raises(SettingsError, match=r"header of .*mine\.safetensors"):
        named_image_model(str(path))


@pytest.mark.parametrize("path", ["x" * 5000, "~nobody-of-this-name/x", "~\0"])
def test_an_invalid_file_name_gives_one_error(path: str) -> None:
    with pytest.raises(SettingsError, match=r"not a valid path|Cannot find the checkpoint"):
        named_agent(path)
    with pytest.raises(SettingsError, match=r"not a valid path|Unknown image model"):
        named_image_model(path)


def test_pipe_as_file_does_not_block(tmp_path: Path) -> None:
    shutil.copytree(checkpoint("critic"), tmp_path / "agent")
    for name in ("config.json", "model.safetensors"):
        (tmp_path / "agent" / name).unlink()
        os.mkfifo(tmp_path / "agent" / name)
        with pytest.raises(SettingsError):
            named_agent(str(tmp_path / "agent"))
        with pytest.raises(ChatError, match="not a regular file"):
            check = read_json if name == "config.json" else check_safetensors
            check(tmp_path / "agent" / name)
        (tmp_path / "agent" / name).unlink()
        shutil.copy(checkpoint("critic") / name, tmp_path / "agent" / name)


@pytest.mark.parametrize("reserve", ["inf", "nan", "-1", "1e300"])
def test_an_impossible_reserve_is_a_usage_error(reserve: str) -> None:
    assert doctor("sd15", "--reserve", reserve).exit_code == 2
