"""Replies that contain a known verdict: none is parsed as the opposite, complete or while it arrives."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st
from support.made_replies import held, make
from support.read_replies import counted, from_model, from_server, pieces_of

from interleave_thinker.backend.answers.reading import read_verdict


@settings(max_examples=400, deadline=None)
@given(st.integers(0, 2**32))
def test_a_reply_is_read_as_its_clear_verdict_or_as_none(seed: int) -> None:
    counts, wrong = counted(1, seed)
    assert not wrong
    assert not any("not read" in what and count for what, count in counts.items()), seed


def test_stopping_early_gives_the_verdict_of_the_whole_reply() -> None:
    rng, stops = random.Random(5), 0
    for _ in range(300):
        made = held(rng)
        reply = from_model(made, pieces_of(rng, made.text), is_held=True)
        assert read_verdict(reply.whole).success is made.says
        stops += reply.finish == "verdict"
        assert reply.finish == "end" or (made.says and made.text.startswith(reply.text))
    assert stops > 80


def test_an_unconstrained_reply_is_read_to_its_end() -> None:
    rng = random.Random(6)
    for _ in range(300):
        made = make(rng)
        pieces = pieces_of(rng, made.text)
        for reply in (from_model(made, pieces), from_server(made, pieces, True)):
            assert (reply.text, reply.finish == "verdict") == (made.text, False)
