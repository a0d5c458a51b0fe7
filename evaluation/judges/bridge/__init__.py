"""A judge at an address of this machine, in the forms in which evaluators ask hosted ones."""

from __future__ import annotations

from .judge_client import JudgeUnavailable
from .server import JudgeBridge

__all__ = ["JudgeBridge", "JudgeUnavailable"]
