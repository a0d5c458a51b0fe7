"""The public API. Everything else in this package may change without notice.

Names are imported when they are first used, so that importing the package costs nothing: ComfyUI and
`interleave-thinker --help` import it before they need a pipeline.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .agents.critic import Critic
    from .agents.plan_constraints import PlanConstraints
    from .agents.planner import Planner
    from .cast import CastMember
    from .chat import open_chat
    from .chat.chat_model import ChatModel, Message, Reply, ReplySettings
    from .clips.pipelines import open_clip_maker
    from .errors import (
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
    from .exporters import Exporter, export_by_name
    from .generators import open_generator
    from .generators.generator import Generator
    from .journal.waiting import Waiting, waiting_for
    from .loop.events import (
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
    from .loop.replay import load_trajectory
    from .pictures import Picture
    from .pipeline.approval import approve, approve_overdue
    from .pipeline.as_published import published_settings
    from .pipeline.pipeline import Pipeline, Story, StoryStream
    from .prompts.prompt_set import PromptSet
    from .scorers import open_scorer
    from .scorers.scorer import Scorer
    from .types.clip import Clip, ClipMaker, ClipPair, Footage
    from .types.plan import Plan, Request, Step
    from .types.roles import CriticLike, PlannerLike
    from .types.run_settings import RunSettings
    from .types.trajectory import (
        Attempt,
        Score,
        StepResult,
        StopReason,
        StoryCheck,
        StoryFinding,
        Trajectory,
        Verdict,
    )

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
    "approve_overdue",
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
    ".agents.critic": "Critic",
    ".agents.plan_constraints": "PlanConstraints",
    ".agents.planner": "Planner",
    ".cast": "CastMember",
    ".chat": "open_chat",
    ".chat.chat_model": "ChatModel Message Reply ReplySettings",
    ".clips.pipelines": "open_clip_maker",
    ".errors": "AnswerError Cancelled ChatError DrawRefused GeneratorError InterleaveError JournalError "
    "NotScorable PictureError ScorerError SettingsError",
    ".exporters": "Exporter export_by_name",
    ".generators": "open_generator",
    ".generators.generator": "Generator",
    ".journal.waiting": "Waiting waiting_for",
    ".loop.events": "AttemptDrawn AttemptJudged AttemptScored AttemptStarted Event Finished PlanReady "
    "SettingUnused StepFinished StepRewritten StoryChecked",
    ".loop.replay": "load_trajectory",
    ".pictures": "Picture",
    ".pipeline.approval": "approve approve_overdue",
    ".pipeline.pipeline": "Pipeline Story StoryStream",
    ".pipeline.as_published": "published_settings",
    ".prompts.prompt_set": "PromptSet",
    ".scorers": "open_scorer",
    ".scorers.scorer": "Scorer",
    ".types.clip": "Clip ClipMaker ClipPair Footage",
    ".types.plan": "Plan Request Step",
    ".types.roles": "CriticLike PlannerLike",
    ".types.run_settings": "RunSettings",
    ".types.trajectory": "Attempt Score StepResult StopReason StoryCheck StoryFinding Trajectory Verdict",
}
"""Names by the modules that define them; a test compares them with the imports above."""
_HOMES = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name], __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
