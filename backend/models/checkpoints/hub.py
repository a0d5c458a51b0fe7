"""Downloads a checkpoint from the Hugging Face Hub into its own folder, at the user's explicit request.

huggingface_hub, through its public API, returns addresses, sizes, checksums, mirror and token. The bytes are
downloaded here, because its own downloads restart a file after an interruption, cannot be canceled and are
not verified. Only safetensors, JSON and tokenizer files are downloaded. The configuration comes first, so
that an unsupported model is rejected before its gigabytes. Files are collected in a hidden folder, which
becomes the checkpoint when all are complete. An interrupted download resumes.
"""

from __future__ import annotations

import fnmatch
import hashlib
import re
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ...core.errors import ChatError, SettingsError
from ...core.remote.api_keys import KeyMask
from .checkpoint import HUB_ID, WANTED_FILES, check_family, find_checkpoint, read_json

if TYPE_CHECKING:
    import httpx

LIBRARY = "interleave-thinker"
PROMPT_FILES = "prompt_set/*.txt"
SPARE_BYTES = 1024**3
BLOCK_BYTES = 1024**2
TIMEOUT_SECONDS = 60.0
SLOWEST = 20_000
"""Minimum rate in bytes per second. A download that takes longer than at this rate fails."""
OnBytes = Callable[[int, int], None]
"""Called with the bytes downloaded so far and the total. May raise Cancelled."""


@dataclass(frozen=True)
class _File:
    name: str
    size: int
    sha256: str | None
    url: str


def check_hub_id(hub_id: str) -> None:
    """Check that a name is an OWNER/NAME of the hub, and therefore a safe path.

    Raises:
        SettingsError: It is not.
    """
    parts = hub_id.split("/")
    if not HUB_ID.fullmatch(hub_id) or any(not part.strip(".") for part in parts) or len(hub_id) > 200:
        raise SettingsError(
            f"{hub_id[:80]!r} is not a valid Hugging Face model name.",
            "Use OWNER/NAME, for example Qwen/Qwen3-VL-8B-Instruct.",
        )


def fetch_checkpoint(hub_id: str, root: Path, on_bytes: OnBytes | None = None) -> Path:
    """Download a checkpoint into `root/OWNER/NAME` and return that folder.

    An existing folder is returned without a download.

    Args:
        hub_id: OWNER/NAME of the checkpoint.
        root: Folder of all checkpoints.
        on_bytes: Called with the progress in bytes.

    Raises:
        SettingsError: The name is invalid.
        ChatError: The hub is unreachable or has no such checkpoint in safetensors, the disk is too small, or
            a file arrived damaged.
        Cancelled: Raised by `on_bytes`.
    """
    check_hub_id(hub_id)
    folder = root / hub_id
    if folder.exists():
        return find_checkpoint(str(folder), untested=True)
    files, headers = _listing(hub_id)
    staging = root / f".download-{hub_id.replace('/', '--')}"
    staging.mkdir(parents=True, exist_ok=True)
    total = sum(file.size for file in files)
    have = sum(path.stat().st_size for path in staging.rglob("*") if path.is_file())
    free = shutil.disk_usage(staging).free
    if total - have + SPARE_BYTES > free:
        raise ChatError(
            f"Cannot download {hub_id}: it has {total / 1e9:.1f} GB, and {str(root)!r} has {free / 1e9:.1f} "
            "GB free.",
            "Free disk space, or set another folder for interleave_agents in extra_model_paths.yaml.",
        )
    done = 0
    with _client(headers) as client:
        for file in files:
            start = done

            def count(bytes_of_file: int, start: int = start) -> None:
                if on_bytes is not None:
                    on_bytes(start + bytes_of_file, total)

            _fetch(client, file, staging / file.name, count)
            done += file.size
            if file.name == "config.json":
                _check_kind(hub_id, staging)
    find_checkpoint(str(staging), untested=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    staging.rename(folder)
    return folder


def _listing(hub_id: str) -> tuple[list[_File], dict[str, str]]:
    import httpx
    from huggingface_hub import HfApi, hf_hub_url
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled
    from huggingface_hub.utils import build_hf_headers

    headers = build_hf_headers(library_name=LIBRARY)
    try:
        info = HfApi(library_name=LIBRARY).model_info(hub_id, files_metadata=True, timeout=TIMEOUT_SECONDS)
    except OfflineModeIsEnabled as error:
        raise ChatError(
            f"Cannot download {hub_id}: HF_HUB_OFFLINE is set.",
            "Unset this environment variable and restart.",
        ) from error
    except HfHubHTTPError as error:
        status = getattr(error.response, "status_code", None)
        hint = {
            401: "Check the name. A private model needs the environment variable HF_TOKEN.",
            403: "Accept the license on the model's page, and set the environment variable HF_TOKEN.",
            404: "Check the name.",
        }.get(status or 0, "")
        raise ChatError(f"The Hugging Face Hub denied access to {hub_id} (HTTP {status}).", hint) from error
    except (OSError, httpx.HTTPError) as error:
        raise _unreachable(error, headers) from error
    files = [
        _File(
            name=sibling.rfilename,
            size=sibling.size or 0,
            sha256=sibling.lfs.sha256 if sibling.lfs else None,
            url=hf_hub_url(hub_id, sibling.rfilename, revision=info.sha),
        )
        for sibling in info.siblings or ()
        if _wanted(sibling.rfilename)
    ]
    names = {file.name for file in files}
    if "config.json" not in names or not any(name.endswith(".safetensors") for name in names):
        raise ChatError(f"{hub_id} does not contain a checkpoint in safetensors.", "Choose another model.")
    return sorted(files, key=lambda file: (file.name != "config.json", file.name)), headers


def _wanted(name: str) -> bool:
    if "/" in name:
        return fnmatch.fnmatchcase(name, PROMPT_FILES) and name.count("/") == 1
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in WANTED_FILES)


def _check_kind(hub_id: str, staging: Path) -> None:
    try:
        check_family(read_json(staging / "config.json").get("model_type"), hub_id)
    except ChatError:
        shutil.rmtree(staging)
        raise


def _client(headers: dict[str, str]) -> httpx.Client:
    import httpx

    return httpx.Client(headers=headers, follow_redirects=True, timeout=TIMEOUT_SECONDS)


def _fetch(client: httpx.Client, file: _File, path: Path, on_bytes: Callable[[int], None]) -> None:
    import httpx

    if path.is_file() and path.stat().st_size == file.size:
        on_bytes(file.size)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    have = part.stat().st_size if part.is_file() else 0
    deadline = time.monotonic() + TIMEOUT_SECONDS + (file.size - have) / SLOWEST
    try:
        with client.stream("GET", file.url, headers={"Range": f"bytes={have}-"} if have else {}) as response:
            if response.status_code not in (200, 206):
                raise ChatError(f"Cannot download {file.name} (HTTP {response.status_code}).")
            have = have if response.status_code == 206 else 0
            with part.open("ab" if have else "wb") as target:
                for chunk in response.iter_bytes():
                    have += len(chunk)
                    if have > file.size:
                        break
                    target.write(chunk)
                    on_bytes(have)
                    if time.monotonic() > deadline:
                        raise httpx.ReadTimeout(f"{file.name} arrives too slowly")
    except httpx.HTTPError as error:
        raise _unreachable(error, client.headers) from error
    except OSError as error:
        raise ChatError(f"Cannot write {str(part)!r} ({error.strerror or error}).") from error
    if have != file.size or (file.sha256 and _sha256(part) != file.sha256):
        part.unlink()
        raise ChatError(f"{file.name} arrived damaged and was deleted.", "Start the download again.")
    part.rename(path)


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def _unreachable(error: Exception, headers: Mapping[str, str]) -> ChatError:
    mask = KeyMask(headers.get("authorization", "").removeprefix("Bearer "))
    text = mask(re.sub(r"\s+", " ", str(error)))[:200]
    return ChatError(
        f"Cannot reach the Hugging Face Hub ({type(error).__name__}: {text}).",
        "Downloaded data is kept: start the download again when you are online.",
    )
