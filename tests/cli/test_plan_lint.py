"""`plan --lint` and the forms of plans that it and `run --plan` read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.cli_calls import Scripts, call
from support.stories import make_trajectory

from interleave_thinker import Plan, SettingsError, Step, export_by_name
from interleave_thinker.backend.core.answers.reading import write_plan
from interleave_thinker.backend.pipeline.plan_file import read_plan_and_request, read_plan_file
from interleave_thinker.backend.story.execution_record.reader import FILE_NAME

OURS = Plan(
    steps=(
        Step(number=1, name="Boat", prompt="a boat"),
        Step(number=2, name="Blue", instruction="Paint it.", prompt="a boat", auxiliary_text="Blue!"),
    )
)
FIELDS = {"step_number": "number", "step_name": "name"}
FIELDS |= {name: name for name in ("instruction", "prompt", "auxiliary_text")}
STEPS = [{name: getattr(step, ours) for name, ours in FIELDS.items()} for step in OURS.steps]
PUBLISHED = {"execution_plan": STEPS}
ATTEMPT = {"step": 1, "prompt": "a boat", "refine_prompt": "", "source_img": None, "target_img": None}
ATTEMPT |= {"success": True, "reasoning": ""}
OUTLINE = """1. Boat
   draw: a boat

2. Blue
   do: Paint it.
   draw: a boat
   text: Blue!"""
FORMS = {
    "plan.json": OURS.model_dump_json(),
    "published, with other fields": json.dumps({"execution_plan": [{**one, "kind": "T2I"} for one in STEPS]}),
    "as Python writes it": str(PUBLISHED),
    "answer": f"<think>Two.</think>\n<answer>{json.dumps(PUBLISHED)}</answer>",
    "record": json.dumps({"user_input": "A boat.", "global_context": PUBLISHED, "steps": [ATTEMPT]}),
    "outline": OUTLINE,
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_plan_is_read(tmp_path: Path, form: str) -> None:
    file = tmp_path / "given.txt"
    file.write_text(FORMS[form], encoding="utf-8")
    assert read_plan_file(file).steps == OURS.steps
    result = call("plan", "--lint", file, "--json")
    assert result.exit_code == 3, result.output
    message = "The prompt is the same as in step 1."
    assert json.loads(result.stdout) == [{"step": 2, "rule": "identical-prompts", "message": message}]


def test_run_carries_out_published_plans(tmp_path: Path) -> None:
    file = tmp_path / "plan.txt"
    file.write_text(FORMS["as Python writes it"], encoding="utf-8")
    arguments = ["--plan", file, "--critic", "none", "--generator", "fake:16"]
    result = call("run", "A boat.", "--out", tmp_path / "out", *arguments)
    assert result.exit_code == 0, result.output
    assert "Step 2: The prompt is the same as in step 1." in result.stderr
    # The run is read with its request.
    for path in (tmp_path / "out", tmp_path / "out" / "plan.json", tmp_path / "out" / "trajectory.json"):
        found = read_plan_and_request(path)
        assert (found.plan.steps, found.request) == (OURS.steps, "A boat."), path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"execution_plan": [{"step_number": 1, "promt": "a", "auxiliary_text": "b"}]}', "step 1, promt"),
        ('{"execution_plan": [{"prompt": "a", "locked": true,}]}', "is not JSON"),
        ('{"steps": [{"number": 1, "prompt": "a", "promt": "b"}]}', "steps.0.promt"),
        ("", "The plan is empty"),
    ],
)
def test_a_plan_of_a_person_is_read_strictly(tmp_path: Path, text: str, expected: str) -> None:
    """Only the answer of an agent may have other fields, and no lock or setting is dropped."""
    file = tmp_path / "plan.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError) as raised:
        read_plan_file(file)
    assert expected in str(raised.value) and "plan.json" in str(raised.value)


def test_an_exported_record_is_checked_with_its_request(tmp_path: Path) -> None:
    trajectory = make_trajectory()
    export_by_name("record", trajectory, tmp_path)
    assert (tmp_path / FILE_NAME).is_file()
    found = read_plan_and_request(tmp_path)
    assert [one.prompt for one in found.plan.steps] == [one.prompt for one in trajectory.plan.steps]
    assert found.request == trajectory.request.text


def test_the_request_decides_what_is_missing(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text(Plan(steps=OURS.steps[:1]).model_dump_json())
    good = call("plan", "--lint", file)
    assert (good.exit_code, good.stdout) == (0, "0 findings in 1 step.\n")
    assert json.loads(call("plan", "--lint", file, "--json").stdout) == []
    bad = call("plan", "--lint", file, "--request", "Draw a boat in 2 steps.")
    assert bad.exit_code == 3
    assert "The plan has another number of steps than requested: 1, not 2. (step-count)" in bad.stdout


def test_options_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    for arguments, expected in (
        (["--lint", tmp_path, "a boat"], "--lint does not plan a request"),
        (["--request", "a boat"], "--request needs --lint"),
        ([], "No request is given"),
        (["--lint", tmp_path / "none.json"], "none.json"),
    ):
        result = call("plan", *arguments)
        assert result.exit_code == 2 and expected in result.output, result.output


def test_findings_of_a_new_plan_are_warnings_and_can_be_repaired(tmp_path: Path) -> None:
    scripts = Scripts(tmp_path)
    good = Plan(steps=(OURS.steps[0], OURS.steps[1].model_copy(update={"prompt": "make the boat blue"})))
    planner = scripts.planner(write_plan(OURS), write_plan(good))
    plain = call("plan", "a boat", *planner, "--json")
    assert Plan.model_validate_json(plain.stdout).steps == OURS.steps
    assert "Warning: Step 2: The prompt is the same as in step 1." in plain.stderr
    repaired = call("plan", "a boat", *planner, "--json", "--set", "repair_plan=true")
    assert Plan.model_validate_json(repaired.stdout).steps == good.steps
    assert "Warning" not in repaired.stderr


def test_what_an_import_leaves_out_is_said(tmp_path: Path) -> None:
    """The notice does not hide that the number of steps is not the requested one."""
    file = tmp_path / "shots.csv"
    file.write_bytes("Description;Länge\nZoë rennt.;3 s\n".encode("cp1252"))
    notice = (
        "Warning: The file is read as Windows-1252 text. If letters are wrong, save it as UTF-8. "
        "Left out of the plan: columns 'Länge'."
    )
    assert notice in call("plan", "--lint", file).stderr
    arguments = ["--plan", file, "--critic", "none", "--generator", "fake:16"]
    result = call("run", "Zoë in 3 steps.", "--out", tmp_path / "out", *arguments)
    assert notice in result.stderr
    assert "another number of steps than requested: 1, not 3" in result.stderr


def test_the_cast_of_each_step_is_shown_and_is_no_finding(tmp_path: Path) -> None:
    file = tmp_path / "plan.txt"
    steps = "1. One\n draw: Mia runs\n\n2. Two\n draw: a yard without Mia\n\n3. Three\n draw: the hat of @mia"
    file.write_text(f"character: Mia\n\n{steps}\n\n4. Four\n draw: a house\n cast: -", encoding="utf-8")
    result = call("plan", "--lint", file)
    assert (result.exit_code, result.stdout.splitlines()) == (
        0,
        [
            "Step 1, cast by names in the prompt: Mia.",
            "Step 2, cast by names in the prompt: none.",
            "Step 3, cast: Mia.",
            "Step 4, cast: none.",
            "0 findings in 4 steps.",
        ],
    )
    assert json.loads(call("plan", "--lint", file, "--json").stdout) == []
