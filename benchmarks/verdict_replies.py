"""Critics' replies by the ten thousand, and how many of them are read as the opposite of what they say.

    python benchmarks/verdict_replies.py --replies 40000 --seed 0        # a table; status 1 if a reply is
    read wrongly

Decision: how replies are made (tests/support/made_replies.py) and read (tests/support/read_replies.py) is the
tests' own, who do a few hundred.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import conftest  # noqa: F401 - makes the package importable
from support.made_replies import LONG, Made, long_replies
from support.read_replies import counted, from_server

from interleave_thinker.backend.answers.reading import read_verdict
from interleave_thinker.backend.errors import AnswerError


def timed(read: Callable[[], object]) -> float:
    """Seconds of processor time."""
    start = time.process_time()
    with contextlib.suppress(AnswerError):
        read()
    return time.process_time() - start


def slowest() -> tuple[tuple[float, str], tuple[float, str]]:
    """Of the long replies: (seconds, name) of the slowest to read, and of the slowest to watch in pieces of 4
    characters."""
    whole_times, watched_times = [], []
    for name, text in long_replies().items():
        whole_times.append((timed(lambda text=text: read_verdict(text)), name))
        pieces = [text[at : at + 4] for at in range(0, len(text), 4)]
        watched_times.append(
            (timed(lambda text=text, pieces=pieces: from_server(Made(text, None, ""), pieces, False)), name)
        )
    return max(whole_times), max(watched_times)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--replies", type=int, default=40_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--untimed", action="store_true", help="leave the long replies out")
    options = parser.parse_args()
    start = time.process_time()
    counts, wrong = counted(options.replies, options.seed)
    for what, count in sorted(counts.items()):
        print(f"{what:<62}{count:>8}")
    bad = sum(count for what, count in counts.items() if what.startswith("wrong"))
    print(f"{'read wrongly, all in all':<62}{bad:>8}")
    print(
        f"{'seconds for a reply, read four times':<62}{(time.process_time() - start) / options.replies:>8.4f}"
    )
    if not options.untimed:
        for what, (seconds, name) in zip(("read", "watched"), slowest(), strict=True):
            print(f"{f'slowest of {LONG} characters, {what}: {name}':<62}{seconds:>8.3f}")
    for line in wrong:
        print(line)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
