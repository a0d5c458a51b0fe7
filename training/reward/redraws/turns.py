"""One card for three: the model that is trained, the generator that redraws and the judge that scores take
turns on it, and each waits in main memory while another works.

Decisions. A rollout is then five phases: answer, free, draw, free, score. So a batch is drawn whole before
its first image is scored, where otherwise both overlap; nothing else differs, and the same images and scores
come out. Who is needed comes, and whoever was there leaves: a batch that is served from the cache moves
nothing. Outside of rewards the card is always the trained model's. What is somewhere else (a service, another
card) has nothing to move and takes part in no turn.
"""

from __future__ import annotations

import gc
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

from ....backend.errors import SettingsError

MAIN_MEMORY = "cpu"
Role = Literal["policy", "generator", "judge"]


class OnCard(Protocol):
    """Somebody who can leave the card and come back to it."""

    def offload(self) -> None:
        """Wait in main memory."""
        ...

    def come(self) -> None:
        """Be on the card."""
        ...


@runtime_checkable
class Leaves(Protocol):
    """A chat model that frees its device until its next reply."""

    def offload(self) -> None: ...


@runtime_checkable
class HasModules(Protocol):
    """A generator whose torch modules can be moved."""

    @property
    def modules(self) -> Sequence[Any]: ...


@runtime_checkable
class UsesPolicy(Protocol):
    """A scorer that is the trained model itself, without its adapter."""

    def begin(self, model: Any, processor: Any) -> None:
        """Score with this model from now on."""
        ...


class Card:
    """Who is on the card: one at a time, the trained model first; nobody after a move that failed. `moves`
    counts who came how often."""

    def __init__(self, generator: Any, scorer: Any) -> None:
        """Generator and judge leave the card onto which they were opened: the model that is trained is loaded
        next."""
        self.holder: Role | None = "policy"
        self._there: set[Role] = {"policy"}
        """Who may have weights on the card: the holder, and whoever could not leave it whole."""
        self.moves: Counter[Role] = Counter()
        self._places: dict[Role, OnCard] = {}
        self._judge: Role = "policy" if isinstance(scorer, UsesPolicy) else "judge"
        self._lock = threading.Lock()
        if isinstance(generator, HasModules) and generator.modules:
            self._places["generator"] = ModulesOnCard(lambda: generator.modules)
        chat = getattr(scorer, "chat", None)
        if isinstance(chat, Leaves):
            self._places["judge"] = ChatOnCard(chat)
        for place in self._places.values():
            place.offload()

    def begin(self, trainer: Any) -> None:
        """Take the trained model into the turns; raises SettingsError if it is spread over several cards."""
        if trainer.accelerator.num_processes > 1:
            raise SettingsError("--take-turns is for one card.", "Leave it out where several train.")
        self._places["policy"] = ModulesOnCard(
            lambda: [trainer.accelerator.unwrap_model(trainer.model)],
            lambda: optimizer_tensors(trainer.optimizer),
        )

    def give_to(self, role: Role) -> None:
        """Let this one onto the card; whoever was there leaves it first. Who scores without weights of its
        own has the trained model's place."""
        with self._lock:
            role = self._judge if role == "judge" else role
            if role == self.holder:
                return
            # Nobody's until all of it is here: half moved, the next call would take it for ready.
            self.holder = None
            for other in sorted(self._there - {role}):
                self._offload(other)
            self._there.add(role)
            after = self._places.get(role)
            if after is not None:
                try:
                    after.come()
                except BaseException:
                    self._offload(role)
                    raise
            self.holder = role
            self.moves[role] += 1

    def _offload(self, role: Role) -> None:
        """Have it leave; where that fails it counts as there, and is asked again before another comes."""
        place = self._places.get(role)
        if place is not None:
            place.offload()
        self._there.discard(role)


class ModulesOnCard:
    """Torch modules that move together; `others` gives tensors that move with them. Where the first weight
    lies when this is made is their card."""

    def __init__(
        self, modules: Callable[[], Sequence[Any]], others: Callable[[], Sequence[Any]] = tuple
    ) -> None:
        self._modules = modules
        self._others = others
        self.device = next(weight.device for module in modules() for weight in module.parameters())

    def offload(self) -> None:
        """Move to main memory."""
        self._move(MAIN_MEMORY)
        _free(str(self.device))

    def come(self) -> None:
        """Move back to the card."""
        self._move(self.device)

    def _move(self, device: Any) -> None:
        for module in self._modules():
            module.to(device)
        for tensor in self._others():
            tensor.data = tensor.data.to(device)


class ChatOnCard:
    """A judge's model, which comes by itself when it is asked."""

    def __init__(self, chat: Leaves) -> None:
        self._chat = chat

    def offload(self) -> None:
        """Free the card until the next question."""
        self._chat.offload()

    def come(self) -> None:
        """Nothing: it comes with its first question."""


def optimizer_tensors(optimizer: Any) -> list[Any]:
    """The tensors that an optimiser keeps of its weights; none before its first step."""
    states = optimizer.state.values() if optimizer is not None else ()
    return [one for state in states for one in state.values() if hasattr(one, "device") and one.dim() > 0]


def _free(device: str) -> None:
    """Give freed memory back to the card, so that the next one finds it."""
    import torch

    gc.collect()
    if device.startswith("cuda"):
        torch.cuda.empty_cache()
    elif device.startswith("mps"):
        torch.mps.empty_cache()
