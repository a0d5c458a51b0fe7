"""Measures of a critic on rows whose truth is known: shares of its verdicts and the AUC of its P(success).

The critic answers each row as in a run: with its own image size, dtype, adapter and decoding. Only its first
reply counts. A run asks once more after a reply without a readable verdict; here such a reply is counted
apart, and its verdict is never guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from pydantic import BaseModel

from ...backend.core.seams.chat_model import Message
from ...backend.story.agents.critic import Critic
from ..from_runs.scoring import in_threads
from ..rows.sft import RowSet, as_messages, truth_of
from ..statistics import Auc, Share, auc_of, share

MEASURES = {
    "accuracy": "accuracy",
    "true_recall": "right images accepted",
    "false_recall": "wrong images rejected",
    "precision": "accepted images that are right",
    "says_true": "images accepted",
    "read": "answers with a verdict",
    "auc": "AUC of P(success)",
}


class Answer(NamedTuple):
    """A critic's first reply to a row; `success` is None without a readable verdict."""

    success: bool | None
    probability: float | None = None
    text: str = ""


class Measured(BaseModel):
    """Measures of a critic on rows.

    Attributes:
        accuracy: Share of right verdicts.
        true_recall: Share of right images that it accepts.
        false_recall: Share of wrong images that it rejects.
        precision: Share of accepted images that are right.
        read: Share of answers with a readable verdict.
        says_true: Share of accepted images.
        right_refused: Share of right images that it rejects.
        auc: AUC of P(success); None if an answer has none, as of servers without log-probabilities.
        hits: Whether each verdict was right.
        truths: Whether each image is right.
    """

    accuracy: Share
    true_recall: Share
    false_recall: Share
    precision: Share
    read: Share
    says_true: Share
    right_refused: Share
    auc: Auc | None
    hits: list[bool]
    truths: list[bool]

    def shown(self, measure: str) -> str:
        """Return a measure as text."""
        found = getattr(self, measure)
        return "not known: replies without P(success)" if found is None else str(found)


def answers_of(
    critic: Critic, rows: RowSet, at_a_time: int = 1, progress: Callable[[int, int], None] | None = None
) -> list[Answer]:
    """Return a critic's first answers to rows.

    Args:
        critic: The critic.
        rows: The rows.
        at_a_time: Rows in a batch of a local model, or concurrent requests to a server.
        progress: Called with the number of answers and of rows.

    Raises:
        ChatError: The critic failed.
    """

    def answered(part: Sequence[Sequence[Message]]) -> list[Answer]:
        chat, settings = critic.chat, critic.settings
        if len(part) > 1 and all(len(turns) == 1 for turns in part):
            replies = chat.reply_together([turns[0] for turns in part], settings)
        else:
            replies = [chat.reply(turns, settings) for turns in part]
        return [
            Answer(critic.first_verdict(reply, turns[-1]), reply.probability, reply.whole)
            for reply, turns in zip(replies, part, strict=True)
        ]

    batch, threads = (at_a_time, 1) if critic.judges_together else (1, at_a_time)
    starts = range(0, len(rows.rows), batch)

    def of(start: int) -> list[Answer]:
        return answered([as_messages(row, rows.folder) for row in rows.rows[start : start + batch]])

    answers: list[Answer] = []
    for part in in_threads(of, starts, threads):
        if progress is not None:
            progress(len(answers), len(rows.rows))
        answers += part
    return answers


def measured(answers: Sequence[Answer], rows: RowSet) -> Measured:
    """Return the measures of the answers to rows that teach a verdict; a missing verdict is wrong.

    Rows about the same images are one unit of the AUC's interval.
    """
    return measured_verdicts(
        answers, [bool(truth_of(row)) for row in rows.rows], [tuple(row.images) for row in rows.rows]
    )


def measured_verdicts(
    answers: Sequence[Answer], truths: Sequence[bool], units: Sequence[tuple[str, ...]] | None = None
) -> Measured:
    """Return the measures of answers about images, each of which is right or not."""
    said = [answer.success for answer in answers]
    hits = [one == truth for one, truth in zip(said, truths, strict=True)]
    scores = [answer.probability for answer in answers if answer.probability is not None]
    return Measured(
        accuracy=share(hits),
        true_recall=share([hit for hit, truth in zip(hits, truths, strict=True) if truth]),
        false_recall=share([hit for hit, truth in zip(hits, truths, strict=True) if not truth]),
        precision=share([truth for one, truth in zip(said, truths, strict=True) if one]),
        read=share([one is not None for one in said]),
        says_true=share([one is True for one in said]),
        right_refused=share([one is False for one, truth in zip(said, truths, strict=True) if truth]),
        auc=auc_of(truths, scores, units or range(len(truths))) if len(scores) == len(truths) else None,
        hits=hits,
        truths=list(truths),
    )
