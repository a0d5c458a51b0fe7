"""40,000 critic replies of many kinds, each with a known meaning: none is read as the opposite.

Each reply is read four times: whole, as it arrives from a server with and without log-probabilities, and as a
local model writes it. The tests of `backend/core/answers` read a few hundred.
"""

from __future__ import annotations

import pytest
from support.critic_replies import mistakes

pytestmark = [pytest.mark.stress, pytest.mark.timeout(3600)]

REPLIES, PARTS = 40_000, 8


@pytest.mark.parametrize("part", range(PARTS))
def test_no_reply_is_read_as_its_opposite(part: int) -> None:
    each = REPLIES // PARTS
    wrong, nothing, guessed = mistakes(range(part * each, (part + 1) * each))
    assert not wrong
    assert all(guessed[way] <= count / 100 for way, count in nothing.items()), guessed
