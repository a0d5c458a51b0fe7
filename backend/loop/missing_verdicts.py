"""When a run stops because its critic gives no verdicts.

Every attempt without a verdict is followed by one with the same prompt, for nothing. A critic that gives none
twice in a row cannot judge, so the run stops and says what to do:

- Unreadable verdicts, each of which is two replies already: most often the critic is a planner's checkpoint,
  which writes plans whatever it is asked.
- Failed judgements: its server cannot be reached or refuses, or is out of memory. They are not recorded, so
  the next run judges the same images.

Recorded ones count too, but only a new one stops: what is recorded can always be read again.
"""

from __future__ import annotations

from ..errors import AnswerError, ChatError
from ..journal.store import JudgementRecord
from ..types import Fault

IN_A_ROW = 2
MAX_NAME = 120


class MissingVerdicts:
    """Counts missing verdicts in a row over a run; `critic` is the critic's identity."""

    def __init__(self, critic: str) -> None:
        # The rest of the identity is the prompt set and sampling settings, which do not help a user.
        self._name = critic.partition("|")[0][:MAX_NAME]
        self._unreadable = self._failed = 0
        self._last: Fault | None = None

    def hear(self, judged: JudgementRecord, reused: bool) -> None:
        """Take in a judgement.

        Raises:
            AnswerError: The second verdict in a row could not be read, and it is a new one.
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
                f"Two verdicts in a row could not be read; the critic is {self._name}. "
                f"{judged.verdict.reasoning}",
                hint="Take a critic's checkpoint or a plain Qwen3-VL as critic (the agent at 'critic', "
                "--critic), and a planner's for planning alone (the agent of Planner, --planner). The images "
                "are kept: the next run goes on with them.",
            )

    def _hear_failure(self, error: Fault | None, reused: bool) -> None:
        self._failed += error is None or error is not self._last
        self._last = error
        if self._failed >= IN_A_ROW and not reused:
            reason = error.message if error else "It gave no verdict."
            raise ChatError(
                f"Two judgements in a row failed; the critic is {self._name}. {reason}",
                "All images are kept. Correct that and run again: images without a verdict are judged, and "
                "not generated again.",
            )
