"""What `serve load` says of a service of which it is known how it behaves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.stand_in_service import StandInService, stand_in_service

from interleave_thinker.backend.errors import GeneratorError
from interleave_thinker.service.client_tools.load import Load
from interleave_thinker.service.client_tools.load_report import lines, percentile, summary
from interleave_thinker.service.client_tools.load_settings import LoadSettings


@pytest.fixture
def service() -> Iterator[StandInService]:
    with stand_in_service() as running:
        yield running


def test_clients_ask_again_when_they_are_answered(service: StandInService) -> None:
    service.seconds = 0.1
    found = summary(Load(service.url, LoadSettings(clients=4, seconds=0.5), "sesame").run())
    assert found["answers"] == {"image": found["requests"]}
    assert 4 <= found["requests"] <= 24
    assert found["different_images"] == found["requests"]
    assert found["milliseconds"]["p50"] >= 100
    assert service.connections <= 5  # four kept connections, and the question whether anybody is there
    assert {one["Authorization"] for one in service.headers_seen} == {"Bearer sesame"}


def test_a_stall_counts_for_all_who_were_due_in_it(service: StandInService) -> None:
    """One second in which nothing comes is one slow answer to a client that waits, but every tenth of a
    second somebody was due."""
    service.stalls_at = 3
    settings = LoadSettings(clients=2, seconds=1.5, rate=20)
    found = summary(Load(service.url, settings).run())
    assert found["requests"] == 30
    assert found["milliseconds"]["p50"] > 200, "half of the requests were due while nothing came"
    assert found["latest_begin_ms"] > 500
    assert "begun up to" in "\n".join(lines(found))


def test_refusals_are_counted_by_their_status(service: StandInService) -> None:
    service.seconds, service.most_at_once = 0.2, 1
    found = summary(Load(service.url, LoadSettings(clients=4, seconds=0.3, rate=20)).run())
    assert set(found["answers"]) == {"image", "503"}
    assert found["with_retry_after"] == found["answers"]["503"]
    assert sum(found["answers"].values()) == found["requests"] == 6


def test_a_pause_that_is_no_number_is_none(service: StandInService) -> None:
    service.most_at_once, service.pause = 0, "\N{SUPERSCRIPT TWO}"
    found = summary(Load(service.url, LoadSettings(clients=1, seconds=0.2, rate=10)).run())
    assert found["answers"] == {"503": 2} and found["with_retry_after"] == 0


def test_the_same_image_is_one_image(service: StandInService) -> None:
    settings = LoadSettings(clients=2, seconds=0.2, rate=20, same=True, source="32x24", size="16x16")
    found = summary(Load(service.url, settings).run())
    assert found["different_images"] == 1
    assert service.bodies[0]["width"] == 16
    assert service.bodies[0]["image"] == service.bodies[-1]["image"]


def test_a_service_that_is_too_slow_is_a_time_out(service: StandInService) -> None:
    service.seconds = 1.0
    found = summary(Load(service.url, LoadSettings(clients=1, seconds=0.1, timeout=0.2)).run())
    assert found["answers"] == {"timed out": 1}
    assert found["images_a_second"] == 0


def test_a_service_that_is_loading_is_not_measured(service: StandInService) -> None:
    service.status = "loading"
    with pytest.raises(GeneratorError, match="still loading"):
        Load(service.url, LoadSettings(clients=1, seconds=0.2)).run()
    assert not service.bodies


def test_nobody_there_is_an_error() -> None:
    with pytest.raises(GeneratorError, match="does not answer"):
        Load("http://127.0.0.1:9", LoadSettings(clients=1, seconds=0.1)).run()


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50), st.sampled_from((50, 90, 95, 99, 100)))
def test_a_percentile_is_a_value_that_enough_do_not_exceed(values: list[float], share: int) -> None:
    found = percentile(values, share)
    assert found in values
    assert sum(value <= found for value in values) * 100 >= share * len(values)
    below = [value for value in values if value < found]
    assert len(below) * 100 < share * len(values)
