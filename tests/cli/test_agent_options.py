"""Options of agents on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support import tiny_checkpoint
from support.cli_calls import call

from interleave_thinker.backend.core.errors import SettingsError
from interleave_thinker.backend.core.prompts.prompt_set import default_prompt_set
from interleave_thinker.backend.models.chat.local.base_model import EngineSettings
from interleave_thinker.backend.models.chat.local.chat import TransformersChat
from interleave_thinker.cli.models import CriticOptions, LocalOptions, Opener, PlannerOptions


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_checkpoint.taught_checkpoint(tmp_path_factory.getbasetemp())


def engine_of(agent: Any) -> EngineSettings:
    assert isinstance(agent.chat, TransformersChat)
    return agent.chat.base.settings.engine


def test_engine_settings_are_set_by_name(checkpoint: Path) -> None:
    given = LocalOptions.model_validate(
        {
            "engine": {"prefix_tokens": 9, "static_cache": "on"},
            "constrained_decoding": "always",
        }
    )
    opener = Opener(given)
    critic = opener.critic(CriticOptions(critic=f"transformers:{checkpoint}"))
    assert engine_of(critic) == EngineSettings(prefix_tokens=9, static_cache=True)
    planner = opener.planner(PlannerOptions(planner="tinyworld"))
    assert engine_of(planner) == engine_of(critic)
    assert critic and (planner.settings.grammar, critic.settings.grammar) == ("plan", "verdict")
    opener.finish()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("engine.prefix_token=1", "Did you mean engine.prefix_tokens"),
        ("engine.static_cache", "NAME=VALUE"),
        ("engine.prefix_tokens=-1", "it must be at least 0. Allowed: integer, 0 or more"),
    ],
)
def test_a_wrong_setting_names_what_is_right(text: str, words: str) -> None:
    result = call("plan", "a red boat", "--set", text)
    assert result.exit_code == 2 and words in result.stderr, result.stderr


def test_engine_settings_that_no_model_supports_are_rejected() -> None:
    opener = Opener(LocalOptions(gpu_layers=1))
    opener.planner(PlannerOptions(planner="tinyworld"))
    with pytest.raises(SettingsError, match="gpu_layers"):
        opener.finish()


def test_each_agent_has_its_own_reply_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = default_prompt_set().model_copy(update={"critic": "other words"})
    other.save(tmp_path / "prompt_set")
    opener = Opener(LocalOptions())
    untouched = opener.planner(PlannerOptions()), opener.critic(CriticOptions())
    planner = opener.planner(PlannerOptions(max_tokens=9000, temperature=0.5, prompts=str(tmp_path)))
    critic = opener.critic(
        CriticOptions(top_p=0.9, top_k=5, seed=3, max_pixels=4096, prompts=str(tmp_path / "prompt_set"))
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
        opener.planner(PlannerOptions(prompts=str(tmp_path / "gone")))
