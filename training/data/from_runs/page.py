"""Writes a page with trajectories that were used and left out, for a person to review.

The page is one HTML file with embedded thumbnails and without external resources. Verdicts given on it are
saved as a file of corrections, which `data filter --corrections FILE` writes into the runs as feedback.
Trajectories are chosen by the digest of their images: the same runs show the same ones, used and left out in
equal parts.
"""

from __future__ import annotations

import base64
import hashlib
import html
import io
import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from pydantic import ConfigDict, Field, ValidationError

from ....backend.errors import PictureError, SettingsError
from ....backend.feedback.log import Feedback, record_feedback
from ....backend.files.atomic import write_text
from ....backend.journal.records.run_files import first_fault
from ....backend.pictures import Picture
from ..rows.values import RowProblem, read_values
from .attempts import JudgedImage, JudgedStep
from .filter import ImageDecision
from .run_folders import find_runs

PAGE = "page.html"
THUMB = 224
FATES = {
    "sft": "used for fine-tuning",
    "rl": "used for RL",
    "sft and rl": "used for fine-tuning and RL",
}
"""Labels of outcomes on the page; others are shown as they are."""
TEMPLATE = Path(__file__).with_name("page.html")


class PageCorrection(Feedback):
    """A line of the corrections file: feedback, and the name of its run in the report."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    run: str = Field(max_length=4096)


def write_page(path: Path, steps: Sequence[JudgedStep], decided: Sequence[ImageDecision], count: int) -> None:
    """Write a page of up to `count` trajectories.

    Raises:
        SettingsError: The page cannot be written.
        PictureError: An image cannot be read.
    """
    fates: dict[tuple[str, int], list[ImageDecision]] = defaultdict(list)
    for one in decided:
        fates[one.judged.run, one.judged.step].append(one)
    ordered = sorted(steps, key=_digest)
    taught, left = [], []
    for step in ordered:
        used = any(one.fate != "left out" for one in fates[step.run, step.step])
        (taught if used else left).append(step)
    half = max(count - len(left), count // 2)
    shown = [*taught[:half], *left[: count - len(taught[:half])]]
    shown.sort(key=_digest)
    chains = [_chain(fates[step.run, step.step]) for step in shown]
    text = TEMPLATE.read_text(encoding="utf-8")
    totals = f"{len(taught)} trajectories are used, {len(left)} left out; {len(chains)} are shown."
    write_text(
        path, text.replace("TOTALS", totals).replace("CHAINS", "\n".join(chains)), SettingsError, "Page"
    )


def _digest(step: JudgedStep) -> bytes:
    content = "\0".join([step.run, str(step.step), *(one.after for one in step.judged)])
    return hashlib.blake2b(content.encode(), digest_size=8).digest()


def _chain(chain: Sequence[ImageDecision]) -> str:
    first = chain[0].judged
    before = (
        _figure(first, first.before, "before") if first.before else "<figure class=blank>no image</figure>"
    )
    tries = "".join(_try(one) for one in chain)
    used = "taught" if any(one.fate != "left out" for one in chain) else "left"
    place = html.escape(f"{first.run}, step {first.step}")
    return (
        f'<section class="{used}"><h2>{html.escape(first.original)}</h2><p class=place>{place}</p>'
        f"<div class=tries>{before}{tries}</div></section>"
    )


def _try(one: ImageDecision) -> str:
    judged = one.judged
    success = judged.said.success if judged.said else None
    said = {True: "accepted", False: "rejected", None: "no verdict"}[success]
    score = f", score {judged.score.overall:.1f}" if judged.score else ""
    key = {"run": judged.run, "step": judged.step, "attempt": judged.attempt, "image": judged.after}
    name = html.escape(json.dumps(key), quote=True)
    reasoning = html.escape(judged.said.reasoning if judged.said else "")
    return (
        f'<div class=try data-key="{name}">{_figure(judged, judged.after, f"attempt {judged.attempt + 1}")}'
        f"<p><b>{html.escape(FATES.get(one.fate, one.fate))}</b>: {html.escape(one.reason)}</p>"
        f"<p>critic: {said}{score}</p><details><summary>reasoning, prompt</summary><p>{reasoning}</p>"
        f"<p>{html.escape(judged.used)}</p></details>"
        "<p class=say><button data-say=true>right</button> <button data-say=false>wrong</button></p>"
        '<input placeholder="refined prompt" data-field=better_prompt maxlength=20000>'
        '<input placeholder="reason" data-field=note maxlength=20000></div>'
    )


def _figure(judged: JudgedImage, digest: str, caption: str) -> str:
    try:
        image = Picture.open(judged.pictures / f"{digest}.png").image.convert("RGB")
    except PictureError:
        return f"<figure class=blank>{caption}: missing</figure>"
    image.thumbnail((THUMB, THUMB))
    content = io.BytesIO()
    image.save(content, "WEBP", quality=80)
    data = base64.b64encode(content.getvalue()).decode()
    return (
        f'<figure><img src="data:image/webp;base64,{data}" alt=""><figcaption>{caption}</figcaption></figure>'
    )


def take_corrections(path: Path, runs: Sequence[Path]) -> int:
    """Write the corrections of a page into their runs.

    Nothing is written if a line is invalid.

    Returns:
        The number of corrections.

    Raises:
        SettingsError: A line is not a correction, or its run is not among these.
        JournalError: A run cannot store it.
    """
    folders = {name: folder for folder, name in find_runs(runs)}
    corrections: list[tuple[Path, Feedback]] = []
    for place, item in read_values(path):
        if isinstance(item, RowProblem):
            raise SettingsError(f"{path.name}, {item}", "Save the corrections again from the page.")
        try:
            correction = PageCorrection.model_validate(item)
        except ValidationError as error:
            raise SettingsError(f"{path.name}, {place}{first_fault(error)}") from error
        if correction.run not in folders:
            raise SettingsError(
                f"{path.name}, {place}: the run {correction.run!r} is not among the given runs.",
                "Give the runs that the page was made from.",
            )
        corrections.append((folders[correction.run], Feedback(**correction.model_dump(exclude={"run"}))))
    for folder, correction in corrections:
        record_feedback(folder, correction)
    return len(corrections)
