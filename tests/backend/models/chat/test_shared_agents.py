"""Planner and critic on one base or on two: separate replies, merged adapters, and VRAM use."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from support import tiny_checkpoint
from support.small_agents import Counting
from support.tiny_checkpoint import PLAIN, WATCH, alike, question

from interleave_thinker.backend.core.errors import AnswerError, ChatError, SettingsError
from interleave_thinker.backend.core.machine.counters import counting
from interleave_thinker.backend.core.types import Plan, Request, RunSettings, Step
from interleave_thinker.backend.models.chat import Reply, ReplySettings, open_chat
from interleave_thinker.backend.story.agents.critic import Critic
from interleave_thinker.backend.story.agents.planner import Planner
from interleave_thinker.backend.story.loop.collaborators import Collaborators
from interleave_thinker.backend.story.loop.loop import run

GPU = "cpu:0"
"""Computes like `cpu` but compares unequal to it, so that weights are loaded and offloaded as on a GPU."""
ASKED = [(question(255, 240), WATCH), (question(255, 20), WATCH), (question(20), PLAIN)]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_checkpoint.taught_checkpoint(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="module")
def adapters(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return tiny_checkpoint.two_adapters(tmp_path_factory.getbasetemp())


def opened(checkpoint: Path, **options: Any) -> Any:
    return open_chat(f"transformers:{checkpoint}", **{"device": "cpu", "dtype": "float32"} | options)


def test_two_adapters_on_one_base_reply_as_each_alone(checkpoint: Path, adapters: tuple[Path, Path]) -> None:
    """Interleaved, with all caches."""
    alone = [opened(checkpoint, adapter=str(folder), share=False) for folder in adapters]
    expected = [[chat.reply(*asked) for asked in ASKED] for chat in alone]
    together = [opened(checkpoint, adapter=str(folder)) for folder in adapters]
    assert together[0].weights is together[1].weights
    for _ in range(2):
        for number, asked in enumerate(ASKED):
            for chat, replies in zip(together, expected, strict=True):
                assert chat.reply(*asked) == alike(replies[number])
    assert expected[0] != expected[1]


def test_a_merged_adapter_is_the_adapter_without_its_layers(
    checkpoint: Path, adapters: tuple[Path, Path]
) -> None:
    over, merged = (opened(checkpoint, adapter=str(adapters[0]), merge=merge) for merge in (False, True))
    assert merged.weights is not over.weights
    assert merged.weights is opened(checkpoint, adapter=str(adapters[0]), merge=True).weights
    assert len({merged.identity, over.identity, opened(checkpoint).identity}) == 3
    assert not any("lora" in name for name, _ in merged.model.named_modules())
    for asked in ASKED:
        found, expected = merged.reply(*asked), over.reply(*asked)
        assert found.text == expected.text
        assert (found.probability or 0.0) == pytest.approx(expected.probability or 0.0, rel=1e-3)
    merged.base.release()
    assert merged.reply(*ASKED[0]).text == over.reply(*ASKED[0]).text


@pytest.mark.parametrize("first", [0, 1])
def test_an_adapter_that_fails_while_it_is_attached_leaves_the_base_as_it_was(
    first: int, checkpoint: Path, adapters: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a base without adapters, and on one that has another adapter."""
    import peft

    agents = [opened(checkpoint), *(opened(checkpoint, adapter=str(one)) for one in adapters[:first])]
    before = [alike(chat.reply(*asked)) for chat in agents for asked in ASKED]
    attach = peft.set_peft_model_state_dict

    def fails(*arguments: Any, **options: Any) -> None:
        attach(*arguments, **options)
        raise RuntimeError("out of memory")

    monkeypatch.setattr(peft, "set_peft_model_state_dict", fails)
    with pytest.raises(ChatError, match="out of memory"):
        opened(checkpoint, adapter=str(adapters[1]))
    monkeypatch.undo()
    assert [chat.reply(*asked) for chat in agents for asked in ASKED] == before
    again = opened(checkpoint, adapter=str(adapters[1]))
    alone = opened(checkpoint, adapter=str(adapters[1]), share=False)
    assert again.reply(*ASKED[0]) == alike(alone.reply(*ASKED[0]))
    assert [chat.reply(*asked) for chat in agents for asked in ASKED] == before


def test_adapters_that_cannot_be_merged_are_rejected(checkpoint: Path, adapters: tuple[Path, Path]) -> None:
    with pytest.raises(SettingsError, match="merge is set without an adapter"):
        opened(checkpoint, merge=True)
    with pytest.raises(SettingsError, match="Cannot merge an adapter into 4bit"):
        opened(checkpoint, adapter=str(adapters[0]), merge=True, quantization="4bit")


class PlannerByModel(Planner):
    """Calls its model, and returns a plan of two steps for any reply."""

    def plan(self, request: Request, on_token: Any = None) -> Plan:
        self.chat.reply(question(text="plan"), ReplySettings(max_tokens=2))
        return Plan(steps=(Step(number=1, prompt="a house"), Step(number=2, prompt="a boat")))


def run_counted(planner: Any, critic: Any) -> Any:
    settings = RunSettings(max_attempts=2)
    # Random adapters may write verdicts that cannot be parsed, which ends a run.
    with counting() as counts, suppress(AnswerError):
        list(
            run(
                Request(text="two"),
                Collaborators(PlannerByModel(planner), Counting(size=48), Critic(critic, settings=WATCH)),
                settings,
            )
        )
    return counts


def test_the_planner_is_offloaded_and_loaded_again_only_on_use(checkpoint: Path, tmp_path: Path) -> None:
    other = shutil.copytree(checkpoint, tmp_path / "critic")
    with counting() as loading:
        planner, critic = opened(checkpoint, device=GPU), opened(other, device=GPU)
    assert loading.agents_loaded == 0, "weights stay in RAM until the first reply"
    counts = run_counted(planner, critic)
    assert counts.judgements > 1
    assert (counts.agents_loaded, counts.agents_offloaded) == (2, 1)
    with counting() as counts:
        critic.reply(*ASKED[0])
    assert counts.agents_loaded == 0
    with counting() as counts:
        again = planner.reply(*ASKED[0])
    assert counts.agents_loaded == 1
    there = opened(checkpoint).reply(*ASKED[0])
    assert (again.text, again.finish) == (there.text, there.finish)
    assert again.probability == pytest.approx(there.probability, rel=1e-4)


def test_a_planner_on_the_critics_weights_stays(checkpoint: Path, adapters: tuple[Path, Path]) -> None:
    options = {"device": GPU, "dtype": "bfloat16"}
    planner, critic = (opened(checkpoint, adapter=str(folder), **options) for folder in adapters)
    counts = run_counted(planner, critic)
    assert (counts.agents_loaded, counts.agents_offloaded) == (1, 0)


def test_quantised_weights_are_forgotten_and_read_again(checkpoint: Path) -> None:
    for library in ("bitsandbytes", "accelerate"):
        pytest.importorskip(library)
    chat = opened(checkpoint, device=GPU, dtype="auto", quantization="8bit")
    before: Reply = alike(chat.reply(*ASKED[0]))
    with counting() as counts:
        chat.offload()
        assert chat.model is None
        assert chat.reply(*ASKED[0]) == before
    assert (counts.agents_offloaded, counts.agents_loaded) == (1, 1)


def test_a_model_in_ram_is_not_offloaded(checkpoint: Path) -> None:
    chat = opened(checkpoint)
    with counting() as counts:
        chat.offload()
        chat.reply(*ASKED[0])
    assert (counts.agents_offloaded, counts.agents_loaded) == (0, 0)
