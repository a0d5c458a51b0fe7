"""Measures of a critic on rows whose truth is known, as a table, by kind of edit, and as a page of examples.

The critic answers each row as in a run: with its own image size, dtype, adapter and decoding. Only its first
reply counts. A run asks once more after a reply without a readable verdict; here such a reply is counted
apart, and its verdict is never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from html import escape
from itertools import takewhile
from pathlib import Path
from textwrap import shorten
from typing import NamedTuple

from pydantic import BaseModel

from ...backend.core.errors import ChatError, SettingsError, is_out_of_memory
from ...backend.core.files.atomic import write_bytes, write_text
from ...backend.core.files.bounded_reader import read_bytes
from ...backend.core.pictures import MAX_BYTES
from ...backend.core.seams.chat_model import Message, Reply
from ...backend.output.sft_rows import SftRow
from ...backend.story.agents.critic import Critic
from ..from_runs.scoring import in_threads
from ..rows.sft import RowSet, as_messages, question_text, truth_of
from ..statistics import Auc, Share, auc_of, share
from ..trainer.resume import digest_of

MEASURES = {
    "accuracy": "accuracy",
    "true_recall": "right images accepted",
    "false_recall": "wrong images rejected",
    "precision": "accepted images that are right",
    "says_true": "images accepted",
    "read": "answers with a verdict",
    "auc": "AUC of P(success)",
}


NAMES = {True: "right", False: "wrong", None: "no readable verdict"}
EXAMPLES = 10
STYLE = (
    '<!doctype html><meta charset="utf-8"><title>Verdicts of a critic</title><style>body{font:16px/1.5 '
    "sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}figure{display:inline-block;margin:1rem 1rem "
    "0 0;max-width:47%}img{width:100%;min-width:12rem;border:1px solid #888}figcaption{color:#777}td{padding:"
    ".2rem 1rem .2rem 0;border-bottom:1px solid #8884}.mistake{color:#c22}pre{white-space:pre-wrap}</style>"
)


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
    critic: Critic,
    rows: RowSet,
    at_a_time: int = 1,
    progress: Callable[[int, int], None] | None = None,
    log: Callable[[str], None] = print,
) -> list[Answer]:
    """Return a critic's first answers to rows.

    Args:
        critic: The critic.
        rows: The rows.
        at_a_time: Rows in a batch of a local model, which is halved when memory runs out, or concurrent
            requests to a server.
        progress: Called with the number of answers and of rows.
        log: Called with a line when a batch is halved.

    Raises:
        ChatError: The critic failed.
    """
    chat, settings = critic.chat, critic.settings
    batch, threads = (at_a_time, 1) if critic.judges_together else (1, at_a_time)
    fitting, starts = batch, range(0, len(rows.rows), batch)

    def replies(part: Sequence[Sequence[Message]]) -> list[Reply]:
        nonlocal fitting
        if (most := fitting) < len(part):
            return [*replies(part[:most]), *replies(part[most:])]
        if len(part) == 1 or any(len(turns) != 1 for turns in part):
            return [chat.reply(turns, settings) for turns in part]
        try:
            return chat.reply_together([turns[0] for turns in part], settings)
        except ChatError as error:
            if not is_out_of_memory(error):
                raise
        fitting = len(part) // 2
        log(f"memory ran out with {len(part)} rows in a batch: continuing with {fitting}")
        return replies(part)

    def of(start: int) -> list[Answer]:
        part = [as_messages(row, rows.folder) for row in rows.rows[start : start + batch]]
        return [
            Answer(critic.first_verdict(reply, turns[-1]), reply.probability, reply.whole)
            for reply, turns in zip(replies(part), part, strict=True)
        ]

    answers: list[Answer] = []
    for part in in_threads(of, starts, threads):
        if progress is not None:
            progress(len(answers), len(rows.rows))
        answers += part
    return answers


def measured_verdicts(
    answers: Sequence[Answer], truths: Sequence[bool], units: Sequence[tuple[str, ...]] | None = None
) -> Measured:
    """Return the measures of answers about images, each of which is right or not; no verdict is wrong."""
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


class JudgedRows(NamedTuple):
    """Rows that teach a verdict, and a critic's answers to them."""

    critic: str
    rows: RowSet
    answers: Sequence[Answer]

    @property
    def measured(self) -> Measured:
        """The measures of all rows; those about the same images are one unit of the AUC's interval."""
        truths = [bool(truth_of(row)) for row in self.rows.rows]
        return measured_verdicts(self.answers, truths, [tuple(row.images) for row in self.rows.rows])

    def of_kind(self, kind: str) -> Share:
        """Return the share of right verdicts on rows of a kind."""
        pairs = zip(self.answers, self.rows.rows, strict=True)
        return share([answer.success == truth_of(row) for answer, row in pairs if row.kind == kind])


def kind_lines(judged: Sequence[JudgedRows]) -> list[str]:
    """Return a Markdown table of right verdicts by kind of edit; empty if no row has a kind."""
    kinds = sorted({row.kind for row in judged[0].rows.rows} - {""})
    head = [f"| right verdicts by kind | {' | '.join(cell(one.critic) for one in judged)} |"]
    rows = [f"| {cell(kind)} | {' | '.join(str(one.of_kind(kind)) for one in judged)} |" for kind in kinds]
    return ["", *head, "|---" * (len(judged) + 1) + "|", *rows] if kinds else []


def cell(text: str) -> str:
    """Return a text for a cell of a Markdown table."""
    return " ".join(text.split()).replace("|", "\\|")


def prompts_of(rows: Sequence[SftRow]) -> list[str]:
    """Return what differs between the questions of rows: their prompts, without the template around them."""

    def alike(one: Sequence[str], other: Sequence[str]) -> int:
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))

    asked = [question_text(row).split(" ") for row in rows]
    first = alike(min(asked), max(asked))
    ends = [one[first:][::-1] for one in asked]
    last = alike(min(ends), max(ends))
    return [" ".join(one[first : len(one) - last] or one) for one in asked]


def examples(judged: JudgedRows, count: int = EXAMPLES) -> list[int]:
    """Return the places of rows to look at, in the order of a hash: half of them wrong verdicts."""
    order = sorted(range(len(judged.answers)), key=lambda at: digest_of([judged.rows.rows[at].line()]))
    hits = judged.measured.hits
    wrong, right = [at for at in order if not hits[at]], [at for at in order if hits[at]]
    few = wrong[: max(count // 2, count - len(right))]
    return [*few, *right[: count - len(few)]]


def example_lines(judged: JudgedRows) -> list[str]:
    """Return a Markdown table of examples of verdicts, without their images."""
    prompts = prompts_of(judged.rows.rows)
    lines = ["| prompt | label | verdict |", "|---|---|---|"]
    for at in examples(judged):
        answer, truth = judged.answers[at], NAMES[truth_of(judged.rows.rows[at])]
        prompt = cell(shorten(prompts[at], 300))
        lines.append(f"| {prompt} | {truth} | {NAMES[answer.success]}{_sure(answer)} |")
    return lines


def write_page(folder: Path, judged: Sequence[JudgedRows], lines: Sequence[str]) -> Path:
    """Write `folder`/index.html: the tables, and examples of verdicts with their images next to it.

    Raises:
        SettingsError: The page cannot be written.
    """
    last, few = judged[-1], examples(judged[-1])
    parts = ["<h1>Verdicts of a critic</h1><table>", *map(_as_html, lines), "</table>"]
    parts.append(f"<h2>Examples</h2><p>{len(few)} of {len(last.answers)} rows. Mistakes come first.</p>")
    prompts = prompts_of(last.rows.rows)
    for at in few:
        row = last.rows.rows[at]
        shown, truth = "", truth_of(row)
        for number, name in enumerate(row.images):
            file = f"{at}-{number}{Path(name).suffix}"
            content = read_bytes(last.rows.folder / name, MAX_BYTES, SettingsError, "Image")
            write_bytes(folder / file, content, SettingsError, "Image")
            caption = "after" if number == len(row.images) - 1 else "before"
            shown += f'<figure><img src="{escape(file)}" alt=""><figcaption>{caption}</figcaption></figure>'
        said = ""
        for one, answer in ((one, one.answers[at]) for one in judged):
            mark = "" if answer.success == truth else ' class="mistake"'
            said += f"<p{mark}>{escape(one.critic)}: <b>{NAMES[answer.success]}</b>{_sure(answer)}</p>"
            said += f"<details><summary>reply</summary><pre>{escape(answer.text)}</pre></details>"
        parts.append(f"<hr>{shown}<p>{escape(prompts[at])}</p><p>label: <b>{NAMES[truth]}</b></p>{said}")
    write_text(folder / "index.html", f"{STYLE}{''.join(parts)}\n", SettingsError, "The page of verdicts")
    return folder / "index.html"


def _as_html(line: str) -> str:
    """Return a line of a table in Markdown, or a line between tables, as a part of a table in HTML."""
    if not line.startswith("|"):
        return f"</table><p>{escape(line)}</p><table>"
    cells = re.split(r"(?<!\\)\|", line[1:-1])
    shown = "".join(f"<td>{escape(one.strip())}</td>" for one in cells)
    return "" if line.startswith("|---") else f"<tr>{shown}</tr>"


def _sure(answer: Answer) -> str:
    return "" if answer.probability is None else f", P(success) {answer.probability:.3f}"
