"""`cast sheets` and `cast keep`: images of members from their traits, judged, and then used as references."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from support.cli_calls import Scripts, call, verdict_reply

from interleave_thinker.backend.pipeline.cast_file import read_cast
from interleave_thinker.backend.story.loop.replay import load_trajectory

CAST = """# my heroes
cast:
- name: Mia Löwe
  traits: [girl of seven, red coat]
- name: lamp
  kind: prop
  traits: [brass]
"""
MODELS = ("--generator", "fake:16", "--critic", "none")


@pytest.fixture
def cast(tmp_path: Path) -> Path:
    path = tmp_path / "cast.yaml"
    path.write_text(CAST, encoding="utf-8")
    return path


def test_images_are_generated_from_traits_and_become_references(tmp_path: Path, cast: Path) -> None:
    out = tmp_path / "sheets"
    made = call("cast", "sheets", cast, "--out", out, *MODELS)
    assert made.exit_code == 0, made.output
    assert "cast keep" in made.output
    trajectory = load_trajectory(out)
    assert [step.name for step in trajectory.plan.steps] == ["Mia Löwe", "lamp"]
    for result, trait in zip(trajectory.results, ("girl of seven, red coat", "brass"), strict=True):
        (attempt,) = result.attempts
        assert trait in attempt.prompt and attempt.source is None and attempt.cast is None
    kept = call("cast", "keep", cast, out)
    assert kept.exit_code == 0, kept.output
    members = read_cast(cast)
    assert [one.images[-1].picture for one in members] == [result.image for result in trajectory.results]
    assert cast.with_name("cast.yaml.bak").read_text(encoding="utf-8") == CAST
    assert yaml.safe_load(cast.read_text(encoding="utf-8"))["cast"][1]["kind"] == "prop"
    before = cast.read_bytes()
    assert call("cast", "keep", cast, out).exit_code == 0
    assert cast.read_bytes() == before, "an image is not added twice"
    again = call("cast", "sheets", cast, "--out", tmp_path / "more", *MODELS)
    assert again.exit_code == 2 and "Every member of the cast has an image" in again.stderr
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"execution_plan": [{"prompt": "Mia Löwe runs"}]}), encoding="utf-8")
    assert call("run", "story", "--plan", plan, "--out", tmp_path / "run", *MODELS).exit_code == 0
    (result,) = load_trajectory(tmp_path / "run").results
    assert result.attempts[0].beside == (trajectory.results[0].image,)


def test_rejected_images_are_kept_only_by_name(tmp_path: Path, cast: Path) -> None:
    out = tmp_path / "sheets"
    replies = (verdict_reply(accepted, "better") for accepted in (False, False, True))
    critic = (*Scripts(tmp_path).critic(*replies), "--max-attempts", "2")
    made = call("cast", "sheets", cast, "--out", out, "--generator", "fake:16", *critic)
    assert made.exit_code == 3, made.output
    kept = call("cast", "keep", cast, out)
    assert kept.exit_code == 3 and "Mia Löwe: rejected, not kept" in kept.output
    assert [len(member.images) for member in read_cast(cast)] == [0, 1]
    named = call("cast", "keep", cast, out, "--member", "mia löwe")
    assert named.exit_code == 0, named.output
    assert [len(member.images) for member in read_cast(cast)] == [1, 1]
    unknown = call("cast", "keep", cast, out, "--member", "Tom")
    assert unknown.exit_code == 2 and "no image of 'Tom'" in unknown.stderr


def test_a_member_without_traits_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "heroes.yaml"
    path.write_text("cast: [{name: Mia}]", encoding="utf-8")
    result = call("cast", "sheets", path, "--out", tmp_path / "sheets", *MODELS)
    assert result.exit_code == 2 and "neither images nor traits" in result.stderr
    assert not (tmp_path / "sheets").exists()


def test_a_json_cast_stays_json_and_a_damaged_one_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "heroes.json"
    path.write_text('[{"name": "..", "traits": ["red"]}]', encoding="utf-8")
    out = tmp_path / "sheets"
    assert call("cast", "sheets", path, "--out", out, *MODELS).exit_code == 0
    assert call("cast", "keep", path, out).exit_code == 0
    ((image,),) = [one["images"] for one in json.loads(path.read_text(encoding="utf-8"))["cast"]]
    assert (tmp_path / image).is_file() and image.endswith(".png") and ".." not in image
    path.write_text("{", encoding="utf-8")
    assert call("cast", "keep", path, out).exit_code == 2
    assert path.read_text(encoding="utf-8") == "{"
