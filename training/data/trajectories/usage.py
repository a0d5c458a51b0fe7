"""What trajectories cost: every call of a teacher and every image, noted beside the run that it was made for.

Decision: a run's folder has one writer, so its notes are appended without any lock, survive a kill, and are
summed up for the ledger of the whole. A server that does not say how many tokens a question had gets an
estimate, and how many of the calls were estimated is in the ledger.
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
from ....backend.chat.protocol import ChatModel, ChecksRequests, Message, Reply, ReplySettings, Reserves
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
"""What one token of an image shows in Qwen3-VL, for the estimate."""
NO_LIMIT = 1 << 20
Role = Literal["planner", "critic", "generator"]
AgentT = TypeVar("AgentT", bound=Agent)


class Usage(BaseModel):
    """A line of a ledger: what one role of one model took. `estimated` of the calls have estimated
    `tokens_in`; `cost` is in the unit of the price list."""

    model_config = ConfigDict(extra="ignore")

    role: Role
    model: str
    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    images: int = 0
    seconds: float = 0.0
    estimated: int = 0
    cost: float = 0.0

    def plus(self, other: Usage) -> Usage:
        """The sum; role and model are this one's."""
        names = ("calls", "tokens_in", "tokens_out", "images", "seconds", "estimated", "cost")
        return self.model_copy(update={name: getattr(self, name) + getattr(other, name) for name in names})


class Price(BaseModel):
    """What a model costs: a million tokens `input` and `output`, and an `image`."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    input: float = Field(default=0.0, ge=0)
    output: float = Field(default=0.0, ge=0)
    image: float = Field(default=0.0, ge=0)

    def of(self, usage: Usage) -> float:
        tokens = usage.tokens_in * self.input + usage.tokens_out * self.output
        return tokens / 1e6 + usage.images * self.image


Prices = dict[str, Price]
"""Prices by model, as it is named on the command line."""


def read_prices(path: Path, models: Iterable[str]) -> Prices:
    """A price list `{"MODEL": {"input": 2.5, "output": 10, "image": 0.04}}`; raises SettingsError, also where
    it has no price for one of these models."""
    content = read_json(path, SettingsError, "Price list", MAX_PRICES)
    try:
        prices = {str(name): Price.model_validate(one) for name, one in dict(content).items()}
    except (ValidationError, TypeError, ValueError) as error:
        first = error.errors()[0]["msg"] if isinstance(error, ValidationError) else "it is no object"
        raise SettingsError(
            f"Price list {str(path)!r}: {first}.",
            'Write {"MODEL": {"input": 2.5, "output": 10, "image": 0}}.',
        ) from error
    missing = [model for model in models if model not in prices]
    if missing:
        raise SettingsError(
            f"Price list {str(path)!r} has no price for {missing[0]!r}.",
            "Give one, 0 where it costs nothing: an unknown price cannot be held to a budget.",
        )
    return prices


class RunLedger:
    """Notes what one run takes, in its folder; `spend` is called with every cost."""

    def __init__(self, folder: Path, prices: Prices, spend: Callable[[float], None]) -> None:
        self.folder, self.prices, self._spend = folder, prices, spend

    def note(self, usage: Usage) -> None:
        """Append a line; raises JournalError if it cannot be written."""
        price = self.prices.get(usage.model)
        usage = usage.model_copy(update={"cost": price.of(usage) if price else 0.0})
        line = usage.model_dump_json(exclude_defaults=True)
        append_line(self.folder / LEDGER, line, JournalError, "Ledger")
        self._spend(usage.cost)


class MeteredChat:
    """A chat model that notes what it is asked, for one run."""

    def __init__(self, chat: ChatModel, role: Role, model: str, ledger: RunLedger) -> None:
        self._chat, self._model, self._ledger = chat, model, ledger
        self._role: Role = role

    @property
    def identity(self) -> str:
        return self._chat.identity

    @property
    def prompt_set(self) -> PromptSet | None:
        return self._chat.prompt_set

    @property
    def most_tokens(self) -> int:
        """As of a backend that takes memory for the longest answer."""
        return self._chat.most_tokens if isinstance(self._chat, Reserves) else NO_LIMIT

    def check_request(self, text: str) -> None:
        """As the backend's own; raises SettingsError."""
        if isinstance(self._chat, ChecksRequests):
            self._chat.check_request(text)

    def reply(
        self,
        messages: Sequence[Message],
        settings: ReplySettings,
        on_token: Callable[[str], None] | None = None,
    ) -> Reply:
        """The model's reply, noted. Raises as the model does; a call that failed is noted too."""
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
                    tokens_out=reply.tokens if reply else 0,
                    seconds=round(time.monotonic() - began, 3),
                    estimated=int(known is None),
                )
            )


def metered(agent: AgentT, role: Role, model: str, ledger: RunLedger) -> AgentT:
    """The same agent, whose calls are noted."""
    noted = copy.copy(agent)
    noted.chat = MeteredChat(agent.chat, role, model, ledger)
    return noted


class MeteredJournal(Journal):
    """Notes every new draw in the ledger before it records the draw.

    In this order a kill loses no cost: every recorded draw is in the ledger, and a draw that was paid but not
    recorded is there, too.
    """

    def __init__(self, folder: Path, model: str, ledger: RunLedger) -> None:
        super().__init__(folder)
        self._model, self._ledger = model, ledger

    def keep_drawn(self, drawn: DrawRecord) -> None:
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
    """The lines of a ledger, none where there is no file; a line that a kill cut off is left out. Raises
    JournalError."""
    if not path.exists():
        return
    for line in read_bytes(path, MAX_LEDGER, JournalError, "Ledger").splitlines():
        try:
            yield Usage.model_validate_json(line)
        except ValidationError:
            continue


def summed(usages: Iterable[Usage]) -> list[Usage]:
    """One line for each role and model, in their order."""
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
    """Write a ledger whole; raises JournalError."""
    lines = [json.dumps(usage.model_dump()) for usage in usages]
    write_text(path, "".join(f"{line}\n" for line in lines), JournalError, "Ledger")
