"""The command line as a person and as a program meets it: what is printed, what is written, and the exit code."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from small_agents import STORY, Counting, GeneratorError, OnePlan, Verdicts
from typer.testing import CliRunner

from interleave_thinker.backend import tinyworld
from interleave_thinker.backend.journal import load_trajectory
from interleave_thinker.backend.loop import run as run_loop
from interleave_thinker.backend.pictures import Picture
from interleave_thinker.backend.types import Plan, Request, RunSettings
from interleave_thinker.cli import app
from interleave_thinker.cli.lazy import COMMANDS
from interleave_thinker.cli.progress import Lines

TESTS = Path(__file__).parent
ENTRY = "import sys; sys.path[:0] = [sys.argv.pop(1)]; import conftest; from interleave_thinker.cli import main; main()"


def call(*arguments: object) -> Any:
    """Call the command in this process."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def start(*arguments: object) -> subprocess.Popen[str]:
    """Call the command in a process of its own, with pipes."""
    line = [sys.executable, "-c", ENTRY, str(TESTS), *map(str, arguments)]
    # A job that runs in the background ignores Ctrl-C, and so would its children.
    heard = None if sys.platform == "win32" else partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heard)


def plan_reply(plan: Plan) -> str:
    steps = [
        {
            "step_number": step.number,
            "step_name": step.name,
            "instruction": step.instruction,
            "prompt": step.prompt,
            "auxiliary_text": step.auxiliary_text,
        }
        for step in plan.steps
    ]
    return f"<think>steps</think><answer>{json.dumps({'execution_plan': steps})}</answer>"


def verdict_reply(success: bool, prompt: str = "") -> str:
    answer = json.dumps({"previous_step_success": success, "refine_prompt": prompt})
    return f"<think>looked</think><answer>{answer}</answer>"


class Scripts:
    """Files of prepared replies, as options of the command."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def planner(self, *replies: str) -> list[str]:
        return ["--planner", self._write("planner", replies)]

    def critic(self, *replies: str) -> list[str]:
        return ["--critic", self._write("critic", replies)]

    def story(self, *verdicts: bool) -> list[str]:
        critic = self.critic(*(verdict_reply(verdict, "better") for verdict in verdicts))
        return [*self.planner(plan_reply(STORY)), *critic, "--generator", "painted:16"]

    def _write(self, name: str, replies: tuple[str, ...]) -> str:
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps(replies))
        return f"scripted:{path}"


@pytest.fixture
def scripts(tmp_path: Path) -> Scripts:
    return Scripts(tmp_path)


def test_help_lists_every_command() -> None:
    result = call("--help")
    assert result.exit_code == 0
    assert all(name in result.output for name in COMMANDS)
    assert "130" in result.output


@pytest.mark.parametrize("name", ["demo", "run", "plan", "judge", "export", "doctor", "prompts"])
def test_every_command_explains_itself(name: str) -> None:
    if name == "demo" and not hasattr(tinyworld, "DEMO_REQUEST"):
        pytest.skip("the tiny world has no story yet")
    result = call(name, "--help")
    assert result.exit_code == 0, result.output
    assert f" {name} " in result.output


def test_run_tells_a_story_and_says_where_it_is(tmp_path: Path, scripts: Scripts) -> None:
    out = tmp_path / "out"
    result = call("run", "a house", "--out", out, *scripts.story(False, True, True, True))
    assert result.exit_code == 0, result.output
    assert (out / "index.html").is_file()
    trajectory = load_trajectory(out)
    assert [len(step.attempts) for step in trajectory.results] == [2, 0, 1, 1]
    for step in trajectory.results:
        if step.image:
            assert str(out / "pictures" / f"{step.image.digest}.png") in result.output
    assert "try 1: not right" in result.output
    assert "prompt: better" in result.output
    assert "3 of 3 pictures accepted." in result.output
    assert str(out / "index.html") in result.output


def test_same_out_again_keeps_everything(tmp_path: Path, scripts: Scripts) -> None:
    command = ["run", "a house", "--out", tmp_path / "out", *scripts.story(False, True, True, True)]
    call(*command)
    before = load_trajectory(tmp_path / "out")
    result = call(*command)
    assert result.exit_code == 0, result.output
    assert "(kept)" in result.output
    assert result.output.count(", kept") == 4
    assert load_trajectory(tmp_path / "out") == before


def test_a_refused_step_is_exit_code_3(tmp_path: Path, scripts: Scripts) -> None:
    story = scripts.story(False, False, True, True)
    result = call("run", "x", "--out", tmp_path / "out", "--max-attempts", 2, *story)
    assert result.exit_code == 3, result.output
    assert "tries used up: try 2" in result.output
    assert "2 of 3 pictures accepted." in result.output


def test_no_critic_draws_once(tmp_path: Path, scripts: Scripts) -> None:
    arguments = [*scripts.planner(plan_reply(STORY)), "--critic", "none", "--generator", "painted"]
    result = call("run", "x", "--out", tmp_path / "out", *arguments)
    assert result.exit_code == 0, result.output
    assert "3 of 3 pictures drawn." in result.output
    assert result.output.count("try 1: drawn") == 3


def test_every_setting_is_an_option_with_its_description(tmp_path: Path, scripts: Scripts) -> None:
    image = tmp_path / "in.png"
    Picture.white((16, 16)).image.save(image)
    wanted = RunSettings(
        max_attempts=2,
        accept_at=0.25,
        keep="last",
        source="anchor",
        seed=7,
        seed_rule="every step",
        on_failure="stop",
        judge_last=False,
        candidates=2,
        draw_ahead=True,
        time_budget=99.5,
    )
    assert all(getattr(wanted, name) != field.default for name, field in RunSettings.model_fields.items()), (
        "this test has to set every field"
    )
    arguments: list[object] = []
    for name, value in wanted.model_dump().items():
        flag = name.replace("_", "-")
        arguments += (
            [f"--{flag}" if value else f"--no-{flag}"] if isinstance(value, bool) else [f"--{flag}", value]
        )
    out = tmp_path / "out"
    call("run", "x", "--out", out, "--image", image, *arguments, *scripts.story(True, True, True))
    assert load_trajectory(out).settings == wanted
    words = " ".join(call("run", "--help").output.replace("│", " ").split())
    for field in RunSettings.model_fields.values():
        assert field.description
        assert field.description.split()[0] in words


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--generator", "crayons"], "crayons"),
        (["--generator", "painted:huge"], "huge"),
        (["--generator", "painted", "--strength", "0.5"], "strength"),
        (["--time-budget", "0"], "time-budget"),
        (["--source", "anchor"], "anchor"),
        (["--max-attempts", "0"], "max-attempts"),
        (["--keep", "worst"], "worst"),
        (["--plan", "missing.json"], "missing.json"),
        (["--device", "cpu"], "--device"),
        (["--planner", "scripted:missing.json"], "missing.json"),
        (["--image", "missing.png"], "missing.png"),
        (["--nonsense"], "nonsense"),
    ],
)
def test_wrong_usage_is_exit_code_2_and_one_message(
    tmp_path: Path, scripts: Scripts, arguments: list[str], said: str
) -> None:
    result = call("run", "x", "--out", tmp_path / "out", *scripts.story(True, True, True), *arguments)
    assert result.exit_code == 2, result.output
    assert said in result.output
    assert "Traceback" not in result.output
    assert not (tmp_path / "out").exists()


def test_errors_are_exit_code_1_and_one_line(tmp_path: Path, scripts: Scripts) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("precious")
    command = ["run", "x", "--out", tmp_path / "out", *scripts.story(True, True, True)]
    result = call(*command)
    assert result.exit_code == 1
    assert result.output.startswith("Error: ")
    assert result.output.count("\n") == 1
    assert "Traceback" in call("--debug", *command).output
    babble = call(
        "run", "x", "--out", tmp_path / "other", *scripts.planner("blah", "blah"), "--critic", "none"
    )
    assert babble.exit_code in (1, 2)


def test_another_request_needs_another_folder(tmp_path: Path, scripts: Scripts) -> None:
    story = scripts.story(True, True, True)
    call("run", "one", "--out", tmp_path / "out", *story)
    result = call("run", "two", "--out", tmp_path / "out", *story)
    assert result.exit_code == 1
    assert "Choose another --out" in result.output


def test_json_is_one_object_a_line(tmp_path: Path, scripts: Scripts) -> None:
    process = start("run", "x", "--out", tmp_path / "out", "--json", *scripts.story(False, True, True, True))
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    lines = [json.loads(line) for line in output.splitlines()]
    assert [line["event"] for line in lines][:5] == [
        "plan_ready",
        "attempt_started",
        "attempt_drawn",
        "attempt_judged",
        "attempt_started",
    ]
    assert lines[-2]["event"] == "finished"
    result = lines[-1]
    assert (result["event"], result["exit_code"]) == ("result", 0)
    assert all(Path(path).is_file() for path in [*result["pictures"], result["page"]])
    drawn = lines[2]["record"]["image"]
    assert (tmp_path / "out" / "pictures" / f"{drawn}.png").is_file()


def test_a_pipe_gets_plain_unwrapped_lines(tmp_path: Path, scripts: Scripts) -> None:
    out = tmp_path / ("a-rather-long-name-" * 6)
    process = start("run", "x", "--out", out, *scripts.story(True, True, True))
    output, _ = process.communicate(timeout=60)
    assert "\x1b" not in output
    assert f"Page: {out / 'index.html'}" in output.splitlines()


@pytest.mark.skipif(sys.platform == "win32", reason="SIGINT to a child is POSIX")
def test_ctrl_c_leaves_a_run_that_goes_on(tmp_path: Path, scripts: Scripts) -> None:
    out = tmp_path / "out"
    story = [*scripts.story(*[False] * 300), "--generator", "painted:1024", "--max-attempts", "100"]
    process = start("run", "x", "--out", out, *story)
    assert process.stdout
    for line in process.stdout:
        if "try 3" in line:
            break
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "run the same again" in errors
    assert f"--out {out}" in errors
    assert "Traceback" not in errors
    assert not (out / "in-use.lock").exists()
    partial = load_trajectory(out)
    assert partial.results[-1].stop_reason.value == "cancelled"
    finished = {path.name for path in (out / "attempts").iterdir()}
    assert len(finished) >= 3
    stamps = {name: (out / "attempts" / name).stat().st_mtime_ns for name in finished}
    again = call("run", "x", "--out", out, *story[:-1], 4)
    assert again.exit_code == 3, again.output
    assert again.output.count(", kept") >= 3
    assert stamps == {name: (out / "attempts" / name).stat().st_mtime_ns for name in finished}


def test_plan_is_printed_and_its_json_is_carried_out(tmp_path: Path, scripts: Scripts) -> None:
    planner = scripts.planner(plan_reply(STORY))
    shown = call("plan", "a house", *planner)
    assert shown.exit_code == 0, shown.output
    assert "1. House" in shown.output
    assert "Then the sun rose." in shown.output
    printed = call("plan", "a house", *planner, "--json")
    assert Plan.model_validate_json(printed.output).steps == STORY.steps
    (tmp_path / "plan.json").write_text(printed.output)
    arguments = ["--plan", tmp_path / "plan.json", "--critic", "none", "--generator", "painted"]
    assert call("run", "a house", "--out", tmp_path / "out", *arguments).exit_code == 0
    (tmp_path / "plan.json").write_text('{"steps": [{"number": 1, "prompt": "a", "promt": "b"}]}')
    broken = call("run", "a house", "--out", tmp_path / "new", *arguments)
    assert broken.exit_code == 2
    assert "steps.0.promt" in broken.output


@pytest.mark.parametrize(
    ("replies", "code", "said"),
    [
        ([verdict_reply(True)], 0, "Verdict: right"),
        ([verdict_reply(False, "a red house")], 3, "Draw next: a red house"),
        (["blah", "blah"], 1, "not understood"),
    ],
)
def test_judge(tmp_path: Path, scripts: Scripts, replies: list[str], code: int, said: str) -> None:
    Picture.white((16, 16)).image.save(tmp_path / "a.png")
    for before in ("none", tmp_path / "a.png"):
        result = call("judge", before, tmp_path / "a.png", "a house", *scripts.critic(*replies))
        assert result.exit_code == code, result.output
        assert said in result.output
    as_json = call("judge", "none", tmp_path / "a.png", "a house", *scripts.critic(*replies), "--json")
    assert json.loads(as_json.output)["success"] == {0: True, 3: False, 1: None}[code]


@pytest.mark.parametrize("to", ["page", "markdown", "sheet", "record", "pdf", "comic", "gif", "webp"])
def test_export_prints_the_file_it_wrote(tmp_path: Path, scripts: Scripts, to: str) -> None:
    call("run", "x", "--out", tmp_path / "out", *scripts.story(True, True, True))
    result = call("export", tmp_path / "out", "--to", to, "--out", tmp_path / "exported")
    assert result.exit_code == 0, result.output
    written = Path(result.output.strip())
    assert written.is_file()
    assert written.is_relative_to(tmp_path / "exported")


def test_export_of_nothing(tmp_path: Path, scripts: Scripts) -> None:
    assert call("export", tmp_path).exit_code == 1
    call("run", "x", "--out", tmp_path / "out", *scripts.story(True, True, True))
    assert call("export", tmp_path / "out", "--to", "film").exit_code == 2
    assert call("export", tmp_path / "out", "--to", "gif", "--seconds", "0.5", "--attempts").exit_code == 0
    assert call("export", tmp_path / "out", "--to", "pdf", "--seconds", "0.5").exit_code == 2
    assert call("export", tmp_path / "out", "--to", "gif", "--seconds", "900").exit_code == 2


def test_doctor_finds_models_and_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = tmp_path / "comfy" / "models" / "interleave_agents" / "critic-8b"
    agent.mkdir(parents=True)
    (agent / "config.json").write_text("{}")
    cached = tmp_path / "hf" / "hub" / "models--Qwen--Qwen3-VL-8B-Instruct"
    (cached / "snapshots" / "abc").mkdir(parents=True)
    monkeypatch.setenv("COMFYUI_PATH", str(tmp_path / "comfy"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    result = call("doctor", "--json")
    report = json.loads(result.output)
    assert result.exit_code == 0
    assert report["models"]["comfyui"] == [str(agent)]
    assert report["models"]["hub"] == [str(cached)]
    assert report["packages"]["torch"]
    assert report["device"]["name"]
    monkeypatch.setenv("COMFYUI_PATH", str(tmp_path / "nowhere"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "nowhere"))
    assert "transformers:FOLDER" in call("doctor").output


def test_prompts_import_stores_beside_a_checkpoint(tmp_path: Path) -> None:
    module = tmp_path / "official" / "UEval" / "system.py"
    module.parent.mkdir(parents=True)
    module.write_text(
        'NARRATIVE_PROMPT_JSON = "plan {text_input}"\n'
        'GUIDANCE_GLOBAL_PROMPT_JSON = "plan with images {text_input}"\n'
        'Iterative_T2I_PROMPT_QWEN = "judge {original_instruction} {rewritten_prompt}"\n'
    )
    (tmp_path / "checkpoint").mkdir()
    result = call("prompts", "import", tmp_path / "official", "--to", tmp_path / "checkpoint")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "checkpoint" / "prompt_set" / "critic.txt").is_file()
    assert call("prompts", "import", tmp_path / "nothing", "--to", tmp_path / "checkpoint").exit_code == 2


@pytest.mark.skipif(not hasattr(tinyworld, "DEMO_REQUEST"), reason="the tiny world has no story yet")
def test_demo_writes_its_page(tmp_path: Path, scripts: Scripts) -> None:
    result = call("demo", "--out", tmp_path / "demo", *scripts.story(True, True, True))
    assert result.exit_code == 0, result.output
    assert (tmp_path / "demo" / "index.html").is_file()
    assert (tmp_path / "demo" / "run.json").is_file()


def test_tiny_world_is_the_default_of_every_role(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without its checkpoints the error names the one that is missing, planner and critic each their own."""
    monkeypatch.setattr(tinyworld, "CHECKPOINTS", tmp_path)
    Picture.white((16, 16)).image.save(tmp_path / "a.png")
    planning = call("plan", "a house")
    judging = call("judge", "none", tmp_path / "a.png", "a house", "--critic", "tinyworld")
    drawing = call("run", "a house", "--out", tmp_path / "out")
    for result, part in ((planning, "planner"), (judging, "critic"), (drawing, "generator")):
        assert result.exit_code == 2, result.output
        assert f"tiny world's {part}" in result.output


def test_a_terminal_sees_every_outcome() -> None:
    """Errors, unreadable verdicts and text steps each get their line; the text of users is not read as markup."""
    screen = io.StringIO()
    lines = Lines(Console(file=screen, force_terminal=True, width=200, highlight=False))
    plan = Plan(steps=(STORY.steps[0].model_copy(update={"name": "[red]House[/red]"}), STORY.steps[1]))
    events = run_loop(
        Request(text="x"),
        OnePlan(plan),
        Counting(failures=[GeneratorError("no memory left")]),
        Verdicts(None, True),
    )
    for event in events:
        lines.show(event)
    shown = screen.getvalue()
    assert "generator failed: no memory left" in shown
    assert "critic not understood" in shown
    assert "try 3: right" in shown
    assert "[red]House[/red]" in shown
    assert "Then the sun rose." in shown
    assert "\x1b[?25h" in shown, "the cursor is shown again"


def test_program_entry() -> None:
    process = start("run")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "Missing" in errors
