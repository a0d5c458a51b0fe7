"""The values of a run, from the request to the finished trajectory.

These models are also the file format: the journal writes them, the exporters read them, the nodes pass them
along. All are frozen, so an edit makes a new value, and values with equal content are equal.
"""

from __future__ import annotations

from .cast import CastMember
from .checklist import CheckedItem, ChecklistItem
from .clip import Clip
from .plan import MAX_IMAGES, MAX_STEPS, MAX_STYLE, Plan, Request, Rewritten, Step, in_style
from .run_settings import (
    MAX_ATTEMPTS,
    MAX_BATCH,
    MAX_STEP_IMAGES,
    CastShown,
    DrawSettings,
    RunSettings,
    StepSettings,
    UnusedSetting,
    shown_beside,
    step_identity,
)
from .trajectory import (
    FORMAT_VERSION,
    MAX_CHECKS,
    MAX_FINDINGS,
    Attempt,
    Choices,
    Enhancement,
    Fault,
    FindingKind,
    Identities,
    Redraw,
    RedrawRequest,
    RequestedBy,
    Score,
    Spent,
    StepResult,
    StopReason,
    StoryCheck,
    StoryFinding,
    Trajectory,
    Verdict,
)
from .values import MAX_TEXT, Item, Several, StepImage, StepLora, Text, Value

__all__ = [
    "FORMAT_VERSION",
    "MAX_ATTEMPTS",
    "MAX_BATCH",
    "MAX_CHECKS",
    "MAX_FINDINGS",
    "MAX_IMAGES",
    "MAX_STEPS",
    "MAX_STEP_IMAGES",
    "MAX_STYLE",
    "MAX_TEXT",
    "Attempt",
    "CastMember",
    "CastShown",
    "CheckedItem",
    "ChecklistItem",
    "Choices",
    "Clip",
    "DrawSettings",
    "Enhancement",
    "Fault",
    "FindingKind",
    "Identities",
    "Item",
    "Plan",
    "Redraw",
    "RedrawRequest",
    "Request",
    "RequestedBy",
    "Rewritten",
    "RunSettings",
    "Score",
    "Several",
    "Spent",
    "Step",
    "StepImage",
    "StepLora",
    "StepResult",
    "StepSettings",
    "StopReason",
    "StoryCheck",
    "StoryFinding",
    "Text",
    "Trajectory",
    "UnusedSetting",
    "Value",
    "Verdict",
    "in_style",
    "shown_beside",
    "step_identity",
]
