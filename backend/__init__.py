"""The public API. Everything else in this package may change without notice.

Names are imported when they are first used, so that importing the package costs nothing: ComfyUI and
`interleave-thinker --help` import it before they need a pipeline.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .core.errors import (
        AnswerError,
        Cancelled,
        ChatError,
        DrawRefused,
        GeneratorError,
        InterleaveError,
        JournalError,
        NotScorable,
        PictureError,
        ScorerError,
        SettingsError,
    )
    from .core.pictures import Picture
    from .core.prompts.prompt_set import PromptSet
    from .core.seams.chat_model import ChatModel, Message, Reply, ReplySettings
    from .core.seams.generator import Generator
    from .core.seams.scorer import Scorer
    from .core.types.cast import CastMember
    from .core.types.clip import Clip, ClipMaker, ClipPair, Footage
    from .core.types.plan import Plan, Request, Step
    from .core.types.roles import CriticLike, PlannerLike
    from .core.types.run_settings import RunSettings
    from .core.types.trajectory import (
        Attempt,
        Score,
        StepResult,
        StopReason,
        StoryCheck,
        StoryFinding,
        Trajectory,
        Verdict,
    )
    from .models.chat import open_chat
    from .models.clips import open_clip_maker
    from .models.generators import open_generator
    from .models.scorers import open_scorer
    from .output.exporters import Exporter, export_by_name
    from .pipeline.as_published import published_settings
    from .pipeline.pipeline import Pipeline, Story, StoryStream
    from .story.agents.critic import Critic
    from .story.agents.plan_constraints import PlanConstraints
    from .story.agents.planner import Planner
    from .story.approval import approve
    from .story.journal.waiting import Waiting, waiting_for
    from .story.loop.events import (
        AttemptDrawn,
        AttemptJudged,
        AttemptScored,
        AttemptStarted,
        Event,
        Finished,
        PlanReady,
        SettingUnused,
        StepFinished,
        StepRewritten,
        StoryChecked,
    )
    from .story.loop.replay import load_trajectory

__all__ = [
    "AnswerError",
    "Attempt",
    "AttemptDrawn",
    "AttemptJudged",
    "AttemptScored",
    "AttemptStarted",
    "Cancelled",
    "CastMember",
    "ChatError",
    "ChatModel",
    "Clip",
    "ClipMaker",
    "ClipPair",
    "Critic",
    "CriticLike",
    "DrawRefused",
    "Event",
    "Exporter",
    "Finished",
    "Footage",
    "Generator",
    "GeneratorError",
    "InterleaveError",
    "JournalError",
    "Message",
    "NotScorable",
    "Picture",
    "PictureError",
    "Pipeline",
    "Plan",
    "PlanConstraints",
    "PlanReady",
    "Planner",
    "PlannerLike",
    "PromptSet",
    "Reply",
    "ReplySettings",
    "Request",
    "RunSettings",
    "Score",
    "Scorer",
    "ScorerError",
    "SettingUnused",
    "SettingsError",
    "Step",
    "StepFinished",
    "StepResult",
    "StepRewritten",
    "StopReason",
    "Story",
    "StoryCheck",
    "StoryChecked",
    "StoryFinding",
    "StoryStream",
    "Trajectory",
    "Verdict",
    "Waiting",
    "approve",
    "export_by_name",
    "load_trajectory",
    "open_chat",
    "open_clip_maker",
    "open_generator",
    "open_scorer",
    "published_settings",
    "waiting_for",
]

_MODULES = {
    ".story.agents.critic": "Critic",
    ".story.agents.plan_constraints": "PlanConstraints",
    ".story.agents.planner": "Planner",
    ".core.types.cast": "CastMember",
    ".models.chat": "open_chat",
    ".core.seams.chat_model": "ChatModel Message Reply ReplySettings",
    ".models.clips": "open_clip_maker",
    ".core.errors": "AnswerError Cancelled ChatError DrawRefused GeneratorError InterleaveError JournalError "
    "NotScorable PictureError ScorerError SettingsError",
    ".output.exporters": "Exporter export_by_name",
    ".models.generators": "open_generator",
    ".core.seams.generator": "Generator",
    ".story.journal.waiting": "Waiting waiting_for",
    ".story.loop.events": "AttemptDrawn AttemptJudged AttemptScored AttemptStarted Event Finished PlanReady "
    "SettingUnused StepFinished StepRewritten StoryChecked",
    ".story.loop.replay": "load_trajectory",
    ".core.pictures": "Picture",
    ".story.approval": "approve",
    ".pipeline.pipeline": "Pipeline Story StoryStream",
    ".pipeline.as_published": "published_settings",
    ".core.prompts.prompt_set": "PromptSet",
    ".models.scorers": "open_scorer",
    ".core.seams.scorer": "Scorer",
    ".core.types.clip": "Clip ClipMaker ClipPair Footage",
    ".core.types.plan": "Plan Request Step",
    ".core.types.roles": "CriticLike PlannerLike",
    ".core.types.run_settings": "RunSettings",
    ".core.types.trajectory": (
        "Attempt Score StepResult StopReason StoryCheck StoryFinding Trajectory Verdict"
    ),
}
"""Names by the modules that define them; a test compares them with the imports above."""
_HOMES = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name], __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
