"""Progress lines of slow work: rare, with the time left, and none for work that is soon done."""

from __future__ import annotations

from interleave_thinker.training.trainer.report.progress_line import TimeLeft


def test_the_time_left_follows_from_the_time_so_far() -> None:
    times = iter([100.0, 110.0, 116.0, 120.0, 140.0, 200.0])
    lines: list[str] = []
    progress = TimeLeft("rows", lines.append, every=15.0, now=lambda: next(times))
    for done in (1, 2, 3, 4):
        progress(done, 8)
    progress(8, 8)
    assert lines == ["rows: 2 of 8, 0:48 left", "rows: 4 of 8, 0:40 left"]


def test_the_time_before_the_first_part_is_not_counted() -> None:
    times = iter([0.0, 1000.0, 1010.0, 1020.0])
    lines: list[str] = []
    progress = TimeLeft("answers", lines.append, every=15.0, now=lambda: next(times))
    for done in (0, 1, 2):
        progress(done, 8)
    assert lines == ["answers: 2 of 8, 1:00 left"]
