"""Options of agents on the command line, and the report of `doctor --agent`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support import tiny_checkpoint
from typer.testing import CliRunner

from interleave_thinker.backend.chat import open_chat
from interleave_thinker.backend.chat.engine.settings import EngineSettings
from interleave_thinker.backend.chat.local.chat import TransformersChat
from interleave_thinker.backend.errors import ChatError, SettingsError
from interleave_thinker.backend.generators.encoding_cache import EncodingCacheSettings
from interleave_thinker.cli import app
from interleave_thinker.cli.open_models import Opener
from interleave_thinker.cli.options.model_options import CriticOptions, LocalOptions, PlannerOptions


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_checkpoint.taught_checkpoint(tmp_path_factory.getbasetemp())


def engine_of(agent: Any) -> EngineSettings:
    assert isinstance(agent.chat, TransformersChat)
    return agent.chat.base.settings.engine


def test_engine_settings_are_set_by_name(checkpoint: Path) -> None:
    opener = Opener(
        LocalOptions(
            engine="inline_layers=off, vision_bytes=0, encodings_bytes=0", constrained_decoding="always"
        )
    )
    critic = opener.critic(CriticOptions(critic=f"transformers:{checkpoint}"))
    assert engine_of(critic) == EngineSettings(inline_layers=False, vision_bytes=0)
    planner = opener.planner(PlannerOptions(planner="tinyworld"))
    assert engine_of(planner) == EngineSettings(
        inline_layers=False, vision_bytes=0, prompt_lookup_tokens=0, prefix_tokens=0
    )
    assert critic and (planner.settings.grammar, critic.settings.grammar) == ("plan", "verdict")
    assert opener._models._shared_with(frozenset({"encoding_cache"})) == {
        "encoding_cache": EncodingCacheSettings(encodings_bytes=0)
    }
    opener.finish()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("speed=on", "vision_bytes"),
        ("enabled", "NAME=VALUE"),
        ("vision_bytes=-1", "greater"),
    ],
)
def test_unknown_engine_settings_are_rejected(text: str, words: str) -> None:
    with pytest.raises(SettingsError, match="--engine") as error:
        Opener(LocalOptions(engine=text)).planner(PlannerOptions(planner="tinyworld"))
    assert words in str(error.value)


def test_engine_settings_that_no_model_supports_are_rejected() -> None:
    opener = Opener(LocalOptions(engine="encodings_bytes=0"))
    opener.planner(PlannerOptions(planner="tinyworld"))
    with pytest.raises(SettingsError, match="--engine"):
        opener.finish()


def doctor(*arguments: str) -> Any:
    result = CliRunner().invoke(app, ["doctor", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_doctor_shows_which_settings_are_switched_off_and_why(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "switched off" not in doctor("--agent", "tinyworld")
    from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLTextAttention

    forward = Qwen3VLTextAttention.forward

    def scaled(*arguments: Any, **options: Any) -> Any:
        """Simulate a version that scales the result of its attention."""
        attended, weights = forward(*arguments, **options)
        return attended * 3, weights

    monkeypatch.setattr(Qwen3VLTextAttention, "forward", scaled)
    spec = f"transformers:{checkpoint}"
    found = json.loads(doctor("--agent", spec, "--json"))
    assert list(found["switched_off"]) == ["inline_layers"]
    assert "inline_layers: switched off: logits differ" in " ".join(doctor("--agent", spec).split())


def test_fp8_is_rejected_on_a_device_without_it(checkpoint: Path) -> None:
    with pytest.raises(ChatError, match="fp8 requires an NVIDIA GPU"):
        open_chat(f"transformers:{checkpoint}", device="cpu", quantization="fp8")


def test_each_agent_has_its_own_reply_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from interleave_thinker.backend.prompts.prompt_set import default_prompt_set
    from interleave_thinker.cli.open_models import Opener
    from interleave_thinker.cli.options.model_options import CriticOptions, LocalOptions, PlannerOptions

    other = default_prompt_set().model_copy(update={"critic": "other words"})
    other.save(tmp_path / "prompt_set")
    opener = Opener(LocalOptions())
    untouched = opener.planner(PlannerOptions()), opener.critic(CriticOptions())
    planner = opener.planner(
        PlannerOptions(planner_max_tokens=9000, planner_temperature=0.5, planner_prompts=str(tmp_path))
    )
    critic = opener.critic(
        CriticOptions(
            critic_top_p=0.9,
            critic_top_k=5,
            critic_seed=3,
            critic_max_pixels=4096,
            critic_prompts=str(tmp_path / "prompt_set"),
        )
    )
    assert critic is not None and untouched[1] is not None
    assert (planner.settings.max_tokens, planner.settings.temperature) == (9000, 0.5)
    used = critic.settings
    assert (used.top_p, used.top_k, used.seed, used.max_pixels, used.watch_verdict) == (0.9, 5, 3, 4096, True)
    assert planner.prompt_set == critic.prompt_set == other
    assert other.digest in planner.identity and other.digest in critic.identity
    assert planner.chat is untouched[0].chat, "other settings do not load the model again"
    for plain, role in zip(untouched, ("false", "true"), strict=True):
        assert plain.identity.endswith(
            f'"max_tokens":2048,"temperature":0.0,"seed":0,"watch_verdict":{role}}}'
        )  # type: ignore[union-attr]
    with pytest.raises(SettingsError, match="cannot be read"):
        opener.planner(PlannerOptions(planner_prompts=str(tmp_path / "gone")))
