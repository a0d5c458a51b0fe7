"""Settings of the published system in Critic Loop, and what a node cannot set, as lines of its report."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ...backend.chat.protocol import ChatModel
from ...backend.errors import SettingsError
from ...backend.generators.protocol import Generator, TakesStepSettings
from ...backend.pipeline.published import (
    REPLY_SETTINGS,
    STORY_SETTINGS,
    PublishedSystem,
    not_as_published,
    with_published_size,
)
from ..inputs.loop_inputs import OWN_SETTINGS
from ..inputs.sockets import PlannedRequest

SAMPLING = ("temperature", "top_p", "top_k")
OTHER_PLANNER = (
    "The plan was not sampled as in the released code. Set at the planner's agent: temperature "
    "{temperature}, top_p {top_p}, top_k {top_k}."
)


@dataclass(frozen=True)
class PublishedRun:
    """What a run uses of the published system.

    Attributes:
        plan: The plan, with the published size of its images.
        settings: Settings of the loop that replace the inputs of the node.
        replies: Reply settings of the critic that replace those of its agent.
        notes: What is not as published.
    """

    plan: PlannedRequest
    settings: dict[str, Any] = field(default_factory=dict)
    replies: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def published_run(
    name: str, planned: PlannedRequest, generator: Generator | None, critic: ChatModel | None
) -> PublishedRun:
    """Return what a run uses of the published system with this name; nothing for OWN_SETTINGS.

    Raises:
        SettingsError: The name is unknown.
    """
    if name == OWN_SETTINGS:
        return PublishedRun(planned)
    systems: dict[str, PublishedSystem] = {system: system for system in STORY_SETTINGS}
    system = systems.get(name)
    if system is None:
        choices = ", ".join((OWN_SETTINGS, *STORY_SETTINGS))
        raise SettingsError(f"Critic Loop: as_published is {name!r}.", f"Choose one of: {choices}.")
    replies = REPLY_SETTINGS[system]
    has_size = isinstance(generator, TakesStepSettings) and "size" in generator.step_settings
    prompts = {"planner": planned.prompt_set} if planned.planner else {}
    if critic is not None:
        prompts["critic"] = critic.prompt_set.digest if critic.prompt_set else ""
    notes = not_as_published(system, prompts, has_size or generator is None)
    sampling = {key: replies[key] for key in SAMPLING if key in replies}
    if planned.planner and not all(f'"{key}":{value}' in planned.planner for key, value in sampling.items()):
        notes.append(OTHER_PLANNER.format(**sampling))
    if has_size:
        planned = planned.model_copy(update={"plan": with_published_size(system, planned.plan)})
    return PublishedRun(planned, STORY_SETTINGS[system], replies, tuple(notes))
