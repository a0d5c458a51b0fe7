"""Patterns in untrusted files: those that could take forever to match are rejected."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from support.tiny_checkpoint import build_checkpoint

from interleave_thinker.backend.core.errors import ChatError
from interleave_thinker.backend.models.checkpoints.checkpoint import check_checkpoint
from interleave_thinker.backend.models.checkpoints.model_folder import check_pattern, check_patterns

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
    "(.+)+Z",
    "(a|a)*Z",
    "(a*)*Z",
    "(?:a?a?){30}Z",
    ".*.*.*.*.*.*Z",
    r"\w+\w+\w+\w+\w+Z",
    r"\d+\d+\d+Z",
    "(?:.*|x)" * 10 + "Z",
    "(a|a)" * 40 + "Z",
    "a" * 30_000,
    ".?" * 45 + "Z",
    "(||||||||)" * 12 + "Z",
    "(.|.|.|.|.|.|.)" * 12 + "Z",
    "(?x:(.+) *)Z",
]


@pytest.mark.parametrize("pattern", PLAIN)
def test_a_plain_pattern_passes(pattern: str) -> None:
    check_pattern(pattern, ChatError, "here")
    re.compile(pattern)


@pytest.mark.parametrize("pattern", HOSTILE)
@pytest.mark.parametrize("place", ["list", "key", "text_config"])
def test_pattern_that_could_take_forever_is_rejected(
    pattern: str, place: str, made: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(made, tmp_path / "copy")
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


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_checkpoint(tmp_path_factory.mktemp("made") / "tiny")
