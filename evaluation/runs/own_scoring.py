"""Scores a submission with our own questions.

Each question is asked once: scoring that is interrupted and started again repeats none. The figures come from
the first answers; further answers (`repeats`) measure how consistent the judge is. If none of the answers can
be read, scoring fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, CancelledError, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Lock

from ...backend.chat.protocol import Message, ReplySettings
from ...backend.errors import PictureError, SettingsError
from ...backend.pictures import Picture
from ...backend.shown_text import one_line
from ..benchmarks.base.benchmark import BenchmarkItem, Values
from ..benchmarks.base.question import QUESTIONS_VERSION, JudgeQuestion, OwnQuestions, Part
from ..judges import BenchmarkJudge
from .judge_info import SHOWN, JudgeInfo
from .own_questions import own_questions
from .scores import BenchmarkScores, CollectedFolder, opened, write_scores
from .submission import SUBMISSION, Log

MAX_ANSWER = 1024
"""Tokens; the answers asked for have one word, but some judges explain themselves."""
MAX_SHOWN = 120


@dataclass(frozen=True)
class OwnScoring:
    """How to ask.

    Attributes:
        judge: The judge.
        repeats: Answers per question.
        order_swap: Ask questions that compare two images in both orders.
        parallel: Number of items at the same time.
    """

    judge: BenchmarkJudge
    repeats: int = 1
    order_swap: bool = False
    parallel: int = 16

    @property
    def settings(self) -> ReplySettings:
        """Sampling settings of the judge."""
        return ReplySettings(max_tokens=MAX_ANSWER)

    @property
    def about(self) -> str:
        """Description of the settings, shown above the table."""
        both = ", compared images in both orders" if self.order_swap else ""
        return f"temperature 0, at most {self.settings.max_pixels} pixels an image{both}"

    def calls(self, questions: Sequence[JudgeQuestion]) -> int:
        """Return the number of answers needed for these questions."""
        return self.repeats * sum(1 + bool(self.order_swap and one.swapped) for one in questions)


@dataclass
class _Tally:
    """Counts over all items. Once `stopped` is set, no further question is asked."""

    questions: int = 0
    unread: int = 0
    read: int = 0
    examples: list[str] = field(default_factory=list)
    repeats: tuple[int, int] = (0, 0)
    orders: tuple[int, int] = (0, 0)
    lock: Lock = field(default_factory=Lock)
    stopped: Event = field(default_factory=Event)


@dataclass(frozen=True)
class PendingQuestions:
    """An opened folder with the questions about each item that has an answer."""

    folder: CollectedFolder
    own: OwnQuestions
    items: list[tuple[BenchmarkItem, Sequence[JudgeQuestion]]]

    def calls(self, scoring: OwnScoring) -> int:
        """Return the total number of answers, including cached ones."""
        return sum(scoring.calls(questions) for _, questions in self.items)


def to_ask(out: Path) -> PendingQuestions:
    """Return the questions about a collected folder.

    Raises:
        SettingsError: If the folder cannot be used.
    """
    folder = opened(out)
    own = own_questions(folder.setting.benchmark)
    gaps = {one.id for one in folder.collected if one.gap}
    data = folder.setting.where()
    asked = [
        (item, own.questions(item, out / SUBMISSION, data)) for item in folder.items if item.id not in gaps
    ]
    return PendingQuestions(folder, own, [(item, questions) for item, questions in asked if questions])


def score(asked: PendingQuestions, scoring: OwnScoring, log: Log = print) -> BenchmarkScores:
    """Ask all questions and write the figures.

    Raises:
        SettingsError: If no answer can be read, or the folder cannot be used.
        ChatError: If the judge fails. Answers until then are cached.
    """
    log(f"Asking {scoring.judge.identity} {asked.calls(scoring)} questions")
    tally = _Tally()
    found: dict[str, list[Values]] = {}
    with ThreadPoolExecutor(scoring.parallel, thread_name_prefix="judge") as pool:
        futures = {pool.submit(_judged, one, asked.own, scoring, tally): one[0].id for one in asked.items}
        try:
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
        finally:
            tally.stopped.set()
            for future in futures:
                future.cancel()
        for future, name in futures.items():
            if future in done:
                found[name] = future.result()
    if tally.questions and not tally.read:
        raise SettingsError(
            f"None of the answers of {scoring.judge.identity} could be read. The first was: "
            f"{tally.examples[0]}.",
            "Use a judge that answers in the requested format.",
        )
    benchmark = asked.folder.benchmark
    by_repeat = [
        {name: _of(values[repeat], benchmark.metrics) for name, values in found.items()}
        for repeat in range(scoring.repeats)
    ]
    judged = JudgeInfo(
        how="own questions",
        evaluator=benchmark.terms.evaluator,
        judge=scoring.judge.identity,
        settings=scoring.about,
        questions_version=QUESTIONS_VERSION,
        questions=tally.questions,
        unread=tally.unread,
        examples=tally.examples[:SHOWN],
        repeats=_means(by_repeat, len(asked.folder.items)) if scoring.repeats > 1 else {},
        repeats_differ=tally.repeats,
        orders_differ=tally.orders,
    )
    return write_scores(asked.folder, by_repeat[0], judged)


def _of(values: Values, metrics: Sequence[str]) -> Values:
    """Select the metrics of the benchmark."""
    return {name: value for name, value in values.items() if name in metrics}


def _judged(
    one: tuple[BenchmarkItem, Sequence[JudgeQuestion]], own: OwnQuestions, scoring: OwnScoring, tally: _Tally
) -> list[Values]:
    """Return the values of an item, per repeat."""
    item, questions = one
    by_repeat: list[dict[str, float | None]] = [{} for _ in range(scoring.repeats)]
    opened_ones: dict[Path, Picture] = {}
    for question in questions:
        for repeat, answers in enumerate(by_repeat):
            if tally.stopped.is_set():
                raise CancelledError
            answers[question.key] = _answer(question, scoring, repeat, opened_ones, tally)
        said = [answers[question.key] for answers in by_repeat]
        if scoring.repeats > 1:
            with tally.lock:
                tally.repeats = tally.repeats[0] + (len(set(said)) > 1), tally.repeats[1] + 1
    return [own.values(item, questions, answers) for answers in by_repeat]


def _answer(
    question: JudgeQuestion, scoring: OwnScoring, repeat: int, pictures: dict[Path, Picture], tally: _Tally
) -> float | None:
    """Ask one question.

    Returns:
        The answer, or the mean of both orders. `None` if any answer is unread.
    """
    orders = [question.parts, *([question.swapped] if scoring.order_swap and question.swapped else [])]
    said: list[int | None] = []
    for parts in orders:
        content = tuple(_content((*parts[:-1], f"{parts[-1]}{question.scale.words}"), pictures))
        answer = scoring.judge.ask([Message(role="user", content=content)], scoring.settings, repeat)
        said.append(question.scale.read(answer))
        with tally.lock:
            tally.questions += 1
            tally.read += said[-1] is not None
            if said[-1] is None:
                tally.unread += 1
                tally.examples += [] if len(tally.examples) >= SHOWN else [one_line(answer)[:MAX_SHOWN]]
    if len(said) > 1:
        with tally.lock:
            tally.orders = tally.orders[0] + (said[0] != said[1]), tally.orders[1] + 1
    numbers = [one for one in said if one is not None]
    return sum(numbers) / len(numbers) if len(numbers) == len(said) else None


def _content(parts: Sequence[Part], pictures: dict[Path, Picture]) -> Iterator[str | Picture]:
    for part in parts:
        if isinstance(part, Path):
            if part not in pictures:
                pictures[part] = _picture(part)
            yield pictures[part]
        else:
            yield part


def _picture(path: Path) -> Picture:
    try:
        return Picture.open(path)
    except PictureError as error:
        raise SettingsError(error.message, "Run benchmark collect again.") from error


def _means(by_repeat: Sequence[Mapping[str, Values]], items: int) -> dict[str, list[float]]:
    """Return the means over all items, by metric and repeat. Missing values count as zero."""
    metrics = dict.fromkeys(name for values in by_repeat for one in values.values() for name in one)
    found: dict[str, list[float]] = {}
    for metric in metrics:
        having = [[one[metric] for one in values.values() if metric in one] for values in by_repeat]
        gaps = items - len(by_repeat[0])
        found[metric] = [sum(ones) / max(1, len(ones) + gaps) for ones in having]
    return found
