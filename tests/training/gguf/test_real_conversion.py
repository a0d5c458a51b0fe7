"""A tiny critic in GGUF, made by llama.cpp's own converter and answered by its own server.

It runs if both are where the product looks for them; LLAMA_CONVERTER and LLAMA_CONVERTER_PYTHON may name the
converter and a Python that has its packages.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.cli_calls import call
from support.llama_models import need_server
from support.tiny_checkpoint import build_checkpoint, teach_verdicts

from interleave_thinker.backend.core.errors import SettingsError
from interleave_thinker.training.trainer.gguf import CONVERTER, find_program

WRAPPER = """
import sys
sys.path[:0] = [{folder!r}, {folder!r} + "/gguf-py"]
from conversion.base import TextModel
TextModel.get_vocab_base_pre = lambda self, tokenizer: "gpt-2"
import convert_hf_to_gguf
convert_hf_to_gguf.main()
"""
"""The converter recognizes tokenizers by a table, which does not contain one learned from two sentences."""


def test_a_converted_critic_gives_the_same_verdicts(tmp_path: Path) -> None:
    need_server()
    try:
        converter = find_program(CONVERTER, os.environ.get("LLAMA_CONVERTER"))
    except SettingsError as error:
        pytest.skip(f"needs llama.cpp's converter: {error.message} Set LLAMA_CONVERTER to its path.")
    wrapper = tmp_path / "convert.py"
    wrapper.write_text(WRAPPER.format(folder=str(converter.parent)))
    critic = build_checkpoint(tmp_path / "critic", patch=8, merge=2)
    assert teach_verdicts(critic) < 0.05
    python = os.environ.get("LLAMA_CONVERTER_PYTHON")
    result = call(
        *("train", "merge", "--model", critic, "--to", "gguf", "--out", tmp_path / "mine"),
        *("--set", f"converter={wrapper}", *(("--set", f"converter_python={python}") if python else ())),
        *("--set", "gpu_layers=0"),
    )
    assert result.exit_code == 0, result.output
    assert "4 of 4 answers mean the same" in result.output
