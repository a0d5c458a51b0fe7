"""Replies of many kinds with a known meaning: none is read as the opposite, complete or while it arrives."""

from __future__ import annotations

import random
from collections import Counter

from support.critic_replies import KINDS, make, mistakes, read_every_way

from interleave_thinker.backend.core.answers.reading import read_verdict

SAMPLE = 20 * len(KINDS)


def test_a_reply_is_read_as_its_clear_verdict_or_as_none() -> None:
    wrong, nothing, guessed = mistakes(range(SAMPLE))
    assert not wrong
    assert all(guessed[way] <= count / 100 for way, count in nothing.items()), guessed


def test_a_reply_is_read_to_its_end_unless_it_is_constrained_and_true() -> None:
    stops = Counter[bool | None]()
    for number in range(SAMPLE):
        made = make(number)
        whole, *arrived = read_every_way(made, random.Random(number)).values()
        for reply in arrived:
            assert reply.text == whole.text or (
                reply.finish == "verdict" and whole.text.startswith(reply.text)
            )
            assert reply.finish != "verdict" or (made.held and read_verdict(reply.whole).success is made.says)
            stops[made.says] += reply.finish == "verdict"
    assert stops[True] > 5
    assert stops[True] == stops.total()
