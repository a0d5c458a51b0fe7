"""A judge that is the trained model's own base: the same weights with the adapter off, and no second copy.

Decision: an adapter changes nothing of the weights under it, so without it the model answers as its
checkpoint does, and what it scores is known by that checkpoint's identity before a model is loaded. It is
asked as any judge is, through the chat seam; the engine that decodes sooner is left out, since its caches are
not made for weights that are trained in between.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...backend.chat.engine.settings import PLAIN
from ...backend.chat.local.chat import TransformersChat
from ...backend.chat.local.loading import BaseSettings
from ...backend.chat.local.shared_base import SharedBase
from ...backend.checkpoints.checkpoint import checkpoint_digest, read_json
from ...backend.checkpoints.families import is_tested
from ...backend.errors import ScorerError, SettingsError
from ...backend.pictures import Picture
from ...backend.scorers.judge import JUDGING, ChatJudge, identity_of
from ...backend.types import Score
from ..trainer.model_loading import ModelTraining

NAME = "judge:base"
"""How `--scorer` calls it."""


class BaseJudge:
    """Scores with the base under the adapter that is trained. `begin` gives it the model."""

    def __init__(self, checkpoint: Path, settings: ModelTraining) -> None:
        """Raises SettingsError unless an adapter is trained, under which the base stays as it is."""
        if not settings.lora_r:
            raise SettingsError(
                f"--scorer {NAME} is the model under the adapter, and all weights are trained here.",
                "Give --lora-r, or a judge of its own: judge:transformers:FOLDER.",
            )
        self.checkpoint = checkpoint
        how = f"{'bf16' if settings.bf16 else 'fp32'}:{'4bit' if settings.load_in_4bit else 'none'}"
        chat = f"base:{checkpoint.name}:{checkpoint_digest(checkpoint)}:{how}"
        self.identity = identity_of(chat, JUDGING)
        self._judge: ChatJudge | None = None

    def begin(self, model: Any, processor: Any) -> None:
        """Score with this model (peft's, with the adapter that is trained) from now on."""
        self._judge = ChatJudge(TransformersChat(TrainedBase(self.checkpoint, model, processor)))

    def score(self, before: Picture | None, after: Picture, instruction: str) -> Score:
        """Semantics and quality, 0..10 each; raises ScorerError, ChatError, Cancelled."""
        if self._judge is None:
            raise ScorerError(f"{NAME} was asked before there is a model that is trained.")
        return self._judge.score(before, after, instruction)


class TrainedBase(SharedBase):
    """The base of a model that is trained elsewhere in this process: neither loaded nor moved here."""

    def __init__(self, folder: Path, with_adapter: Any, processor: Any) -> None:
        self.folder = folder
        self.digest = checkpoint_digest(folder)
        self.settings = BaseSettings(engine=PLAIN)
        self.lock = threading.RLock()
        self.processor = processor
        self.family = str(read_json(folder / "config.json").get("model_type"))[:60]
        self.is_tested = is_tested(self.family)
        self.model = with_adapter.get_base_model()
        self.dtype = str(self.model.dtype).removeprefix("torch.")
        self.switched_off: dict[str, str] = {}
        self.is_settled = True
        self._engine = None
        self._grammar_tokens = None
        self._trained = with_adapter

    def offload(self) -> None:
        """Nothing: whoever trains it has it."""

    def release(self) -> None:
        """Nothing: whoever trains it has it."""

    def restore(self) -> None:
        """Nothing: it is there as long as it is trained."""

    @contextmanager
    def selected(self, adapter: str | None) -> Iterator[Any]:
        """The model without its adapter, evaluating, for as long as the lock is held."""
        import torch

        training = self._trained.training
        # What is made in inference mode (tables of positions) could not be trained through afterwards.
        with self.lock, torch.inference_mode(False), torch.no_grad(), self._trained.disable_adapter():
            self._trained.eval()
            try:
                yield self.model
            finally:
                self._trained.train(training)
