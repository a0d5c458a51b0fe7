"""What the processes of one training decide together, with the sending between them played."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("trl", reason='training needs: pip install "interleave-thinker[training]"')

from accelerate import utils

from interleave_thinker.backend.errors import ScorerError, TrainingError
from interleave_thinker.training.grpo.ranks import of_first_rank


def test_the_first_rank_checks_and_the_others_have_its_check_or_its_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[list[Any]] = []

    def broadcast(values: list[Any]) -> list[Any]:
        sent.append(list(values))
        return sent[0]

    monkeypatch.setattr(utils, "broadcast_object_list", broadcast)
    asked: list[str] = []

    def check() -> Any:
        asked.append("")
        if len(asked) > 1:
            raise ScorerError("The judge is down.", "Start it.")
        return "checked"

    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        assert of_first_rank(check, 2) == "checked"
    assert len(asked) == 1, "a judge is asked once"
    sent.clear()
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        with pytest.raises(TrainingError, match="The judge is down"):
            of_first_rank(check, 2)
    assert len(asked) == 2
