"""The page at the end of a training: curves from the trainer's own log, and sampled answers before and after.

Decision: one HTML file with drawings of its own (SVG), nothing loaded from anywhere, so that it can be kept,
mailed and read in ten years. The template is report.html.j2; everything in it is escaped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ....backend.errors import TrainingError
from ....backend.files.atomic import write_text
from ....backend.pictures import Picture
from .progress_line import number
from .run_description import ShownSetting

REPORT_FILE = "report.html"
WIDTH, HEIGHT, LEFT, BOTTOM = 520, 220, 64, 26
COLOURS = ("#2f6fde", "#d9622b", "#2a9d5c", "#8e4ec6", "#c0392b", "#7f7f00")
THUMB = 144

CHARTS: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    ("Loss", (("trained on", "loss"), ("held out", "eval_loss"))),
    (
        "Token accuracy",
        (("trained on", "mean_token_accuracy"), ("held out", "eval_mean_token_accuracy")),
    ),
    (
        "Pairs told apart",
        (("trained on", "rewards/accuracies"), ("held out", "eval_rewards/accuracies")),
    ),
    ("Margin of the pairs", (("trained on", "rewards/margins"), ("held out", "eval_rewards/margins"))),
    (
        "Likelihood of held-out answers, against the start",
        (("chosen", "eval_rewards/chosen"), ("rejected", "eval_rewards/rejected")),
    ),
    ("Reward", (("overall", "reward/overall"),)),
    (
        "Parts of the reward",
        (
            ("format", "reward/format"),
            ("accuracy", "reward/accuracy"),
            ("semantic", "reward/semantic"),
            ("quality", "reward/quality"),
            ("match", "reward/match"),
            ("consistency", "reward/consistency"),
            ("length", "reward/length"),
        ),
    ),
    ("Better semantics where redrawn", (("semantic", "reward/semantic_redrawn"),)),
    ("Verdicts: share of True", (("said", "verdict/true"), ("truth", "verdict/truth"))),
    (
        "Right verdicts in rollouts",
        (("right images", "verdict/true_recall"), ("wrong images", "verdict/false_recall")),
    ),
    (
        "Length of answers (tokens)",
        (("mean", "completions/mean_length"), ("longest", "completions/max_length")),
    ),
    ("Spread of rewards in a group", (("spread", "reward/spread"),)),
    (
        "Share of dead groups, of failed redraws",
        (("dead", "reward/dead"), ("failed", "redraw/failed"), ("not judged", "plan/failed")),
    ),
    ("Plans: exact, copied", (("exact", "plan/exact"), ("copied", "plan/copied"))),
    ("Steps of a plan", (("mean", "plan/steps"),)),
    ("Share of images from the cache", (("served", "redraw/served"),)),
    (
        "Seconds of a step",
        (("answers", "seconds/rollout"), ("rewards", "seconds/reward"), ("update", "seconds/update")),
    ),
    ("Entropy", (("entropy", "entropy"),)),
    ("Distance to the first model (KL)", (("kl", "kl"),)),
    ("Learning rate", (("rate", "learning_rate"),)),
)

Points = list[tuple[float, float]]


@dataclass(frozen=True)
class Answered:
    """One question with the answers before and after training; `images` are shown small."""

    question: str
    images: tuple[Picture, ...]
    truth: str
    before: str
    after: str


@dataclass(frozen=True)
class TrainingReport:
    """What the page shows: the trainer's log, named curves of a fixed set over steps, answers before and
    after, notes, why training had to stop, if it had, what it was made of by name, and its settings."""

    title: str
    history: Sequence[Mapping[str, Any]]
    held_out: Mapping[str, Points] = field(default_factory=dict)
    answers: Sequence[Answered] = ()
    notes: Sequence[str] = ()
    stopped: str | None = None
    made_of: Mapping[str, str] = field(default_factory=dict)
    settings: Sequence[ShownSetting] = ()

    def write(self, out: Path) -> Path:
        """Write `out / "report.html"`; raises TrainingError."""
        path = out / REPORT_FILE
        write_text(path, self.render(), TrainingError, "The training's page", durable=False)
        return path

    def render(self) -> str:
        """The whole page as HTML."""
        from jinja2 import Environment, FileSystemLoader, StrictUndefined

        environment = Environment(
            loader=FileSystemLoader(Path(__file__).parent),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        charts = [_chart(name, _series(self.history, keys)) for name, keys in CHARTS]
        return environment.get_template("report.html.j2").render(
            report=self,
            charts=[chart for chart in (_chart("On held-out rows", self.held_out), *charts) if chart],
            area={"width": WIDTH, "height": HEIGHT, "left": LEFT},
            thumbnail=_thumbnail,
        )


def _series(history: Sequence[Mapping[str, Any]], keys: Sequence[tuple[str, str]]) -> dict[str, Points]:
    """Curves by name; the last entry of a step counts, because a resumed run logs a step again."""
    curves: dict[str, dict[float, float]] = {name: {} for name, _ in keys}
    for entry in history:
        step = number(entry, "step")
        for name, key in keys:
            value = number(entry, key)
            if step is not None and value is not None:
                curves[name][step] = value
    return {name: sorted(curve.items()) for name, curve in curves.items()}


@dataclass(frozen=True)
class Curve:
    """A curve as it is drawn: its points in the picture's pixels, its first and last value."""

    name: str
    colour: str
    points: list[tuple[str, str]]
    first: float
    last: float


@dataclass(frozen=True)
class Chart:
    """A figure of curves over steps; `ticks` are values with their heights in pixels."""

    title: str
    curves: list[Curve]
    ticks: list[tuple[float, float]]
    first_step: float
    last_step: float


def _chart(title: str, curves: Mapping[str, Points]) -> Chart | None:
    """The figure of these curves; None if there is nothing to draw."""
    points = [point for curve in curves.values() for point in curve]
    if not points:
        return None
    low, high = min(y for _, y in points), max(y for _, y in points)
    if low >= 0 and high <= 1 and high - low > 0.2:
        low, high = 0.0, 1.0
    if high - low < 1e-12:
        low, high = low - 0.5 * (abs(low) or 1), high + 0.5 * (abs(high) or 1)
    first, last = min(x for x, _ in points), max(x for x, _ in points)
    span = (last - first) or 1.0

    def place(x: float, y: float) -> tuple[str, str]:
        across = LEFT + (x - first) / span * (WIDTH - LEFT - 10)
        down = 10 + (high - y) / (high - low) * (HEIGHT - BOTTOM - 10)
        return f"{across:.1f}", f"{down:.1f}"

    return Chart(
        title=title,
        curves=[
            Curve(
                name,
                COLOURS[index % len(COLOURS)],
                [place(x, y) for x, y in curve],
                curve[0][1],
                curve[-1][1],
            )
            for index, (name, curve) in enumerate(curves.items())
            if curve
        ],
        ticks=[
            (low + (high - low) * share, 10 + (1 - share) * (HEIGHT - BOTTOM - 10))
            for share in (0.0, 0.5, 1.0)
        ],
        first_step=first,
        last_step=last,
    )


def _thumbnail(picture: Picture) -> str:
    """A small copy as a data URL."""
    small = picture.image.copy()
    small.thumbnail((THUMB, THUMB))
    return Picture(small).data_url()
