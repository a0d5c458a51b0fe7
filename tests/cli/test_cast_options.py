"""`--cast` and `cast_writer`: the file, the file next to the run folder, resume, and the extra call."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image
from support.cli_calls import Scripts, call, verdict_reply

from interleave_thinker.backend.story.loop.replay import load_trajectory

CAST = "cast:\n- name: Mia\n  traits: [red coat]\n  images: [mia.png]\n"
OTHER = "cast:\n- name: Mia\n  traits: [blue coat]\n"


@pytest.fixture
def options(tmp_path: Path) -> list[str]:
    plan = tmp_path / "plan.json"
    steps = [{"prompt": "Mia wakes up"}, {"prompt": "an empty street"}]
    plan.write_text(json.dumps({"execution_plan": steps}), encoding="utf-8")
    Image.new("RGB", (16, 16), "red").save(tmp_path / "mia.png")
    return ["--plan", str(plan), "--generator", "fake:16", "--critic", "none"]


def texts(out: Path) -> list[str]:
    results = load_trajectory(out).results
    return [result.attempts[0].cast.text if result.attempts[0].cast else "" for result in results]


def test_a_cast_is_used_shown_and_stored(tmp_path: Path, options: list[str]) -> None:
    (tmp_path / "heroes.yaml").write_text(CAST, encoding="utf-8")
    out = tmp_path / "runs" / "one"
    result = call("run", "a story", "--out", out, *options, "--cast", tmp_path / "heroes.yaml")
    assert result.exit_code == 0, result.output
    assert "character Mia: red coat, 1 image" in result.output
    assert texts(out) == ["Mia: red coat. Mia appears exactly once.", ""]
    (tmp_path / "heroes.yaml").unlink()
    (tmp_path / "mia.png").unlink()
    again = call("run", "--out", out, *options[2:])
    assert again.exit_code == 0, again.output
    assert again.output.count(", cached") == 2, "the run has its cast, without the file"


def test_the_cast_next_to_the_run_folder_is_reused(tmp_path: Path, options: list[str]) -> None:
    (tmp_path / "cast.yaml").write_text(CAST, encoding="utf-8")
    first = call("run", "a story", "--out", tmp_path / "one", *options)
    assert f"Cast: {tmp_path / 'cast.yaml'}" in first.output.replace("\n", "")
    assert texts(tmp_path / "one")[0].startswith("Mia: red coat.")
    assert call("run", "a story", "--out", tmp_path / "two", *options, "--cast", "none").exit_code == 0
    assert texts(tmp_path / "two") == ["", ""]
    (tmp_path / "cast.yaml").write_text(OTHER, encoding="utf-8")
    call("run", "--out", tmp_path / "one", *options[2:])
    assert texts(tmp_path / "one")[0].startswith("Mia: blue coat.")


def test_an_unreadable_cast_is_an_error_before_any_write(tmp_path: Path, options: list[str]) -> None:
    (tmp_path / "cast.yaml").write_text("cast: [{name: Mia, images: [gone.png]}]", encoding="utf-8")
    result = call("run", "a story", "--out", tmp_path / "one", *options)
    assert result.exit_code == 2 and "Cast member 'Mia': Image 'gone.png' does not exist" in result.stderr
    assert not (tmp_path / "one").exists()


def test_a_model_writes_who_is_in_each_step_once(tmp_path: Path, options: list[str]) -> None:
    value = {
        "cast": [{"name": "Mia", "kind": "character", "traits": ["tall"]}],
        "steps": [
            {"step_number": 1, "cast": ["Mia"], "facts": []},
            {"step_number": 2, "cast": ["Mia"], "facts": ["It rains."]},
        ],
    }
    script = tmp_path / "writer.json"
    script.write_text(json.dumps([f"<answer>{json.dumps(value)}</answer>"]), encoding="utf-8")
    writer = ["--set", f"cast_writer=scripted:{script}"]
    assert call("run", "a story", "--out", tmp_path / "one", *options, *writer).exit_code == 0
    assert texts(tmp_path / "one")[1] == "Mia: tall. Exactly 1 character: Mia. It rains."
    script.write_text("[]", encoding="utf-8")
    again = call("run", "--out", tmp_path / "one", *options[2:], *writer)
    assert again.exit_code == 0 and again.output.count(", cached") == 2, "the stored plan needs no call"


def test_a_failed_step_is_rewritten_by_a_chat_model(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps([{"prompt": "a boat"}, {"prompt": "add a fish"}]), encoding="utf-8")
    script = tmp_path / "writer.json"
    script.write_text(json.dumps(["A boat and a fish."]), encoding="utf-8")
    verdicts = [verdict_reply(accepted, "better") for accepted in (True, False, False, True)]
    options = ["--plan", str(plan), "--generator", "fake:16", "--max-attempts", "2"]
    options += [*Scripts(tmp_path).critic(*verdicts), "--set", f"step_rewriter=scripted:{script}"]
    made = call("run", "a story", "--out", tmp_path / "one", *options)
    assert made.exit_code == 0, made.output
    assert "generated from text, with a prompt for the whole image" in made.output.replace("\n", "")
    result = load_trajectory(tmp_path / "one").results[1]
    assert [one.prompt for one in result.attempts] == ["A boat and a fish."]
