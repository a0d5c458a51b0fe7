"""40,000 critic replies, each made from a known verdict: none is read as the opposite.

Each reply is read four times: whole, as it arrives from a server with and without log-probabilities, and as a
local model writes it. The tests of `backend/answers` read a few hundred.
"""

from __future__ import annotations

import pytest
from support.read_replies import counted

pytestmark = [pytest.mark.stress, pytest.mark.timeout(3600)]

REPLIES, PARTS = 40_000, 8


@pytest.mark.parametrize("seed", range(PARTS))
def test_no_reply_is_read_as_its_opposite(seed: int) -> None:
    counts, wrong = counted(REPLIES // PARTS, seed)
    for what, count in sorted(counts.items()):
        print(f"{what:<62}{count:>8}")
    assert not wrong
    assert counts["replies"] == REPLIES // PARTS
    assert not any(count for what, count in counts.items() if what.startswith("wrong"))
    assert not any(count for what, count in counts.items() if what.endswith("not read"))
