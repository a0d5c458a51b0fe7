"""Who is proposed to be in a step by its prompt, against what the sentences of presence.txt show.

    python -m benchmarks.plan_faults.presence
    python -m benchmarks.plan_faults.presence --show tuned

A sentence is contradicted if a member is proposed whom its image does not show: the prompt would then say
that the member "appears exactly once". It is incomplete if a member whom it shows is not proposed.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from interleave_thinker.backend.cast import CastMember
from interleave_thinker.backend.types.presence import members_in

FILE = Path(__file__).with_name("presence.txt")
PLACES = {"mill", "磨坊"}
PROPS = {"lantern", "灯笼"}
NAMES = {
    True: ("米娅", "汤姆", "老汤姆", "小玫", "灯笼", "磨坊"),
    False: ("Mia", "Tom", "Old Tom", "Rose", "Will", "Zoë", "lantern", "mill"),
}


class Sentence(NamedTuple):
    """A prompt, the members whom its image shows, and those whom it is found to propose."""

    language: str
    kind: str
    held_out: bool
    prompt: str
    shown: frozenset[str]
    proposed: frozenset[str]


def sentences() -> Iterator[Sentence]:
    """Yield all sentences."""
    counts: Counter[str] = Counter()
    for line in FILE.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        head, shown, prompt = (part.strip() for part in line.split("|"))
        language, kind = head.split()
        cast = [_member(name) for name in NAMES[language == "zh"]]
        proposed = members_in(cast, None, prompt)
        counts[head] += 1
        yield Sentence(
            language,
            kind,
            counts[head] % 2 == 0 and not kind.startswith("+"),
            prompt,
            frozenset(() if shown == "-" else shown.split(", ")),
            frozenset(one.name for one in proposed),
        )


def _member(name: str) -> CastMember:
    return CastMember(name=name, kind="place" if name in PLACES else "prop" if name in PROPS else "character")


def main() -> None:
    """Print the counts, or the wrong sentences of a part."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--show", choices=("tuned", "held-out"))
    options = parser.parse_args()
    counts: dict[str, Counter[str]] = {}
    for one in sentences():
        part = "held-out" if one.held_out else "tuned"
        found = counts.setdefault(
            f"{'present' if one.kind.endswith('present') else 'absent'}, {part}", Counter()
        )
        found.update(sentences=1, contradicted=bool(one.proposed - one.shown))
        found.update(incomplete=bool(one.shown - one.proposed))
        if options.show == part and one.proposed != one.shown:
            print(one.language, one.kind, one.prompt, "->", ", ".join(sorted(one.proposed)) or "-")
    print(json.dumps(counts, indent=2))


if __name__ == "__main__":
    main()
