"""Judge that uses the trained model's own base: the same weights with the adapter disabled.

An adapter does not change the weights under it, so without it the model answers like its checkpoint. The
identity of its scores is that of the checkpoint and known before the model is loaded. It is called through
the chat interface like any judge. Nothing of a question is kept for the next one, because the
weights are trained in between.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...backend.core.errors import ScorerError, SettingsError
from ...backend.core.pictures import Picture
from ...backend.core.types import Score
from ...backend.models.chat.local.base_model import BaseSettings, EngineSettings, SharedBase
from ...backend.models.chat.local.chat import TransformersChat
from ...backend.models.checkpoints.checkpoint import checkpoint_digest, is_tested, read_json
from ...backend.models.judge import JUDGING, ChatJudge, identity_of
from ...backend.models.scorers import Scorer
from ..trainer.model_loading import ModelTraining

NAME = "judge:base"
"""Name of this judge in `--scorer`."""


class BaseJudge(Scorer):
    """Scores with the base under the adapter that is trained. Call `begin` with the model first."""

    def __init__(self, checkpoint: Path, settings: ModelTraining) -> None:
        """Check that an adapter is trained, under which the base stays unchanged.

        Raises:
            SettingsError: All weights are trained.
        """
        if not settings.adapts:
            raise SettingsError(
                f"--scorer {NAME} uses the model without its adapter, but the full weights are trained here.",
                "Set --lora-r, or use another judge, such as judge:transformers:FOLDER.",
            )
        self.checkpoint = checkpoint
        how = f"{'bf16' if settings.bf16 else 'fp32'}:{'4bit' if settings.load_in_4bit else 'none'}"
        chat = f"base:{checkpoint.name}:{checkpoint_digest(checkpoint)}:{how}"
        self._identity = identity_of(chat, JUDGING)
        self._judge: ChatJudge | None = None

    @property
    def identity(self) -> str:
        """Identity of the scores: that of the checkpoint."""
        return self._identity

    def begin(self, trainer: Any, processor: Any) -> None:
        """Use the model of a trainer, peft's with the adapter that is trained.

        Raises:
            SettingsError: The model is sharded over several devices.
        """
        if trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled:
            raise SettingsError(
                f"--scorer {NAME} needs the whole model on each device, but it is sharded.",
                "Use another judge, or train without FSDP and DeepSpeed.",
            )
        model = trainer.accelerator.unwrap_model(trainer.model)
        self._judge = ChatJudge(TransformersChat(TrainedBase(self.checkpoint, model, processor)))

    def score(self, before: Picture | None, after: Picture, instruction: str) -> Score:
        """Score an image against an instruction.

        Returns:
            Semantics and quality, 0 to 10 each.

        Raises:
            ScorerError: `begin` was not called, or the answer cannot be parsed.
            ChatError: The model failed.
            Cancelled: The run was cancelled.
        """
        if self._judge is None:
            raise ScorerError(f"{NAME} was called before the model is loaded.", "Call begin() first.")
        return self._judge.score(before, after, instruction)


class TrainedBase(SharedBase):
    """Base of a model that is trained elsewhere in this process; it is neither loaded nor moved here."""

    def __init__(self, folder: Path, with_adapter: Any, processor: Any) -> None:
        self.folder = folder
        self.digest = checkpoint_digest(folder)
        self.settings = BaseSettings(engine=EngineSettings(prefix_tokens=0))
        self.lock = threading.RLock()
        self.processor = processor
        self.family = str(read_json(folder / "config.json").get("model_type"))[:60]
        self.is_tested = is_tested(self.family)
        self.model = with_adapter.get_base_model()
        self.dtype = str(self.model.dtype).removeprefix("torch.")
        self._grammar_tokens = None
        self._trained = with_adapter

    def offload(self) -> None:
        """Do nothing; the trainer owns the model."""

    def release(self) -> None:
        """Do nothing; the trainer owns the model."""

    def restore(self) -> None:
        """Do nothing; the model stays loaded while it is trained."""

    @contextmanager
    def selected(self, adapter: str | None) -> Iterator[Any]:
        """Yield the model without its adapter, in evaluation mode, while the lock is held."""
        import torch

        training = self._trained.training
        # Tensors created in inference mode, such as position tables, could not be used in training
        # afterwards.
        with self.lock, torch.inference_mode(False), torch.no_grad(), self._trained.disable_adapter():
            self._trained.eval()
            try:
                yield self.model
            finally:
                self._trained.train(training)
