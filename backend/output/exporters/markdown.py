"""A run as a Markdown file with its images in a folder, for editors, repositories and blogs.

The texts of a run are not markup. Characters that Markdown or HTML would interpret are escaped, so a prompt
with asterisks shows asterisks, and a tag in a request is harmless wherever the file is rendered.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from ...core.types import CastMember, RunSettings, StepResult, Trajectory
from ...story.outcomes import (
    StoryStep,
    duration,
    kept_word,
    outcome,
    probability_words,
    stop_sentence,
    story_steps,
    summarize,
)
from ..report.export_options import PLAIN, ExportOptions, Words, panels_of
from ..report.run_report import made_by
from .export_files import PictureFolder, write_whole

FILE_NAME = "story.md"
SIGNS = re.compile(r"([\\`*_\[\]<>#|~$])")
LINE_START = re.compile(r"^([^\S\n]*)([-+=]|\d+(?=[.)]))", re.MULTILINE)


def export(trajectory: Trajectory, folder: Path, options: ExportOptions = PLAIN) -> Path:
    """Write `folder`/story.md and its images folder, and return the file's path.

    Raises:
        SettingsError: The language is unknown.
        JournalError: The folder cannot be written.
    """
    folder = Path(folder)
    pictures = PictureFolder(folder)
    lines = [f"# {_line(options.title_of(trajectory))}", ""]
    lines += _story(trajectory, pictures) if options.audience else _run(trajectory, pictures, options.words)
    return write_whole(folder / FILE_NAME, "\n".join(lines).encode("utf-8"))


def _story(trajectory: Trajectory, pictures: PictureFolder) -> list[str]:
    lines = []
    for panel in panels_of(trajectory):
        if panel.picture:
            file = pictures.add(panel.picture, f"picture-{panel.number:02d}")
            lines += [f"![{_line(panel.text)}]({file})", ""]
        lines += [escape(panel.text), ""] if panel.text else []
    return lines


def _run(trajectory: Trajectory, pictures: PictureFolder, words: Words) -> list[str]:
    """Return the lines of the complete run: request, plan, and every attempt of every step."""
    lines = [f"*{words.heard(summarize(trajectory).sentence)}*", ""]
    lines += [
        f"## {words.say('The request')}",
        "",
        *(f"> {line}".rstrip() for line in escape(trajectory.request.text).splitlines()),
        "",
    ]
    for number, picture in enumerate(trajectory.request.images, start=1):
        alt = words.say("Image {number} of the request", number=number)
        lines += [f"![{alt}]({pictures.add(picture, f'request-{number}')})", ""]
    lines += _cast(trajectory.plan.cast, pictures, words)
    steps = story_steps(trajectory)
    lines += [f"## {words.say('The plan')}", ""]
    for each in steps:
        instruction = f": {_line(each.step.instruction)}" if each.step.instruction else ""
        lines.append(f"{each.step.number}. **{_name(each, words)}**{instruction}")
    lines.append("")
    for each in steps:
        lines += _step(each, pictures, trajectory.settings, words)
    makers = made_by(trajectory)
    if makers:
        lines += ["---", "", *(f"- {words.say(name)}: {_line(value)}" for name, value in makers), ""]
    return lines


def _cast(cast: Sequence[CastMember], pictures: PictureFolder, words: Words) -> list[str]:
    """Return a section with the newest image and the traits of each member; nothing without a cast."""
    lines = [f"## {words.say('The cast')}", ""] if cast else []
    for number, member in enumerate(cast, start=1):
        if member.newest:
            lines += [f"![{_line(member.name)}]({pictures.add(member.newest, f'cast-{number:02d}')})", ""]
        traits = f": {_line(', '.join(member.traits))}" if member.traits else ""
        lines += [f"**{_line(member.name)}** ({words.say(member.kind)}){traits}", ""]
    return lines


def escape(text: str) -> str:
    """Escape text so that Markdown shows it unchanged, line by line."""
    signs = SIGNS.sub(r"\\\1", text.replace("&", "&amp;"))
    return LINE_START.sub(lambda m: f"{m[1]}{m[2]}\\" if m[2].isdigit() else f"{m[1]}\\{m[2]}", signs).strip()


def _step(shown: StoryStep, pictures: PictureFolder, settings: RunSettings, words: Words) -> list[str]:
    step, result = shown.step, shown.result
    lines = [f"## {step.number}. {_name(shown, words)}", ""]
    if step.auxiliary_text:
        lines += [escape(step.auxiliary_text), ""]
    if result and result.image:
        alt = _line(step.instruction or step.prompt or step.name)
        lines += [f"![{alt}]({pictures.add(result.image, f'step-{step.number:02d}')})", ""]
    if step.prompt:
        lines += [f"*{words.heard(stop_sentence(result)) if result else words.say('Not reached')}.*", ""]
    if not result or not result.attempts:
        return lines
    if own := step.settings.sentence:
        lines += [f"{words.say('Step settings')}: {_line(own)}", ""]
    lines += [_attempt(result, index, settings, words) for index in range(len(result.attempts))]
    return [*lines, ""]


def _attempt(result: StepResult, index: int, settings: RunSettings, words: Words) -> str:
    attempt = result.attempts[index]
    parts = [
        f"{words.say('Attempt {number}', number=index + 1)}: {words.heard(outcome(attempt, settings).label)}"
    ]
    if kept := kept_word(result, index):
        parts.append(words.say(kept))
    if probability := probability_words(attempt, settings):
        parts.append(words.say("{share} likely right", share=probability))
    seconds = words.heard(duration(attempt.seconds))
    parts += [words.say("seed {number}", number=attempt.seed), seconds, f"“{_line(attempt.prompt)}”"]
    if attempt.error:
        parts.append(f"{_line(words.say(attempt.error.where))}: {_line(attempt.error.message)}")
    return f"- {', '.join(parts)}"


def _name(shown: StoryStep, words: Words) -> str:
    return _line(shown.step.name) or words.say("Step {number}", number=shown.step.number)


def _line(text: str | None) -> str:
    return escape(" ".join((text or "").split()))
