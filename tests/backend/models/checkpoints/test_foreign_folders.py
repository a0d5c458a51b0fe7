"""Folders of other trainers are rejected with the command that converts them."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from interleave_thinker.backend.core.errors import ChatError
from interleave_thinker.backend.models.checkpoints.checkpoint import check_adapter, find_checkpoint

SHARD = "model_world_size_8_rank_0.pt"
LAYOUTS: dict[str, tuple[tuple[str, ...], str, str, str]] = {
    # files, the given folder, the message, the command that converts it
    "verl": (("actor/" + SHARD, "actor/huggingface/config.json"), "", "verl or EasyR1", "{0}/actor"),
    "verl's actor": ((SHARD, "huggingface/config.json"), "", "verl or EasyR1", "{0}"),
    "verl's configuration": (
        ("actor/" + SHARD, "actor/huggingface/config.json"),
        "actor/huggingface",
        "verl or EasyR1",
        "{0}/actor",
    ),
    "verl's run": (
        ("global_step_9/actor/" + SHARD, "global_step_10/actor/" + SHARD),
        "",
        "verl or EasyR1",
        "{0}/global_step_10/actor",
    ),
    "verl, converted": (
        ("actor/" + SHARD, "actor/huggingface/model.safetensors"),
        "",
        "already converted",
        "{0}/actor/huggingface",
    ),
    "ZeRO": (
        ("config.json", "zero_to_fp32.py", "latest", "global_step9/mp_rank_00_model_states.pt"),
        "",
        "DeepSpeed ZeRO",
        "{0}",
    ),
    "ZeRO without script": (("global_step9/zero_pp_rank_0_mp_rank_00_optim_states.pt",), "", "ZeRO", "{0}"),
    "ZeRO's shards": (("global_step9/mp_rank_00_model_states.pt",), "global_step9", "DeepSpeed ZeRO", "{0}"),
    "ZeRO next to weights": (
        ("config.json", "zero_to_fp32.py", "model.safetensors", "global_step9/mp_rank_00_model_states.pt"),
        "",
        "is a program",
        "prompt_set",
    ),
    "FSDP": (("pytorch_model_fsdp_0/__0_0.distcp",), "", "FSDP", "{0}/pytorch_model_fsdp_0"),
    "FSDP's shards": (("__0_0.distcp", ".metadata"), "", "FSDP", "{0}"),
}


@pytest.mark.parametrize("kind", LAYOUTS)
def test_foreign_folder_is_rejected_with_its_conversion_command(kind: str, tmp_path: Path) -> None:
    files, named, said, converts = LAYOUTS[kind]
    root = tmp_path / "a run"
    for name in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("{}")
    for check in (lambda path: find_checkpoint(str(path), untested=True), check_adapter):
        with pytest.raises(ChatError, match=said) as error:
            check(root / named)
        assert shlex.quote(converts.format(root)) in error.value.hint


def test_a_folder_of_weights_is_not_one_of_another_trainer(tmp_path: Path) -> None:
    (tmp_path / "global_stepper").mkdir()
    with pytest.raises(ChatError, match=r"no config\.json"):
        find_checkpoint(str(tmp_path), untested=True)
