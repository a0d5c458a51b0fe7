"""Draws and judges for the loop: nothing is made twice, failures become values, and a draw may begin before it is wanted.

Decision: what is drawn ahead is drawn under the same key as ever and is known to nobody before it is asked for: asked for, it
is the draw; not asked for, it is thrown away and not remembered, so a run with it has the trajectory of a run without.
A generator draws one image at a time, so whoever draws waits for what was begun ahead, wanted or not.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait

from .counters import count
from .errors import ChatError, GeneratorError
from .generators.protocol import Generator
from .memory import DrawKey, Drawn, Judged, JudgeKey, Remembers
from .pictures import Picture
from .roles import Judges
from .types import Attempt, Fault


class Makers:
    """A generator and critics, with the memory of what they made."""

    def __init__(self, generator: Generator, memory: Remembers) -> None:
        self._generator = generator
        self._memory = memory
        self._ahead: tuple[DrawKey, Future[Drawn]] | None = None
        self._thread: ThreadPoolExecutor | None = None

    def has_drawn(self, prompt: str, source: Picture | None, seed: int) -> bool:
        """Whether the image for these arguments is there already."""
        return self._memory.drawn(self._draw_key(prompt, source, seed)) is not None

    def draw(self, prompt: str, source: Picture | None, seed: int) -> tuple[Drawn, bool]:
        """The image for these arguments, and whether it was there already. Raises Cancelled."""
        key = self._draw_key(prompt, source, seed)
        remembered = self._memory.drawn(key)
        if remembered is not None:
            count(draws_kept=1)
            return remembered, True
        begun = self._begun_ahead(key)
        drawn = begun if begun is not None else self._draw_now(key, source)
        self._memory.keep_drawn(drawn)
        return drawn, False

    def draw_ahead(self, prompt: str, source: Picture | None, seed: int) -> None:
        """Begin to draw in a thread of its own; nothing happens if the image is there already."""
        key = self._draw_key(prompt, source, seed)
        if self._memory.drawn(key) is not None:
            return
        self._begun_ahead(None)
        if self._thread is None:
            self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="draws ahead")
        count(draws_ahead=1)
        self._ahead = key, self._thread.submit(self._draw_now, key, source)

    def close(self) -> None:
        """Throw away what was begun ahead, once it is done."""
        self._begun_ahead(None)
        if self._thread is not None:
            self._thread.shutdown()

    def judge(
        self,
        critic: Judges,
        original: str,
        attempt: Attempt,
        after: Picture,
        before_asking: Callable[[], None],
    ) -> tuple[Judged, bool]:
        """The verdict on an image against the step's original prompt, and whether it was there already. Raises Cancelled."""
        key = JudgeKey(
            critic=critic.identity,
            before=attempt.source.digest if attempt.source else None,
            after=after.digest,
            original_prompt=original,
            prompt_used=attempt.prompt,
        )
        remembered = self._memory.judged(key)
        if remembered is not None:
            count(judgements_kept=1)
            return remembered, True
        before_asking()
        count(judgements=1)
        began = time.monotonic()
        verdict, error = None, None
        try:
            verdict = critic.judge(attempt.source, after, original, attempt.prompt)
        except ChatError as failure:
            error = Fault(where="critic", message=str(failure))
        judged = Judged(key=key, verdict=verdict, error=error, seconds=time.monotonic() - began)
        self._memory.keep_judged(judged)
        return judged, False

    def _draw_key(self, prompt: str, source: Picture | None, seed: int) -> DrawKey:
        return DrawKey(
            generator=self._generator.identity,
            prompt=prompt,
            seed=seed,
            source=source.digest if source else None,
        )

    def _draw_now(self, key: DrawKey, source: Picture | None) -> Drawn:
        count(draws=1)
        began = time.monotonic()
        image, error = None, None
        try:
            image = self._generator.draw(key.prompt, source, key.seed)
        except GeneratorError as failure:
            error = Fault(where="generator", message=str(failure))
        return Drawn(key=key, image=image, error=error, seconds=time.monotonic() - began)

    def _begun_ahead(self, wanted: DrawKey | None) -> Drawn | None:
        """What was begun ahead, if it is what is wanted now; anything else is waited for and thrown away."""
        if self._ahead is None:
            return None
        (key, begun), self._ahead = self._ahead, None
        if key == wanted:
            count(draws_ahead_used=1)
            return begun.result()
        begun.cancel()
        wait([begun])
        count(draws_ahead_wasted=1)
        return None
