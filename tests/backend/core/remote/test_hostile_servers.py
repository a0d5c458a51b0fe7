"""Both clients with a hostile server. tests/stress/test_hostile_servers.py tests all of its behaviors."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.hostile_server import BEHAVIOURS, ECHOES, HostileServer, hostile_server

from interleave_thinker import Cancelled, Message, ReplySettings, open_chat, open_generator
from interleave_thinker.backend.core.errors import ChatError, GeneratorError, InterleaveError, SettingsError
from interleave_thinker.backend.core.remote import balanced
from interleave_thinker.backend.core.remote.api_keys import MARK, GrowingMask, KeyMask
from interleave_thinker.backend.core.remote.call import RemoteCall

KEY = "sk-proj-Q7/x9+hostile_Zw4tTq81LmNvB"
ASK = [Message(role="user", content=("A boat?",))]
MASK, NEVER_SAID = KeyMask(KEY), KeyMask("0123456789-never-said")
LATE = 1.0
HANG = pytest.mark.timeout(50)
"""A deadline that does not work would take 60 s."""
ENDLESS = ["silent", "slow headers", "slow stream", "1xx storm", "endless lines"]
WRONG = [
    "hangs up", "endless line", "endless refusal", "broken off", "broken chunk", "terminal escapes",
    "status 999", "two lengths", "upgrade", "to a file", "to itself", "to another, 307", "gzip bomb", "empty",
    "web page", "NaN", "deep", "many", "an error", "wrong kinds", "lone surrogate", "image: claimed",
    "image: zeros", "echo: bad status line", "echo: double field",
]  # fmt: skip


@pytest.fixture(scope="module")
def server() -> Iterator[HostileServer]:
    with hostile_server() as running:
        yield running


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERLEAVE_API_KEY", KEY)
    monkeypatch.setenv("INTERLEAVE_GENERATOR_KEY", KEY)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses between attempts are a hundredth as long."""
    monkeypatch.setattr("interleave_thinker.backend.core.remote.call.FIRST_PAUSE", 0.0025)
    monkeypatch.setattr(balanced, "FIRST_PAUSE", 0.0025)


def ask(client: str, url: str, deadline: float = 20.0) -> object:
    if client == "chat":
        return open_chat(f"openai:m@{url}", deadline=deadline).reply(ASK, ReplySettings(watch_verdict=True))
    return open_generator(f"http:{url}", deadline=deadline).draw("a boat", None, 1)


def is_clean(text: str) -> bool:
    """Check for one line that is safe to print, without the key or half of it."""
    half = len(KEY) // 2
    return text.isprintable() and len(text) < 1000 and KEY[:half] not in text and KEY[half:] not in text


@HANG
@pytest.mark.parametrize("client", ["chat", "image"])
@pytest.mark.parametrize("name", ENDLESS)
def test_call_ends_at_its_deadline(server: HostileServer, client: str, name: str) -> None:
    with pytest.raises((ChatError, GeneratorError)) as error:
        ask(client, server.url(name), LATE)
    assert is_clean(str(error.value))


@pytest.mark.parametrize("client", ["chat", "image"])
@pytest.mark.parametrize("name", WRONG)
def test_errors_are_one_clean_line(server: HostileServer, client: str, name: str) -> None:
    try:
        ask(client, server.url(name))
    except (ChatError, GeneratorError) as error:
        assert is_clean(str(error)), str(error)
        assert error.__cause__ is None, "a traceback would show the server's answer"
    else:
        assert (client, name) == ("image", "NaN") or client == "chat" or name.startswith("echo")
    assert not server.stolen, "followed a redirect"


@HANG
@pytest.mark.parametrize("client", ["chat", "image"])
def test_an_endless_wait_can_be_cancelled_at_any_moment(server: HostileServer, client: str) -> None:
    began = time.monotonic()

    def interrupted() -> bool:
        return time.monotonic() - began > 0.5

    def stop(text: str) -> None:
        if interrupted():
            raise Cancelled("Stopped.")

    with pytest.raises(Cancelled):
        if client == "chat":
            open_chat(f"openai:m@{server.url('slow stream')}").reply(ASK, ReplySettings(), stop)
        else:
            good = open_generator(f"http:{server.url('image: one pixel')}")
            good._endpoints.now()[0].server.url = server.url("slow body")  # type: ignore[attr-defined]
            good.interrupted = interrupted  # type: ignore[attr-defined]
            good.draw("a boat", None, 1)


def test_hanging_call_without_a_connection_is_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    """DNS lookups, for example, cannot be interrupted."""
    call, ends = RemoteCall(0.3), threading.Event()
    with pytest.raises(ChatError, match="late"):
        call.carry_out(lambda take: ends.wait(), None, ChatError("late"))
    ends.set()
    assert call.hung_up.is_set()


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_a_deadline_is_a_number_of_seconds(value: float) -> None:
    with pytest.raises(SettingsError):
        open_chat("openai:m@http://127.0.0.1:1/v1", deadline=value)
    with pytest.raises(SettingsError):
        open_generator("http://127.0.0.1:1", deadline=value)


# The key


@pytest.mark.parametrize("name", [name for name in BEHAVIOURS if name.startswith("echo")])
def test_echoed_key_is_masked(server: HostileServer, name: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    pieces: list[str] = []
    chat = open_chat(f"openai:m@{server.url(name)}", deadline=LATE)
    try:
        pieces.append(chat.reply(ASK, ReplySettings(), pieces.append).text)
    except ChatError as error:
        pieces.append(str(error))
    try:
        generator = open_generator(f"http:{server.url(name)}", deadline=LATE)
        pieces += [generator.identity, repr(generator)]
        generator.draw("a boat", None, 1)
    except GeneratorError as error:
        pieces.append(str(error))
    told = "\n".join([*pieces, "".join(pieces), caplog.text])
    half = len(KEY) // 2
    for part in (KEY, KEY[:half], KEY[half:]):
        for form in (
            "as it is",
            "in capitals",
            "for a URL",
            "all for a URL",
            "in JSON escapes",
            "in HTML",
            "in hexadecimal",
        ):
            assert ECHOES[form](part) not in told


@given(
    st.text(st.characters(codec="utf-8"), max_size=40),
    st.sampled_from(sorted(ECHOES)),
    st.text(st.characters(codec="utf-8"), max_size=40),
    st.integers(1, 12),
)
def test_chunks_are_masked_like_the_whole_text(before: str, form: str, after: str, size: int) -> None:
    text = f"{before} {ECHOES[form](KEY)} {after}"
    mask = MASK
    growing = GrowingMask(mask)
    pieces = [growing.add(text[start : start + size]) for start in range(0, len(text), size)]
    assert "".join([*pieces, growing.end()]) == mask(text)
    assert MARK in mask(text)


@given(st.text(max_size=200), st.integers(1, 9))
def test_texts_without_the_key_stay_as_they_are(text: str, size: int) -> None:
    mask = NEVER_SAID
    growing = GrowingMask(mask)
    pieces = [growing.add(text[start : start + size]) for start in range(0, len(text), size)]
    assert mask(text) == text == "".join([*pieces, growing.end()])


def test_placeholder_is_not_masked() -> None:
    for placeholder in (None, "", "none", "EMPTY", "x"):
        assert KeyMask(placeholder)("x is none of the EMPTY ones") == "x is none of the EMPTY ones"


def test_endlessly_repeated_key_is_masked_with_limited_memory() -> None:
    growing = GrowingMask(KeyMask(KEY))
    told = "".join(growing.add(KEY) for _ in range(200)) + growing.end()
    assert len(told) < 1000 and set(told.replace(MARK, "")) == set()


def test_errors_of_others_pass(server: HostileServer) -> None:
    class Own(InterleaveError):
        pass

    def refuse(text: str) -> None:
        raise Own("not a word about servers")

    with pytest.raises(Own):
        open_chat(f"openai:m@{server.url('slow stream')}").reply(ASK, ReplySettings(), refuse)


def test_the_command_lines_deadline_is_for_every_server(server: HostileServer) -> None:
    from interleave_thinker.cli.models import CriticOptions, GeneratorOptions, LocalOptions, Opener

    opener = Opener(LocalOptions(deadline=LATE))
    critic = opener.critic(CriticOptions(critic=f"openai:m@{server.url('slow stream')}"))
    opener.finish()
    assert critic is not None
    with pytest.raises(ChatError, match=rf"(?:deadline of|within) {LATE:g} s"):
        critic.chat.reply(ASK, ReplySettings())
    with pytest.raises(GeneratorError, match=rf"(?:deadline of|within) {LATE:g} s"):
        opener.generator(GeneratorOptions(generator=f"http:{server.url('slow body')}"))
    with pytest.raises(SettingsError, match="deadline"):
        Opener(LocalOptions(deadline=LATE)).finish()
