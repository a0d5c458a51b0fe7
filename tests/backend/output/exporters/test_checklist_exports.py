"""Items of a checklist in the page and on the contact sheet."""

from __future__ import annotations

from support.stories import make_trajectory

from interleave_thinker.backend.core.types import CheckedItem, Trajectory, Verdict
from interleave_thinker.backend.output.exporters import page, sheet
from interleave_thinker.backend.output.exporters import sheet as cards
from interleave_thinker.backend.output.report.export_options import words_in
from interleave_thinker.backend.story.outcomes import story_steps

ITEMS = (
    CheckedItem(text="there are two boats", kind="count", probability=0.1, passed=False),
    CheckedItem(text="the boat is red", kind="color", probability=0.9, passed=True),
    CheckedItem(text="<b>same</b> face", kind="identity", probability=0.3),
)


def checked() -> Trajectory:
    """A story whose first attempt has a failed item."""
    plain = make_trajectory()
    first = plain.results[0]
    verdict = Verdict(success=False, reasoning="Only one boat.", items=ITEMS)
    attempts = (first.attempts[0].model_copy(update={"verdict": verdict}), *first.attempts[1:])
    result = first.model_copy(update={"attempts": attempts})
    return plain.model_copy(update={"results": (result, *plain.results[1:])})


def test_the_page_ticks_the_items_before_the_reasoning() -> None:
    html = page.render(checked())
    ticks = [
        "✗ there are two boats (P(yes) 0.10)",
        "✓ the boat is red (P(yes) 0.90)",
        "? &lt;b&gt;same&lt;/b&gt; face (P(yes) 0.30): cannot judge identity",
    ]
    assert "\n".join(ticks) + "\n\nOnly one boat." in html


def test_the_sheet_of_attempts_names_failed_items() -> None:
    story = checked()
    for language, start in (("en", "Not true: "), ("zh", "不成立：")):
        shown = cards.attempt_cards(story_steps(story)[0], story.settings, words_in(language))
        prompt = story.results[0].attempts[0].prompt
        assert shown[0].caption == f"{start}there are two boats\n{prompt}"
    plain = make_trajectory()
    captions = cards.attempt_cards(story_steps(plain)[0], plain.settings, words_in("en"))
    assert [one.caption for one in captions] == [one.prompt for one in plain.results[0].attempts]
    sheets = [sheet.contact_sheet(one, show="attempts").tobytes() for one in (story, plain)]
    assert sheets[0] != sheets[1]
