"""Reads made replies in every way in which replies are read, and counts the results.

Replies are also read as they arrive, in random pieces: from a server (with or without log-probabilities, and
perhaps with an opened thought), from a local model, and from one constrained to the grammar of verdicts,
which alone can stop early. A streamed result is wrong if it differs from that of the whole reply.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from support.made_replies import Made, held, make

from interleave_thinker.backend.answers.reading import read_verdict
from interleave_thinker.backend.chat import Reply, ReplySettings
from interleave_thinker.backend.chat.local.reply_listener import ReplyListener
from interleave_thinker.backend.chat.openai.stream import Chunk, StreamedReply
from interleave_thinker.backend.chat.verdict_watch import VerdictWatch
from interleave_thinker.backend.errors import AnswerError
from interleave_thinker.backend.remote.key_mask import KeyMask


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


def from_model(made: Made, pieces: Sequence[str], is_held: bool = False) -> Reply:
    """Return the reply like a local model with a known prompt. `is_held`: constrained to the grammar."""
    settings = ReplySettings(watch_verdict=True)
    listener = ReplyListener(_Pieces(pieces), {len(pieces)}, ((), ()), settings, made.thinking, None, is_held)
    if not any(listener.take(number) for number in range(len(pieces))) and not made.cut:
        listener.take(len(pieces))
    return listener.reply()


def counted(replies: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Count how the replies are read, and return some that are read incorrectly."""
    rng, counts, wrong = random.Random(seed), Counter[str](), []

    def note(what: str, made: Made) -> None:
        counts[what] += 1
        if len(wrong) < 20 and what.startswith("wrong"):
            wrong.append(f"{what} ({made.kind}, says {made.says}): {made.text!r}")

    for _ in range(replies):
        is_held = rng.random() < 0.1
        made = held(rng) if is_held else make(rng)
        pieces = pieces_of(rng, made.text)
        counts["replies"] += 1
        counts["whole replies" if made.whole else "damaged replies"] += 1
        read = said_by(read_whole(made))
        if read is not None and read != made.says:
            note("wrong: read whole", made)
            if made.says is False:
                counts["false replies read as True"] += 1
                counts["false replies with their form read as True"] += made.whole
        if made.whole:
            counts[f"{made.says} replies with their form"] += 1
            counts[f"{made.says} replies with their form, not read"] += read is None
        elif read is None:
            counts["damaged replies refused"] += 1
        ways = {
            "server": from_server(made, pieces, False),
            "server with log-probabilities": from_server(made, pieces, True),
            "model": from_model(made, pieces, is_held),
        }
        for way, reply in ways.items():
            watched = said_by(reply)
            counts[f"stopped early, {way}"] += reply.finish == "verdict"
            if reply.finish == "verdict" and watched is None:
                note("wrong: stopped, and not read", replace(made, text=reply.text))
            if watched is not None and watched != made.says:
                note(f"wrong: watched, {way}", made)
                counts["false replies read as True when watched"] += made.says is False
            if reply.finish == "verdict" and watched != said_by(
                Reply(text=made.text, thinking=made.thinking)
            ):
                note("wrong: stopped at another verdict than the whole reply's", made)
    return counts, wrong
