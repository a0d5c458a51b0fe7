"""Finds a diffusers pipeline folder, checks that it contains no code, and identifies it by its content.

The identity of a model is the content of its folder, never its path or hub name. A moved folder keeps its
cached images, and a replaced weight file loses them. Large weight files are sampled: their size, their header
(all tensor names, dtypes and shapes) and evenly spaced blocks, which any retraining changes.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from ....core.errors import SettingsError
from ....core.files.bounded_reader import read_json
from ....core.machine.libraries import is_too_old, least
from ...checkpoints.checkpoint import ALLOW_DOWNLOAD, add_content
from ...checkpoints.model_folder import check_files, check_weights

INDEX = "model_index.json"
HUB_ID = re.compile(r"^[\w.-]+/[\w.-]+$")
CONTENT_SUFFIXES = {".json", ".txt", ".model", ".jinja", ".safetensors"}
MAX_INDEX_BYTES = 1024 * 1024
MAX_INDEX_VALUES = 10_000
WHOLE_FILE_BYTES = 32 * 1024 * 1024


def find_folder(argument: str, download: bool) -> Path:
    """Return the folder of a local pipeline, or of a hub id in the local cache.

    Args:
        argument: Folder or hub id.
        download: Whether to download a hub id that is not cached. Only configurations and safetensors are
            downloaded.

    Raises:
        SettingsError: The folder does not exist, or the download failed.
    """
    if not argument:
        raise SettingsError(
            "The diffusers generator needs a model.", "Use diffusers:FOLDER or diffusers:HUB-ID."
        )
    folder = Path(argument).expanduser()
    if folder.is_dir():
        return folder
    if not HUB_ID.match(argument):
        raise SettingsError(
            f"The pipeline folder {argument!r} does not exist.", "Give a folder with model_index.json."
        )
    from diffusers.pipelines.pipeline_utils import DiffusionPipeline

    try:
        found = DiffusionPipeline.download(argument, use_safetensors=True, local_files_only=not download)
    except (OSError, ValueError) as error:
        if download:
            raise SettingsError(f"Cannot download model {argument!r} ({_first_line(error)}).") from error
        raise not_cached(argument) from error
    return Path(found)


def not_cached(hub_id: str) -> SettingsError:
    """Return the error for a hub id whose model is not in the local cache."""
    return SettingsError(
        f"Model {hub_id!r} is neither a folder nor complete in the local model cache.",
        f"Give an existing folder, or {ALLOW_DOWNLOAD}.",
    )


def check_library() -> None:
    """Check that the installed diffusers is new enough.

    Raises:
        SettingsError: The installed version is too old.
    """
    from diffusers import __version__ as version

    if is_too_old("diffusers", version):
        raise SettingsError(
            f"diffusers {version} is too old: before 0.38 it can run code from a pipeline's folder, and "
            "before 0.40 it loads some LoRAs at a quarter of their strength.",
            f"Install version {least('diffusers')} or newer: pip install -U diffusers",
        )


def pipeline_class(folder: Path) -> str:
    """Return the name of the diffusers class that loads a folder.

    Raises:
        SettingsError: The index is missing or damaged, or a component would need code from the folder.
    """
    import diffusers
    from diffusers import pipelines

    index = read_index(folder)
    check_files(folder, SettingsError)
    name = index.get("_class_name")
    if not isinstance(name, str) or not isinstance(getattr(diffusers, name, None), type):
        raise SettingsError(
            (
                f"{folder.name!r} requires the pipeline class {name!r}, which diffusers "
                f"{diffusers.__version__} does not have."
            ),
            "Upgrade diffusers. Pipelines with their own code are not supported.",
        )
    for component, value in index.items():
        if component.startswith("_") or _plain(value):
            continue
        if (
            not component.isidentifier()
            or not isinstance(value, list)
            or [*map(_named, value)] != [True, True]
        ):
            raise SettingsError(
                f"{folder.name!r}: {component[:80]!r} in {INDEX} is not a valid component.",
                "It must name a library and a class. Download the folder again.",
            )
        if (folder / component).is_dir():
            check_weights(folder / component, SettingsError)
        library = value[0]
        known = library in (None, "diffusers", "transformers")
        if not known and not (
            isinstance(library, str) and library.isidentifier() and hasattr(pipelines, library)
        ):
            raise SettingsError(
                (
                    f"{folder.name!r}: component {component!r} comes from {library!r}, not from diffusers or "
                    "transformers."
                ),
                "Pipelines with their own code are not supported.",
            )
    return name


def _plain(value: object) -> bool:
    """Return whether a value of the index is a setting of the pipeline and not a component."""
    items = value if isinstance(value, list) else [value]
    setting = all(isinstance(one, (int, float, str)) for one in items)
    return (
        setting and (not isinstance(value, list) or not any(isinstance(one, str) for one in items))
    ) or value is None


def _named(value: object) -> bool:
    return value is None or (isinstance(value, str) and value.isidentifier())


def content_digest(folder: Path) -> str:
    """Return 16 hex digits over the index and all components: configurations, vocabularies and weights."""
    components = sorted(key for key in read_index(folder) if not key.startswith("_"))
    digest = hashlib.blake2b(digest_size=8)
    for path in [folder / INDEX, *(file for name in components for file in _content_files(folder / name))]:
        add_content(digest, path, path.relative_to(folder).as_posix(), WHOLE_FILE_BYTES, kind=SettingsError)
    return digest.hexdigest()


def file_digest(path: Path) -> str:
    """Return 16 hex digits over a weight file. Large files are sampled."""
    digest = hashlib.blake2b(digest_size=8)
    add_content(digest, path, path.name, WHOLE_FILE_BYTES, kind=SettingsError)
    return digest.hexdigest()


def _content_files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.rglob("*") if path.suffix in CONTENT_SUFFIXES and path.is_file())


def read_index(folder: Path) -> dict[str, object]:
    """Return the content of the index of a pipeline folder. Raises SettingsError if there is none."""
    path = folder / INDEX
    try:
        index = read_json(path, SettingsError, "Pipeline index", MAX_INDEX_BYTES, MAX_INDEX_VALUES)
    except SettingsError as error:
        raise SettingsError(
            error.message, f"A diffusers pipeline folder contains {INDEX} and a folder per component."
        ) from error
    if not isinstance(index, dict):
        raise SettingsError(f"{str(path)!r} does not contain a JSON object.")
    return index


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
