"""`benchmark`: runs known benchmarks, collects submissions and computes scores."""

from __future__ import annotations

import typer

from ...backend.machine.registry import BENCHMARKS, plugin_names
from .judges import bridge
from .results import collect, compare, score, table
from .run import command

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Run a benchmark, collect its submission, score it and compare results.",
)
KINDS = {
    "tinyworld": "Run 400 built-in stories of the tiny world, scored exactly; needs no data.",
    "wise": "Run WISE (Verified): one image per prompt that needs world knowledge.",
    "ueval": "Run UEval: answers of texts and images.",
    "rise": "Run RISEBench: edits that need reasoning.",
    "specv": "Run SpecV, interleaved track: stories of texts and images.",
    "comm": "Run CoMM, tasks 3 and 4: illustrated manuals.",
    "vistory": "Run ViStoryBench: the same characters in every shot of a story.",
}
PLUGINS = {
    name: "Run a benchmark of an installed plug-in." for name in plugin_names(BENCHMARKS) if name not in KINDS
}


@app.callback()
def benchmarks() -> None:
    """Run a benchmark, collect its submission, score it and compare results."""


for _name, _help in (KINDS | PLUGINS).items():
    app.command(_name, help=f"{_help} Use the same --out to resume.")(command)
app.command("collect")(collect)
app.command("score")(score)
app.command("compare")(compare)
app.command("table")(table)
app.command("judge-bridge")(bridge)
