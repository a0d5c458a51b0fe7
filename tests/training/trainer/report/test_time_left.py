"""The time left of a training: the first step of a rollout contains the rollout."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

pytest.importorskip("transformers", reason='training needs: pip install ".[training]"')

from interleave_thinker.training.trainer.callbacks import Progress
from interleave_thinker.training.trainer.progress import GRPO_PARTS


@pytest.mark.parametrize(("whole", "left"), [(4, ["1:00", "0:45"]), (1, ["5:30", "2:06"])])
def test_a_rollout_counts_as_its_steps(whole: int, left: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 30.0, 90.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    lines: list[str] = []
    progress = Progress(lines.append, GRPO_PARTS, whole=whole)
    state = SimpleNamespace(global_step=0, max_steps=12, is_world_process_zero=True)
    progress.on_train_begin(None, state, None)
    for step in (1, 5):
        state.global_step = step
        progress.on_log(None, state, None, {"reward/overall": 0.5})
    assert [line.rsplit(", ", 1)[1] for line in lines] == [f"{one} left" for one in left]
