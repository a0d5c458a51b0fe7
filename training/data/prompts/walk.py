"""Generates one sub-category's requests: alternating templates, with slots in a seeded order.

A row depends only on seed, template and position, and not on earlier rows; the duplicate checks only leave
rows out. A template whose slots are exhausted is used again with other sentences, `variants` times in total.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from .banks import BankEntry
from .dedup import Rings
from .permutation import Draws, Permutation
from .rows import Constraints, GeneratedRow, id_of, normal_form, split_of
from .taxonomy import Subcategory, Taxonomy
from .templates import Template

MIN_WORDS, MAX_WORDS = 6, 60
LONG = 30
"""Number of words of a template above which it gets no words in the image and no text ending."""
MAX_REFUSED = 10_000
"""Consecutive positions without a new request after which the sub-category counts as exhausted."""
_QUOTED = re.compile(r'"([^"]+)"')


@dataclass(frozen=True)
class WalkSettings:
    """Settings for the rows of every sub-category."""

    seed: int
    variants: int
    taxonomy: Taxonomy
    images: Sequence[str] = ()


class Walk:
    """Iterates over a sub-category's rows, and counts in `dropped` and `by_template`."""

    def __init__(self, subcategory: Subcategory, settings: WalkSettings) -> None:
        self.subcategory, self._settings = subcategory, settings
        self.dropped: Counter[str] = Counter()
        self.by_template: Counter[str] = Counter()
        numbered = list(enumerate(subcategory.templates, start=1))
        self._plain = [one for one in numbered if not one[1].image]
        self._of_images = [one for one in numbered if one[1].image]
        self.capacity = sum(template.size for _, template in self._plain) * settings.variants

    def __iter__(self) -> Iterator[GeneratedRow]:
        rings, refused = Rings(self._settings.variants), 0
        for number, template, filled, draws, image in self._candidates():
            if refused > MAX_REFUSED:
                return
            refused += 1
            if filled is None:
                self.dropped["one thing twice"] += 1
                continue
            row, normal = self._row(number, template, filled, draws, image)
            content = "\0".join(sorted(value for _, value in row.slots)) if row.slots else normal
            why = rings.refused(normal, content)
            if why:
                self.dropped[why] += 1
                continue
            self.by_template[row.template] += 1
            refused = 0
            yield row

    def _candidates(self) -> Iterator[tuple[int, Template, dict[str, BankEntry] | None, Draws, str]]:
        """Yield (template number, template, filled slots, random numbers, image) for every position."""
        settings, places, finished = self._settings, Counter[int](), set[int]()
        turns = {False: 0, True: 0}
        orders: dict[int, Permutation] = {}
        place = 0
        while len(finished) < len(self._plain):
            place += 1
            draws = Draws(f"{settings.seed}|{self.subcategory.key}|{place}")
            image = ""
            if settings.images and draws.share("image") < settings.taxonomy.shares.image:
                image = settings.images[draws.pick("which image", len(settings.images))]
            of_image = bool(image) and bool(self._of_images)
            listed = self._of_images if of_image else self._plain
            number, template = listed[turns[of_image] % len(listed)]
            turns[of_image] += 1
            at = places[number]
            if at >= template.size * settings.variants:
                finished |= set() if of_image else {number}
                continue
            places[number] += 1
            if number not in orders:
                key = f"{settings.seed}|{self.subcategory.key}|{template.text}"
                orders[number] = Permutation(template.size, key)
            order = orders[number]
            yield number, template, template.filling(order(at % template.size)), draws, image

    def _row(
        self, number: int, template: Template, filled: dict[str, BankEntry], draws: Draws, image: str
    ) -> tuple[GeneratedRow, str]:
        sub, settings = self.subcategory, self._settings
        image = "" if not template.image and self._contradicts("image", filled) else image
        text, constraints = self._text(template, filled, draws, bool(image) and not template.image)
        normal = normal_form(text)
        content = tuple((name, entry.text) for name, entry in filled.items())
        row = GeneratedRow(
            id=id_of(sub.key, normal),
            user_input=text,
            category=sub.category,
            subcategory=sub.key,
            template=f"{sub.key}.{number}",
            slots=content,
            constraints=constraints,
            split=split_of(sub.key, content or (("text", normal),)),
            language=settings.taxonomy.language,
            user_input_image=image,
        )
        return row, normal

    def _text(
        self, template: Template, filled: dict[str, BankEntry], draws: Draws, with_image: bool
    ) -> tuple[str, Constraints]:
        """Return the whole text: the template, then this row's sentences.

        Sentences without requirements are added only if there is room.
        """
        shares, low, high = self._settings.taxonomy.shares, *self.subcategory.steps
        count = low + draws.pick("count", high - low + 1)
        parts = [template.written(filled, draws, count)]
        asks_count = not template.counted and draws.share("step_count") < shares.step_count
        words = len(parts[0].split())
        letters = words <= LONG and not template.lettered and draws.share("drawn_words") < shares.drawn_words
        ending = words <= LONG and draws.share("text_ending") < shares.text_ending
        captions = template.captions
        asks_captions = not captions and draws.share("captions") < shares.captions
        asking: list[str] = []
        if with_image:
            asking += self._sentence("image", draws)
        if asks_captions:
            at = draws.share("kind of captions")
            captions = "short" if at < 0.6 else "paragraph" if at < 0.85 else "none"
            # A request for no texts must not ask for some at the same time.
            worded = letters or template.lettered or ending or not self.subcategory.sentences.get("none")
            captions = "short" if captions == "none" and worded else captions
            if asks_count and captions == "short":
                asking += self._sentence("counted_short", draws, count)
            else:
                asking += self._sentence("step_count", draws, count) if asks_count else []
                asking += self._sentence(captions, draws)
        elif asks_count:
            asking += self._sentence("step_count", draws, count)
        asking += self._sentence("drawn_words", draws) if letters else []
        asking += self._sentence("text_ending", draws) if ending else []
        room = MAX_WORDS - len(" ".join([*parts, *asking]).split())
        for kind, share in (("look", shares.look), ("audience", shares.audience)):
            share = 1.0 if kind == "audience" and words < MIN_WORDS else share
            if draws.share(kind) < share and not self._contradicts(kind, filled, with_image):
                extra = self._sentence(kind, draws)
                room -= len(" ".join(extra).split())
                parts += extra if room >= 0 else []
        text = " ".join([*parts, *asking])
        counted = template.counted or (asks_count and bool(asking))
        return text, Constraints(
            step_count=count if counted else 0,
            captions=captions or "as asked",
            drawn_words=tuple(_QUOTED.findall(text)),
            text_ending=ending,
        )

    def _contradicts(self, kind: str, filled: Mapping[str, BankEntry], with_image: bool = False) -> bool:
        """Return whether the template already contains what a sentence of this kind would add."""
        banks = self._settings.taxonomy.unless.get(kind, frozenset())
        of_image = kind == "look" and with_image
        return of_image or any(name.partition("#")[0] in banks for name in filled)

    def _sentence(self, kind: str, draws: Draws, count: int = 0) -> list[str]:
        """Return a sentence of a kind for this category, or an empty list if the taxonomy has none."""
        listed = self.subcategory.sentences.get(kind, ())
        if not listed:
            return []
        template = listed[draws.pick(f"sentence {kind}", len(listed))]
        own = Draws(f"{draws.number(kind)}")
        filled = template.filling(own.pick("filling", template.size)) or template.filling(0) or {}
        return [template.written(filled, own, count)]
