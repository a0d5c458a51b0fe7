"""Training commands without the training libraries: one line names the missing one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from interleave_thinker.backend.core.answers.reading import write_verdict
from interleave_thinker.backend.core.types import Verdict

LIBRARIES = ("trl", "peft", "accelerate", "datasets", "tensorboard", "bitsandbytes")
FAR_SIDE = """
import contextlib, io, json, sys
sys.path[:0] = [sys.argv[1]]
for name in json.loads(sys.argv[2]):
    sys.modules[name] = None
import conftest
from interleave_thinker.cli import main
for arguments in json.loads(sys.argv[3]):
    sys.argv = ["interleave-thinker", *arguments]
    out, err, code = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = end.code
        except BaseException as error:
            code = repr(error)
    print(json.dumps([code, out.getvalue(), err.getvalue()]))
"""
SFT = ["--data", "sft.json", "--model", "tinyworld:critic"]
GRPO = ["--data", "rl.jsonl", "--model", "tinyworld:critic", "--generator", "fake"]
GRPO += ["--scorer", "tinyworld"]
COMMANDS = {
    "critic-sft": [*SFT, "--out", "made/2"],
    "critic-sft, QLoRA": [*SFT, "--lora-r", "4", "--load-in-4bit", "--out", "made/4"],
    "critic-grpo": [*GRPO, "--out", "made/5"],
    "merge": ["--model", "tinyworld:critic", "--adapter", "adapter", "--out", "made/6"],
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[object, str, str, Path]]:
    """Run all commands; return the exit code, output and error of each, and their folder."""
    folder = tmp_path_factory.mktemp("bare")
    Image.new("RGB", (32, 32)).save(folder / "a.png")
    answer = write_verdict(Verdict(success=True, refined_prompt="b", reasoning="so"))
    asked = {"role": "user", "content": "<image><image>?"}
    rows = [{"messages": [asked, {"role": "assistant", "content": answer}], "images": ["a.png", "a.png"]}]
    (folder / "sft.json").write_text(json.dumps(rows * 4))
    truth = {"success": False, "semantics": 3, "quality": 3}
    row = {"origin_prompt": "a boat", "edited_image_path": "a.png", "evaluation": truth}
    (folder / "rl.jsonl").write_text(json.dumps(row) + "\n")
    (folder / "adapter").mkdir()
    calls = [["train", name.partition(",")[0], *arguments] for name, arguments in COMMANDS.items()]
    given = [str(Path(__file__).parents[1]), json.dumps(LIBRARIES), json.dumps(calls)]
    done = subprocess.run(
        [sys.executable, "-c", FAR_SIDE, *given], capture_output=True, text=True, cwd=folder, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    return {name: (*one, folder) for name, one in zip(COMMANDS, answers, strict=True)}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_missing_library_is_named(name: str, results: dict[str, tuple[object, str, str, Path]]) -> None:
    code, out, error, folder = results[name]
    assert code == 2, (code, out, error)
    assert error.startswith("Error: ") and error.count("\n") == 1, error
    assert "pip install" in error and "training" in error and "not installed" in error
    assert ("peft" if name == "merge" else "trl") in error
    assert name != "critic-sft, QLoRA" or "bitsandbytes" in error
    assert not (folder / "made" / COMMANDS[name][-1]).exists()


def test_no_training_was_started(results: dict[str, tuple[object, str, str, Path]]) -> None:
    folder = next(iter(results.values()))[3]
    assert not list(folder.rglob("training.json"))
