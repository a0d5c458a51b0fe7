"""Replacements for llama.cpp's converter and quantizer: programs with their command lines and faults."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

from support.fake_llama_server import MODEL

CONVERTER = f"""
import argparse, json, os, sys, time
parser = argparse.ArgumentParser()
parser.add_argument("model")
parser.add_argument("--outfile", required=True)
parser.add_argument("--outtype", required=True)
parser.add_argument("--mmproj", action="store_true")
given = parser.parse_args()
with open({{calls!r}}, "a") as calls:
    calls.write(json.dumps({{{{"argv": sys.argv[1:], "env": dict(os.environ), "pid": os.getpid()}}}}) + "\\n")
fault = {{fault!r}}
if fault == "no package":
    import sentencepiece_is_missing.of_all
if fault == "unknown tokenizer":
    raise NotImplementedError("BPE pre-tokenizer was not recognized - update get_vocab_base_pre()")
if fault == "hangs":
    time.sleep(600)
if fault != "writes nothing" and not (given.mmproj and fault == "writes no projector"):
    with open(given.outfile, "wb") as file:
        file.write({MODEL!r} + (b"projector" if given.mmproj else b"model"))
"""
QUANTIZER = """#!{python}
import pathlib, sys
source, made, kind = sys.argv[1:]
pathlib.Path(made).write_bytes(pathlib.Path(source).read_bytes() + kind.encode())
"""


def write_converter(folder: Path, fault: str = "") -> Path:
    """Write a converter that writes the beginning of files, and a JSON line for each call to `calls`."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "convert_hf_to_gguf.py"
    program.write_text(CONVERTER.format(calls=str(folder / "calls"), fault=fault))
    return program


def write_quantizer(folder: Path) -> Path:
    """Write a quantizer whose result is the input and the name of the type."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "llama-quantize"
    program.write_text(QUANTIZER.format(python=sys.executable))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program
