"""The regression gate: a retrained critic is published only if it still judges held-out rows as well as the one before.

Decisions. Both critics answer the same rows greedily, as in use, and both recalls are looked at besides the accuracy, because
a critic that refuses everything may keep its accuracy on a lopsided set. What is allowed is a fixed drop and not "no
significant difference": a small set would let anything pass. The paired counts (rows that only one of the two judges
rightly) are printed with it, so that chance can be told from harm. A critic that does not pass stays where it was trained.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..backend.answers import read_verdict
from ..backend.bounded_reader import read_json
from ..backend.chat.checkpoints import check_adapter, check_checkpoint, checkpoint_digest
from ..backend.errors import AnswerError, SettingsError, TrainingError, boundary
from ..backend.sft_rows import SftRow
from .checkpointing import digest_of
from .critic_check import greedy_answers
from .data import as_prompt_completion
from .policy_model import quiet
from .rewards import read_answer
from .statistics import Share, share, sign_test
from .whole_folder import put_in_place

GATE_FILE = "gate.json"
FEW_ROWS = 100
Log = Callable[[str], None]


class GateRefused(TrainingError):
    """The retrained critic is worse on held-out rows than is allowed; it was not published."""


class GateSettings(BaseModel):
    """What a retrained critic must still be able to do."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    allowed_drop: float = Field(
        default=0.02, ge=0, le=1, description="How far the share of right verdicts on held-out rows may fall."
    )
    allowed_recall_drop: float = Field(
        default=0.05, ge=0, le=1, description="How far either recall (right images, wrong images) may fall."
    )
    gate_rows: int = Field(default=400, ge=2, description="Held-out rows that are asked at most.")
    gate_batch: int = Field(default=16, ge=1, description="Rows asked at once.")
    gate_tokens: int = Field(default=1024, ge=16, description="Longest answer to a held-out row, in tokens.")


class Measured(BaseModel):
    """A critic on held-out rows: right verdicts, by truth too; `read`: answers with a verdict; `says_true`: its lean."""

    accuracy: Share
    true_recall: Share
    false_recall: Share
    read: Share
    says_true: Share
    hits: list[bool]


class Gate(BaseModel):
    """The comparison: `fixed` and `broken` are rows that only the new or only the old critic judges rightly."""

    key: str
    before: Measured
    after: Measured
    fixed: int
    broken: int
    chance: float
    faults: list[str]

    @property
    def passed(self) -> bool:
        return not self.faults


def truths_of(rows: Sequence[SftRow]) -> tuple[list[SftRow], list[bool]]:
    """The rows whose taught answer is a verdict, and these verdicts; raises SettingsError if there is none."""
    held: list[SftRow] = []
    truths: list[bool] = []
    for row in rows:
        try:
            success = read_verdict(row.messages[-1].content).success
        except AnswerError:
            continue
        if success is not None:
            held.append(row)
            truths.append(success)
    if not held:
        raise SettingsError("None of the held-out rows teaches a verdict.", "Give a critic_sft.json.")
    return held, truths


def measured(answers: Sequence[str], truths: Sequence[bool]) -> Measured:
    """The measure of these answers; one without a readable verdict is wrong."""
    verdicts = [read_answer(answer) for answer in answers]
    said = [verdict.success if verdict else None for verdict in verdicts]
    hits = [one == truth for one, truth in zip(said, truths, strict=True)]
    return Measured(
        accuracy=share(hits),
        true_recall=share([hit for hit, truth in zip(hits, truths, strict=True) if truth]),
        false_recall=share([hit for hit, truth in zip(hits, truths, strict=True) if not truth]),
        read=share([one is not None for one in said]),
        says_true=share([one is True for one in said]),
        hits=hits,
    )


def compare(before: Measured, after: Measured, settings: GateSettings, key: str = "") -> Gate:
    """Whether `after` may follow `before`, both measured on the same rows."""
    faults = []
    bounds = (
        ("accuracy", "right verdicts", settings.allowed_drop),
        ("true_recall", "recall of right images", settings.allowed_recall_drop),
        ("false_recall", "recall of wrong images", settings.allowed_recall_drop),
    )
    for name, words, allowed in bounds:
        old, new = getattr(before, name), getattr(after, name)
        if old.n and old.rate - new.rate > allowed + 1e-9:
            faults.append(f"{words} fell from {old.rate:.3f} to {new.rate:.3f} (allowed: {allowed:g})")
    pairs = list(zip(before.hits, after.hits, strict=True))
    fixed, broken = pairs.count((False, True)), pairs.count((True, False))
    return Gate(
        key=key,
        before=before,
        after=after,
        fixed=fixed,
        broken=broken,
        chance=sign_test(fixed, broken),
        faults=faults,
    )


def check_gate(
    before: Path,
    after: Path,
    rows: Sequence[SftRow],
    images: Path,
    out: Path,
    settings: GateSettings,
    device: str = "auto",
    log: Log = print,
    what: str = "held-out",
) -> Gate:
    """Ask both critics about the rows (image paths relative to `images`), print and keep the comparison in `out`.

    `after` may be a LoRA adapter of `before`. The same comparison is not made twice. Raises SettingsError for rows
    without a verdict.
    """
    held, truths = truths_of(rows)
    held, truths = held[: settings.gate_rows], truths[: settings.gate_rows]
    digests = [checkpoint_digest(before), checkpoint_digest(after)]
    key = digest_of([*digests, settings.model_dump_json(), *(row.model_dump_json() for row in held)])
    path = out / GATE_FILE
    gate = _kept(path, key)
    if gate is None:
        log(f"asking the critics before and after about {len(held)} {what} rows")
        old = measured(answers_of(before, None, held, images, settings, device), truths)
        base, adapter = (before, after) if (after / "adapter_config.json").is_file() else (after, None)
        new = measured(answers_of(base, adapter, held, images, settings, device), truths)
        gate = compare(old, new, settings, key)
        with boundary(TrainingError, f"{str(path)!r} cannot be written"):
            out.mkdir(parents=True, exist_ok=True)
            part = path.with_suffix(".part")
            part.write_text(gate.model_dump_json(indent=1) + "\n", encoding="utf-8")
            part.replace(path)
    for line in as_lines(gate):
        log(line)
    if len(held) < FEW_ROWS:
        log(f"WARNING: {len(held)} rows are few; one of them is {1 / len(held):.1%}. Give more: --held-out.")
    if len(set(truths)) == 1:
        kind = "right" if truths[0] else "wrong"
        log(
            f"WARNING: all {len(held)} rows are about {kind} images; a critic that says {truths[0]} to everything passes. "
            "Give rows of both kinds: --held-out."
        )
    return gate


def as_lines(gate: Gate) -> list[str]:
    """The comparison as a Markdown table."""
    lines = ["", "| held-out rows | before | after |", "|---|---|---|"]
    for name, words in (
        ("accuracy", "right verdicts"),
        ("true_recall", "right images accepted"),
        ("false_recall", "wrong images refused"),
        ("says_true", "says True"),
        ("read", "answers read"),
    ):
        lines.append(f"| {words} | {getattr(gate.before, name)} | {getattr(gate.after, name)} |")
    lines.append("")
    lines.append(
        f"{gate.fixed} rows judged rightly only after, {gate.broken} only before (p = {gate.chance:.3g})"
    )
    return lines


def enforce(gate: Gate, trained: Path, force: bool, log: Log = print) -> None:
    """Raise GateRefused if the gate was not passed, unless `force`."""
    if gate.passed:
        log("gate passed")
        return
    reason = "; ".join(gate.faults)
    if not force:
        raise GateRefused(
            f"The retrained critic is worse on what it could before: {reason}.",
            f"It was not published and lies in {str(trained)!r}. Mix in more old rows, lower the rate, or publish it "
            "all the same: --force.",
        )
    log(f"WARNING: published by --force although {reason}")


def publish(trained: Path, final: Path) -> Path:
    """Make `final` a copy of a finished checkpoint; files are linked where the disk can, and it appears whole.

    Raises TrainingError if it cannot be written.
    """
    part = final.with_name(f"{final.name}.part")
    with boundary(TrainingError, f"{str(final)!r} cannot be written"):
        shutil.rmtree(part, ignore_errors=True)
        shutil.copytree(trained, part, copy_function=_link)
        return put_in_place(part, final)


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
