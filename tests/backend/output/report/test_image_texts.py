"""Images and their texts are two lists of the same length for any steps."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from interleave_thinker import Attempt, Picture, Step, StepResult, StopReason
from interleave_thinker.backend.output.report.run_report import image_texts

DRAWN, WORDS, FAILED = "drawn", "words", "failed"


def result(number: int, kind: str) -> StepResult:
    if kind == WORDS:
        step = Step(number=number, name="", auxiliary_text=f"words {number}")
        return StepResult(step=step, stop_reason=StopReason.text_only)
    step = Step(number=number, name="", prompt=f"prompt {number}")
    if kind == FAILED:
        return StepResult(step=step, stop_reason=StopReason.error)
    image = Picture(Image.new("RGB", (8, 8), (number, 0, 0)))
    attempt = Attempt(prompt="", seed=0, image=image)
    return StepResult(step=step, attempts=(attempt,), chosen=0, stop_reason=StopReason.unjudged)


@given(st.lists(st.sampled_from([DRAWN, WORDS, FAILED]), max_size=12))
def test_every_image_has_a_text_and_no_words_are_lost(kinds: list[str]) -> None:
    results = [result(number, kind) for number, kind in enumerate(kinds, start=1)]
    texts = image_texts(results)
    drawn = [each for each in results if each.image]
    assert len(texts) == len(drawn)
    for text, each in zip(texts, drawn, strict=True):
        assert each.step.prompt in text.split("\n\n")
    if drawn:
        said = [line for text in texts for line in text.split("\n\n") if line.startswith("words")]
        assert said == [each.step.auxiliary_text for each in results if each.step.auxiliary_text]


def test_texts_belong_to_the_preceding_image_or_the_first() -> None:
    kinds = [WORDS, DRAWN, WORDS, DRAWN]
    texts = image_texts([result(number, kind) for number, kind in enumerate(kinds, start=1)])
    assert texts == ["words 1\n\nprompt 2\n\nwords 3", "prompt 4"]
