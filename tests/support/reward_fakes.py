"""A generator and a scorer that fail on demand, for tests of trainings."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from interleave_thinker.backend.core.pictures import Picture
from interleave_thinker.backend.core.types import Score
from interleave_thinker.backend.models.generators import open_generator

WHITE = Picture.white((32, 32))


class Artist:
    """The package's fake generator with a counter; `fault` is called with the prompt before every image."""

    def __init__(self, fault: Callable[[str], object] = lambda prompt: None) -> None:
        self.painter = open_generator("fake")
        self.fault = fault
        self.prompts: list[str] = []

    @property
    def identity(self) -> str:
        return self.painter.identity

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        self.prompts.append(prompt)
        instead = self.fault(prompt)
        return instead if instead is not None else self.painter.draw(prompt, source, seed)  # type: ignore[return-value]


class ManyArtist(Artist):
    """Generates several images per call."""

    def __init__(self, fault: Callable[[str], object] = lambda prompt: None) -> None:
        super().__init__(fault)
        self.sizes: list[int] = []

    def draw_many(
        self, prompts: Sequence[str], sources: Sequence[Picture | None], seeds: Sequence[int]
    ) -> list[Picture]:
        self.sizes.append(len(prompts))
        return [self.draw(*one) for one in zip(prompts, sources, seeds, strict=True)]


class Taste:
    """Scores by the image's digest; `fault` is called before every score."""

    identity = "taste"

    def __init__(self, fault: Callable[[], object] = lambda: None) -> None:
        self.fault = fault
        self.scored = 0

    def score(self, before: Picture | None, after: Picture, instruction: str) -> Score:
        self.scored += 1
        instead = self.fault()
        made = Score(semantics=int(after.digest[0], 16) % 11, quality=5)
        return instead if instead is not None else made  # type: ignore[return-value]
