"""Shares one GPU between trained model, generator and judge; each waits in RAM while another works.

A rollout then has five phases: answer, move, generate, move, score. A batch is generated completely before
its first image is scored, while otherwise both overlap; images and scores are the same. A model is moved only
when another one is needed: a batch from the cache moves nothing. Outside of rewards the trained model always
has the GPU. Models elsewhere (a service, another GPU) are not moved.
"""

from __future__ import annotations

import gc
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

from ....backend.errors import SettingsError
from ....backend.generators.generator import Generator, as_generator

MAIN_MEMORY = "cpu"
Role = Literal["policy", "generator", "judge"]


class OnCard(Protocol):
    """A model that can be moved from the GPU to RAM and back."""

    def offload(self) -> None:
        """Move to RAM."""
        ...

    def come(self) -> None:
        """Move to the GPU."""
        ...


@runtime_checkable
class Leaves(Protocol):
    """A chat model or a scorer that can free its device until it is called again."""

    def offload(self) -> None:
        """Free the device."""
        ...


@runtime_checkable
class UsesPolicy(Protocol):
    """A scorer that is the trained model itself, without its adapter."""

    def begin(self, model: Any, processor: Any) -> None:
        """Score with this model."""
        ...


class Card:
    """Tracks which model has the GPU: one at a time, the trained model first, none after a failed move.

    `moves` counts how often each model was moved to the GPU.
    """

    def __init__(self, generator: Generator, scorer: Any) -> None:
        """Move generator and judge off the GPU they were opened on, as the trained model is loaded next."""
        self.holder: Role | None = "policy"
        self._there: set[Role] = {"policy"}
        """Models that may have weights on the GPU: the holder, and those not moved off completely."""
        self.moves: Counter[Role] = Counter()
        self._places: dict[Role, OnCard] = {}
        self._judge: Role = "policy" if isinstance(scorer, UsesPolicy) else "judge"
        self._lock = threading.Lock()
        drawer = as_generator(generator)
        if drawer.modules:
            self._places["generator"] = ModulesOnCard(lambda: drawer.modules)
        leaving = scorer if isinstance(scorer, Leaves) else getattr(scorer, "chat", None)
        if isinstance(leaving, Leaves):
            self._places["judge"] = ChatOnCard(leaving)
        for place in self._places.values():
            place.offload()

    def begin(self, trainer: Any) -> None:
        """Include the trained model in the turns.

        Raises:
            SettingsError: It is trained on several GPUs.
        """
        if trainer.accelerator.num_processes > 1:
            raise SettingsError(
                "--take-turns supports only one GPU.", "Omit it when training on several GPUs."
            )
        self._places["policy"] = ModulesOnCard(
            lambda: [trainer.accelerator.unwrap_model(trainer.model)],
            lambda: optimizer_tensors(trainer.optimizer),
        )

    def give_to(self, role: Role) -> None:
        """Give the GPU to a model; the others are moved off first.

        A scorer without weights of its own uses the trained model's place.
        """
        with self._lock:
            role = self._judge if role == "judge" else role
            if role == self.holder:
                return
            # No holder until the move is complete: a half-moved model must not count as ready.
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
        """Move a model off the GPU; if this fails, it is tried again before the next move."""
        place = self._places.get(role)
        if place is not None:
            place.offload()
        self._there.discard(role)


def begin_rewards(scorer: Any, card: Card | None, trainer: Any, processor: Any) -> None:
    """Use the trained model as a judge if the scorer is that model, and let it share the GPU.

    Raises:
        SettingsError: The model is sharded over several devices, which judge and sharing do not support.
    """
    if isinstance(scorer, UsesPolicy):
        if trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled:
            raise SettingsError(
                "--scorer judge:base needs the whole model on each device, but it is sharded.",
                "Use another judge, or train without FSDP and DeepSpeed.",
            )
        scorer.begin(trainer.accelerator.unwrap_model(trainer.model), processor)
    if card is not None:
        card.begin(trainer)


class ModulesOnCard:
    """Torch modules that can be moved, together with the tensors that `others` returns.

    Their GPU is the device of the first weight when this object is created.
    """

    def __init__(
        self, modules: Callable[[], Sequence[Any]], others: Callable[[], Sequence[Any]] = tuple
    ) -> None:
        self._modules = modules
        self._others = others
        self.device = next(weight.device for module in modules() for weight in module.parameters())

    def offload(self) -> None:
        """Move to RAM."""
        self._move(MAIN_MEMORY)
        _free(str(self.device))

    def come(self) -> None:
        """Move back to the GPU."""
        self._move(self.device)

    def _move(self, device: Any) -> None:
        for module in self._modules():
            module.to(device)
        for tensor in self._others():
            tensor.data = tensor.data.to(device)


class ChatOnCard:
    """A judge's models, which move to the GPU on their own when they are called."""

    def __init__(self, leaving: Leaves) -> None:
        self._leaving = leaving

    def offload(self) -> None:
        """Free the GPU until the next call."""
        self._leaving.offload()

    def come(self) -> None:
        """Do nothing: the model moves with its first question."""


def optimizer_tensors(optimizer: Any) -> list[Any]:
    """Return the state tensors of an optimizer; there are none before its first step."""
    states = optimizer.state.values() if optimizer is not None else ()
    return [one for state in states for one in state.values() if hasattr(one, "device") and one.dim() > 0]


def _free(device: str) -> None:
    """Return freed memory to the GPU, so that the next model can use it."""
    import torch

    gc.collect()
    if device.startswith("cuda"):
        torch.cuda.empty_cache()
    elif device.startswith("mps"):
        torch.mps.empty_cache()
