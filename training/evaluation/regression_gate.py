"""The regression gate: a retrained critic is published only if it still judges held-out rows as well as the
one before.

Decisions. Both critics answer the same rows greedily, as in use; `gate_rows` chooses them, `gate_rule`
compares. What was learned is another question, asked about people's words on runs that were held out, and
only told: a critic may be published for what it still knows, but nobody is to take that for progress. A
critic that does not pass stays where it was trained.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ...backend.checkpoints.checkpoint import check_adapter, check_checkpoint, checkpoint_digest
from ...backend.errors import TrainingError
from ...backend.feedback.sft_row import SftRow
from ...backend.files.atomic import write_text, writing_folder
from ...backend.files.bounded_reader import read_json
from ..rows.row_sets import RowSet
from ..rows.sft import as_prompt_completion
from ..trainer.policy import quiet
from ..trainer.resume import digest_of
from .gate_rows import GateSettings, truth_of
from .gate_rule import Gate, as_lines, compare, learned_line, measured
from .held_out import greedy_answers

GATE_FILE, LEARNED_FILE = "gate.json", "learned.json"
FEW_ROWS = 100
Log = Callable[[str], None]


class GateRefused(TrainingError):
    """The retrained critic is worse on held-out rows than is allowed; it was not published."""


def check_gate(
    before: Path,
    after: Path,
    asked: RowSet,
    out: Path,
    settings: GateSettings,
    device: str = "auto",
    log: Log = print,
) -> Gate:
    """Ask both critics about the rows of an `examination`, print and keep the comparison in `out`.

    `after` may be a LoRA adapter of `before`. The same comparison is not made twice.
    """
    gate = _asked_both(before, after, asked, out / GATE_FILE, settings, device, log, "held-out rows")
    for line in as_lines(gate, "held-out rows"):
        log(line)
    if len(asked.rows) < FEW_ROWS:
        log(
            f"WARNING: {len(asked.rows)} rows are few; one of them is {1 / len(asked.rows):.1%}. Give "
            f"more: --held-out."
        )
    return gate


def tell_learned(
    before: Path,
    after: Path,
    words: RowSet,
    out: Path,
    settings: GateSettings,
    device: str = "auto",
    log: Log = print,
) -> Gate:
    """Ask both critics about images of runs that were not trained on and that people spoke of, print and keep
    in `out` what was learned. Nothing is refused by it."""
    rows = [row for row in words.rows if truth_of(row) is not None][: settings.gate_rows]
    what = "people's words on held-out runs"
    learned = _asked_both(
        before, after, RowSet(rows, words.folder), out / LEARNED_FILE, settings, device, log, what
    )
    for line in [*as_lines(learned, what), learned_line(learned)]:
        log(line)
    return learned


def _asked_both(
    before: Path,
    after: Path,
    asked: RowSet,
    path: Path,
    settings: GateSettings,
    device: str,
    log: Log,
    what: str,
) -> Gate:
    truths = [bool(truth_of(row)) for row in asked.rows]
    digests = [checkpoint_digest(before), checkpoint_digest(after)]
    key = digest_of([*digests, settings.model_dump_json(), *(row.line() for row in asked.rows)])
    gate = _kept(path, key)
    if gate is not None:
        return gate
    log(f"asking the critics before and after about {len(truths)} {what}")
    rows, images = asked.rows, asked.folder
    old = measured(answers_of(before, None, rows, images, settings, device), truths)
    base, adapter = (before, after) if (after / "adapter_config.json").is_file() else (after, None)
    new = measured(answers_of(base, adapter, rows, images, settings, device), truths)
    gate = compare(old, new, settings, key)
    write_text(path, gate.model_dump_json(indent=1) + "\n", TrainingError, "The gate's comparison")
    return gate


def enforce(gate: Gate, trained: Path, force: bool, log: Log = print) -> None:
    """Raise GateRefused if the gate was not passed, unless `force`."""
    if gate.passed:
        log("gate passed")
        return
    reason = "; ".join(gate.faults)
    if not force:
        raise GateRefused(
            f"The retrained critic is worse on what it could before: {reason}.",
            f"It was not published and lies in {str(trained)!r}. Mix in more old rows, lower the rate, or "
            f"publish it "
            "all the same: --force.",
        )
    log(f"WARNING: published by --force although {reason}")


def publish(trained: Path, final: Path) -> Path:
    """Make `final` a copy of a finished checkpoint; files are linked where the disk can, and it appears
    whole.

    Raises TrainingError if it cannot be written.
    """
    with writing_folder(final, TrainingError, "The checkpoint") as temporary:
        shutil.copytree(trained, temporary, copy_function=_link, dirs_exist_ok=True)
    return final


def _link(source: str, target: str) -> str:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
    return target


def _kept(path: Path, key: str) -> Gate | None:
    """A comparison made before, None if there is none of this key."""
    try:
        gate = Gate.model_validate(read_json(path, TrainingError))
    except (TrainingError, ValidationError):
        return None
    return gate if gate.key == key else None


def answers_of(
    checkpoint: Path,
    adapter: Path | None,
    rows: Sequence[SftRow],
    images: Path,
    settings: GateSettings,
    device: str,
) -> list[str]:
    """A critic's greedy answers to rows; `adapter` is a LoRA folder for the checkpoint, if any."""
    import torch
    from transformers import AutoModelForImageTextToText, AutoProcessor

    check_checkpoint(checkpoint)
    if adapter is not None:
        check_adapter(adapter)
    on_gpu = device != "cpu" and torch.cuda.is_available()
    with quiet():
        processor: Any = AutoProcessor.from_pretrained(
            checkpoint, local_files_only=True, trust_remote_code=False
        )
        processor.tokenizer.padding_side = "left"
        model: Any = AutoModelForImageTextToText.from_pretrained(
            checkpoint,
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            dtype=torch.bfloat16 if on_gpu else torch.float32,
        )
        if adapter is not None:
            from peft import PeftModel

            model = PeftModel.from_pretrained(model, str(adapter))
        model = model.to("cuda" if on_gpu else "cpu")
        asked = [as_prompt_completion(row, images) for row in rows]
        return greedy_answers(model, processor, asked, settings.gate_tokens, settings.gate_batch)[0]
