"""Every finished training contains a model card for the Hugging Face Hub, without paths of the machine."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from support import short_trainings as short

pytest.importorskip("trl", reason='training needs: pip install ".[training]"')

from huggingface_hub import ModelCard, metadata_load, metadata_save

from interleave_thinker.backend.core.prompts.agent_card import AgentCard, KindReliability, MeasuredStrictness
from interleave_thinker.backend.core.prompts.trained_with import trained_with
from interleave_thinker.backend.models.checkpoints.checkpoint import checkpoint_digest
from interleave_thinker.tinyworld import checkpoint
from interleave_thinker.tinyworld.vocabulary import check_request
from interleave_thinker.training.gate.gate_rows import GateSettings
from interleave_thinker.training.gate.measures import Answer, measured_verdicts
from interleave_thinker.training.gate.regression_gate import compare, publish
from interleave_thinker.training.trainer.model_card import (
    CardFacts,
    Origin,
    origin_of,
    read_facts,
    shareable,
    write_card,
)
from interleave_thinker.training.trainer.saving import merge


def check_round_trip(card: Path) -> dict:
    """Check that the hub's own library reads the metadata, and writes the same again."""
    found = metadata_load(card)
    assert found is not None
    ModelCard.load(card)
    again = card.with_name("again.md")
    shutil.copyfile(card, again)
    metadata_save(again, found)
    assert metadata_load(again) == found
    again.unlink()
    return found


@pytest.mark.parametrize("stage", ["sft", "critic-grpo"])
def test_every_stage_leaves_a_card(stage: str, folder: Path, request: pytest.FixtureRequest) -> None:
    run: Path = request.getfixturevalue("tuned" if stage == "sft" else "reinforced")
    final = run / "final"
    card = (final / "README.md").read_text(encoding="utf-8")
    found = check_round_trip(final / "README.md")
    library = "peft" if stage == "sft" else "transformers"
    assert found["pipeline_tag"] == "image-text-to-text" and found["library_name"] == library
    assert {"interleave-thinker", "critic", "qwen3_vl"} - {"qwen3_vl" * (stage == "sft")} <= set(
        found["tags"]
    )
    rows = {one["name"]: one for one in found["training_data"]}
    (trained,) = (one for name, one in rows.items() if name.startswith("training"))
    assert trained["count"] > 0 and len(trained["digest"]) == 16
    facts = read_facts(final)
    assert facts is not None and facts.stage == stage and facts.steps == 4
    for text in (f"Stage: {stage}", "models/interleave", "- weight-decay: 0.01" * (stage != "sft")):
        assert text in card, text
    if stage != "sft":
        assert "step 0: " in card and "step 4: " in card
    for private in (str(folder), str(run), "of a user", "my run"):
        assert private not in card and private not in (final / "model_card.json").read_text()


def test_only_the_card_of_a_tiny_agent_has_a_tiny_request_and_no_gguf(tmp_path: Path) -> None:
    shutil.copyfile(checkpoint("critic") / "config.json", tmp_path / "config.json")
    facts = CardFacts(stage="sft", role="critic", base=Origin(name="b", digest="0"))
    tiny = write_card(tmp_path, facts).read_text()
    (request,) = re.findall(r'run "(.*)" --critic transformers:my-critic --out', tiny)
    check_request(request)
    assert "gguf" not in tiny
    config = json.loads((tmp_path / "config.json").read_text())
    config["vision_config"]["spatial_merge_size"] = 2
    (tmp_path / "config.json").write_text(json.dumps(config))
    large = write_card(tmp_path, facts).read_text()
    assert "train merge --model my-critic --to gguf" in large and request not in large


def test_the_gate_and_what_it_measured_are_in_the_card(tuned: Path, tmp_path: Path) -> None:
    old = measured_verdicts([Answer(True)] * 4, [True, True, False, False])
    gate = compare(old, old, GateSettings())
    kinds = {"color": KindReliability(items=40, true=20, yes_of_true=1.0, no_of_false=0.9, low=0.8)}
    gate = gate.model_copy(update={"reliability": kinds, "examples": ("| a red boat | right | wrong |",)})
    final = publish(tuned / "final", tmp_path / "final", gate, gate)
    card = (final / "README.md").read_text(encoding="utf-8")
    assert "NOT passed" in card and "| wrong images rejected | " in card
    assert "| color | 40 | 1.000 | 0.900 | 0.950, 0.800 | judges it |" in card
    assert "agrees with people on 2 of 4" in card and "| a red boat | right | wrong |" in card
    assert "it accepted 100 % of the wrong images" in card and "## A question as it was trained" in card
    assert re.search(r"training rows: \d+ ", card)
    (result, *_) = ModelCard.load(final / "README.md").data.eval_results or []
    assert (result.metric_type, result.dataset_name) == ("accuracy", "4 held-out rows")
    assert result.metric_value == pytest.approx(0.5)
    before = (tuned / "final" / "README.md").read_text(encoding="utf-8")
    assert "Not measured." in before and "NOT passed" not in before
    assert checkpoint_digest(final) == checkpoint_digest(tuned / "final")
    assert trained_with(final).published is None


def test_an_adapter_names_its_base_and_a_merged_one_is_a_model(folder: Path, tmp_path: Path) -> None:
    cached = tmp_path / "models--Qwen--Small-VL" / "snapshots" / "0123"
    shutil.copytree(folder / "base", cached)
    (cached / "README.md").write_text("---\nlicense: apache-2.0\n---\n# Small\n")
    rows = short.SftData(short.RowSet(short.sft_rows(), folder), role="critic")
    settings = short.SFT.model_copy(update={"max_steps": 1, "lora_r": 2})
    final = short.train_sft(cached, rows, tmp_path / "run", settings, log=short.quiet)
    found = check_round_trip(final / "README.md")
    assert found["base_model"] == "Qwen/Small-VL" and found["base_model_relation"] == "adapter"
    assert found["library_name"] == "peft" and found["license"] == "apache-2.0"
    assert "transformers:Qwen/Small-VL --set critic.adapter=" in (final / "README.md").read_text()
    made = merge(cached, final, tmp_path / "merged")
    found = check_round_trip(made / "README.md")
    assert found["base_model_relation"] == "finetune" and found["library_name"] == "transformers"
    assert "merged from a LoRA adapter" in (made / "README.md").read_text()
    # A training that continues from here still knows the published model, its license and its rows.
    origin = origin_of(made)
    assert origin.hub == "Qwen/Small-VL" and origin.license == "apache-2.0" and origin.stages == ("sft",)
    assert [one.name for one in origin.rows] == ["training rows"]


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ("diffusers:/home/ann/models/flux steps=4", "diffusers:flux steps=4"),
        ("transformers:C:\\Users\\ann\\critic", "transformers:critic"),
        ("C:/Users/ann/critic", "critic"),
        ("openai:gpt@http://10.0.0.1:8000/v1?key=s3cret", "openai:gpt@(address)"),
        ("~/critic", "critic"),
        ("transformers:../../ann/critic", "transformers:critic"),
        ("Qwen/Qwen3-VL-8B-Instruct", "Qwen/Qwen3-VL-8B-Instruct"),
        ("accuracy 0.5, 1/2 of 3 / 4", "accuracy 0.5, 1/2 of 3 / 4"),
    ],
)
def test_paths_and_addresses_are_left_out(given: str, left: str) -> None:
    assert shareable(given) == left
    origin = Origin(name=given, digest="0")
    facts = CardFacts(stage="sft", base=origin, made_with={"judge": given}, notes=(given,), stopped=given)
    assert {facts.base.name, facts.made_with["judge"], *facts.notes, facts.stopped} == {left}


def test_known_paths_with_blanks_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "Ann Smith"
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USERPROFILE", str(home))
    assert shareable(f"transformers:{home}/critic, twice") == "transformers:critic, twice"
    (home / "my rows").mkdir(parents=True)
    assert shareable(str(home / "my rows")) == "my rows"


def test_a_stopped_training_and_a_planner_say_what_is_not_known(tmp_path: Path) -> None:
    AgentCard(role="planner").save(tmp_path)
    facts = CardFacts(
        stage="planner-grpo", role="planner", base=Origin(name="b", digest="0"), stopped="it fell"
    )
    write_card(tmp_path, facts)
    card = (tmp_path / "README.md").read_text()
    assert "had to stop: it fell" in card and "the gate compares critics" in card and "Not stated." in card
    assert "license" not in check_round_trip(tmp_path / "README.md")
    passed = MeasuredStrictness(rows=9, accuracy=1, accepts_right=1, rejects_wrong=1, passed=True)
    AgentCard(role="critic", gate=passed).save(tmp_path)
    write_card(tmp_path, facts.model_copy(update={"role": "critic"}), "mit")
    assert "on 9 held-out rows: passed" in (tmp_path / "README.md").read_text()
    assert check_round_trip(tmp_path / "README.md")["license"] == "mit"
