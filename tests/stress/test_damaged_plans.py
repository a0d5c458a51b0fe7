"""10,000 damaged plans, and plans cut at every byte: no step is lost and nothing is guessed.

    pytest tests/stress/test_damaged_plans.py -m stress -n 0 -s

prints how many replies of each kind are read, refused and wrong.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from support.damaged_plans import KINDS, Reply, body, fault_of, framed, replies, story

pytestmark = [pytest.mark.stress, pytest.mark.timeout(3600)]

REPLIES = 10_000


def test_no_damaged_plan_is_read_as_another_plan() -> None:
    made, wrong = Counter[str](), Counter[tuple[str, str]]()
    for reply in replies(REPLIES):
        made[reply.kind] += 1
        if fault := fault_of(reply):
            wrong[reply.kind, fault] += 1
    for kind in KINDS:
        print(
            f"{kind:36}{made[kind]:6}",
            {fault: count for (one, fault), count in wrong.items() if one == kind} or "",
        )
    assert sum(made.values()) == REPLIES and not wrong


@pytest.mark.parametrize("seed", range(12))
def test_a_plan_that_is_cut_at_any_byte_loses_no_step(seed: int) -> None:
    rng = Random(seed)
    steps = story(rng)
    written = framed(rng, body(rng, steps)).encode()
    for end in range(len(written)):
        assert not fault_of(Reply(written[:end].decode(errors="ignore"), steps)), end
