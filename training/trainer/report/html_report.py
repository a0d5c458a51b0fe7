"""HTML report of a training: curves from the trainer's own log, and sampled answers before and after.

The report is one HTML file with inline SVG charts and without external resources, so that it can be archived
and sent. The template is report.html.j2, which escapes all values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ....backend.errors import TrainingError
from ....backend.files.atomic import write_text
from ....backend.pictures import Picture
from .card_facts import shareable
from .progress_line import number
from .run_description import ShownSetting

REPORT_FILE = "report.html"
WIDTH, HEIGHT, LEFT, BOTTOM = 520, 220, 64, 26
COLOURS = ("#2f6fde", "#d9622b", "#2a9d5c", "#8e4ec6", "#c0392b", "#7f7f00")
THUMB = 144

CHARTS: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    ("Loss", (("training", "loss"), ("held out", "eval_loss"))),
    (
        "Token accuracy",
        (("training", "mean_token_accuracy"), ("held out", "eval_mean_token_accuracy")),
    ),
    (
        "Accuracy on pairs (chosen above rejected)",
        (("training", "rewards/accuracies"), ("held out", "eval_rewards/accuracies")),
    ),
    ("Reward margin of the pairs", (("training", "rewards/margins"), ("held out", "eval_rewards/margins"))),
    (
        "Implicit reward of held-out answers",
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
    ("Semantic reward of redrawn images", (("semantic", "reward/semantic_redrawn"),)),
    ("Share of images accepted", (("by the critic", "verdict/true"), ("in truth", "verdict/truth"))),
    (
        "Recall in rollouts",
        (("right images", "verdict/true_recall"), ("wrong images", "verdict/false_recall")),
    ),
    (
        "Answer length (tokens)",
        (("mean", "completions/mean_length"), ("longest", "completions/max_length")),
    ),
    ("Reward standard deviation within a group", (("spread", "reward/spread"),)),
    (
        "Dead groups (equal rewards), failed calls",
        (
            ("dead groups", "reward/dead"),
            ("failed redraws", "redraw/failed"),
            ("not judged", "plan/failed"),
        ),
    ),
    ("Plans: exact, copied", (("exact", "plan/exact"), ("copied", "plan/copied"))),
    ("Steps per plan", (("mean", "plan/steps"),)),
    ("Share of images from the cache", (("served", "redraw/served"),)),
    (
        "Seconds per step",
        (("answers", "seconds/rollout"), ("rewards", "seconds/reward"), ("update", "seconds/update")),
    ),
    ("Entropy", (("entropy", "entropy"),)),
    ("KL to the starting model", (("kl", "kl"),)),
    ("Learning rate", (("rate", "learning_rate"),)),
)

Points = list[tuple[float, float]]


@dataclass(frozen=True)
class Answered:
    """A question with the answers before and after training, and its images, shown as thumbnails."""

    question: str
    images: tuple[Picture, ...]
    truth: str
    before: str
    after: str


@dataclass(frozen=True)
class TrainingReport:
    """Content of the report.

    Attributes:
        title: Heading.
        history: Log of the trainer.
        held_out: Measures of the held-out set by name, as (step, value).
        answers: Answers before and after.
        notes: Lines at the top of the report.
        stopped: Reason why the training had to stop, if it had.
        made_of: Model, data and libraries by name.
        settings: All settings.
    """

    title: str
    history: Sequence[Mapping[str, Any]]
    held_out: Mapping[str, Points] = field(default_factory=dict)
    answers: Sequence[Answered] = ()
    notes: Sequence[str] = ()
    stopped: str | None = None
    made_of: Mapping[str, str] = field(default_factory=dict)
    settings: Sequence[ShownSetting] = ()

    def write(self, out: Path) -> Path:
        """Write `out / "report.html"`.

        Raises:
            TrainingError: The file cannot be written.
        """
        path = out / REPORT_FILE
        write_text(path, self.render(), TrainingError, "The training report", durable=False)
        return path

    def render(self) -> str:
        """Return the report as HTML."""
        from jinja2 import Environment, FileSystemLoader, StrictUndefined

        environment = Environment(
            loader=FileSystemLoader(Path(__file__).parent),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        environment.filters["shareable"] = shareable  # the report is copied into the result
        charts = [_chart(name, _series(self.history, keys)) for name, keys in CHARTS]
        return environment.get_template("report.html.j2").render(
            report=self,
            charts=[chart for chart in (_chart("Held-out set", self.held_out), *charts) if chart],
            area={"width": WIDTH, "height": HEIGHT, "left": LEFT},
            thumbnail=_thumbnail,
        )


def _series(history: Sequence[Mapping[str, Any]], keys: Sequence[tuple[str, str]]) -> dict[str, Points]:
    """Return curves by name. The last entry of a step counts, because a resumed training logs steps again."""
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
    """A curve: its points in pixels of the chart, its first and last value."""

    name: str
    colour: str
    points: list[tuple[str, str]]
    first: float
    last: float


@dataclass(frozen=True)
class Chart:
    """A chart of curves over steps; `ticks` are values with their heights in pixels."""

    title: str
    curves: list[Curve]
    ticks: list[tuple[float, float]]
    first_step: float
    last_step: float


def _chart(title: str, curves: Mapping[str, Points]) -> Chart | None:
    """Return the chart of these curves, or None if they have no points."""
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
    """Return a thumbnail as a data URL."""
    small = picture.image.copy()
    small.thumbnail((THUMB, THUMB))
    return Picture(small).data_url()
