"""Reads critic replies in every way in which replies are read, and counts the results of every kind.

Replies are also read as they arrive, in random pieces: from a server (with or without log-probabilities), from
a local model, and from one constrained to the grammar of verdicts, which alone can stop early.

    PYTHONPATH=.. python -m support.read_replies 40000    # in the folder tests; the figures of every kind
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from support.critic_replies import KINDS, Made, make

from interleave_thinker.backend.core.answers.reading import read_verdict
from interleave_thinker.backend.core.errors import AnswerError
from interleave_thinker.backend.core.remote.api_keys import KeyMask
from interleave_thinker.backend.models.chat import Reply, ReplySettings
from interleave_thinker.backend.models.chat.local.generation import ReplyListener
from interleave_thinker.backend.models.chat.openai_chat import Chunk, StreamedReply
from interleave_thinker.backend.models.chat.verdict_watch import VerdictWatch


def pieces_of(rng: random.Random, text: str) -> list[str]:
    """Return the text in random, mostly short pieces."""
    pieces, at = [], 0
    longest = rng.choice((1, 4, 4, 12, 200))
    while at < len(text):
        size = rng.randint(1, longest)
        pieces.append(text[at : at + size])
        at += size
    return pieces


def said_by(reply: Reply) -> bool | None:
    """Return the verdict in a reply; `None` if it is rejected. Replies report an opened thought."""
    try:
        return read_verdict(getattr(reply, "whole", reply.text)).success
    except AnswerError:
        return None


def read_whole(made: Made) -> Reply:
    """Return the reply like a server without streaming."""
    return Reply(text=made.text, finish="length" if made.cut else "end")


def from_server(made: Made, pieces: Sequence[str], with_logprobs: bool) -> Reply:
    """Return the reply like a streaming server."""
    reading = StreamedReply(VerdictWatch(), lambda text: None, KeyMask(None))
    for piece in pieces:
        alternatives: Any = ((piece, (("true", -0.5), ("false", -1.0))),) if with_logprobs else ()
        reading.add(Chunk(piece, tokens=1, alternatives=alternatives))
    if made.cut:
        reading.add(Chunk("", finish="length"))
    return reading.reply()


class _Pieces:
    """A tokenizer whose tokens are the pieces of one reply."""

    def __init__(self, pieces: Sequence[str]) -> None:
        self._pieces = pieces

    def decode(self, tokens: Sequence[int], **options: Any) -> str:
        return "".join(self._pieces[token] for token in tokens)


def from_model(made: Made, pieces: Sequence[str]) -> Reply:
    """Return the reply like a local model with a known prompt, which perhaps constrains it."""
    settings = ReplySettings(watch_verdict=True)
    listener = ReplyListener(
        _Pieces(pieces), {len(pieces)}, ((), ()), settings, made.thinking, None, made.held
    )
    if not any(listener.take(number) for number in range(len(pieces))) and not made.cut:
        listener.take(len(pieces))
    return listener.reply()


WAYS = ("whole", "server", "server, log-probabilities", "local")
OPPOSITE, AS_TRUE, AS_FALSE, NOT_READ, RIGHT = (
    "opposite",
    "nothing as True",
    "nothing as False",
    "not read",
    "right",
)
WRONG_MUST = "not read, though plain"


def read_every_way(made: Made, rng: random.Random) -> dict[str, Reply]:
    """Return a reply as it is read in every way."""
    pieces = pieces_of(rng, made.text)
    replies = (
        read_whole(made),
        from_server(made, pieces, False),
        from_server(made, pieces, True),
        from_model(made, pieces),
    )
    return dict(zip(WAYS, replies, strict=True))


def outcome(made: Made, read: bool | None) -> str:
    """Return how a verdict was read."""
    if read is None:
        return WRONG_MUST if made.must else RIGHT if made.says is None else NOT_READ
    if made.says is None:
        return AS_TRUE if read else AS_FALSE
    return RIGHT if read is made.says else OPPOSITE


def counted(numbers: Iterable[int]) -> tuple[Counter[tuple[str, str, str]], list[str]]:
    """Count (way, kind, outcome) of the replies with these numbers, and return those that are read wrongly."""
    counts, wrong = Counter[tuple[str, str, str]](), []
    for number in numbers:
        made = make(number)
        for way, reply in read_every_way(made, random.Random(number)).items():
            said = outcome(made, said_by(reply))
            counts[way, made.kind, said] += 1
            counts[way, made.kind, "stopped early"] += reply.finish == "verdict"
            if said in (OPPOSITE, AS_TRUE, AS_FALSE, WRONG_MUST):
                wrong.append(f"{number}, {way}, {made.kind}, {said} (says {made.says}): {made.text!r}")
    return counts, wrong


def total(counts: Counter[tuple[str, str, str]], said: str, way: str | None = None) -> int:
    """Return the number of replies with an outcome, of one or all ways."""
    return sum(count for (at, _, what), count in counts.items() if what == said and way in (None, at))


def main() -> None:
    """Print the figures of every kind; the second argument prints so many replies that are read wrongly."""
    replies, shown = (int(one) for one in [*sys.argv[1:], "0"][:2])
    counts, wrong = counted(range(replies))
    columns = (RIGHT, NOT_READ, WRONG_MUST, AS_FALSE, AS_TRUE, OPPOSITE)
    for way in WAYS:
        print(f"\n{way:<30}" + "".join(f"{one:>24}" for one in columns))
        for kind in KINDS:
            print(f"{kind:<30}" + "".join(f"{counts[way, kind, one]:>24}" for one in columns))
        print(f"{'all':<30}" + "".join(f"{total(counts, one, way):>24}" for one in columns))
    for one in wrong[:shown]:
        print(one)


if __name__ == "__main__":
    main()
