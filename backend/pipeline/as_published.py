"""Settings of the published system: of its paper, and of its released code.

The command line's `--as`, `Pipeline(published=...)`, the Critic Loop node, the benchmark presets and the
parity test all use these values.
`docs/explanation/method.md` names the source of each value.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from ..core.prompts.prompt_set import WORDINGS
from ..core.prompts.published_checkpoints import REPOSITORY, import_command
from ..core.prompts.trained_with import FLAGS
from ..core.seams.chat_model import MAX_PIXELS_BOUND
from ..core.types import Plan, RunSettings

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
    "released": BENCHMARK_SETTINGS["released"] | _STORY | {"judge_last": True, "seed_rule": "1000 per step"},
    "paper": BENCHMARK_SETTINGS["paper"] | _STORY | {"seed_rule": "every attempt"},
}
"""Settings of a single story.

The released ones are those of the demo (demo_klein.py). It differs from the UEval runner: all attempts of a
step have one seed, and the critic also judges the last attempt. The paper names no seeds.
"""
REPLY_SETTINGS: dict[PublishedSystem, dict[str, Any]] = {
    "released": {
        "temperature": 0.7,
        "top_p": 0.8,
        "top_k": 20,
        "max_tokens": 4096,
        "max_pixels": MAX_PIXELS_BOUND,
    },
    "paper": {},
}
"""Reply settings of planner and critic.

The sampling is that of the checkpoints' generation_config.json, the token limit that of the demo, which shows
images in full size. The paper names none of them.
"""
SIZES: dict[PublishedSystem, str | None] = {"released": "1024x1024", "paper": None}
"""Size of the generated images."""
OTHER_PROMPTS = (
    "The {roles} {are} not asked with the authors' prompts, which this package does not contain. Import them "
    f"once: git clone {REPOSITORY}, then {{command}}. MODEL is the folder of the model. For a model on a "
    f"server it is an empty folder that you then name: {FLAGS}."
)
OTHER_SIZE = "The released code generates images of {size} pixels. This generator keeps its own size."


def published_settings(system: PublishedSystem, **others: Any) -> RunSettings:
    """Return the settings with which the published system generates a story.

    Args:
        system: "released": the released code's demo. "paper": the paper.
        **others: Other settings, such as `seed`. They replace those of the published system.

    Raises:
        ValidationError: A setting is unknown or out of range.
    """
    return RunSettings.model_validate(STORY_SETTINGS[system] | others)


def with_published_size(system: PublishedSystem, plan: Plan) -> Plan:
    """Return the plan with the published size at every step that generates an image and has no own size."""
    size = SIZES[system]
    if size is None:
        return plan
    settings = [
        step.settings.model_copy(update={"size": step.settings.size or (size if step.prompt else None)})
        for step in plan.steps
    ]
    steps = [
        step.model_copy(update={"settings": own}) for step, own in zip(plan.steps, settings, strict=True)
    ]
    return plan.model_copy(update={"steps": tuple(steps)})


def not_as_published(system: PublishedSystem, prompts: Mapping[str, str], has_size: bool = True) -> list[str]:
    """Return what is not as in the published system although its settings are used, in sentences.

    Args:
        system: The published system.
        prompts: Digest of the prompt set by the role of the agent.
        has_size: Whether the images have the published size.
    """
    said = []
    others = [role for role, digest in prompts.items() if digest not in WORDINGS]
    if others:
        are = "are" if len(others) > 1 else "is"
        command = import_command(Path("MODEL"))
        said.append(OTHER_PROMPTS.format(roles=" and the ".join(others), are=are, command=command))
    if not has_size and SIZES[system]:
        said.append(OTHER_SIZE.format(size=SIZES[system]))
    return said
