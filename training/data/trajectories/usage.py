"""Costs of trajectories: records every call of a teacher and every image next to its run.

A run's folder has one writer, so records are appended without a lock and survive interruptions; they are
summed in the overall ledger. If a server does not report a prompt's tokens they are estimated, and the ledger
contains the number of estimated calls.
"""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ....backend.agents.asking import Agent
from ....backend.chat.abilities import ChecksRequests, Reserves
from ....backend.chat.protocol import ChatModel, Message, Reply, ReplySettings
from ....backend.errors import JournalError, SettingsError
from ....backend.files.atomic import append_line, write_text
from ....backend.files.bounded_reader import read_bytes, read_json
from ....backend.journal.journal import Journal
from ....backend.journal.store import DrawRecord
from ....backend.pictures import Picture
from ....backend.prompts import PromptSet

LEDGER = "ledger.jsonl"
MAX_LEDGER = 64 * 1024 * 1024
MAX_PRICES = 1024 * 1024
CHARACTERS_A_TOKEN = 3.5
PIXELS_A_TOKEN = 1024
"""Pixels per image token of Qwen3-VL, for estimates."""
NO_LIMIT = 1 << 20
Role = Literal["planner", "critic", "generator"]
AgentT = TypeVar("AgentT", bound=Agent)


class Usage(BaseModel):
    """A line of a ledger: usage of one model in one role.

    `tokens_cached` is the part of `tokens_in` that the server had in its cache, as far as it reports it;
    `estimated` is the number of calls with estimated `tokens_in`; `cost` is in the unit of the price list.
    """

    model_config = ConfigDict(extra="ignore")

    role: Role
    model: str
    calls: int = 0
    tokens_in: int = 0
    tokens_cached: int = 0
    tokens_out: int = 0
    images: int = 0
    seconds: float = 0.0
    estimated: int = 0
    cost: float = 0.0

    def plus(self, other: Usage) -> Usage:
        """Return the sum; role and model are those of this line."""
        names = (
            "calls", "tokens_in", "tokens_cached", "tokens_out", "images", "seconds", "estimated", "cost"
        )  # fmt: skip
        return self.model_copy(update={name: getattr(self, name) + getattr(other, name) for name in names})


class Price(BaseModel):
    """Price of a model: per million `input` and `output` tokens, and per `image`."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    input: float = Field(default=0.0, ge=0)
    output: float = Field(default=0.0, ge=0)
    image: float = Field(default=0.0, ge=0)

    def of(self, usage: Usage) -> float:
        """Return the cost of this usage."""
        tokens = usage.tokens_in * self.input + usage.tokens_out * self.output
        return tokens / 1e6 + usage.images * self.image


Prices = dict[str, Price]
"""Prices by the model's name on the command line."""


def read_prices(path: Path, models: Iterable[str]) -> Prices:
    """Read a price list `{"MODEL": {"input": 2.5, "output": 10, "image": 0.04}}`.

    Raises:
        SettingsError: The file is invalid, or lacks the price of one of these models.
    """
    content = read_json(path, SettingsError, "Price list", MAX_PRICES)
    try:
        prices = {str(name): Price.model_validate(one) for name, one in dict(content).items()}
    except (ValidationError, TypeError, ValueError) as error:
        first = error.errors()[0]["msg"] if isinstance(error, ValidationError) else "it is not a JSON object"
        raise SettingsError(
            f"Price list {str(path)!r}: {first}.",
            'Write {"MODEL": {"input": 2.5, "output": 10, "image": 0}}.',
        ) from error
    missing = [model for model in models if model not in prices]
    if missing:
        raise SettingsError(
            f"Price list {str(path)!r} has no price for {missing[0]!r}.",
            "Add one, or 0 if the model is free; a budget cannot be kept with an unknown price.",
        )
    return prices


class RunLedger:
    """Records the usage of one run in its folder; `spend` is called with every cost."""

    def __init__(self, folder: Path, prices: Prices, spend: Callable[[float], None]) -> None:
        self.folder, self.prices, self._spend = folder, prices, spend

    def note(self, usage: Usage) -> None:
        """Append a line.

        Raises:
            JournalError: The file cannot be written.
        """
        price = self.prices.get(usage.model)
        usage = usage.model_copy(update={"cost": price.of(usage) if price else 0.0})
        line = usage.model_dump_json(exclude_defaults=True)
        append_line(self.folder / LEDGER, line, JournalError, "Ledger")
        self._spend(usage.cost)


class MeteredChat:
    """A chat model that records its usage, for one run."""

    def __init__(self, chat: ChatModel, role: Role, model: str, ledger: RunLedger) -> None:
        self._chat, self._model, self._ledger = chat, model, ledger
        self._role: Role = role

    @property
    def identity(self) -> str:
        """Identity of the chat model."""
        return self._chat.identity

    @property
    def prompt_set(self) -> PromptSet | None:
        """Prompt set of the chat model."""
        return self._chat.prompt_set

    @property
    def most_tokens(self) -> int:
        """Maximum tokens of an answer, for backends that reserve memory for it."""
        return self._chat.most_tokens if isinstance(self._chat, Reserves) else NO_LIMIT

    def check_request(self, text: str) -> None:
        """Check a request as the backend does.

        Raises:
            SettingsError: The backend rejects it.
        """
        if isinstance(self._chat, ChecksRequests):
            self._chat.check_request(text)

    def reply(
        self,
        messages: Sequence[Message],
        settings: ReplySettings,
        on_token: Callable[[str], None] | None = None,
    ) -> Reply:
        """Return the model's reply and record its usage, also if the call fails.

        Raises as the model.
        """
        began = time.monotonic()
        reply: Reply | None = None
        try:
            reply = self._chat.reply(messages, settings, on_token)
            return reply
        finally:
            known = reply.question_tokens if reply else 0
            self._ledger.note(
                Usage(
                    role=self._role,
                    model=self._model,
                    calls=1,
                    tokens_in=_estimate(messages, settings) if known is None else known,
                    tokens_cached=(reply.cached_tokens or 0) if reply else 0,
                    tokens_out=reply.tokens if reply else 0,
                    seconds=round(time.monotonic() - began, 3),
                    estimated=int(known is None),
                )
            )


def metered(agent: AgentT, role: Role, model: str, ledger: RunLedger) -> AgentT:
    """Return the same agent with recorded calls."""
    noted = copy.copy(agent)
    noted.chat = MeteredChat(agent.chat, role, model, ledger)
    return noted


class MeteredJournal(Journal):
    """Records every new image in the ledger before the journal records it.

    In this order an interruption loses no cost: every recorded image is in the ledger, and so is one that was
    paid for but not recorded.
    """

    def __init__(self, folder: Path, model: str, ledger: RunLedger) -> None:
        super().__init__(folder)
        self._model, self._ledger = model, ledger

    def keep_drawn(self, drawn: DrawRecord) -> None:
        """Record generated images."""
        images, seconds = len(drawn.images), round(drawn.seconds, 3)
        self._ledger.note(Usage(role="generator", model=self._model, calls=1, images=images, seconds=seconds))
        super().keep_drawn(drawn)


def _estimate(messages: Sequence[Message], settings: ReplySettings) -> int:
    tokens = 0.0
    for part in (part for message in messages for part in message.content):
        if isinstance(part, Picture):
            tokens += min(part.size[0] * part.size[1], settings.max_pixels) / PIXELS_A_TOKEN
        else:
            tokens += len(part) / CHARACTERS_A_TOKEN
    return round(tokens)


def read_ledger(path: Path) -> Iterator[Usage]:
    """Yield the lines of a ledger; an incomplete line of a killed process is skipped.

    Raises:
        JournalError: The file cannot be read.
    """
    if not path.exists():
        return
    for line in read_bytes(path, MAX_LEDGER, JournalError, "Ledger").splitlines():
        try:
            yield Usage.model_validate_json(line)
        except ValidationError:
            continue


def summed(usages: Iterable[Usage]) -> list[Usage]:
    """Return one line per role and model, in order."""
    sums: dict[tuple[str, str], Usage] = {}
    for usage in usages:
        key = (usage.role, usage.model)
        sums[key] = sums[key].plus(usage) if key in sums else usage
    order = {"planner": 0, "critic": 1, "generator": 2}
    return [
        one.model_copy(update={"seconds": round(one.seconds, 3), "cost": round(one.cost, 9)})
        for _, one in sorted(sums.items(), key=lambda item: (order[item[0][0]], item[0][1]))
    ]


def write_ledger(path: Path, usages: Sequence[Usage]) -> None:
    """Write a ledger.

    Raises:
        JournalError: The file cannot be written.
    """
    lines = [json.dumps(usage.model_dump()) for usage in usages]
    write_text(path, "".join(f"{line}\n" for line in lines), JournalError, "Ledger")
