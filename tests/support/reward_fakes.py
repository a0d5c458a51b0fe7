"""Generators and a scorer for the reward tests, and the reward of a critic with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

from PIL import Image

from interleave_thinker import Picture, Score
from interleave_thinker.training.content_cache import ContentCache
from interleave_thinker.training.reward.critic_reward import CriticReward, RewardSettings
from interleave_thinker.training.reward.redrawer import DrawingSettings, Redrawer
from interleave_thinker.training.reward.rollout_reward import RolloutReading

WHITE = Picture.white((16, 16))


class Artist:
    """Generates one color per prompt and seed; `fault` raises an error or replaces the image."""

    identity = "artist"

    def __init__(self, fault: Callable[[str], object] = lambda prompt: None) -> None:
        self.fault = fault
        self.prompts: list[str] = []

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        self.prompts.append(prompt)
        color = tuple(crc32(f"{seed} {prompt}".encode()).to_bytes(4, "big")[:3])
        drawn: Any = self.fault(prompt) or Picture(Image.new("RGB", (16, 16), color))
        return drawn


class ManyArtist(Artist):
    """The same for several prompts per call."""

    def __init__(self, fault: Callable[[str], object] = lambda prompt: None) -> None:
        super().__init__(fault)
        self.sizes: list[int] = []

    def draw_many(
        self, prompts: Sequence[str], sources: Sequence[Picture | None], seeds: Sequence[int]
    ) -> list[Picture]:
        self.sizes.append(len(prompts))
        return [self.draw(*one) for one in zip(prompts, sources, seeds, strict=True)]


class Taste:
    """Scores the color; `fault` raises an error or replaces the score. Records what it was shown."""

    identity = "taste"

    def __init__(self, fault: Callable[[], object] = lambda: None) -> None:
        self.fault = fault
        self.befores: list[Picture | None] = []
        self.sizes: list[tuple[int, int]] = []

    @property
    def scored(self) -> int:
        return len(self.sizes)

    def score(self, before: Picture | None, after: Picture, instruction: str) -> Score:
        self.befores.append(before)
        self.sizes.append(after.size)
        shade = after.image.getpixel((0, 0))[0]  # type: ignore[index]
        given: Any = self.fault() or Score(semantics=shade / 25.5, quality=5)
        return given


def critic_reward(folder: Path, artist: Any, taste: Any, **settings: Any) -> CriticReward:
    """Return the reward of answers about `after.png` in the folder; answers are lists of code points."""
    Image.new("RGB", (32, 32)).save(folder / "after.png")
    cache = folder / f"cache {len(list(folder.iterdir()))}"
    engine = Redrawer(artist, taste, ContentCache(cache), DrawingSettings(tries=1))
    reading = RolloutReading(folder, lambda ids: "".join(map(chr, ids)))
    return CriticReward(engine, RewardSettings(**settings), reading)
