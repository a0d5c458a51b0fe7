"""Loads the weights of a checkpoint folder with transformers, and fails if any are missing.

The library initializes missing weights at random and continues. Agents, merging and training all load models
here, so none of them uses an incomplete checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import ChatError, boundary

LOCAL: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}


def load_whole(folder: Path, **options: Any) -> Any:
    """Load the model of a folder that `check_checkpoint` has accepted.

    Args:
        folder: Checkpoint folder.
        **options: Options of `from_pretrained`, such as `dtype`.

    Returns:
        The transformers model.

    Raises:
        ChatError: Weights are missing or have other sizes, or the folder cannot be read.
    """
    from transformers import AutoModelForImageTextToText

    with boundary(ChatError, f"Checkpoint {str(folder)!r}"), _without_progress_bars():
        loaded: Any = AutoModelForImageTextToText.from_pretrained(
            str(folder), use_safetensors=True, output_loading_info=True, **LOCAL, **options
        )
        model, loading = loaded
    missing = sorted(loading.get("missing_keys") or ())
    if missing:
        raise ChatError(
            f"Checkpoint {str(folder)!r} lacks {len(missing)} weights, such as {missing[0]!r}.",
            "Download the folder again, or export it again from the program that made it.",
        )
    return model


@contextmanager
def _without_progress_bars() -> Iterator[None]:
    """Hide the library's progress bars, because this package shows its own progress."""
    from transformers.utils import logging as library

    shown = library.is_progress_bar_enabled()
    library.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            library.enable_progress_bar()
