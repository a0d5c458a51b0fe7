"""A packed checkpoint contains only its own files, no path of the machine, and what the gate found."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from support import short_trainings
from support.cli_calls import call

pytest.importorskip("trl", reason='training needs: pip install "interleave-thinker[training]"')

from huggingface_hub import metadata_load

from interleave_thinker.backend.chat import ReplySettings, open_chat
from interleave_thinker.backend.errors import TrainingError
from interleave_thinker.backend.prompts import default_prompt_set, prompt_set_of
from interleave_thinker.backend.prompts.agent_card import AgentCard, MeasuredStrictness, read_card
from interleave_thinker.training.trainer.merge import merge
from interleave_thinker.training.trainer.report.card_facts import origin_of, read_facts
from interleave_thinker.training.trainer.report.publish import Publishing, pack


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training of an adapter, in a folder whose name must not be shared."""
    folder = short_trainings.prepare(tmp_path_factory.mktemp("ann-private"))
    short_trainings.sft(folder, folder / "run", lora_r=2, max_steps=2)
    return folder / "run"


@pytest.fixture
def passed(run: Path, tmp_path: Path) -> Path:
    """The same training, after its critic passed the gate."""
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    card = read_card(copy / "final" / "agent.json")
    assert card is not None
    gate = MeasuredStrictness(rows=40, accuracy=1, accepts_right=1, rejects_wrong=1, passed=True)
    card.model_copy(update={"gate": gate}).save(copy / "final")
    return copy


def test_a_critic_that_passed_is_packed_and_opens(passed: Path, run: Path, tmp_path: Path) -> None:
    to = tmp_path / "light-critic"
    said = call("train", "publish", passed, "--to", to, "--license", "apache-2.0")
    assert said.exit_code == 0, said.output
    assert f"hf upload YOUR-NAME/light-critic {to} ." in said.output
    names = {path.relative_to(to).as_posix() for path in to.rglob("*") if path.is_file()}
    assert {"README.md", "agent.json", "adapter_config.json", "adapter_model.safetensors"} <= names
    weights = to / "adapter_model.safetensors"
    assert not weights.samefile(passed / "final" / weights.name), "a change of one would change both"
    assert weights.stat().st_mode == (to / "tokenizer.json").stat().st_mode
    assert "tokenizer.json" in names and any(name.startswith("prompt_set/") for name in names)
    assert "report.html" not in names and not any(name.endswith((".pt", ".bin", ".pth")) for name in names)
    for path in (to / name for name in names if not name.endswith(".safetensors")):
        text = path.read_text(encoding="utf-8")
        assert "ann-private" not in text and str(tmp_path) not in text, path.name
    assert json.loads((to / "adapter_config.json").read_text())["base_model_name_or_path"] == "base"
    found = metadata_load(to / "README.md")
    assert found is not None and found["license"] == "apache-2.0"
    assert "transformers:BASE --critic-adapter light-critic" in (to / "README.md").read_text()
    chat = open_chat(f"transformers:{run.parent / 'base'}", adapter=str(to), device="cpu", share=False)
    from support.tiny_checkpoint import question

    assert chat.reply(question(0, 255), ReplySettings(max_tokens=4)).tokens > 0
    again = call("train", "publish", passed, "--to", to, "--license", "apache-2.0")
    assert again.exit_code == 2 and "already exists" in again.stderr


def test_what_did_not_pass_is_refused_unless_the_user_decides(
    run: Path, passed: Path, tmp_path: Path
) -> None:
    licensed = ("--license", "apache-2.0")
    refused = call("train", "publish", run, "--to", tmp_path / "a", *licensed)
    assert refused.exit_code == 2 and "was not measured by the regression gate" in refused.stderr
    card = read_card(passed / "final" / "agent.json")
    assert card is not None and card.gate is not None
    failed = card.model_copy(update={"gate": card.gate.model_copy(update={"passed": False})})
    failed.save(passed / "final")
    refused = call("train", "publish", passed, "--to", tmp_path / "a", *licensed)
    assert refused.exit_code == 2 and "did not pass" in refused.stderr and not (tmp_path / "a").exists()
    assert (
        call("train", "publish", passed, "--to", tmp_path / "a", "--without-gate", *licensed).exit_code == 0
    )
    assert "NOT passed" in (tmp_path / "a" / "README.md").read_text()
    facts = read_facts(passed / "final")
    assert facts is not None
    facts.model_copy(update={"stopped": "recall 0.1"}).save(passed / "final")
    refused = call("train", "publish", passed, "--to", tmp_path / "b", *licensed)
    assert refused.exit_code == 2 and "had to stop: recall 0.1" in refused.stderr
    # The gate refused it, so that there is no `final`.
    (passed / "final").rename(passed / "trained")
    refused = call("train", "publish", passed, "--to", tmp_path / "b", *licensed)
    assert refused.exit_code == 2 and "has not passed the regression gate" in refused.stderr
    assert (
        call("train", "publish", passed, "--to", tmp_path / "b", "--without-gate", *licensed).exit_code == 0
    )


def test_a_license_is_given_or_known_from_the_base(passed: Path, tmp_path: Path) -> None:
    refused = call("train", "publish", passed, "--to", tmp_path / "a")
    assert refused.exit_code == 2 and "--license" in refused.stderr
    refused = call("train", "publish", passed, "--to", tmp_path / "a", "--license", "My own terms")
    assert refused.exit_code == 2 and "not a license identifier" in refused.stderr
    facts = read_facts(passed / "final")
    assert facts is not None
    known = facts.base.model_copy(update={"license": "mit"})
    facts.model_copy(update={"base": known}).save(passed / "final")
    said = call("train", "publish", passed, "--to", tmp_path / "a", "--with-report")
    assert said.exit_code == 0 and (tmp_path / "a" / "report.html").is_file()
    found = metadata_load(tmp_path / "a" / "README.md")
    assert found is not None and found["license"] == "mit"


def test_parts_of_a_configuration_name_no_path_either(passed: Path, tmp_path: Path) -> None:
    path = passed / "final" / "adapter_config.json"
    config = json.loads(path.read_text()) | {"parts": [{"_name_or_path": "/home/ann smith/my base"}]}
    path.write_text(json.dumps(config | {"base_model_name_or_path": "C:\\Users\\ann smith\\my base"}))
    packed = pack(passed, tmp_path / "a", Publishing("mit"))
    found = json.loads((packed / "adapter_config.json").read_text())
    assert found["parts"] == [{"_name_or_path": "my base"}]
    assert found == config | {"base_model_name_or_path": "my base", "parts": found["parts"]}


def test_a_link_out_of_the_checkpoint_is_not_packed(passed: Path, tmp_path: Path) -> None:
    (tmp_path / "id_rsa").write_text("secret")
    (passed / "final" / "LICENSE").symlink_to(tmp_path / "id_rsa")
    refused = call("train", "publish", passed, "--to", tmp_path / "a", "--license", "mit")
    assert refused.exit_code == 2 and "outside the checkpoint" in " ".join(refused.stderr.split())
    assert not list(tmp_path.glob("*a*.tmp")) and not (tmp_path / "a").exists()
    # A step without a prompt set has that of its training.
    step = passed / "steps" / "checkpoint-2"
    shutil.rmtree(step / "prompt_set")
    (passed / "prompt_set" / "critic.txt").unlink()
    (passed / "prompt_set" / "critic.txt").symlink_to(tmp_path / "id_rsa")
    options = ("--license", "mit", "--without-gate")
    refused = call("train", "publish", step, "--to", tmp_path / "a", *options)
    assert refused.exit_code == 2 and "outside the checkpoint" in " ".join(refused.stderr.split())
    # The files of a model in the Hugging Face cache are links.
    model = tmp_path / "models--ann--light"
    shutil.copytree(passed / "final", model / "snapshots" / "0", ignore=shutil.ignore_patterns("LICENSE"))
    (model / "blobs").mkdir()
    (model / "blobs" / "0").write_text("terms")
    (model / "snapshots" / "0" / "LICENSE").symlink_to("../../blobs/0")
    packed = pack(model / "snapshots" / "0", tmp_path / "a", Publishing("mit"))
    assert (packed / "LICENSE").read_text() == "terms" and not (packed / "LICENSE").is_symlink()


@pytest.mark.parametrize(
    "damage", ["{", "[]", '{"stage": "sft", "base": {"name": "b", "digest": "0", "hub": "a\\n"}}']
)
def test_damaged_facts_do_not_hide_that_a_training_had_to_stop(
    damage: str, run: Path, passed: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (passed / "final" / "model_card.json").write_text(damage)
    refused = call("train", "publish", passed, "--to", tmp_path / "a", "--license", "mit")
    assert refused.exit_code == 1 and "model_card.json" in refused.stderr
    assert not (tmp_path / "a").exists()
    with pytest.raises(TrainingError, match=r"model_card\.json"):
        merge(run.parent / "base", passed / "final", tmp_path / "b")
    # As the base of the next training, it only lacks its history.
    assert origin_of(passed / "final").stages == () and "model_card.json" in caplog.text


def test_a_step_and_a_checkpoint_of_an_earlier_version_are_packed(run: Path, tmp_path: Path) -> None:
    step = run / "steps" / "checkpoint-2"
    options = ("--license", "mit", "--without-gate")
    said = call("train", "publish", step, "--to", tmp_path / "a", *options)
    assert said.exit_code == 0, said.output
    assert not list((tmp_path / "a").glob("optimizer*")) and not list((tmp_path / "a").glob("trainer_state*"))
    assert prompt_set_of(tmp_path / "a") == default_prompt_set()
    assert read_card(tmp_path / "a" / "agent.json") == read_card(run / "agent.json") != AgentCard()
    assert "- Base: base (digest not known)" in (tmp_path / "a" / "README.md").read_text()


def test_a_training_that_is_not_finished_is_named(tmp_path: Path) -> None:
    refused = call("train", "publish", tmp_path, "--to", tmp_path / "a", "--license", "mit")
    assert refused.exit_code == 2 and "does not contain a finished training" in refused.stderr
