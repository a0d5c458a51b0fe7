"""Applies a LoRA to a diffusers pipeline as an untrusted file: safetensors only, and never without effect.

diffusers loads the weights of a file that it recognizes, and only logs if there are none. The adapter is
therefore checked after loading. A LoRA for another model is an error, not an unchanged image.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...checkpoints.model_folder import check_patterns
from ...errors import GeneratorError, InterleaveError, SettingsError, boundary
from ...files.bounded_reader import parse_json
from ...types import StepLora
from ..encoding_cache import EncodingCache
from .folder import file_digest

ADAPTER = "lora"
SUFFIX = ".safetensors"
METADATA = "lora_adapter_metadata"
"""Metadata key under which diffusers stores peft's configuration."""


def lay_over(pipeline: Any, file: Path, scale: float) -> str:
    """Apply a LoRA in a safetensors file to a pipeline.

    Args:
        pipeline: Loaded pipeline.
        file: LoRA file.
        scale: Strength of the LoRA.

    Returns:
        Content digest and scale, for the identity.

    Raises:
        SettingsError: The file is not a LoRA, does not fit the pipeline, or the pipeline does not support
            LoRAs.
    """
    digest = _load(pipeline, file.expanduser(), ADAPTER)
    with boundary(GeneratorError, f"Applying {file.name!r} to {type(pipeline).__name__}"):
        pipeline.set_adapters([ADAPTER], [scale])
    return f"{digest}*{scale:g}"


class StepLoras:
    """The LoRAs that single steps add to a pipeline.

    Each is loaded once, and is active only while an image of its step is generated. Callers hold the lock of
    the pipeline.

    Args:
        pipeline: The pipeline.
        encodings: Its cache of encodings.
        own_scale: Strength of the pipeline's own LoRA. `None` without one.

    Attributes:
        find: Returns the file of a LoRA by its name, `None` for an unknown one.
        where: Name of the folder, for messages.
    """

    def __init__(self, pipeline: Any, encodings: EncodingCache, own_scale: float | None) -> None:
        self._pipeline, self._encodings, self._own_scale = pipeline, encodings, own_scale
        self._loaded: dict[str, str] = {}
        self.find: Callable[[str], Path | None] | None = None
        self.where = "the LoRA folder"

    @property
    def supported(self) -> bool:
        """Whether the pipeline's class supports LoRAs."""
        return hasattr(self._pipeline, "load_lora_weights")

    def digest(self, name: str) -> str:
        """Return the content digest of a LoRA.

        Raises:
            SettingsError: The LoRA was not found, or no folder was given.
        """
        return file_digest(self._file(name))

    def load(self, lora: StepLora) -> None:
        """Load a LoRA, if it is not loaded yet. It is not active afterwards.

        Raises:
            SettingsError: It was not found, does not fit the pipeline, or changed since the run began.
            GeneratorError: Loading failed.
        """
        file = self._file(lora.name)
        digest = file_digest(file)
        if digest != lora.digest:
            raise SettingsError(
                f"The LoRA {lora.name!r} has changed since the run began.", "Start the run again."
            )
        if digest in self._loaded:
            return
        adapter = f"step_{hashlib.blake2b(digest.encode(), digest_size=6).hexdigest()}"
        try:
            _load(self._pipeline, file, adapter)
        except InterleaveError:
            self._discard(adapter)
            raise
        self._loaded[digest] = adapter
        self._restore()

    @contextmanager
    def active(self, lora: StepLora | None, strength: float) -> Iterator[None]:
        """Apply a loaded LoRA in addition to the pipeline's own. `None` changes nothing."""
        if lora is None or lora.digest is None:
            yield
            return
        own = {} if self._own_scale is None else {ADAPTER: self._own_scale}
        adapters = own | {self._loaded[lora.digest]: strength}
        try:
            self._pipeline.enable_lora()
            self._pipeline.set_adapters(list(adapters), list(adapters.values()))
            self._encodings.weights = f"{lora.digest}*{strength!r}"
            yield
        finally:
            self._encodings.weights = ""
            self._restore()

    def _discard(self, adapter: str) -> None:
        """Remove what a failed attempt to load a LoRA left in the pipeline, which would change all images."""
        if adapter in _adapters(self._pipeline):
            self._pipeline.delete_adapters(adapter)
        if _adapters(self._pipeline):
            self._restore()

    def _restore(self) -> None:
        """Activate the pipeline's own LoRA alone, or none."""
        if self._own_scale is None:
            self._pipeline.disable_lora()
        else:
            self._pipeline.set_adapters([ADAPTER], [self._own_scale])

    def _file(self, name: str) -> Path:
        if self.find is None:
            raise SettingsError(
                f"The LoRA {name!r} cannot be found, because no LoRA folder is set.",
                "Set lora_folder to the folder of the LoRAs.",
            )
        file = self.find(name)
        if file is None:
            raise SettingsError(
                f"The LoRA {name!r} does not exist in {self.where}.", "Put it there, or change the plan."
            )
        return file


def lora_in(folder: Path, name: str) -> Path | None:
    """Return the file of a LoRA below a folder, `None` if there is none. Links may not lead out of it."""
    root = folder.expanduser().resolve()
    file = (root / name.replace("\\", "/")).resolve()
    return file if file.is_relative_to(root) and file.suffix == SUFFIX and file.is_file() else None


def _load(pipeline: Any, file: Path, adapter: str) -> str:
    """Load a LoRA under a name, check that the pipeline uses it, and return its content digest."""
    name = type(pipeline).__name__
    if not hasattr(pipeline, "load_lora_weights"):
        raise SettingsError(f"{name} does not support LoRAs.", "Omit lora.")
    if file.suffix != SUFFIX or not file.is_file():
        raise SettingsError(
            f"{str(file)[:300]!r} is not a LoRA: expected a {SUFFIX} file.", "Give the path of the LoRA file."
        )
    try:
        import peft  # noqa: F401 - diffusers applies LoRAs with it
    except ImportError as error:
        raise SettingsError(f"A LoRA needs peft ({error}).", "Run: pip install peft") from error
    digest = file_digest(file)
    _check_metadata(file)
    with boundary(GeneratorError, f"Applying {file.name!r} to {name}"):
        try:
            pipeline.load_lora_weights(
                str(file.parent),
                weight_name=file.name,
                adapter_name=adapter,
                use_safetensors=True,
                local_files_only=True,
            )
        except (ValueError, KeyError) as error:
            raise _foreign(file, name, error) from error
        except RuntimeError as error:
            if "size mismatch" not in str(error):
                raise
            raise _foreign(file, name) from error
        if adapter not in _adapters(pipeline):
            raise _foreign(file, name)
    return digest


def _adapters(pipeline: Any) -> set[str]:
    return {one for part in pipeline.get_list_adapters().values() for one in part}


def _check_metadata(file: Path) -> None:
    """Check the patterns of the adapter's configuration in the file's header, which a library will match.

    Raises:
        SettingsError: A pattern could take very long, or the header is unreadable.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="np") as weights:
            found = (weights.metadata() or {}).get(METADATA)
    except (SafetensorError, OSError) as error:
        raise SettingsError(f"Cannot read {file.name!r} ({error}).", "Download the file again.") from error
    if found is not None:
        where = f"The header of {file.name!r}"
        check_patterns(parse_json(found, SettingsError, where), SettingsError, where)


def _foreign(file: Path, name: str, error: Exception | None = None) -> SettingsError:
    reason = f" ({str(error).splitlines()[0][:200]})" if error and str(error) else ""
    return SettingsError(
        f"Nothing in {file.name!r} fits {name}{reason}.", "Check that the LoRA was made for this model."
    )
