"""When a run stops because nobody can read what its critic says.

Decision: each unreadable verdict is two replies already, and every try after it is drawn with the same prompt
for nothing. Two in a row are therefore an agent that cannot judge (most often the planner's checkpoint, which
writes plans whatever it is asked), and the run stops with what to do. Verdicts of an earlier run count, but
only a new one stops: what is recorded can always be read again.
"""

from __future__ import annotations

from ..errors import AnswerError
from ..types import Verdict

IN_A_ROW = 2
LONGEST_NAME = 120


class UnreadableVerdicts:
    """Counts them over a run; `critic` is its identity."""

    def __init__(self, critic: str) -> None:
        # What follows is its wording and sampling, which nobody knows it by.
        self._name = critic.partition("|")[0][:LONGEST_NAME]
        self._in_a_row = 0

    def hear(self, verdict: Verdict | None, reused: bool) -> None:
        """Take in a verdict, None for a judgement that failed. Raises AnswerError for the second in a row
        that could not be read, if it is a new one."""
        if verdict is None:
            return
        self._in_a_row = self._in_a_row + 1 if verdict.success is None else 0
        if self._in_a_row >= IN_A_ROW and not reused:
            raise AnswerError(
                f"Two verdicts in a row could not be read; the critic is {self._name}. {verdict.reasoning}",
                hint="Take a critic's checkpoint or a plain Qwen3-VL as critic (the agent at 'critic', "
                "--critic), and a planner's for planning alone (the agent of Planner, --planner). The images "
                "are kept: the next run goes on with them.",
            )
