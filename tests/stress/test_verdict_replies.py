"""40,000 critic replies of 41 kinds, each with a known meaning: none is read as the opposite.

Each reply is read four times: whole, as it arrives from a server with and without log-probabilities, and as a
local model writes it. The tests of `backend/core/answers` read a few hundred.
"""

from __future__ import annotations

import pytest
from support.critic_replies import NOTHING
from support.read_replies import AS_TRUE, OPPOSITE, WAYS, WRONG_MUST, counted, total

pytestmark = [pytest.mark.stress, pytest.mark.timeout(3600)]

REPLIES, PARTS = 40_000, 8


@pytest.mark.parametrize("part", range(PARTS))
def test_no_reply_is_read_as_its_opposite(part: int) -> None:
    each = REPLIES // PARTS
    counts, wrong = counted(range(part * each, (part + 1) * each))
    for way in WAYS:
        nothing = sum(count for (at, kind, _), count in counts.items() if at == way and kind in NOTHING)
        assert total(counts, OPPOSITE, way) + total(counts, WRONG_MUST, way) == 0, wrong
        assert total(counts, AS_TRUE, way) <= nothing / 100, wrong
