"""Options of a judge, and `benchmark judge-bridge`: serves a judge to the official evaluators."""

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
POLL_SECONDS = 0.5
REPORT_SECONDS = 60.0


class JudgeOptions(BaseModel):
    """Options of the judge."""

    judge: str | None = Field(
        default=None,
        description="Judge, such as openai:MODEL@URL. fake:RATE accepts this share of all questions, to "
        "test a setup.",
    )
    answers: str | None = Field(
        default=None,
        description="Cache file of the judge's answers, so that no question is sent twice. "
        "Default: OUT/answers.sqlite; for judge-bridge judge-answers.sqlite.",
    )
    judge_deadline: float = Field(
        default=180.0,
        gt=0,
        le=86400,
        description="Timeout of a judge's answer in seconds; one retry follows.",
    )
    judge_parallel: int = Field(
        default=16, ge=1, le=256, description="Questions sent to the judge at the same time."
    )
    judge_dtype: Literal["bfloat16", "float16", "float32"] | None = Field(
        default=None, description="Dtype of a local judge. Default: chosen for its device."
    )
    judge_device: str | None = Field(default=None, description="Device of a local judge, such as cuda:0.")
    judge_quantization: Literal["4bit", "8bit", "fp8"] | None = Field(
        default=None, description="Quantize a local judge."
    )

    def open(self, answers: Path) -> BenchmarkJudge:
        """Open the judge.

        Args:
            answers: Cache file of its answers, unless the options name another one.

        Raises:
            SettingsError: No judge is named, or an option is not valid.
            ChatError: The judge cannot be loaded or reached.
        """
        from ...backend.errors import SettingsError
        from ...evaluation.judges import open_judge

        if self.judge is None:
            raise SettingsError("This command needs a judge.", "Add --judge, such as openai:MODEL@URL.")
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
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 chooses a free one.")] = 8123,
) -> None:
    """Serve a judge to the official evaluators, on this machine, until Ctrl-C.

    It implements the APIs of OpenAI, Gemini and SpecV. If INTERLEAVE_BRIDGE_KEY is set, clients have to send
    this key. /health reports problems of the judge.
    """
    from ...evaluation.judges.bridge import JudgeBridge

    opened = judge.open(Path("judge-answers.sqlite"))
    one = JudgeBridge(opened, judge.judge_parallel, os.environ.get(TOKEN_VARIABLE, ""))
    with closing(opened), one.serving(port) as address:
        _say(f"{opened.identity} is served at:")
        _say(f"  {address}/v1  OpenAI API (WISE --api_base; CoMM OPENAI_BASE_URL)")
        _say(f"  {address}/v1/chat/completions  OpenAI API, full address (RISEBench api_base)")
        _say(f"  {address}  Gemini API (UEval GOOGLE_GEMINI_BASE_URL)")
        _say(f"  {address}/native  SpecV API (JUDGE_API_URL)")
        try:
            _watch(one, opened)
        finally:
            _say("Stopping after the current answers are sent. Press Ctrl-C again to stop at once.")


def _watch(one: JudgeBridge, opened: BenchmarkJudge) -> None:
    """Print changes of the judge's state and regular counts, until Ctrl-C."""
    reported, trouble = time.monotonic(), None
    while True:
        time.sleep(POLL_SECONDS)
        if one.client.trouble is not trouble:
            trouble = one.client.trouble
            if trouble is None:
                _say("The judge answers again.")
            elif trouble.seconds is not None:
                _say(f"{trouble} Requests to the judge are retried.")
            else:
                _say(f"The judge cannot be used: {trouble} Fix this, then restart the bridge.")
        if time.monotonic() - reported > REPORT_SECONDS:
            reported = time.monotonic()
            _say(f"{opened.asked} questions sent, {opened.remembered} answers cached")


def _say(line: str) -> None:
    typer.echo(shown_text(line), err=True)
