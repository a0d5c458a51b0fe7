"""Serves a judge on this machine through the APIs that evaluators use for hosted judges."""

from __future__ import annotations

from .judge_client import JudgeUnavailable
from .server import JudgeBridge

__all__ = ["JudgeBridge", "JudgeUnavailable"]
