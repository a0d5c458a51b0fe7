"""Generates requests from a taxonomy: `prompts.jsonl` in one seeded order, and a report.

Sub-categories alternate by their weights, so that a shorter file is the beginning of a longer one. Within
one, templates alternate, and a row depends only on seed, template and position; the duplicate checks only
leave rows out. Near copies are only searched within a sub-category, since sub-categories do not share
templates. The split depends on what a request is about and not on its phrasing.
"""

from __future__ import annotations

import hashlib
import heapq
import json
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from ....backend.core.errors import SettingsError
from ....backend.core.files.atomic import write_text, writing
from ....backend.core.machine.libraries import require
from ....backend.core.types.values import DIRECT
from .taxonomy import BankEntry, Draws, Subcategory, Taxonomy, Template, read_taxonomy

PROMPTS, REPORT = "prompts.jsonl", "prompts.report.json"
IMAGES = (".png", ".jpg", ".jpeg", ".webp")
VARIANTS = 2
"""Maximum number of requests about the same content."""
VALIDATION, HELD_OUT = 0.02, 0.02
MIN_WORDS, MAX_WORDS = 6, 60
LONG = 30
"""Number of words of a template above which it gets no words in the image and no text ending."""
MAX_REFUSED = 10_000
"""Consecutive positions without a new request after which the sub-category counts as exhausted."""
NEAR = 0.7
"""Jaccard similarity of word triples. Prompts of 16 words that differ in one have 0.56, of 24 words 0.76."""
BANDS = (25, 5)
"""Bands and rows per band: 99 % of the pairs with a similarity of NEAR become candidates."""
ROUNDS = 4


class PromptsData(BaseModel):
    """Settings of the generated requests; field descriptions are the help of the command line."""

    count: int = Field(
        default=40_000,
        ge=1,
        description="Number of requests.",
        json_schema_extra=DIRECT | {"option": "rows"},
    )
    seed: int = Field(
        default=0, ge=0, le=2**53, description="Seed of the requests.", json_schema_extra=DIRECT
    )
    images: Path | None = Field(
        default=None, description="Folder of images; some requests then start from one of them."
    )


def permuted(place: int, size: int, key: str) -> int:
    """Return the number at a position of a seeded permutation of 0 to size-1.

    It is a Feistel network over the next power of four, repeated until the number is below the size, so that
    no list is needed.
    """
    half = max(1, ((size - 1).bit_length() + 1) // 2)
    digest = hashlib.blake2b(key.encode(), digest_size=8 * ROUNDS).digest()
    keys = [int.from_bytes(digest[8 * at : 8 * at + 8], "big") for at in range(ROUNDS)]
    while True:
        left, right = place >> half, place & (1 << half) - 1
        for one in keys:
            mixed = (right + one) * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF
            mixed ^= mixed >> 29
            mixed = mixed * 0xBF58476D1CE4E5B9 & 0xFFFFFFFFFFFFFFFF
            left, right = right, left ^ (mixed >> 32 & (1 << half) - 1)
        place = left << half | right
        if place < size:
            return place


def normal_form(text: str) -> str:
    """Return the text without differences in case, punctuation and spaces."""
    return re.sub(r"[^\w]+", " ", unicodedata.normalize("NFKC", text).casefold()).strip()


def triples(normal: str) -> frozenset[str]:
    """Return all runs of three words of a normalized text, or the text itself if it has fewer words."""
    words = normal.split()
    runs = zip(words, islice(words, 1, None), islice(words, 2, None), strict=False)
    return frozenset(" ".join(run) for run in runs) or frozenset((normal,))


def likeness(one: frozenset[str], other: frozenset[str]) -> float:
    """Return the Jaccard similarity, 0 to 1."""
    common = len(one & other)
    return common / (len(one) + len(other) - common)


class Duplicates:
    """Duplicate checks of one sub-category: equal text, equal content, and near copies.

    Candidates of MinHash are checked exactly, so that no row is dropped because of a hash collision.
    """

    def __init__(self) -> None:
        """Open an empty index.

        Raises:
            SettingsError: datasketch is not installed.
        """
        require("datasketch")
        import zlib

        from datasketch import MinHash, MinHashLSH

        self._empty = MinHash(num_perm=128, seed=1, hashfunc=zlib.crc32, scheme="affine32")
        self._near = MinHashLSH(num_perm=128, params=BANDS)
        self._runs: dict[str, frozenset[str]] = {}
        self._contents: Counter[str] = Counter()

    def refused(self, normal: str, content: str) -> str:
        """Return why a row is dropped, or an empty text and remember it."""
        if normal in self._runs:
            return "equal text"
        if self._contents[content] >= VARIANTS:
            return "equal content"
        runs, signature = triples(normal), self._empty.copy()
        signature.update_batch([run.encode() for run in sorted(runs)])
        if any(likeness(runs, self._runs[str(other)]) >= NEAR for other in self._near.query(signature)):
            return "near copy"
        self._near.insert(normal, signature, check_duplication=False)
        self._runs[normal] = runs
        self._contents[content] += 1
        return ""


@dataclass(frozen=True)
class Walk:
    """One sub-category's requests in their order."""

    sub: Subcategory
    taxonomy: Taxonomy
    seed: int
    images: Sequence[str] = ()

    def rows(self, dropped: Counter[str]) -> Iterator[dict[str, Any]]:
        """Yield the rows as they are written; `dropped` counts what is left out, by reason."""
        duplicates, refused = Duplicates(), 0
        for number, template, filled, draws, image in self._candidates():
            refused += 1
            if refused > MAX_REFUSED + 1:
                return
            if filled is None:
                dropped["one thing twice"] += 1
                continue
            row, normal = self._row(number, template, filled, draws, image)
            content = "\0".join(sorted(row["slots"].values())) if row["slots"] else normal
            if why := duplicates.refused(normal, content):
                dropped[why] += 1
                continue
            refused = 0
            yield row

    def _candidates(self) -> Iterator[tuple[int, Template, dict[str, BankEntry] | None, Draws, str]]:
        """Yield (template number, template, filled slots, random numbers, image) for every position."""
        numbered = list(enumerate(self.sub.templates, 1))
        plain, with_image = (
            [one for one in numbered if one[1].image is is_image] for is_image in (False, True)
        )
        places, finished, turns = Counter[int](), set[int](), {False: 0, True: 0}
        place = 0
        while len(finished) < len(plain):
            place += 1
            draws = Draws(f"{self.seed}|{self.sub.key}|{place}")
            image = ""
            if self.images and draws.share("image") < self.taxonomy.shares["image"]:
                image = self.images[draws.pick("which image", len(self.images))]
            of_image = bool(image and with_image)
            listed = with_image if of_image else plain
            number, template = listed[turns[of_image] % len(listed)]
            turns[of_image] += 1
            at = places[number]
            if at >= template.size * VARIANTS:
                finished |= set() if of_image else {number}
                continue
            places[number] += 1
            order = permuted(at % template.size, template.size, f"{self.seed}|{self.sub.key}|{template.text}")
            yield number, template, template.filling(order), draws, image

    def _row(
        self, number: int, template: Template, filled: dict[str, BankEntry], draws: Draws, image: str
    ) -> tuple[dict[str, Any], str]:
        """Return a row, and its normalized text."""
        key = self.sub.key
        image = "" if not template.image and self._contradicts("image", filled) else image
        text, constraints = self._text(template, filled, draws, bool(image) and not template.image)
        normal = normal_form(text)
        slots = {name: entry.text for name, entry in filled.items()}
        row = {
            "id": f"{key}-{hashlib.blake2b(normal.encode(), digest_size=6).hexdigest()}",
            "user_input": text,
            **({"user_input_image": image} if image else {}),
            "category": self.sub.category,
            "subcategory": key,
            "template": f"{key}.{number}",
            "slots": slots,
            "constraints": constraints,
            "split": split_of(key, slots.values() or [normal]),
            "language": self.taxonomy.language,
        }
        return row, normal

    def _text(
        self, template: Template, filled: dict[str, BankEntry], draws: Draws, with_image: bool
    ) -> tuple[str, dict[str, Any]]:
        """Return the whole text (the template, then this row's sentences), and what it requires of a plan.

        Sentences without requirements are added only if there is room.
        """
        shares, (low, high) = self.taxonomy.shares, self.sub.steps
        count = low + draws.pick("count", high - low + 1)
        parts = [template.written(filled, draws, count)]
        asks_count = not template.counted and draws.share("step_count") < shares["step_count"]
        words = len(parts[0].split())
        letters = (
            words <= LONG and not template.lettered and draws.share("drawn_words") < shares["drawn_words"]
        )
        ending = words <= LONG and draws.share("text_ending") < shares["text_ending"]
        captions = template.captions
        asking = self._sentence("image", draws) if with_image else []
        if not captions and draws.share("captions") < shares["captions"]:
            captions = self._captions(draws, letters or template.lettered or ending)
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
        for kind, share in (("look", shares["look"]), ("audience", shares["audience"])):
            share = 1.0 if kind == "audience" and words < MIN_WORDS else share
            if draws.share(kind) < share and not self._contradicts(kind, filled, with_image):
                extra = self._sentence(kind, draws)
                room -= len(" ".join(extra).split())
                parts += extra if room >= 0 else []
        text = " ".join([*parts, *asking])
        counted = template.counted or (asks_count and bool(asking))
        return text, {
            "step_count": count if counted else 0,
            "captions": captions or "as requested",
            "drawn_words": re.findall(r'"([^"]+)"', text),
            "text_ending": ending,
        }

    def _captions(self, draws: Draws, worded: bool) -> str:
        """Return the kind of captions; a request for no texts must not ask for some at the same time."""
        at = draws.share("kind of captions")
        captions = "short" if at < 0.6 else "paragraph" if at < 0.85 else "none"
        impossible = worded or not self.sub.sentences.get("none")
        return "short" if captions == "none" and impossible else captions

    def _contradicts(self, kind: str, filled: Mapping[str, BankEntry], with_image: bool = False) -> bool:
        """Return whether the template already contains what a sentence of this kind would add."""
        banks = self.taxonomy.unless.get(kind, ())
        return (kind == "look" and with_image) or any(name.partition("#")[0] in banks for name in filled)

    def _sentence(self, kind: str, draws: Draws, count: int = 0) -> list[str]:
        """Return a sentence of a kind for this category, or an empty list if the taxonomy has none."""
        listed = self.sub.sentences.get(kind, ())
        if not listed:
            return []
        template = listed[draws.pick(f"sentence {kind}", len(listed))]
        own = Draws(f"{draws.number(kind)}")
        filled = template.filling(own.pick("filling", template.size)) or template.filling(0) or {}
        return [template.written(filled, own, count)]


def split_of(subcategory: str, content: Iterable[str]) -> str:
    """Return the split of all requests about this content."""
    parts = "\0".join([subcategory, *sorted(content)])
    share = int.from_bytes(hashlib.blake2b(parts.encode(), digest_size=8).digest(), "big") / 2**64
    if share < 1 - VALIDATION - HELD_OUT:
        return "train"
    return "validation" if share < 1 - HELD_OUT else "held_out"


class Prompts:
    """All requests of a taxonomy; `weights` are by sub-category or main category, with a default of 1.

    `dropped` counts what was left out by sub-category and reason, `exhausted` lists finished sub-categories.
    """

    def __init__(
        self, settings: PromptsData, weights: Mapping[str, float], images: Sequence[str] = ()
    ) -> None:
        """Read the taxonomy.

        Raises:
            SettingsError: A weight has an unknown name.
        """
        taxonomy = read_taxonomy()
        subs = taxonomy.subcategories
        if unknown := set(weights) - {sub.key for sub in subs} - {sub.category for sub in subs}:
            known = ", ".join(sorted({sub.category for sub in subs}))
            raise SettingsError(
                f"{min(unknown)[:40]!r} is not a category.", f"Use a sub-category of {known}."
            )
        self.walks = [Walk(sub, taxonomy, settings.seed, images) for sub in subs]
        self._shares = [weights.get(sub.key, weights.get(sub.category, 1.0)) for sub in subs]
        self.dropped = {sub.key: Counter[str]() for sub in subs}
        self.exhausted: list[str] = []

    def __iter__(self) -> Iterator[dict[str, Any]]:
        running = [walk.rows(self.dropped[walk.sub.key]) for walk in self.walks]
        turns = [(1 / share, place, 1) for place, share in enumerate(self._shares) if share > 0]
        heapq.heapify(turns)
        texts: set[str] = set()
        while turns:
            _, place, number = heapq.heappop(turns)
            for row in running[place]:
                text = row["id"].rpartition("-")[2]
                if text in texts:
                    self.dropped[row["subcategory"]]["equal text in another sub-category"] += 1
                    continue
                texts.add(text)
                heapq.heappush(turns, ((number + 1) / self._shares[place], place, number + 1))
                yield row
                break
            else:
                self.exhausted.append(self.walks[place].sub.key)


def images_in(folder: Path, out: Path) -> list[str]:
    """Return the images of a folder, with paths for rows in `out`.

    Raises:
        SettingsError: There are none.
    """
    found = sorted(one for one in folder.rglob("*") if one.suffix.lower() in IMAGES and one.is_file())
    if not found:
        raise SettingsError(f"{str(folder)!r} does not contain images.", f"Add files: {', '.join(IMAGES)}.")
    return [Path(os.path.relpath(one.resolve(), out.resolve())).as_posix() for one in found]


def write_prompts(settings: PromptsData, weights: Mapping[str, float], out: Path) -> dict[str, Any]:
    """Write `prompts.jsonl` and `prompts.report.json` to a folder; both appear only when complete.

    Returns:
        The report.

    Raises:
        SettingsError: The settings or files cannot be used.
    """
    prompts = Prompts(settings, weights, images_in(settings.images, out) if settings.images else ())
    counts = {name: Counter[str]() for name in ("category", "subcategory", "split", "template")}
    rows = 0
    with writing(out / PROMPTS, SettingsError, "Requests") as temporary, temporary.open("wb") as file:
        for row in prompts:
            file.write((json.dumps(row, ensure_ascii=False) + "\n").encode())
            for name, counter in counts.items():
                counter[row[name]] += 1
            rows += 1
            if rows == settings.count:
                break
    report = {
        "settings": settings.model_dump(mode="json"),
        "weights": dict(weights),
        "rows": rows,
        **{f"by_{name}": dict(counter) for name, counter in counts.items()},
        "dropped": {name: dict(by) for name, by in prompts.dropped.items() if by},
        "exhausted": prompts.exhausted,
    }
    write_text(out / REPORT, json.dumps(report, indent=1, ensure_ascii=False), SettingsError, "Report")
    return report
