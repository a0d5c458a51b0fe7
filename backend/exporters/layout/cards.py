"""The content of the cards of a contact sheet, before layout."""

from __future__ import annotations

from dataclasses import dataclass

from ...pictures import Picture
from ...report.audience import Panel
from ...report.outcomes import (
    StoryStep,
    Tone,
    kept_word,
    outcome,
    probability_words,
    stop_sentence,
    tone_of,
    tone_of_attempt,
)
from ...report.words import Words
from ...types import RunSettings

GOOD, OPEN, BAD, QUIET = (36, 104, 63), (176, 116, 0), (161, 44, 44), (130, 125, 117)
TONES: dict[Tone, tuple[int, int, int]] = {"good": GOOD, "open": OPEN, "bad": BAD, "quiet": QUIET}


@dataclass(frozen=True)
class Card:
    """One cell of the sheet: an image, or a text instead of it, with a caption and an outcome.

    `mark` is the outcome. It is empty in exports for an audience.
    """

    picture: Picture | None
    text: str
    heading: str
    caption: str
    mark: str
    tone: tuple[int, int, int]


def step_card(shown: StoryStep, words: Words) -> Card:
    """Return the card of a step with its chosen image."""
    step, result = shown.step, shown.result
    picture = result.image if result else None
    story = step.auxiliary_text or step.instruction or ""
    missing = words.say("Not reached" if result is None else "No image")
    text = story if not step.prompt else f"{missing}\n\n{step.prompt}"
    return Card(
        picture=picture,
        text=text,
        heading=_heading(shown),
        caption=story if picture else "",
        mark=words.heard(stop_sentence(result)) if result else missing,
        tone=TONES[tone_of(result)],
    )


def panel_card(panel: Panel) -> Card:
    """Return the card of a panel in an export for an audience."""
    return Card(panel.picture, panel.text, "", panel.text if panel.picture else "", "", QUIET)


def attempt_cards(shown: StoryStep, settings: RunSettings, words: Words) -> list[Card]:
    """Return one card per attempt of a step."""
    result = shown.result
    if result is None or not result.attempts:
        return [step_card(shown, words)]
    cards = []
    for index, attempt in enumerate(result.attempts):
        what = outcome(attempt, settings)
        chance = probability_words(attempt, settings)
        judged = words.heard(what.label) + (f" ({chance})" if chance else "")
        mark = ", ".join(filter(None, [judged, words.say(kept_word(result, index))]))
        missing = words.say("No image")
        text = f"{missing}\n\n{attempt.error.message}" if attempt.error else missing
        name = words.say("attempt {number}", number=index + 1)
        heading = f"{shown.step.number}. {name}" if index else f"{_heading(shown)}: {name}"
        items = attempt.verdict.items if attempt.verdict else ()
        failed = "; ".join(item.text for item in items if item.passed is False)
        # Ticks and crosses are in few fonts, so failed items are named in words.
        caption = (
            f"{words.say('Not true: {text}', text=failed)}\n{attempt.prompt}" if failed else attempt.prompt
        )
        cards.append(Card(attempt.image, text, heading, caption, mark, TONES[tone_of_attempt(what)]))
    return cards


def _heading(shown: StoryStep) -> str:
    return f"{shown.step.number}. {shown.step.name}".strip()
