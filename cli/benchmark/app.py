"""`benchmark`: runs of known benchmarks, their submissions and figures."""

from __future__ import annotations

import typer

from ...backend.machine.plugins import BENCHMARKS, plugin_names
from .judges import bridge
from .results import collect, compare, score, table
from .run import command

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Run a benchmark, collect its submission, score it, compare two.",
)
KINDS = {
    "tinyworld": "400 built-in stories of the tiny world, judged exactly; needs no data.",
    "wise": "WISE (Verified): one image for a prompt that needs knowledge.",
    "ueval": "UEval: answers of text and images.",
    "rise": "RISEBench: edits that need reasoning.",
    "specv": "SpecV, interleaved track: stories of text and images.",
    "comm": "CoMM, tasks 3 and 4: manuals with pictures.",
    "vistory": "ViStoryBench: the same characters from shot to shot of a story.",
}
PLUGINS = {
    name: "A benchmark of an installed plug-in." for name in plugin_names(BENCHMARKS) if name not in KINDS
}


@app.callback()
def benchmarks() -> None:
    """Run a benchmark, collect its submission, score it, compare two."""


for _name, _help in (KINDS | PLUGINS).items():
    app.command(_name, help=f"{_help} The same --out goes on where it was.")(command)
app.command("collect")(collect)
app.command("score")(score)
app.command("compare")(compare)
app.command("table")(table)
app.command("judge-bridge")(bridge)
