"""A run as one self-contained web page: the story, with all attempts in folded sections.

The page contains everything and may load nothing, as its content security policy states. It can be mailed,
archived and opened from a disk. All text is untrusted: the template escapes it, and the policy allows only
the script and the style sheet of this module, by their digests.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..agents.plan_lint.lint import step_findings
from ..pictures import Picture
from ..report.audience import panels_of
from ..report.drift import StepDrift, drift_of_steps
from ..report.export_options import PLAIN, ExportOptions
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
from ..report.story_checks import check_lines
from ..report.words import Words
from ..types import Attempt, RunSettings, Trajectory
from .layout.files import write_whole
from .layout.page_images import PageImages, ShownClip, shown_clips, shown_image

if TYPE_CHECKING:
    from jinja2 import Environment

FILE_NAME = "index.html"
HERE = Path(__file__).parent
ATTEMPT_SIDE = 512
STORY_SIDE = 2048
GALLERY_HEIGHT = 224


def export(trajectory: Trajectory, folder: Path, options: ExportOptions = PLAIN) -> Path:
    """Write `folder`/index.html and return its path.

    Raises:
        SettingsError: The language is unknown.
        JournalError: The folder cannot be written.
    """
    page = (render_story if options.audience else render)(trajectory, options)
    return write_whole(Path(folder) / FILE_NAME, page.encode("utf-8"))


def render(trajectory: Trajectory, options: ExportOptions = PLAIN) -> str:
    """Return the page as HTML."""
    words, images = options.words, PageImages()
    drifts, clips = drift_of_steps(trajectory), shown_clips(trajectory, STORY_SIDE)
    # Without a planner, the request is only the name of the story.
    asked = trajectory.request if trajectory.identities.planner else ""
    findings = [(one.step, words.heard(one.message)) for one in step_findings(trajectory.plan, asked)]
    findings += check_lines(trajectory, words)
    request_images = [
        images.show(picture, STORY_SIDE, tallest=GALLERY_HEIGHT) for picture in trajectory.request.images
    ]
    steps = [
        _step(shown, trajectory.settings, drifts.get(shown.step.number), words, images, clips)
        for shown in story_steps(trajectory)
    ]
    return rendered(
        "page.html.j2",
        words,
        title=options.title_of(trajectory),
        request=trajectory.request,
        request_images=request_images,
        cast=[
            (member, member.newest and images.show(member.newest, STORY_SIDE, tallest=GALLERY_HEIGHT))
            for member in trajectory.plan.cast
        ],
        summary=words.heard(summarize(trajectory).sentence),
        reasoning=trajectory.plan.reasoning,
        steps=steps,
        findings=findings,
        stored=images.stored(),
        identities=[(words.say(name), value) for name, value in made_by(trajectory)],
        settings=[
            (name.replace("_", " "), {None: "none", True: "yes", False: "no"}.get(value, value))
            for name, value in trajectory.settings.model_dump().items()
        ],
    )


def render_story(trajectory: Trajectory, options: ExportOptions = PLAIN) -> str:
    """Return the page for an audience as HTML: title, images and texts."""
    words, clips = options.words, shown_clips(trajectory, STORY_SIDE)
    panels = [
        {
            "clip": clips.get(one.number),
            "image": one.picture and shown_image(one.picture, STORY_SIDE, enlarge=True),
            "text": one.text,
        }
        for one in panels_of(trajectory)
    ]
    return rendered("audience.html.j2", words, title=options.title_of(trajectory), panels=panels)


def rendered(template: str, words: Words, own: Path | None = None, **values: Any) -> str:
    """Render a template in the look of this page, with a policy that allows only its style and script.

    Args:
        template: File name of the template.
        words: Language of the page.
        own: Folder with the template and a style sheet of the same name, which is added to the page's.
        **values: Variables of the template.
    """
    environment = templates_in(HERE, own) if own else templates_in(HERE)
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


@lru_cache
def templates_in(*folders: Path) -> Environment:
    """Return the environment of the templates in these folders, which escapes all values."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(folders),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _step(
    shown: StoryStep,
    settings: RunSettings,
    drift: StepDrift | None,
    words: Words,
    images: PageImages,
    clips: Mapping[int, ShownClip],
) -> dict[str, Any]:
    step, result = shown.step, shown.result
    clip = clips.get(step.number)
    image = result.image if result and clip is None else None
    return {
        "step": step,
        "clip": clip,
        "image": image and images.show(image, STORY_SIDE, enlarge=True),
        "status": words.heard(stop_sentence(result)) if result else words.say("Not reached"),
        "reached": result is not None,
        "tone": tone_of(result),
        "drift": words.heard(drift.sentence) if drift else "",
        "attempts": []
        if result is None
        else [
            _attempt(attempt, index + 1, words.say(kept_word(result, index)), settings, words, images)
            for index, attempt in enumerate(result.attempts)
        ],
    }


def _attempt(
    attempt: Attempt, number: int, kept: str, settings: RunSettings, words: Words, images: PageImages
) -> dict[str, Any]:
    drawn = attempt.image
    before = attempt.source or (Picture.white(drawn.size) if drawn else None)
    what = outcome(attempt, settings)
    return {
        "number": number,
        "kept": kept,
        "outcome": words.heard(what.label),
        "tone": tone_of_attempt(what),
        "before": before and drawn and images.show(before, ATTEMPT_SIDE),
        "blank": attempt.source is None,
        "after": drawn and images.show(drawn, ATTEMPT_SIDE),
        "attempt": attempt,
        "percent": probability_words(attempt, settings),
        "reasoning": reasoning_shown(attempt.verdict),
        "refined": _refined(attempt),
        "seconds": duration(attempt.seconds),
    }


def _refined(attempt: Attempt) -> list[Piece] | None:
    refined = attempt.verdict.refined_prompt if attempt.verdict else ""
    return changes(attempt.prompt, refined) if refined and refined != attempt.prompt else None


def _content_digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
