"""One self-contained web page of a run: the story to look at, and every attempt behind it, folded.

Decision: the page carries everything itself and may load nothing (its content security policy says so), so it
can be mailed, archived and opened from a disk. All text is a stranger's text: the template escapes it, and
the policy allows only the one script and the one style sheet that this module put in, by their digests.
"""

from __future__ import annotations

import base64
import hashlib
import io
from pathlib import Path
from typing import Any

from ..pictures import Picture
from ..report.audience import panels_of
from ..report.drift import StepDrift, drift_of_steps
from ..report.made_by import made_by
from ..report.outcomes import (
    StoryStep,
    duration,
    kept_word,
    outcome,
    probability_words,
    stop_sentence,
    story_steps,
    summarize,
    tone_of,
    tone_of_attempt,
)
from ..report.prompt_diff import Piece, changes
from ..report.reasoning import reasoning_shown
from ..report.telling import PLAIN, Telling
from ..report.words import Words
from ..types import Attempt, RunSettings, Trajectory
from .layout.files import write_whole

FILE_NAME = "index.html"
HERE = Path(__file__).parent
LOSSLESS_PIXELS = 512 * 512
ATTEMPT_SIDE = 512
STORY_SIDE = 2048
ENLARGED_SIDE = 512
MAX_ENLARGEMENT = 4.0


def export(trajectory: Trajectory, folder: Path, telling: Telling = PLAIN) -> Path:
    """Write `folder`/index.html and return its path. Raises JournalError, SettingsError."""
    path = Path(folder) / FILE_NAME
    write_whole(path, (render_story if telling.audience else render)(trajectory, telling).encode("utf-8"))
    return path


def render(trajectory: Trajectory, telling: Telling = PLAIN) -> str:
    """The whole page as HTML text."""
    words = telling.words
    drifts = drift_of_steps(trajectory)
    return rendered(
        "page.html.j2",
        words,
        title=telling.title_of(trajectory),
        request=trajectory.request,
        request_images=[shown_picture(picture, STORY_SIDE) for picture in trajectory.request.images],
        summary=words.heard(summarize(trajectory).sentence),
        reasoning=trajectory.plan.reasoning,
        steps=[
            _step(shown, trajectory.settings, drifts.get(shown.step.number), words)
            for shown in story_steps(trajectory)
        ],
        identities=[(words.say(name), value) for name, value in made_by(trajectory)],
        settings=[
            (name.replace("_", " "), {None: "none", True: "yes", False: "no"}.get(value, value))
            for name, value in trajectory.settings.model_dump().items()
        ],
    )


def render_story(trajectory: Trajectory, telling: Telling = PLAIN) -> str:
    """The page for an audience: title, pictures and texts."""
    words = telling.words
    panels = [
        {"image": one.picture and shown_picture(one.picture, STORY_SIDE, enlarge=True), "text": one.text}
        for one in panels_of(trajectory)
    ]
    return rendered("audience.html.j2", words, title=telling.title_of(trajectory), panels=panels)


def rendered(template: str, words: Words, own: Path | None = None, **values: Any) -> str:
    """A template as a page in this look, with what it may run and be styled by named by digests. `own`: a
    folder with the template, and with a style sheet of the same name that is laid over the page's."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader([HERE, own] if own else HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style, script = ((HERE / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    if own is not None:
        style += (own / f"{template.partition('.')[0]}.css").read_text(encoding="utf-8")
    return environment.get_template(template).render(
        say=words.say,
        language=words.tag,
        style=style,
        style_digest=_content_digest(style),
        script=script,
        script_digest=_content_digest(script),
        **values,
    )


def _step(shown: StoryStep, settings: RunSettings, drift: StepDrift | None, words: Words) -> dict[str, Any]:
    step, result = shown.step, shown.result
    image = result.image if result else None
    return {
        "step": step,
        "image": image and shown_picture(image, STORY_SIDE, enlarge=True),
        "status": words.heard(stop_sentence(result)) if result else words.say("Not reached"),
        "reached": result is not None,
        "tone": tone_of(result),
        "drift": words.heard(drift.sentence) if drift else "",
        "attempts": []
        if result is None
        else [
            _attempt(attempt, index + 1, words.say(kept_word(result, index)), settings, words)
            for index, attempt in enumerate(result.attempts)
        ],
    }


def _attempt(attempt: Attempt, number: int, kept: str, settings: RunSettings, words: Words) -> dict[str, Any]:
    drawn = attempt.image
    before = attempt.source or (Picture.white(drawn.size) if drawn else None)
    what = outcome(attempt, settings)
    return {
        "number": number,
        "kept": kept,
        "outcome": words.heard(what.value),
        "tone": tone_of_attempt(what),
        "before": before and shown_picture(before, ATTEMPT_SIDE),
        "blank": attempt.source is None,
        "after": drawn and shown_picture(drawn, ATTEMPT_SIDE),
        "attempt": attempt,
        "percent": probability_words(attempt, settings),
        "reasoning": reasoning_shown(attempt.verdict),
        "refined": _refined(attempt),
        "seconds": duration(attempt.seconds),
    }


def _refined(attempt: Attempt) -> list[Piece] | None:
    refined = attempt.verdict.refined_prompt if attempt.verdict else ""
    return changes(attempt.prompt, refined) if refined and refined != attempt.prompt else None


def shown_picture(
    picture: Picture, longest: int, enlarge: bool = False, lossless: int = LOSSLESS_PIXELS
) -> dict[str, Any]:
    """A picture as templates take it: data URL and size, at most `longest` pixels a side; `enlarge` shows
    small ones larger.

    Pictures of up to `lossless` pixels stay so; larger ones become WebP (or JPEG), since the run's folder
    keeps the exact pixels.
    """
    from PIL import Image, features

    image, (width, height) = picture.image, picture.size
    scale = min(1.0, longest / max(width, height))
    if enlarge:
        scale = max(scale, min(MAX_ENLARGEMENT, ENLARGED_SIDE / max(width, height)))
    shown = round(width * scale) or 1, round(height * scale) or 1
    if shown != picture.size:
        # Browsers enlarge by bilinear interpolation, which blurs small drawings.
        image = image.resize(shown, Image.Resampling.LANCZOS)
    if width * height <= lossless:
        source = Picture(image).data_url()
    else:
        buffer = io.BytesIO()
        kind = "webp" if features.check("webp") else "jpeg"
        image.save(buffer, kind, quality=90)
        source = f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode('ascii')}"
    return {"source": source, "width": shown[0], "height": shown[1]}


def _content_digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
