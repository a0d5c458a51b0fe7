"""The single commands: plan, judge, export, doctor, prompts and demo."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
from rich.console import Console
from support.cli_calls import Scripts, call, start, verdict_reply
from support.journal_runs import events_of, told
from support.small_agents import STORY, Counting, GeneratorError, Verdicts

from interleave_thinker import Picture, Plan, StopReason, Trajectory, load_trajectory, tinyworld
from interleave_thinker.backend.core.answers.reading import write_plan
from interleave_thinker.backend.core.errors import ChatError, boundary
from interleave_thinker.backend.core.machine import libraries
from interleave_thinker.backend.core.prompts.agent_card import AgentCard, MeasuredStrictness
from interleave_thinker.backend.story.journal.choices import ask_redraw
from interleave_thinker.backend.story.journal.journal import Journal
from interleave_thinker.cli.progress import Lines
from interleave_thinker.cli.run_request import exit_code


@pytest.fixture
def scripts(tmp_path: Path) -> Scripts:
    return Scripts(tmp_path)


def test_a_plan_is_printed_and_its_json_can_be_carried_out(tmp_path: Path, scripts: Scripts) -> None:
    planner = scripts.planner(write_plan(STORY))
    shown = call("plan", "a house", *planner)
    assert shown.exit_code == 0, shown.output
    assert "1. House" in shown.output
    assert "Then the sun rose." in shown.output
    printed = call("plan", "a house", *planner, "--json")
    assert Plan.model_validate_json(printed.output).steps == STORY.steps
    (tmp_path / "plan.json").write_text(printed.output)
    arguments = ["--plan", tmp_path / "plan.json", "--critic", "none", "--generator", "fake"]
    assert call("run", "a house", "--out", tmp_path / "out", *arguments).exit_code == 0
    (tmp_path / "plan.json").write_text('{"steps": [{"number": 1, "prompt": "a", "promt": "b"}]}')
    broken = call("run", "a house", "--out", tmp_path / "new", *arguments)
    assert broken.exit_code == 2
    assert "steps.0.promt" in broken.output


@pytest.mark.parametrize(
    ("replies", "code", "expected"),
    [
        ([verdict_reply(True)], 0, "Verdict: accepted"),
        ([verdict_reply(False, "a red house")], 3, "Refined prompt: a red house"),
        (["blah", "blah"], 1, "Verdict: not understood"),
    ],
)
def test_judge(tmp_path: Path, scripts: Scripts, replies: list[str], code: int, expected: str) -> None:
    Picture.white((16, 16)).image.save(tmp_path / "a.png")
    result = call("judge", tmp_path / "a.png", tmp_path / "a.png", "a house", *scripts.critic(*replies))
    assert result.exit_code == code and expected in result.output


def test_a_redraw_is_generated_by_the_same_command(tmp_path: Path, scripts: Scripts) -> None:
    arguments = ["run", "x", "--out", tmp_path / "out", *scripts.story(True, True, True)]
    assert call(*arguments).exit_code == 0
    requested = call("redraw", tmp_path / "out", "--step", 1, "--prompt", "a green house")
    assert requested.exit_code == 0 and "same command again" in requested.output
    assert "attempt 2" in call(*arguments).output
    results = load_trajectory(tmp_path / "out").results
    assert results[0].attempts[-1].prompt == "a green house" and results[0].chosen == 1
    assert call("redraw", tmp_path / "out", "--step", 9).exit_code == 1


def test_a_failed_redraw_is_incomplete(tmp_path: Path) -> None:
    plan = Plan(steps=STORY.steps[:1])

    def ended(*failures: GeneratorError) -> Trajectory:
        return told(plan, Counting(failures=failures), Verdicts(True), Journal(tmp_path))

    assert exit_code(ended()) == 0
    ask_redraw(tmp_path, 1)
    failed = ended(GeneratorError("Out of memory."))
    assert failed.results[0].stop_reason is StopReason.accepted, "the earlier image stays"
    assert exit_code(failed) == 3


def test_export_prints_the_path_of_its_file(tmp_path: Path, scripts: Scripts) -> None:
    call("run", "x", "--out", tmp_path / "out", *scripts.story(True, True, True))
    result = call("export", tmp_path / "out", "--to", "markdown", "--out", tmp_path / "exported")
    assert result.exit_code == 0, result.output
    written = Path(result.output.strip())
    assert written.is_file()
    assert written.is_relative_to(tmp_path / "exported")


def test_export_of_an_execution_record(tmp_path: Path, scripts: Scripts) -> None:
    call("run", "x", "--out", tmp_path / "out", *scripts.story(True, True, True))
    record = tmp_path / "record"
    assert call("export", tmp_path / "out", "--to", "record", "--out", record).exit_code == 0
    before = (record / "execution_record.json").read_bytes()
    for given in record, record / "execution_record.json":
        exported = call("export", given, "--to", "story", "--out", tmp_path / "story")
        assert exported.exit_code == 0, exported.output
        story = json.loads((tmp_path / "story" / "story.json").read_text())
        assert len(story["steps"]) == len(STORY.steps)
        for out in [], ["--out", record]:
            overwriting = call("export", given, "--to", "record", *out)
            assert overwriting.exit_code == 2 and "--out" in overwriting.output
    assert (record / "execution_record.json").read_bytes() == before


def test_export_errors(tmp_path: Path, scripts: Scripts) -> None:
    assert call("export", tmp_path).exit_code == 2
    call("run", "x", "--out", tmp_path / "out", *scripts.story(True, True, True))
    assert call("export", tmp_path / "out", "--to", "film").exit_code == 2
    assert call("export", tmp_path / "out", "--to", "gif", "--seconds", "0.5", "--attempts").exit_code == 0
    assert call("export", tmp_path / "out", "--to", "pdf", "--seconds", "0.5").exit_code == 2
    assert call("export", tmp_path / "out", "--to", "gif", "--seconds", "900").exit_code == 2


def test_an_unfit_torchvision_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torchvision.py").write_text('raise RuntimeError("operator torchvision::nms does not exist")')
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "torchvision", raising=False)
    shown = call("doctor", "--json")
    assert shown.exit_code == 1
    [line] = [line for line in json.loads(shown.output)["advice"] if "torchvision" in line]
    assert "torchvision::nms" in line
    assert "do not belong together" in line
    repair = line.partition("Reinstall both with: ")[2]
    assert repair.startswith("pip install --force-reinstall torch torchvision")
    with pytest.raises(ChatError, match="BloomPreTrainedModel") as error, boundary(ChatError, "Checkpoint"):
        try:
            import torchvision  # noqa: F401
        except RuntimeError as hidden:
            # As transformers does.
            raise ModuleNotFoundError("Could not import module 'BloomPreTrainedModel'.") from hidden
    assert repair in str(error.value)


def test_doctor_lists_models_and_gaps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    (line,) = [one for one in report["advice"] if one.startswith("critic-8b has no prompt set")]
    assert f"prompts import CHECKOUT --to {agent}" in line
    card = AgentCard(role="critic", image_pixels=589_824)
    rates = {"accuracy": 0.9, "accepts_right": 0.93, "rejects_wrong": 0.875}
    gate = MeasuredStrictness(rows=200, passed=True, **rates)
    card.model_copy(update={"gate": gate}).save(agent)
    output = call("doctor").output
    assert "has no prompt set" not in output
    assert "critic, images up to 589,824 pixels, accepts 93% of right images and rejects 88% of wrong" in (
        " ".join(output.split())
    )
    monkeypatch.setenv("COMFYUI_PATH", str(tmp_path / "nowhere"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "nowhere"))
    assert "transformers:FOLDER" in call("doctor").output


def test_doctor_lists_packages_that_are_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libraries, "version", lambda name: "4.57.1" if name == "transformers" else "99")
    advice = json.loads(call("doctor", "--json").output)["advice"]
    (line,) = [one for one in advice if "too old" in one]
    assert line.startswith("transformers 4.57.1 is too old: pip install")
    assert libraries.least("transformers") in line


def test_prompts_import_stores_the_prompt_set_with_a_checkpoint(tmp_path: Path) -> None:
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


@pytest.mark.skipif(not hasattr(tinyworld, "DEMO_REQUEST"), reason="needs the tiny world's demo story")
def test_the_demo_writes_its_page(tmp_path: Path, scripts: Scripts) -> None:
    result = call("demo", "--out", tmp_path / "demo", *scripts.story(True, True, True))
    assert result.exit_code == 0, result.output
    assert (tmp_path / "demo" / "index.html").is_file()
    advice = call("doctor", "--run", tmp_path / "demo", "--json")
    assert json.loads(advice.output)["times"]["generator"]["seconds"] > 0


def test_the_tiny_world_is_the_default_of_every_role(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without its checkpoints, the error names the one that is missing."""
    monkeypatch.setattr(tinyworld, "CHECKPOINTS", tmp_path)
    Picture.white((16, 16)).image.save(tmp_path / "a.png")
    planning = call("plan", "a house")
    judging = call("judge", "none", tmp_path / "a.png", "a house", "--critic", "tinyworld")
    drawing = call("run", "a house", "--out", tmp_path / "out")
    for result, part in ((planning, "planner"), (judging, "critic"), (drawing, "generator")):
        assert result.exit_code == 2, result.output
        assert f"tiny world's {part}" in result.output


def test_a_terminal_shows_every_outcome() -> None:
    """Errors, unreadable verdicts and text-only steps have a line each; texts are not read as markup."""
    screen = io.StringIO()
    lines = Lines(Console(file=screen, force_terminal=True, width=200, highlight=False))
    plan = Plan(steps=(STORY.steps[0].model_copy(update={"name": "[red]House[/red]"}), STORY.steps[1]))
    fails = Counting(failures=[GeneratorError("no memory left")])
    for event in events_of(plan, fails, Verdicts(None, True)):
        lines.show(event)
    shown = screen.getvalue()
    assert "generator failed: no memory left" in shown
    assert "not understood" in shown
    assert "attempt 3: accepted" in shown
    assert "[red]House[/red]" in shown
    assert "Then the sun rose." in shown
    assert "\x1b[?25h" in shown, "the cursor is shown again"


def test_the_console_script_reports_wrong_usage() -> None:
    process = start("run")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "No request is given" in errors


def test_a_run_makes_its_folder(tmp_path: Path, scripts: Scripts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    story = scripts.story(True, True, True)
    assert call("run", "A boat!", *story).exit_code == 0
    (folder,) = (tmp_path / "interleave-stories").iterdir()
    assert folder.name.startswith("a-boat-") and load_trajectory(folder).request.text == "A boat!"
    again = call("run", "A boat!", *story)
    assert again.output.count(", cached") == 3, "the same request resumes it"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (
            "run x --planner Qwen/Qwen3-VL-8B-Instruct",
            2,
            "Did you mean transformers:Qwen/Qwen3-VL-8B-Instruct?",
        ),
        ("run x --critic model.gguf", 2, "Did you mean llamacpp:model.gguf?"),
        ("run x --planner transformers:/no/folder", 2, "Cannot find the checkpoint folder"),
        ("run x --planner transformers:no-one/no-model", 2, "--download"),
        ("run x --critic llamacpp:none.gguf", 2, "does not exist"),
        ("run x --generator diffusers:/no/folder", 2, "does not exist"),
        ("run x --plan typo.json", 2, "'steps.0.prmpt': it is not a known key (known: number, name,"),
        ("run x --plan list.json", 2, "Make 'steps'"),
        ("run x --critic openai:m@http://127.0.0.1:9/v1", 1, "Cannot reach"),
        ("approve .", 2, "does not contain a run"),
        ("run --from .", 2, "needs a folder of its own. Add --out."),
        ("run --from . --out o", 2, "does not contain a run"),
        ("run x --from . --out o", 2, "has a request and a plan already"),
        ("train grpo", 2, "Did you mean planner-grpo or critic-grpo?"),
        ("train critic-sft --model tinyworld:critic --data rows.csv --out o", 2, "data import rows.csv"),
        ("doctor --plan sdxl-Q4_K_M.gguf --planner llamacpp:Q-8B-Q4_K_M.gguf", 0, "In bf16 + GGUF"),
        ("run --help=cross", 0, "No option or setting"),
        ("run --help=max_draws", 0, "Maximum number of images"),
    ],
)
def test_first_mistakes_are_explained(
    arguments: str, code: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each before a model is loaded."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "typo.json").write_text('{"steps": [{"number": 1, "prmpt": "x"}]}')
    (tmp_path / "list.json").write_text("[]")
    (tmp_path / "rows.csv").write_text("before,after\n")
    words = [*arguments.split()]
    if words[:2] == ["run", "x"]:
        words[1] = "Draw a sea page."
    shown = call(*words)
    assert (shown.exit_code, said in " ".join(shown.output.split())) == (code, True), shown.output


def test_a_run_folder_repeats_its_run(tmp_path: Path, scripts: Scripts) -> None:
    first = call("run", "x", "--out", tmp_path / "a", "--max-attempts", 2, *scripts.story(True, True, True))
    assert first.exit_code == 0, first.output
    options = "--config", tmp_path / "a" / "run.yaml"
    again = call("run", *options, "--out", tmp_path / "b")
    assert again.exit_code == 0, again.output
    assert load_trajectory(tmp_path / "b").settings == load_trajectory(tmp_path / "a").settings
    (tmp_path / "planner.json").unlink()
    other = ["run", "--from", tmp_path / "a", *options, "--out", tmp_path / "c"]
    same = call(*other, "--set", "pause=never")
    assert same.exit_code == 0 and same.output.count(", cached") == 3, same.output
    resized = call(*other[:-1], tmp_path / "d", "--size", 32)
    assert ", cached" not in resized.output, resized.output
    results = load_trajectory(tmp_path / "d").results
    assert {result.image.size for result in results if result.image} == {(32, 32)}
    scripts.planner(*["Ein Boot."] * 20)
    told = call(*other[:-1], tmp_path / "f", "--language", "German")
    assert told.exit_code == 0 and told.output.count(", cached") == 3, told.output
    assert "text: Ein Boot." in told.output and "Add --from" in call("run", "x", "--language", "a").output
    # A foreign run folder names no models and no programs.
    (tmp_path / "a" / "run.yaml").write_text("critic: none\nllama_server: /bin/true\n")
    alone = call("run", "--from", tmp_path / "a", "--out", tmp_path / "e")
    assert alone.exit_code == 2 and "Add --critic" in alone.output, alone.output
