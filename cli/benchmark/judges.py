"""The options of a judge, and `benchmark judge-bridge`: a judge at an address that evaluators can ask."""

from __future__ import annotations

import os
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from pydantic import BaseModel, Field

from ...backend.shown_text import shown_text
from ..options.models import with_model_options

if TYPE_CHECKING:
    from ...evaluation.judges import BenchmarkJudge
    from ...evaluation.judges.bridge import JudgeBridge

TOKEN_VARIABLE = "INTERLEAVE_BRIDGE_KEY"
LOOKED_EVERY = 0.5
TOLD_EVERY = 60.0


class JudgeOptions(BaseModel):
    """The judge."""

    judge: str | None = Field(
        default=None,
        description="Who judges, such as openai:MODEL@URL; fake:RATE only tries a chain out.",
    )
    answers: str | None = Field(
        default=None,
        description="File of the judge's answers: nothing is asked twice. "
        "By default OUT/answers.sqlite, for a bridge judge-answers.sqlite.",
    )
    judge_deadline: float = Field(
        default=180.0, gt=0, le=86400, description="Seconds for a judge's answer; then it is asked once more."
    )
    judge_parallel: int = Field(
        default=16, ge=1, le=256, description="Questions that a judge is asked at the same time."
    )
    judge_dtype: Literal["bfloat16", "float16", "float32"] | None = Field(
        default=None, description="Number type of a local judge; by default what suits the device."
    )
    judge_device: str | None = Field(default=None, description="Device of a local judge, such as cuda:0.")
    judge_quantization: Literal["4bit", "8bit", "fp8"] | None = Field(
        default=None, description="Load a local judge in 4 or 8 bits, or in fp8."
    )

    def open(self, answers: Path) -> BenchmarkJudge:
        """The judge, which keeps its answers in `answers` unless another file was named. Raises
        SettingsError, ChatError."""
        from ...backend.errors import SettingsError
        from ...evaluation.judges import open_judge

        if self.judge is None:
            raise SettingsError("No judge is named.", "Say --judge, such as openai:MODEL@URL.")
        local = ("dtype", "device", "quantization")
        return open_judge(
            self.judge,
            Path(self.answers).expanduser() if self.answers else answers,
            self.judge_deadline,
            **{name: getattr(self, f"judge_{name}") for name in local},
        )


@with_model_options
def bridge(
    *,
    judge: JudgeOptions,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 is any that is free.")] = 8123,
) -> None:
    """Answer evaluators in OpenAI's and Gemini's forms, at this machine alone, until Ctrl-C.

    Clients show the key in INTERLEAVE_BRIDGE_KEY if it is set, and any otherwise. /health says what is wrong.
    """
    from ...evaluation.judges.bridge import JudgeBridge

    opened = judge.open(Path("judge-answers.sqlite"))
    one = JudgeBridge(opened, judge.judge_parallel, os.environ.get(TOKEN_VARIABLE, ""))
    with closing(opened), one.serving(port) as address:
        _say(f"{opened.identity} answers at:")
        _say(f"  {address}/v1  OpenAI's form (WISE --api_base; CoMM OPENAI_BASE_URL)")
        _say(f"  {address}/v1/chat/completions  the same in full (RISEBench's api_base)")
        _say(f"  {address}  Gemini's form (UEval GOOGLE_GEMINI_BASE_URL)")
        _say(f"  {address}/native  SpecV's form (JUDGE_API_URL)")
        try:
            _watch(one, opened)
        finally:
            _say("ending once the answers under way are sent; Ctrl-C again ends at once")


def _watch(one: JudgeBridge, opened: BenchmarkJudge) -> None:
    """Say what there is to say, until Ctrl-C."""
    said, trouble = time.monotonic(), None
    while True:
        time.sleep(LOOKED_EVERY)
        if one.client.trouble is not trouble:
            trouble = one.client.trouble
            if trouble is None:
                _say("The judge answers again.")
            elif trouble.seconds is not None:
                _say(f"{trouble} The judge is asked again from time to time.")
            else:
                _say(f"Given up: {trouble} Start the bridge again once that is mended.")
        if time.monotonic() - said > TOLD_EVERY:
            said = time.monotonic()
            _say(f"{opened.asked} questions asked, {opened.remembered} answers known")


def _say(line: str) -> None:
    typer.echo(shown_text(line), err=True)
