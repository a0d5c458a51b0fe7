"""Peculiarities of Windows and macOS, simulated: consoles, line ends, devices, names of folders."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image
from support.cli_calls import TESTS, Scripts, verdict_reply

from interleave_thinker import Plan, PromptSet, SettingsError, Step
from interleave_thinker.backend.core.answers.reading import write_plan
from interleave_thinker.backend.core.machine import environment
from interleave_thinker.backend.core.prompts.prompt_set import NAMES, default_prompt_set, named_prompt_set

ROOT = next(folder for folder in Path(__file__).parents if (folder / "pyproject.toml").is_file())
FOREIGN = "小船 → 10⁹ ✓ \U0001f6a4"
"""Signs that cp1252, the encoding of a Windows console or pipe in western Europe, does not have."""


WALK = """
import io, json, sys, traceback
sys.path[:0] = [sys.argv[1]]
import conftest
from interleave_thinker.cli import main
calls, folder, encoding = json.loads(sys.argv[2]), sys.argv[3], sys.argv[4]
assert sys.stdout.encoding == encoding, sys.stdout.encoding
for number, arguments in enumerate(calls):
    sys.argv, code = ["interleave-thinker", *arguments], 0
    shown = open(f"{folder}/{number}.txt", "wb")
    sys.stdout = io.TextIOWrapper(shown, encoding=encoding, errors="strict", write_through=True)
    sys.stderr = io.TextIOWrapper(shown, encoding=encoding, errors="backslashreplace", write_through=True)
    try:
        main()
    except SystemExit as end:
        code = end.code or 0
    except BaseException:
        code = 1
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    open(f"{folder}/{number}.code", "w").write(str(code))
"""
"""Calls commands one after another, each with a new output as the interpreter opens it for that console."""


def walked(encoding: str, calls: list[list[object]], folder: Path) -> list[tuple[int, str]]:
    """Return the exit code and the output of every command on a console with this encoding."""
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    shown = folder / "shown"
    shown.mkdir()
    asked = json.dumps([[str(argument) for argument in arguments] for arguments in calls])
    line = [sys.executable, "-c", WALK, str(TESTS), asked, str(shown), encoding]
    done = subprocess.run(line, cwd=folder, env=environment, capture_output=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr.decode(encoding, "replace")
    return [
        (
            int((shown / f"{number}.code").read_text()),
            (shown / f"{number}.txt").read_bytes().decode(encoding, "replace"),
        )
        for number in range(len(calls))
    ]


@pytest.mark.parametrize("encoding", ["cp1252"])
def test_no_command_fails_on_a_console_without_a_character(tmp_path: Path, encoding: str) -> None:
    scripts = Scripts(tmp_path)
    plan = write_plan(
        Plan(steps=(Step(number=1, name=FOREIGN, prompt=f"a {FOREIGN}", auxiliary_text=FOREIGN),))
    )
    planner = scripts.planner(plan)
    critic = scripts.critic(verdict_reply(False, FOREIGN), verdict_reply(True))
    out, page = tmp_path / "out", tmp_path / "page.png"
    Image.new("RGB", (16, 16)).save(page)
    story = [*planner, *critic, "--generator", "fake:16", "--out", out]
    calls: list[list[object]] = [
        ["--help"],
        ["doctor"],
        ["doctor", "--json"],
        ["doctor", "--plan", "tinyworld"],
        ["plan", FOREIGN, *planner],
        ["plan", FOREIGN, *planner, "--json"],
        ["run", FOREIGN, *story],
        ["run", FOREIGN, *story, "--json"],
        ["export", out, "--to", "markdown", "--out", tmp_path / "md"],
    ]
    codes = [0] * len(calls)
    calls += [
        ["export", tmp_path / FOREIGN],
        ["run", FOREIGN, "--planner", f"scripted:{FOREIGN}", *story[2:-1], tmp_path / "new"],
        ["judge", "none", page, FOREIGN, *critic],
    ]
    found = walked(encoding, calls, tmp_path)
    for arguments, (code, shown) in zip(calls[: len(codes)], found, strict=False):
        assert code == 0, f"{arguments}: {shown}"
    assert found[-1][0] == 3 and all(code for code, _ in found[len(codes) :]), found[len(codes) :]
    for arguments, (_, shown) in zip(calls, found, strict=True):
        assert "Traceback" not in shown and "UnicodeEncodeError" not in shown, f"{arguments}: {shown}"
        assert shown.strip(), arguments
    assert FOREIGN in (out / "plan.json").read_text(encoding="utf-8"), (
        "files are UTF-8 wherever they are made"
    )


def test_prompts_that_an_editor_on_windows_has_saved_are_the_same_prompts(tmp_path: Path) -> None:
    own = default_prompt_set()
    own.save(tmp_path / "plain")
    for path in (tmp_path / "plain").iterdir():
        assert b"\r" not in path.read_bytes(), "written alike on every system"
    shutil.copytree(tmp_path / "plain", tmp_path / "windows")
    for path in (tmp_path / "windows").iterdir():
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    read = PromptSet.load(tmp_path / "windows")
    assert read == own and read.digest == own.digest
    for name in NAMES:
        assert "\r" not in named_prompt_set(name).critic


def test_git_does_not_convert_line_ends_or_weights() -> None:
    """Digests cover files of the repository, so git on Windows must not change their line ends."""
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("no checkout")
    asked = ["git", "check-attr", "text", "eol", "--"]
    files = [
        "backend/core/prompts/critic.txt",
        "web/a.js",
        "x/config.json",
        "x/model.safetensors",
        "docs/icon.png",
    ]
    done = subprocess.run([*asked, *files], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    found = [line.split(": ") for line in done.stdout.splitlines()]
    for path, attribute, value in found:
        if attribute == "eol" and not path.endswith((".safetensors", ".png")):
            assert value == "lf", path
        if attribute == "text" and path.endswith((".safetensors", ".png")):
            assert value == "unset", path


def test_file_names_differ_by_more_than_case_and_are_valid_on_windows() -> None:
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("no checkout")
    from interleave_thinker.backend.core.files.atomic import name_fault

    done = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    files = done.stdout.splitlines()
    assert len({path.casefold() for path in files}) == len(files)
    for path in files:
        assert not [part for part in path.split("/") if name_fault(part)], path
        # For example, C:\Users\somebody\Documents\ComfyUI\custom_nodes\interleave-thinker\ has 70 characters.
        assert len(path) < 180, path


@pytest.mark.parametrize(
    "name", ["cuda:99", "mps", "privateuseone", "privateuseone:0", "xpu", "directml", "no such"]
)
def test_a_missing_device_gives_a_one_line_error(name: str) -> None:
    import torch

    if name == "mps" and torch.backends.mps.is_available():
        pytest.skip("it is here")
    with pytest.raises(SettingsError) as raised:
        environment.device_named(name)
    assert repr(name) in str(raised.value) and "\n" not in str(raised.value)


def test_devices_by_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    assert environment.device_named("cpu") == "cpu"
    asked: list[str] = []
    monkeypatch.setattr(torch, "empty", lambda *sizes, device: asked.append(str(device)))
    for name in ("mps", "privateuseone:1", "xpu", "cuda:3"):
        assert environment.device_named(name) == name
    assert asked == ["mps", "privateuseone:1", "xpu", "cuda:3"]
    for cuda, mps, best in ((True, True, "cuda"), (False, True, "mps"), (False, False, "cpu")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda cuda=cuda: cuda)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda mps=mps: mps)
        assert environment.device_named("auto") == best


@pytest.mark.parametrize(("newer", "answer"), [(True, True), (False, False)])
def test_formats_of_devices(monkeypatch: pytest.MonkeyPatch, newer: bool, answer: bool) -> None:
    import torch

    monkeypatch.setattr(torch.backends.mps, "is_macos_or_newer", lambda major, minor: newer)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: newer)
    assert environment.has_bfloat16("mps") is answer and environment.has_bfloat16("cuda:1") is answer
    assert not environment.has_bfloat16("privateuseone:0")
    assert environment.has_bfloat16("xpu")
