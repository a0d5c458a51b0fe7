"""A server with the OpenAI chat API: vLLM, SGLang, LM Studio, llama.cpp, Ollama, or a hosted one.

Replies are streamed, so that they can be cancelled at any time. Requests to an unreachable or busy server are
retried (remote/call.py), but only before the first token. The key comes from the environment and is used
only in the header of the request (remote/server.py). While nothing arrives, `on_token` is called with an
empty text, so that cancelling does not wait for the server. A deadline covers the whole answer, including
retries and pauses (remote/call.py).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ...errors import ChatError, ServerError, SettingsError
from ...machine.counters import count
from ...prompts.prompt_set import PromptSet
from ...prompts.trained_with import TrainedWith, say_once, served
from ...remote.api_keys import check_variable, key_for, read_key
from ...remote.call import OnText, RemoteCall, Retryable, moment_of, retry_after, unknown_model
from ...remote.server import RemoteServer
from ..protocol import Message, Reply, ReplySettings
from .request_fields import (
    CONSTRAINT,
    UNCONSTRAINED,
    FieldsRejected,
    ServerKind,
    message_json,
    rejected_fields,
)
from .stream import StreamedReply, read_chunks, watch_of

if TYPE_CHECKING:
    import httpx

KEY_VARIABLES = ("INTERLEAVE_API_KEY", "OPENAI_API_KEY")
MAX_BODY_SHOWN = 300
MAX_ARGUMENT = 4096
TOP_LOGPROBS = 20
MAX_TOKENS = 65536
MIN_TOKENS = 512
"""If a server rejects a token limit, it is halved for the next request, down to this limit."""
NO_ROOM = re.compile(
    r"max_(?:completion_|new_)?tokens|context|maximum[\w ]{0,20} (?:length|tokens)", re.IGNORECASE
)
ENDPOINT = "/chat/completions"
DEADLINE = 1800.0
"""Default deadline of a whole reply, in seconds: a long plan at three tokens per second."""


class _TooManyTokens(Exception):
    """The server rejects the token limit; `error` is raised if a lower limit does not help."""

    def __init__(self, error: ChatError) -> None:
        super().__init__(error.message)
        self.error = error


class OpenAIChat:
    """One model on one server.

    `timeout` is the time limit in seconds for connecting and for each wait for more text, `deadline` the one
    for a whole reply including its retries. Optional fields that the server rejects are not sent again.
    """

    def __init__(
        self,
        model: str,
        base_url: str,
        key: str | None = None,
        timeout: float = 300.0,
        key_variable: str = KEY_VARIABLES[0],
        deadline: float = DEADLINE,
        kind: ServerKind = ServerKind(),  # noqa: B008 - frozen
    ) -> None:
        if not (0 < timeout < math.inf and 0 < deadline < math.inf):
            raise SettingsError(
                f"The timeout ({timeout:g} s) and the deadline ({deadline:g} s) must be above 0 seconds.",
                "Set a positive number.",
            )
        self._model = model
        self._url = base_url.rstrip("/").removesuffix(ENDPOINT)
        self._server = RemoteServer(self._url, key, ChatError)
        self._timeout = timeout
        self._deadline = deadline
        self._key_variable = key_variable
        self._most_tokens = MAX_TOKENS
        self._kind = kind
        self._rejected: frozenset[str] = frozenset()

    @property
    def identity(self) -> str:
        """Model and address."""
        return f"openai:{self._model}@{self._url}"

    @property
    def prompt_set(self) -> PromptSet | None:
        """`None`: the prompt set of a served model is unknown."""
        return None

    @property
    def trained(self) -> TrainedWith:
        """What the name of the model says about its training."""
        return served(self._model)

    @property
    def constrains_replies(self) -> bool:
        """Whether replies can be constrained, as far as is known: true until the server rejects it."""
        return self._rejected.isdisjoint(CONSTRAINT)

    def __repr__(self) -> str:
        return f"OpenAIChat({self._model!r}, {self._url!r})"

    def reply(
        self,
        messages: Sequence[Message],
        settings: ReplySettings,
        on_token: Callable[[str], None] | None = None,
    ) -> Reply:
        """Send a conversation to the server and return its reply.

        Raises:
            ServerError: The server cannot be reached, or answers with an error status.
            ChatError: The answer is not valid, or the deadline has passed.
            Cancelled: The run was cancelled.
        """
        body, call = self._body(messages, settings), RemoteCall(self._deadline)
        late = ChatError(
            f"{self._url} did not finish its answer within the deadline of {self._deadline:g} s.",
            "Increase the deadline if the model is slow, or lower the token limit.",
        )
        reply = call.carry_out(lambda take: self._ask(body, settings, take, call), on_token, late)
        answer = reply.text.rpartition("</think>")[2].strip()
        if "response_format" in body and self.constrains_replies and answer and answer[0] != "{":
            # Some servers ignore the field.
            self._reject(CONSTRAINT)
        count(
            served_prompt_tokens=reply.question_tokens or 0,
            served_prompt_tokens_cached=reply.cached_tokens or 0,
        )
        return reply

    def _reject(self, fields: Iterable[str]) -> None:
        """Remember that the server does not support these fields."""
        self._rejected = self._rejected.union(fields)
        if not self.constrains_replies:
            say_once(self, UNCONSTRAINED.format(url=self._url))

    def _ask(
        self, body: dict[str, Any], settings: ReplySettings, on_token: OnText, call: RemoteCall
    ) -> Reply:
        with self._server.faults():
            return self._ask_until_answered(body, settings, on_token, call)

    def _ask_until_answered(
        self, body: dict[str, Any], settings: ReplySettings, on_token: OnText, call: RemoteCall
    ) -> Reply:
        while True:
            try:
                return call.retried(partial(self._ask_once, body, settings, on_token, call))
            except FieldsRejected as refused:
                # The text contains the answer as well; only its probability, counts or form are lost.
                self._reject(refused.fields)
                body = {name: value for name, value in body.items() if name not in refused.fields}
            except _TooManyTokens as refused:
                if body["max_tokens"] <= MIN_TOKENS:
                    raise refused.error from refused
                body = {**body, "max_tokens": max(MIN_TOKENS, body["max_tokens"] // 2)}
                # Later requests start with the accepted limit.
                self._most_tokens = body["max_tokens"]

    def _body(self, messages: Sequence[Message], settings: ReplySettings) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self._model,
            "messages": [message_json(message, settings.max_pixels) for message in messages],
            "max_tokens": min(settings.limit, self._most_tokens),
            "temperature": settings.temperature,
            "seed": settings.seed,
            "stream": True,
            "stream_options": {"include_usage": True},
            **self._kind.extra(settings),
        }
        if settings.temperature > 0 and settings.top_p < 1:
            body |= {"top_p": settings.top_p}
        if settings.temperature > 0 and settings.top_k:
            # Not part of the API: sent only if it is set, and an error if the server rejects it.
            body |= {"top_k": settings.top_k}
        if settings.watch_verdict or settings.watch_yes_no:
            body |= {"logprobs": True, "top_logprobs": TOP_LOGPROBS}
        if settings.grammar is not None:
            body |= self._kind.constraint(settings.grammar)
        return {name: value for name, value in body.items() if name not in self._rejected}

    def _ask_once(
        self, body: dict[str, Any], settings: ReplySettings, on_token: OnText, call: RemoteCall
    ) -> Reply:
        import httpx

        started = False
        try:
            with self._server.answer(call, "POST", ENDPOINT, self._timeout, body) as response:
                self._raise_for_status(response, body)
                held = self._kind.constrains and settings.grammar == "verdict" and self.constrains_replies
                reading = StreamedReply(watch_of(settings, held), on_token, self._server.mask)
                for chunk in read_chunks(self._server, response):
                    started = True
                    reading.add(chunk)
                    if reading.settled:
                        break
                return reading.reply()
        except httpx.TimeoutException as error:
            wrong = ServerError(
                f"{self._url} did not answer within {self._timeout:g} s ({type(error).__name__}).",
                "Check whether the server is busy or the model is still loading, or increase the timeout.",
            )
            if isinstance(error, httpx.ConnectTimeout):
                raise Retryable(wrong) from error
            raise wrong from error
        except (httpx.RequestError, httpx.StreamError, httpx.InvalidURL) as error:
            reason = self._server.quote(f"{type(error).__name__}: {error}")
            wrong = ServerError(
                f"Cannot reach {self._url} ({reason}).",
                "Check that the server is running and the address is correct.",
            )
            if started or not isinstance(error, (httpx.NetworkError, httpx.RemoteProtocolError)):
                raise wrong from error
            raise Retryable(wrong) from error

    def _raise_for_status(self, response: httpx.Response, body: Mapping[str, Any]) -> None:
        if response.status_code == 200:
            return
        text = self._server.refusal(response)
        if response.status_code in (400, 422) and (fields := rejected_fields(body, text)):
            raise FieldsRejected(fields)
        hint = unknown_model(response.status_code, text, self._url)
        if response.status_code == 401:
            hint = f"Set {self._key_variable} to a valid key."
        error = ServerError(f"{self._url} answered with status {response.status_code}: {text}", hint)
        if response.status_code in (400, 413, 422) and "top_k" in text:
            error.hint = "This server does not support top_k: set it to 0."
        elif response.status_code in (400, 413, 422) and NO_ROOM.search(text):
            error.hint = (
                "Start the server with a longer context (vLLM: --max-model-len), "
                "or show the agent fewer images."
            )
            raise _TooManyTokens(error)
        moment = moment_of(response.status_code, text)
        if moment is not None:
            raise Retryable(error, moment, retry_after(response.headers.get("retry-after")))
        raise error


def open(
    argument: str, *, timeout: float = 300.0, key_variable: str | None = None, deadline: float = DEADLINE
) -> OpenAIChat:
    """Open `MODEL@BASE_URL`, such as `qwen3-vl@http://127.0.0.1:8000/v1`.

    Args:
        argument: Model and address.
        timeout: Time limit for each wait, in seconds.
        key_variable: Environment variable with the key; empty for no key. The key is sent only to addresses
            that `api_keys.key_for` allows, since the address may come from a foreign file. Default:
            INTERLEAVE_API_KEY or OPENAI_API_KEY, sent to any address.
        deadline: Time limit for a whole reply, in seconds.

    Raises:
        SettingsError: The argument has another form, or the variable is not allowed.
    """
    if key_variable is not None:
        check_variable(key_variable)
    match = re.fullmatch(r"(.+)@(https?://\S+)", argument[: MAX_ARGUMENT + 1])
    if match is None or len(argument) > MAX_ARGUMENT:
        raise SettingsError(
            f"{_without_secrets(argument)[:MAX_BODY_SHOWN]!r} does not name a model and its server.",
            "Write MODEL@URL, such as qwen3-vl@http://127.0.0.1:8000/v1.",
        )
    model, url = match.groups()
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise SettingsError(
            f"The server's address is not valid ({error}).", "Use http://HOST:PORT/PATH."
        ) from error
    if parts.username or parts.password or parts.query or parts.fragment or not parts.hostname:
        raise SettingsError(
            "The server's address may contain only a host, a port and a path.",
            f"Put a key into the environment variable {KEY_VARIABLES[0]}.",
        )
    if key_variable is None:
        return OpenAIChat(model, url, read_key(*KEY_VARIABLES), timeout, deadline=deadline)
    named = key_variable or KEY_VARIABLES[0]
    return OpenAIChat(model, url, key_for(key_variable, url), timeout, named, deadline)


def _without_secrets(argument: str) -> str:
    return re.sub(r"//[^/@\s]*@", "//(hidden)@", argument)
