"""How an export presents a story: for which reader, with which title, in which language.

What readers see is decided here, once for all exports. Verdicts, attempts, prompts, step names and steps
without a result are left out. The text of a step is the text that the planner wrote for the reader. Only a
story without any such text shows its instructions instead. If no step of the plan generates an image, the
story is about the images of its request, so these come first.

There is one source of texts, `web/words/LANGUAGE.json`, which the browser reads too. The English text is the
key. `say` translates a text of an export and fills in its values. `heard` translates a finished English line
of another part of the backend (how a step ended, the totals of a run) by finding its pattern, as web/words.js
does. If a translation is missing, the English text is used. Texts of the run itself (requests, prompts,
stories) are not translated.

All exports share `ExportOptions`, so they all understand the same options. Exports that did not show a title
before (sheet, GIF, WebP) show it only if the user gave one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from pydantic import Field

from ...core.errors import SettingsError
from ...core.files.bounded_reader import read_json
from ...core.pictures import Picture
from ...core.types import FindingKind, StoryCheck, StoryFinding, Text, Trajectory, Value
from ...story.outcomes import story_steps, title_of

FOLDER = Path(__file__).resolve().parents[3] / "web" / "words"
ENGLISH = "en"
LANGUAGES = ("en", "zh", "zh-TW", "ja", "ko", "fr", "es", "ru", "pt-BR", "tr")
PLACE = re.compile(r"\{(\w+)\}")
NUMBER = r"[\d.,%/]+"
LOOKED_UP = ("rest", "part", "count")
MAX_BYTES = 1024 * 1024


class Words:
    """The texts of one language.

    `tag` is its language tag as in HTML. The English texts are the keys themselves.
    """

    def __init__(self, tag: str, texts: dict[str, str], lines: dict[str, str]) -> None:
        self.tag = tag
        self._texts = texts
        self._lines = [(_pattern(key), PLACE.findall(key), text) for key, text in lines.items()]

    @property
    def samples(self) -> tuple[str, ...]:
        """Texts that contain all letters of the translations; empty for English."""
        return tuple(self._texts.values())

    def say(self, text: str, /, **values: object) -> str:
        """Return a text of an export; `{name}` in it is replaced by the value of that name."""
        return _filled(self._texts.get(text, text), {name: str(value) for name, value in values.items()})

    def heard(self, line: str) -> str:
        """Translate a finished English line; a line without a pattern is returned unchanged."""
        for pattern, names, text in self._lines:
            match = pattern.fullmatch(line)
            if match:
                found = zip(names, match.groups(), strict=True)
                values = {name: self.heard(one) if name in LOOKED_UP else one for name, one in found}
                return _filled(text, values)
        return self._texts.get(line, line)


def words_in(language: str) -> Words:
    """Return the texts of a language.

    Raises:
        SettingsError: The language is not in `LANGUAGES`.
    """
    if language not in LANGUAGES:
        raise SettingsError(
            f"The language {str(language)[:40]!r} is not supported.",
            f"Choose one of {', '.join(LANGUAGES)}.",
        )
    return _read(language)


@lru_cache(maxsize=len(LANGUAGES))
def _read(language: str) -> Words:
    if language == ENGLISH:
        return Words(ENGLISH, {}, {})
    content = read_json(FOLDER / f"{language}.json", SettingsError, "The words of the language", MAX_BYTES)
    assert isinstance(content, dict), "a file of this package"
    return Words(language, content["view"] | content["export"], content["server"])


def _pattern(key: str) -> re.Pattern[str]:
    texts, names = PLACE.split(key)[::2], PLACE.findall(key)
    places = [r"([\s\S]+?)" if name in (*LOOKED_UP, "text") else f"({NUMBER})" for name in names]
    return re.compile(
        "".join(re.escape(text) + place for text, place in zip(texts, [*places, ""], strict=True))
    )


def _filled(text: str, values: dict[str, str]) -> str:
    return PLACE.sub(lambda place: values.get(place[1], place[0]), text)


class Panel(Value):
    """One part of a story: an image, a text, or both.

    `number` is the number of its step in the plan, `name` the name of that step. For an image of the request,
    `number` is its place in the request.
    """

    number: int
    name: str = ""
    picture: Picture | None = None
    text: str = ""


def panels_of(trajectory: Trajectory) -> tuple[Panel, ...]:
    """Return the parts of the story in order; empty if no step was run."""
    steps = [shown for shown in story_steps(trajectory) if shown.result is not None]
    written = any(shown.step.auxiliary_text for shown in steps)
    panels = list(given_panels(trajectory)) if steps else []
    for shown in steps:
        text = (shown.step.auxiliary_text or "") if written else (shown.step.instruction or "")
        picture = shown.result.image if shown.result else None
        if picture or text.strip():
            named = {"number": shown.step.number, "name": shown.step.name.strip()}
            panels.append(Panel(**named, picture=picture, text=text.strip()))
    return tuple(panels)


def given_panels(trajectory: Trajectory) -> tuple[Panel, ...]:
    """Return the images of the request if the plan has only text-only steps; otherwise nothing."""
    if any(step.prompt for step in trajectory.plan.steps):
        return ()
    return tuple(Panel(number=place, picture=one) for place, one in enumerate(trajectory.request.images, 1))


class ExportOptions(Value):
    """Options of exports for people. `words` raises `SettingsError` if the language is not supported."""

    audience: bool = False
    """Show only texts and kept images, without how the story was made."""
    title: Text = ""
    """Default (empty): the beginning of the request, for exports that need a title."""
    language: str = Field(default=ENGLISH, max_length=40)

    @property
    def words(self) -> Words:
        """The texts of the language."""
        return words_in(self.language)

    def title_of(self, trajectory: Trajectory) -> str:
        """Return the given title, else the beginning of the request."""
        return self.words.heard(" ".join(self.title.split()) or title_of(trajectory))


PLAIN = ExportOptions()


def story_panels(trajectory: Trajectory, options: ExportOptions) -> tuple[Panel, ...]:
    """Return the parts of the story in order; its title if no step was run."""
    return panels_of(trajectory) or (Panel(number=1, text=options.title_of(trajectory)),)


FOUND: dict[FindingKind, str] = {
    "identity": "Story check, identity, attempt {number}: {text}",
    "state": "Story check, state, attempt {number}: {text}",
    "order": "Story check, order, attempt {number}: {text}",
    "style": "Story check, style, attempt {number}: {text}",
}
NOT_CHECKED = "The story was not checked: {text}"


def check_line(check: StoryCheck) -> str:
    """Return the result of one story check in a line, without its texts."""
    count = len(check.findings)
    found = "no findings" if not count else f"{count} finding{'s' if count > 1 else ''}"
    return f"Story check: {'failed' if check.warning else found}"


def findings_of(check: StoryCheck, attempts: Mapping[tuple[int, str], int]) -> list[tuple[StoryFinding, int]]:
    """Return the findings about images that a run has, with the number of the attempt.

    Args:
        check: The check. Findings about images that are no longer part of the run are out of date.
        attempts: Number of the attempt (from 1) by step number and digest of its image.
    """
    numbers = ((one, attempts.get((one.step, check.images.get(one.step, "")))) for one in check.findings)
    return [(one, number) for one, number in numbers if number is not None]


def check_lines(trajectory: Trajectory, words: Words) -> list[tuple[int | None, str]]:
    """Return what the story checks found about images of this run.

    Args:
        trajectory: The run.
        words: Language of the texts.

    Returns:
        Step numbers and texts, oldest first; without a step number for a story that could not be checked.
    """
    attempts = {
        (result.step.number, attempt.image.digest): number
        for result in trajectory.results
        for number, attempt in reversed(list(enumerate(result.attempts, start=1)))
        if attempt.image
    }
    lines: list[tuple[int | None, str]] = []
    for check in trajectory.checks:
        if check.warning:
            lines.append((None, words.say(NOT_CHECKED, text=check.warning)))
        for one, number in findings_of(check, attempts):
            lines.append((one.step, words.say(FOUND[one.kind], number=number, text=one.problem)))
    return list(dict.fromkeys(lines))
