"""A model on a server with the chat API of OpenAI: vLLM, SGLang, llama.cpp, Ollama, or a provider.

A reply is streamed (`streamed_reply.py`). Optional fields that a server rejects are not sent again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from ...core.answers.grammar import GrammarName
from ...core.errors import ChatError, ServerError, SettingsError
from ...core.machine.counters import count
from ...core.pictures import Picture
from ...core.prompts.trained_with import TrainedWith, say_once, served
from ...core.remote.addresses import service_url
from ...core.remote.api_keys import check_variable, key_for, read_key
from ...core.remote.call import (
    OnText,
    RemoteCall,
    Retryable,
    check_seconds,
    moment_of,
    retry_after,
    unknown_model,
)
from ...core.remote.server import RemoteServer
from ...core.seams.chat_model import ChatModel, Message, Reply, ReplySettings, scaled_down
from .grammars import answer_schema
from .streamed_reply import StreamedReply, chunks
from .verdict_watch import watch_of

if TYPE_CHECKING:
    import httpx


CONSTRAINT = ("response_format", "grammar")
OPTIONAL: Sequence[tuple[re.Pattern[str], tuple[str, ...]]] = (
    (re.compile("logprob", re.IGNORECASE), ("logprobs", "top_logprobs")),
    (re.compile("stream_options|include_usage", re.IGNORECASE), ("stream_options",)),
    (re.compile("response_format|schema|structured|guided|grammar", re.IGNORECASE), CONSTRAINT),
)
"""What a server says if it rejects these fields. The request is then repeated without them."""
UNCONSTRAINED = (
    "{url} does not support constrained replies, so its replies are not constrained. A reply that cannot be "
    "parsed is still requested once more."
)
KEY_VARIABLES = ("INTERLEAVE_API_KEY", "OPENAI_API_KEY")
MAX_ARGUMENT = 4096
TOP_LOGPROBS = 20
MAX_TOKENS = 65536
MIN_TOKENS = 512
"""If a server rejects a token limit, it is halved for the next request, down to this limit."""
NO_ROOM = re.compile(
    r"max_(?:completion_|new_)?tokens|context|maximum[\w ]{0,20} (?:length|tokens)", re.IGNORECASE
)
ENDPOINT = "/chat/completions"
CHECK_SECONDS = 10.0
DEADLINE = 1800.0
"""Default deadline of a whole reply, in seconds: a long plan at three tokens per second."""


class FieldsRejected(Exception):
    """The server rejects a request because of these optional fields."""

    def __init__(self, fields: Sequence[str]) -> None:
        super().__init__(", ".join(fields))
        self.fields = frozenset(fields)


def rejected_fields(body: Mapping[str, Any], said: str) -> Sequence[str]:
    """Return the optional fields of a request that a server's message rejects; empty if there are none."""
    for pattern, fields in OPTIONAL:
        if not body.keys().isdisjoint(fields) and pattern.search(said):
            return fields
    return ()


def message_json(message: Message, area: int) -> dict[str, Any]:
    """Return a message as the API has it, with its images scaled down to `area` pixels."""
    if all(isinstance(part, str) for part in message.content):
        return {"role": message.role, "content": "".join(str(part) for part in message.content)}
    content: list[dict[str, Any]] = []
    for part in message.content:
        if isinstance(part, Picture):
            content.append({"type": "image_url", "image_url": {"url": scaled_down(part, area).data_url()}})
        else:
            content.append({"type": "text", "text": part})
    return {"role": message.role, "content": content}


class _TooManyTokens(Exception):
    """The server rejects the token limit; `error` is raised if a lower limit does not help."""

    def __init__(self, error: ChatError) -> None:
        super().__init__(error.message)
        self.error = error


class OpenAIChat(ChatModel):
    """One model on one server.

    `timeout` is the time limit in seconds for connecting and for each wait for more text, `deadline` the one
    for a whole reply including its retries. Optional fields that the server rejects are not sent again.
    """

    obeys_constraints = False
    """Whether it is certain that the server constrains replies, so that one may be stopped at true."""

    def __init__(
        self,
        model: str,
        base_url: str,
        key: str | None = None,
        timeout: float = 300.0,
        key_variable: str = KEY_VARIABLES[0],
        deadline: float = DEADLINE,
    ) -> None:
        check_seconds(timeout=timeout, deadline=deadline)
        self._model = model
        self.use_server(base_url, key)
        self._timeout = timeout
        self._deadline = deadline
        self._key_variable = key_variable
        self._rejected: frozenset[str] = frozenset()

    @property
    def identity(self) -> str:
        """Model and address."""
        return f"openai:{self._model}@{self._url}"

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

    def use_server(self, base_url: str, key: str | None) -> None:
        """Send the next requests to this address, with this key."""
        self._url = base_url.rstrip("/").removesuffix(ENDPOINT)
        self._server = RemoteServer(self._url, key, ChatError)

    def extra_fields(self, settings: ReplySettings) -> dict[str, Any]:
        """Return the fields of a request that only this kind of server knows."""
        return {}

    def constraint(self, name: GrammarName) -> dict[str, Any]:
        """Return the field that constrains a reply to an answer."""
        schema = {"name": name, "strict": True, "schema": answer_schema(name)}
        return {"response_format": {"type": "json_schema", "json_schema": schema}}

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
            prompt_tokens=reply.question_tokens or 0,
            cached_tokens=reply.cached_tokens or 0,
            reply_tokens=reply.tokens,
        )
        return reply

    def check_server(self) -> None:
        """Ask the server for its models, so that a wrong address or key is an error before any work.

        Raises:
            ServerError: The server cannot be reached, or rejects the key.
        """
        import httpx

        call = RemoteCall(CHECK_SECONDS)
        with self._server.faults(), suppress(httpx.ReadTimeout):
            try:
                with self._server.answer(call, "GET", "/models", CHECK_SECONDS) as response:
                    if response.status_code == 401:
                        self._raise_for_status(response, {})
            except (httpx.NetworkError, httpx.ConnectTimeout, httpx.InvalidURL) as error:
                raise self._unreachable(error) from error

    def _unreachable(self, error: Exception) -> ServerError:
        reason = self._server.quote(f"{type(error).__name__}: {error}")
        return ServerError(
            f"Cannot reach {self._url} ({reason}).",
            "Check that the server is running and the address is correct.",
        )

    def _reject(self, fields: Iterable[str]) -> None:
        """Remember that the server does not support these fields."""
        self._rejected = self._rejected.union(fields)
        if not self.constrains_replies:
            say_once(self, UNCONSTRAINED.format(url=self._url))

    def _ask(
        self, body: dict[str, Any], settings: ReplySettings, on_token: OnText, call: RemoteCall
    ) -> Reply:
        with self._server.faults():
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
                    # Only for this question: a shorter one has room for a longer reply.
                    body = {**body, "max_tokens": max(MIN_TOKENS, body["max_tokens"] // 2)}

    def _body(self, messages: Sequence[Message], settings: ReplySettings) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self._model,
            "messages": [message_json(message, settings.max_pixels) for message in messages],
            "max_tokens": min(settings.limit, MAX_TOKENS),
            "temperature": settings.temperature,
            "seed": settings.seed,
            "stream": True,
            "stream_options": {"include_usage": True},
            **self.extra_fields(settings),
        }
        if settings.temperature > 0 and settings.top_p < 1:
            body |= {"top_p": settings.top_p}
        if settings.temperature > 0 and settings.top_k:
            # Not part of the API: sent only if it is set, and an error if the server rejects it.
            body |= {"top_k": settings.top_k}
        if settings.watch_verdict or settings.watch_yes_no:
            body |= {"logprobs": True, "top_logprobs": TOP_LOGPROBS}
        if settings.grammar is not None:
            body |= self.constraint(settings.grammar)
        return {name: value for name, value in body.items() if name not in self._rejected}

    def _ask_once(
        self, body: dict[str, Any], settings: ReplySettings, on_token: OnText, call: RemoteCall
    ) -> Reply:
        import httpx

        started = False
        try:
            with self._server.answer(call, "POST", ENDPOINT, self._timeout, body) as response:
                self._raise_for_status(response, body)
                held = self.obeys_constraints and settings.grammar == "verdict" and self.constrains_replies
                reading = StreamedReply(watch_of(settings, held), on_token, self._server.mask)
                for chunk in chunks(self._server, response):
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
            wrong = self._unreachable(error)
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


def check(argument: str, *, ask: bool = False) -> None:
    """Check the form of `MODEL@URL` and, with `ask`, that the server answers. Errors are those of a reply."""
    chat = open(argument)
    if ask:
        chat.check_server()


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
        shown = re.sub(r"//[^/@\s]*@", "//(hidden)@", argument)[:300]
        raise SettingsError(
            f"{shown!r} does not name a model and its server.",
            "Write MODEL@URL, such as qwen3-vl@http://127.0.0.1:8000/v1.",
        )
    model, url = match[1], service_url(match[2], key_variable=KEY_VARIABLES[0])
    if key_variable is None:
        return OpenAIChat(model, url, read_key(*KEY_VARIABLES), timeout, deadline=deadline)
    named = key_variable or KEY_VARIABLES[0]
    return OpenAIChat(model, url, key_for(key_variable, url), timeout, named, deadline)
