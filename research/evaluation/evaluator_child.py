"""Script of the child processes of `official_scoring.py`: runs an evaluator's file without editing it.

It imports nothing from this package. The job arrives as one JSON line on standard input, so that the key does
not appear in a command line. Standard input then stays open: when it closes, the parent process has ended,
and this process kills itself and its children. Values for which an evaluator has no option (address of the
judge, key, unwanted metrics) are set in memory.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import runpy
import signal
import sys
import threading
import types
from typing import Any

HEAVY = {
    "METEOR": "calculate_meteor",
    "BLEU": "calculate_bleu",
    "CIDEr": "calculate_cider",
    "ImageSequence": "calculate_IS_and_FID",
    "SSIM": "calculate_ssim",
    "PSNR": "calculate_psnr",
    "LPIPS": "calculate_lpips",
}
"""Metrics of CoMM's tasks 1 and 2: module and function."""
KEY_LINE = "api_key = None\n"


def end_with(parent: int) -> None:
    """End this process and its children when the other end of `parent` is closed."""

    def wait() -> None:
        while os.read(parent, 4096):
            pass
        if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def first_line(file: int) -> bytes:
    """Read up to the end of the first line."""
    found = b""
    while not found.endswith(b"\n"):
        part = os.read(file, 1)
        if not part:
            raise SystemExit("no job was given on standard input")
        found += part
    return found


def module_of(path: str, name: str, replaced: tuple[str, str] | None = None) -> Any:
    """Load a file as a module, optionally with one line replaced in memory."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    if replaced is None:
        spec.loader.exec_module(module)
        return module
    with open(path, encoding="utf-8") as file:
        source = file.read()
    if source.count(replaced[0]) != 1:
        raise SystemExit(
            f"{path} does not contain the line {replaced[0].strip()!r} (unsupported evaluator version)."
        )
    exec(compile(source.replace(*replaced), path, "exec"), module.__dict__)  # noqa: S102 - the user's checkout
    return module


def run_rise(asked: dict[str, Any]) -> None:
    """Run RISEBench: set its judge constants and also write its last table as JSON lines."""
    module = module_of(asked["script"], "gpt_eval")
    for name in ("api_key", "api_base", "dump", "main"):
        if not hasattr(module, name):
            raise SystemExit(
                f"{asked['script']} does not define {name} (unsupported version of the evaluator)."
            )
    module.api_key, module.api_base = asked["key"], asked["address"]
    written = module.dump

    def dump(data: Any, path: str, **options: Any) -> Any:
        if path.endswith("_judge.xlsx"):
            data.to_json(asked["table"], orient="records", lines=True)
        return written(data, path, **options)

    module.dump = dump
    module.main()


class AtOnce:
    """Replacement for a thread pool that runs each task immediately."""

    def __init__(self, max_workers: int = 1) -> None:
        pass

    def submit(self, work: Any, *values: Any) -> None:
        """Run the task."""
        work(*values)

    def shutdown(self, wait: bool = True) -> None:
        """Do nothing: no task is pending."""


def run_comm(asked: dict[str, Any]) -> None:
    """Run CoMM's tasks 3 and 4 in a single thread.

    The evaluator's threads share one variable with the current question, so several threads would send
    questions with the wrong instructions. Several processes take the place of threads.
    """
    package = types.ModuleType("tot_metric")
    package.__path__ = [os.path.join(asked["folder"], "tot_metric")]
    sys.modules["tot_metric"] = package
    for name, function in HEAVY.items():
        stub = types.ModuleType(f"tot_metric.{name}")
        setattr(stub, function, None)
        sys.modules[f"tot_metric.{name}"] = stub
    judge = os.path.join(asked["folder"], "tot_metric", "gpt4o_eval.py")
    key = f"api_key = {json.dumps(asked['key'])}\n"
    module_of(judge, "tot_metric.gpt4o_eval", (KEY_LINE, key))
    # The evaluator uses torch only to read one list.
    torch = types.ModuleType("torch")
    torch.load = _list_in  # type: ignore[attr-defined]
    sys.modules["torch"] = torch
    initial = os.path.join(asked["folder"], "tot_metric", "__init__.py")
    with open(initial, encoding="utf-8") as file:
        exec(compile(file.read(), initial, "exec"), package.__dict__)  # noqa: S102 - the user's checkout
    module: Any = importlib.import_module("eval.eval_metric")
    module.ThreadPoolExecutor = AtOnce
    module.main()


def _list_in(path: str) -> Any:
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def run_comm_scores(asked: dict[str, Any]) -> None:
    """Write CoMM's mean scores of a task, which it only prints, to a file."""
    module = module_of(asked["script"], "cal_gpt4o_score")
    found = module.cal_gpt4o_scores(*asked["argv"])
    with open(asked["table"], "w", encoding="utf-8") as file:
        json.dump(found, file)


def run_script(asked: dict[str, Any]) -> None:
    """Run an evaluator that can be configured completely by arguments and environment variables."""
    runpy.run_path(asked["script"], run_name="__main__")


KINDS = {"script": run_script, "rise": run_rise, "comm": run_comm, "comm scores": run_comm_scores}


def main() -> None:
    """Run the job described in the first line of standard input."""
    asked = json.loads(first_line(0))
    parent = os.dup(0)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    end_with(parent)
    if sys.platform != "win32":
        # The evaluator's worker pool finds its functions only in a forked copy of this process.
        import multiprocessing

        multiprocessing.set_start_method("fork", force=True)
    sys.argv = [asked["script"], *asked["argv"]]
    sys.path[:1] = asked["path"]
    KINDS[asked["kind"]](asked)


if __name__ == "__main__":
    main()
