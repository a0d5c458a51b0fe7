"""Opens small local models of scorers: CLIP or SigLIP, and OCR models that transformers can run.

The rules for folders are those of agents: safetensors only, no code, complete weights. The model is loaded at
its first call and moved to its device then, so that a training can have the device in between.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...checkpoints.checkpoint import checkpoint_digest, path_of, read_json
from ...checkpoints.foreign_folders import refuse_foreign
from ...checkpoints.loaded import LOCAL, load_whole
from ...checkpoints.model_folder import check_files, check_weights
from ...errors import ChatError, ScorerError, SettingsError, boundary
from ...machine.devices import device_named


class LocalModel:
    """A model in a folder, with its processor.

    Args:
        argument: The folder.
        families: Class of transformers that loads each supported family, by `model_type`.
        device: Device by torch's name. Default: the GPU if there is one.

    Raises:
        SettingsError: The folder is missing or does not contain a supported model.
    """

    def __init__(self, argument: str, families: dict[str, str], device: str | None = None) -> None:
        self.family = ""
        try:
            folder = path_of(argument)
            if folder.is_dir():
                refuse_foreign(folder)
                check_files(folder, SettingsError)
                check_weights(folder, SettingsError)
                config = folder / "config.json"
                self.family = str(read_json(config).get("model_type")) if config.is_file() else ""
        except ChatError as error:
            raise SettingsError(error.message, error.hint) from error
        if self.family not in families:
            found = f"contains {self.family[:60]!r}" if self.family else "is not a model folder"
            raise SettingsError(
                f"{argument[:200]!r} {found}, but {', '.join(families)} is needed here.",
                "Download such a model in safetensors, and give its folder.",
            )
        self.folder: Path = folder.resolve()
        self.digest = checkpoint_digest(self.folder)
        self.device = device_named(device or "auto")
        self._class = families[self.family]
        self._lock = threading.RLock()
        self._model: Any = None
        self.processor: Any = None

    @property
    def identity(self) -> str:
        """Name and content of the folder."""
        return f"{self.folder.name}:{self.digest}"

    @contextmanager
    def ready(self) -> Iterator[Any]:
        """Lock the model on its device, in inference mode. Errors inside are raised as ScorerError."""
        import torch

        with self._lock, boundary(ScorerError, f"Model {self.folder.name!r}"), torch.inference_mode():
            if self._model is None:
                from transformers import AutoProcessor

                model = load_whole(self.folder, self._class)
                self.processor = AutoProcessor.from_pretrained(str(self.folder), **LOCAL)
                model.train(False)
                self._model = model
            self._model.to(self.device)
            yield self._model

    def offload(self) -> None:
        """Move the weights to RAM until the next call."""
        with self._lock:
            if self._model is not None:
                self._model.to("cpu")
