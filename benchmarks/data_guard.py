"""Measures how many texts copied from a benchmark the guard finds, and its false alarms.

    python -m benchmarks.data_guard                                      # the last line is JSON
    python -m benchmarks.data_guard --benchmark wise data_verified/merge.json --benchmark specv FOLDER

Benchmarks are not shipped, so sentences of this repository's documents take their place, or real files that
are named. The clean rows are requests from the banks of `data prompts`. Copies are planted like people make
them: word for word, with one word changed, and inside a longer text.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

from interleave_thinker.training.data.decontamination.benchmarks import FILE, ItemsRead, files_of, items_of
from interleave_thinker.training.data.decontamination.index import BenchmarkIndex
from interleave_thinker.training.data.decontamination.items import IndexedItem
from interleave_thinker.training.data.prompts.generate import PromptsData, load, rows_of
from interleave_thinker.training.data.prompts.generate import PromptsReport as MadePrompts

AROUND = (
    "I run a small evening course and need this for the next lesson. {text} Keep to one style all the way.",
    "{text} And please write the captions so that my grandmother, who has never seen one, can follow.",
    "As discussed, here is the second task of the week: {text}",
)
MAX_FALSE, MIN_FOUND = 0.001, 0.97


DOCUMENTS = Path(__file__).resolve().parents[1]


def sentences() -> list[str]:
    """Return the documents' sentences of 6 to 40 words, without code."""
    found = []
    for path in sorted(
        [*DOCUMENTS.glob("*.md"), *DOCUMENTS.glob("docs/*.md"), *DOCUMENTS.glob("web/docs/*.md")]
    ):
        prose = re.sub(
            r"```.*?```|^    .*?$|^\|.*?$|`[^`]*`", " ", path.read_text("utf-8"), flags=re.S | re.M
        )
        found += [" ".join(one.split()) for one in re.split(r"(?<=[.?!])\s+|\n\n|^[-#]", prose, flags=re.M)]
    return list(dict.fromkeys(one for one in found if 6 <= len(one.split()) <= 40))


def requests(count: int, seed: int) -> list[str]:
    """Return requests of the shipped taxonomy."""
    settings = PromptsData(count=count, seed=seed)
    rows = rows_of(load(settings), settings, {}, [], MadePrompts())
    return [next(rows).user_input for _ in range(count)]


def changed(text: str, random: Random) -> str:
    """Return the text with one word replaced."""
    words = text.split()
    words[random.randrange(len(words))] = "zebra"
    return " ".join(words)


def main() -> None:
    """Print the figures, and exit with 1 if a bound is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--benchmark", nargs=2, action="append", metavar=("KIND", "PATH"), default=[])
    parser.add_argument("--planted", type=int, default=200)
    parser.add_argument("--clean", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    random = Random(given.seed)
    clean = requests(given.clean, given.seed)
    items = [(FILE, IndexedItem(texts=(text,))) for text in sentences()]
    if given.benchmark:
        items = [
            (kind, item)
            for kind, path in given.benchmark
            for file in files_of(Path(path))
            for item in items_of(kind, file, ItemsRead())
        ]
    with (
        tempfile.TemporaryDirectory() as folder,
        BenchmarkIndex.create(Path(folder, "guard.sqlite")) as guard,
    ):
        for kind in dict.fromkeys(kind for kind, _ in items):
            guard.add(kind, (item for name, item in items if name == kind), kind)
        texts = [text for _, item in items for text in (*item.texts, *item.titles)]
        planted = random.sample(texts, min(given.planted, len(texts)))
        found: Counter[str] = Counter()
        for text in planted:
            found["verbatim"] += guard.finding(text) is not None
            found["one word changed"] += guard.finding(changed(text, random)) is not None
            found["embedded"] += guard.finding(random.choice(AROUND).format(text=text)) is not None
        begun = time.process_time()
        alarms = [(text, finding) for text in clean if (finding := guard.finding(text)) is not None]
        seconds = time.process_time() - begun
        size = Path(folder, "guard.sqlite").stat().st_size
    for text, finding in alarms[:10]:
        print(f"{finding}: {text}")
    shares = {name: round(count / len(planted), 4) for name, count in found.items()}
    figures: dict[str, Any] = {
        "items": len(items),
        "index_bytes": size,
        "planted": 3 * len(planted),
        "found": round(sum(found.values()) / (3 * len(planted)), 4),
        "found_by_kind": shares,
        "clean": len(clean),
        "false_alarms": round(len(alarms) / len(clean), 5),
        "milliseconds_a_row": round(1000 * seconds / len(clean), 2),
    }
    good = figures["found"] >= MIN_FOUND and figures["false_alarms"] < MAX_FALSE
    print(json.dumps({**figures, "within_bounds": good}))
    raise SystemExit(not good)


if __name__ == "__main__":
    main()
