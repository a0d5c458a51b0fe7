"""Weights are counted from headers alone, and a file that differs from its header is rejected."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interleave_thinker.backend.core.errors import ChatError, SettingsError
from interleave_thinker.backend.models.checkpoints.model_folder import (
    MAX_HEADER,
    check_safetensors,
    tensors_of,
)


def laid_out(header: dict[str, Any] | bytes, content: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + content


def tensor(shape: list[int], begin: int, end: int, dtype: str = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


WHOLE = {"a": tensor([2, 3], 0, 24), "b": tensor([], 24, 28), "__metadata__": {"format": "pt"}}


def test_weights_are_counted_by_name(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(laid_out(WHOLE, bytes(28)))
    assert tensors_of(path) == tensors_of(tmp_path) == {"a": 6, "b": 1}
    check_safetensors(path)


@pytest.mark.parametrize(
    "content",
    [
        laid_out(WHOLE, bytes(27)),
        laid_out(WHOLE, bytes(29)),
        laid_out(WHOLE, bytes(28))[:40],
        laid_out(WHOLE, bytes(28))[:8],
        b"",
        laid_out({"a": tensor([2, 4], 0, 24)}, bytes(24)),
        laid_out({"a": tensor([10**12, 10**12], 0, 24)}, bytes(24)),
        laid_out({"a": tensor([6], 0, 24), "b": tensor([6], 12, 36)}, bytes(36)),
        laid_out({"a": tensor([6], 0, 24, "NONE")}, bytes(24)),
        laid_out({"a": {"dtype": "F32"}}, bytes(24)),
        laid_out(b"{" + b"[" * 100_000),
        laid_out(b"{" + b" " * MAX_HEADER + b"}"),
        (2**60).to_bytes(8, "little") + b"{}",
    ],
)
def test_a_truncated_or_inconsistent_file_gives_a_one_line_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    with pytest.raises(ChatError, match="damaged or incomplete") as error:
        check_safetensors(path)
    assert len(str(error.value).splitlines()) == 1 and "model.safetensors" in str(error.value)
    with pytest.raises(SettingsError, match="damaged or incomplete"):
        tensors_of(path)


@given(st.binary(max_size=300))
def test_random_bytes_are_only_an_error(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.safetensors"
    for found in (content, laid_out(content), laid_out(b"{" + content)):
        path.write_bytes(found)
        try:
            check_safetensors(path)
        except ChatError as error:
            assert len(str(error).splitlines()) == 1
