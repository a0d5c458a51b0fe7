"""Settings of the published system: of its paper, and of its released code.

The command line's `--as`, the benchmark presets and `parity` all use these values.
`docs/how-to/runs/as-published.md` names the source of each value.
"""

from __future__ import annotations

from typing import Any, Literal

from ..types import RunSettings

PublishedSystem = Literal["released", "paper"]

BENCHMARK_SETTINGS: dict[PublishedSystem, dict[str, Any]] = {
    "released": {"max_attempts": 3, "keep": "last", "judge_last": False},
    "paper": {"max_attempts": 5, "keep": "last", "judge_last": False},
}
"""Settings of a benchmark run. The released ones are those of the UEval runner."""

_STORY: dict[str, Any] = {
    "accept_at": None,
    "source": "previous",
    "on_failure": "keep",
    "candidates": 1,
    "derive_checklist": False,
}
STORY_SETTINGS: dict[PublishedSystem, dict[str, Any]] = {
    "released": BENCHMARK_SETTINGS["released"] | _STORY | {"judge_last": True, "seed_rule": "every step"},
    "paper": BENCHMARK_SETTINGS["paper"] | _STORY | {"seed_rule": "every try"},
}
"""Settings of a single story.

The released ones are those of the demo (demo_klein.py). It differs from the UEval runner: all attempts of a
step have one seed, and the critic also judges the last attempt. The paper names no seeds.
"""


def published_settings(system: PublishedSystem, **others: Any) -> RunSettings:
    """Return the settings with which the published system generates a story.

    Args:
        system: "released": the released code's demo. "paper": the paper.
        **others: Other settings, such as `seed`. They replace those of the published system.

    Raises:
        ValidationError: A setting is unknown or out of range.
    """
    return RunSettings.model_validate(STORY_SETTINGS[system] | others)
