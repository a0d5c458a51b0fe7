"""Stops a run whose critic returns no verdicts.

An attempt without a verdict is followed by one with the same prompt, which is wasted. If a critic returns no
verdict twice in a row, it cannot judge. The run then stops with an error that explains what to do:

- Verdicts that cannot be parsed (each of them is two replies): usually the critic is a planner's checkpoint,
  which answers every question with a plan.
- Failed judgements: the server cannot be reached, refuses the request or is out of memory. They are not
  recorded, so the next run judges the same images.

Recorded verdicts count too, but only a new one stops the run: records can always be replayed.
"""

from __future__ import annotations

from ..errors import AnswerError, ChatError
from ..journal.store import JudgementRecord
from ..types import Fault

IN_A_ROW = 2
MAX_NAME = 120


class MissingVerdicts:
    """Counts the missing verdicts in a row during a run; `critic` is the critic's identity."""

    def __init__(self, critic: str) -> None:
        # The rest of the identity is the prompt set and the sampling settings, which do not help the user.
        self._name = critic.partition("|")[0][:MAX_NAME]
        self._unreadable = self._failed = 0
        self._last: Fault | None = None

    def hear(self, judged: JudgementRecord, reused: bool) -> None:
        """Count a judgement.

        Raises:
            AnswerError: The second verdict in a row could not be parsed, and it is a new one.
            ChatError: The second judgement in a row failed, and it is a new one. Images that were judged
                together have one judgement.
        """
        if judged.verdict is None:
            self._hear_failure(judged.error, reused)
            return
        self._failed = 0
        self._unreadable = self._unreadable + 1 if judged.verdict.success is None else 0
        if self._unreadable >= IN_A_ROW and not reused:
            raise AnswerError(
                f"Two verdicts in a row could not be parsed. Critic: {self._name}. "
                f"{judged.verdict.reasoning}",
                hint="Use a critic's checkpoint or a plain Qwen3-VL as the critic (node input 'critic', "
                "--critic). A planner's checkpoint can only plan (input 'agent' of the Planner, --planner). "
                "All images are saved: run again to continue.",
            )

    def _hear_failure(self, error: Fault | None, reused: bool) -> None:
        self._failed += error is None or error is not self._last
        self._last = error
        if self._failed >= IN_A_ROW and not reused:
            reason = error.message if error else "It returned no verdict."
            raise ChatError(
                f"Two judgements in a row failed. Critic: {self._name}. {reason}",
                "All images are saved. Correct the cause and run again: images without a verdict are judged, "
                "and not generated again.",
            )
