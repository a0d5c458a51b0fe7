"""An uploaded checkpoint contains only its own files, no path of the machine, and what the gate found."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.cli_calls import call

pytest.importorskip("trl", reason='training needs: pip install ".[training]"')

from huggingface_hub import HfApi, metadata_load

from interleave_thinker.backend.core.errors import TrainingError
from interleave_thinker.backend.core.prompts.agent_card import MeasuredStrictness, read_card
from interleave_thinker.training.trainer.model_card import origin_of, read_facts, write_card
from interleave_thinker.training.trainer.saving import merge

REPO = ("--repo", "ann/light-critic", "--license", "apache-2.0")


@pytest.fixture
def passed(tuned: Path, tmp_path: Path) -> Path:
    """A training of an adapter whose critic passed the gate."""
    copy = tmp_path / "copy"
    shutil.copytree(tuned, copy)
    card = read_card(copy / "final" / "agent.json")
    assert card is not None
    gate = MeasuredStrictness(rows=40, accuracy=1, accepts_right=1, rejects_wrong=1, passed=True)
    card.model_copy(update={"gate": gate}).save(copy / "final")
    return copy


@pytest.fixture
def uploaded(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The files of the last upload by name, and the arguments of its repository under ""."""
    found: dict[str, Any] = {}

    def commit(self: HfApi, repo: str, operations: list[Any], **options: Any) -> Any:
        for one in operations:
            content = one.path_or_fileobj
            found[one.path_in_repo] = content if isinstance(content, bytes) else Path(content).read_bytes()
        return SimpleNamespace(commit_url=f"https://hub/{repo}")

    monkeypatch.setattr(HfApi, "create_repo", lambda self, repo, **options: found.update({"": options}))
    monkeypatch.setattr(HfApi, "create_commit", commit)
    return found


def test_a_critic_that_passed_is_uploaded(passed: Path, tmp_path: Path, uploaded: dict[str, Any]) -> None:
    path = passed / "final" / "adapter_config.json"
    config = json.loads(path.read_text()) | {"parts": [{"_name_or_path": "/home/ann smith/my base"}]}
    path.write_text(json.dumps(config))
    said = call("train", "publish", passed, *REPO)
    assert said.exit_code == 0 and "uploaded: https://hub/ann/light-critic" in said.output, said.output
    assert uploaded.pop("")["private"] is True
    assert {"README.md", "agent.json", "adapter_model.safetensors", "tokenizer.json"} <= set(uploaded)
    assert any(name.startswith("prompt_set/") for name in uploaded)
    assert not any(name.endswith((".pt", ".bin", ".pth")) for name in uploaded)
    for name, content in uploaded.items():
        if not name.endswith(".safetensors"):
            assert b"of a user" not in content and str(tmp_path).encode() not in content, name
    found = json.loads(uploaded["adapter_config.json"])
    assert found == config | {"base_model_name_or_path": "base", "parts": [{"_name_or_path": "my base"}]}
    (tmp_path / "README.md").write_bytes(uploaded["README.md"])
    metadata = metadata_load(tmp_path / "README.md")
    assert metadata is not None and metadata["license"] == "apache-2.0"
    assert metadata["model-index"][0]["name"] == "light-critic"
    assert b"transformers:BASE --set critic.adapter=light-critic" in uploaded["README.md"]


def test_only_the_user_publishes_a_failure(tuned: Path, passed: Path, uploaded: dict[str, Any]) -> None:
    refused = call("train", "publish", tuned, *REPO)
    assert refused.exit_code == 2 and "was not measured by the regression gate" in refused.stderr
    card = read_card(passed / "final" / "agent.json")
    assert card is not None and card.gate is not None
    card.model_copy(update={"gate": card.gate.model_copy(update={"passed": False})}).save(passed / "final")
    refused = call("train", "publish", passed, *REPO)
    assert refused.exit_code == 2 and "did not pass" in refused.stderr and not uploaded
    said = call("train", "publish", passed, *REPO, "--without-gate", "--public")
    assert said.exit_code == 0 and b"NOT passed" in uploaded["README.md"] and not uploaded[""]["private"]
    facts = read_facts(passed / "final")
    assert facts is not None
    write_card(passed / "final", facts.model_copy(update={"stopped": "recall 0.1"}))
    refused = call("train", "publish", passed, *REPO)
    assert refused.exit_code == 2 and "had to stop: recall 0.1" in refused.stderr


def test_a_license_is_given_or_known_from_the_base(passed: Path, uploaded: dict[str, Any]) -> None:
    refused = call("train", "publish", passed, *REPO[:2])
    assert refused.exit_code == 2 and "--license" in refused.stderr
    refused = call("train", "publish", passed, *REPO[:2], "--license", "My own terms")
    assert refused.exit_code == 2 and "not a license identifier" in refused.stderr and not uploaded
    facts = read_facts(passed / "final")
    assert facts is not None
    write_card(passed / "final", facts, license="mit")
    assert call("train", "publish", passed, *REPO[:2]).exit_code == 0
    assert b"license: mit" in uploaded["README.md"]


def test_a_link_is_not_uploaded(passed: Path, tmp_path: Path, uploaded: dict[str, Any]) -> None:
    (tmp_path / "id_rsa").write_text("secret")
    (passed / "final" / "LICENSE").symlink_to(tmp_path / "id_rsa")
    refused = call("train", "publish", passed, *REPO)
    assert refused.exit_code == 2 and "is a link" in " ".join(refused.stderr.split()) and not uploaded


@pytest.mark.parametrize(
    "damage", ["{", '{"stage": "sft", "base": {"name": "b", "digest": "0", "hub": "a\\n"}}']
)
def test_damaged_facts_do_not_hide_that_a_training_had_to_stop(
    damage: str, base: Path, passed: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (passed / "final" / "model_card.json").write_text(damage)
    refused = call("train", "publish", passed, *REPO)
    assert refused.exit_code == 1 and "model_card.json" in refused.stderr
    with pytest.raises(TrainingError, match=r"model_card\.json"):
        merge(base, passed / "final", tmp_path / "b")
    # As the base of the next training, it only lacks its history.
    assert origin_of(passed / "final").stages == () and "model_card.json" in caplog.text


def test_a_step_is_uploaded_without_its_trainer(tuned: Path, uploaded: dict[str, Any]) -> None:
    said = call("train", "publish", tuned / "steps" / "checkpoint-2", *REPO, "--without-gate")
    assert said.exit_code == 0, said.output
    assert not any(name.startswith(("optimizer", "trainer_state")) for name in uploaded)
    assert b"- Base: base (digest not known)" in uploaded["README.md"]
