"""A run as one self-contained web page: the story, with all attempts in folded sections.

The page contains everything and may load nothing, as its content security policy states. It can be mailed,
archived and opened from a disk. All text is untrusted: the template escapes it, and the policy allows only
the script and the style sheet of this module, by their digests.

Photographs are stored with lossy compression, as WebP. An image is stored losslessly if that file is
no larger, or small anyway. A page stores its images in one SVG element, and other SVG elements refer to them
by id, which all browsers support. This needs no script and no second file, so the page opens from a disk.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image

from ...core.pictures import Picture
from ...core.types import Attempt, RunSettings, Trajectory
from ...story.agents.plan_lint import step_findings
from ...story.clips import clips_of
from ...story.outcomes import (
    StoryStep,
    duration,
    kept_word,
    outcome,
    probability_words,
    spent_words,
    stop_sentence,
    story_steps,
    summarize,
    times_of,
    tone_of,
    tone_of_attempt,
)
from ..report.export_options import PLAIN, ExportOptions, Words, check_lines, panels_of
from ..report.run_report import Piece, StepDrift, changes, drift_of_steps, made_by, reasoning_shown
from .export_files import encoded, write_whole

if TYPE_CHECKING:
    from jinja2 import Environment


LOSSLESS_PIXELS = 512 * 512
"""Maximum number of pixels of an image that may be stored losslessly."""
LOSSLESS_BYTES = 32 * 1024
"""Maximum bytes up to which an image is stored losslessly even if lossy compression is smaller."""
QUALITY = 90
ENLARGED_SIDE = 512
MAX_ENLARGEMENT = 4.0
MAX_CLIP_BYTES = 48 * 1024 * 1024
"""Maximum size of all clips of a page; as data URLs they take a third more."""


@dataclass(frozen=True)
class ShownImage:
    """An image of a page: data URL, or name of a stored image, and displayed width and height in pixels."""

    source: str
    width: int
    height: int


class PageImages:
    """The images of one page, by digest."""

    def __init__(self) -> None:
        self._wanted: dict[str, tuple[Picture, int, bool]] = {}

    def show(
        self, picture: Picture, longest: int, enlarge: bool = False, tallest: int | None = None
    ) -> ShownImage:
        """Add an image at one place of the page.

        It is stored once, in the largest size used on the page.

        Args:
            picture: Image to show.
            longest: Maximum displayed side in pixels.
            enlarge: Whether a small image is shown enlarged.
            tallest: Maximum displayed height in pixels.
        """
        _, known, larger = self._wanted.get(picture.digest, (picture, 0, False))
        self._wanted[picture.digest] = picture, max(known, longest), larger or enlarge
        width, height = _size(picture, longest, enlarge)
        if tallest is not None and height > tallest:
            width, height = round(width * tallest / height) or 1, tallest
        return ShownImage(_name(picture), width, height)

    def stored(self) -> list[tuple[str, ShownImage]]:
        """Return the names and images to store. Call it after the last `show`."""
        return [
            (_name(picture), shown_image(picture, longest, enlarge))
            for picture, longest, enlarge in self._wanted.values()
        ]


def shown_clips(trajectory: Trajectory) -> dict[int, dict[str, Any]]:
    """Return the clips of a story for a web page, by the number of the step they lead to.

    Each has a data URL, its duration as text, and the image that is shown until it is played. There are only
    the first clips, up to `MAX_CLIP_BYTES` together.
    """
    images = {result.step.number: result.image for result in trajectory.results}
    found: dict[int, dict[str, Any]] = {}
    left = MAX_CLIP_BYTES
    for number, clip in clips_of(trajectory).items():
        image = images[number]
        left -= len(clip.movie.data)
        if left < 0:
            break
        assert image is not None  # a step with a clip has an image
        shown = shown_image(image, STORY_SIDE, enlarge=True)
        source = _data_url("video/mp4", clip.movie.data)
        found[number] = {"source": source, "seconds": f"{clip.seconds:.1f}", "image": shown}
    return found


def shown_image(picture: Picture, longest: int, enlarge: bool = False) -> ShownImage:
    """Encode an image for a web page.

    Args:
        picture: Image to encode. The run folder contains its exact pixels, so a large one may lose some.
        longest: Maximum side in pixels.
        enlarge: Whether a small image is enlarged.
    """
    image = scaled_image(picture, longest, enlarge)
    data = encoded(image, "webp", quality=QUALITY)
    if picture.size[0] * picture.size[1] <= LOSSLESS_PIXELS:
        files = (("png", {"compress_level": 6}), ("webp", {"lossless": True, "quality": 0, "method": 0}))
        exact = min((encoded(image, kind, **options) for kind, options in files), key=len)
        data = exact if len(exact) <= max(len(data), LOSSLESS_BYTES) else data
    kind = "png" if data.startswith(b"\x89PNG") else "webp"
    return ShownImage(_data_url(f"image/{kind}", data), *image.size)


def _data_url(kind: str, data: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode('ascii')}"


def scaled_image(picture: Picture, longest: int, enlarge: bool = False) -> Image.Image:
    """Return an image with sides of at most `longest` pixels; with `enlarge`, small images are enlarged."""
    size = _size(picture, longest, enlarge)
    if size == picture.size:
        return picture.image
    # Browsers enlarge by bilinear interpolation, which blurs small drawings.
    return picture.image.resize(size, Image.Resampling.LANCZOS)


def _size(picture: Picture, longest: int, enlarge: bool) -> tuple[int, int]:
    width, height = picture.size
    scale = min(1.0, longest / max(width, height))
    if enlarge:
        scale = max(scale, min(MAX_ENLARGEMENT, ENLARGED_SIDE / max(width, height)))
    return round(width * scale) or 1, round(height * scale) or 1


def _name(picture: Picture) -> str:
    return f"image-{picture.digest}"


FILE_NAME = "index.html"
TEMPLATES = Path(__file__).parent / "templates"
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
    drifts, clips = drift_of_steps(trajectory), shown_clips(trajectory)
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
        times=[(words.say(name), spent_words(spent)) for name, spent in times_of(trajectory).items()],
        identities=[(words.say(name), value) for name, value in made_by(trajectory)],
        settings=[
            (name.replace("_", " "), {None: "none", True: "yes", False: "no"}.get(value, value))
            for name, value in trajectory.settings.model_dump().items()
        ],
    )


def render_story(trajectory: Trajectory, options: ExportOptions = PLAIN) -> str:
    """Return the page for an audience as HTML: title, images and texts."""
    words, clips = options.words, shown_clips(trajectory)
    panels = [
        {
            "clip": clips.get(one.number),
            "image": one.picture and shown_image(one.picture, STORY_SIDE, enlarge=True),
            "text": one.text,
        }
        for one in panels_of(trajectory)
    ]
    return rendered("audience.html.j2", words, title=options.title_of(trajectory), panels=panels)


def rendered(template: str, words: Words, **values: Any) -> str:
    """Render a template, with a policy that allows only the style and the script of this page.

    Args:
        template: File name of the template.
        words: Language of the page.
        **values: Variables of the template.
    """
    style, script = ((TEMPLATES / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    page = environment().get_template(template)
    return page.render(
        say=words.say,
        language=words.tag,
        style=style,
        style_digest=_content_digest(style),
        script=script,
        script_digest=_content_digest(script),
        **values,
    )


@lru_cache
def environment() -> Environment:
    """Return the environment of the templates, which escapes all values."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(TEMPLATES),
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
    clips: Mapping[int, Any],
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
