"""`data prompts`: makes requests, the first stage of training data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...backend.errors import SettingsError
from ...backend.shown_text import one_line
from ...training.data.prompts.settings import PROMPTS, REPORT, PromptsData
from ..options.models import with_model_options


@with_model_options
def command(
    *,
    out: Annotated[Path, typer.Option(help=f"Output folder for {PROMPTS} and {REPORT}.")],
    category: Annotated[
        list[str] | None,
        typer.Option(
            help="Weight of a category or subcategory as NAME=WEIGHT, such as cooking=3. 0 leaves it out."
        ),
    ] = None,
    polish: Annotated[
        str | None,
        typer.Option(
            help="Chat model that rephrases each request, such as openai:MODEL@URL. Both texts are kept."
        ),
    ] = None,
    polish_language: Annotated[
        str, typer.Option(help="Language of the rephrased requests, such as Japanese.")
    ] = "",
    guard: Annotated[
        Path | None, typer.Option(help="Benchmark index (`data guard`). Matching requests are left out.")
    ] = None,
    settings: PromptsData,
) -> None:
    """Make requests from a taxonomy, word lists and templates.

    The same seed gives the same requests. No request occurs twice.
    """
    from ...training.data.decontamination.index import optional_guard
    from ...training.data.prompts.generate import write_prompts
    from ...training.data.prompts.polish import Polisher

    weights = dict(_weight(given) for given in category or ())
    polisher = None
    if polish:
        from ...backend.chat import open_chat

        polisher = Polisher(open_chat(polish), polish, out, polish_language)
    with optional_guard(guard) as opened:
        made = write_prompts(settings, weights, out, opened, polisher)
    for name, count in made.by_category.items():
        typer.echo(one_line(f"{name}: {count}"))
    if polisher:
        typer.echo(f"rephrased: {polisher.reworded}, unchanged: {polisher.refused}")
    if made.exhausted:
        typer.echo(one_line(f"no more requests possible in: {', '.join(made.exhausted)}"))
    if made.guarded:
        typer.echo(one_line(f"left out because they are in a benchmark: {dict(made.guarded)}"))
    if made.rows < settings.count:
        typer.echo(
            f"Only {made.rows} of {settings.count} requests: add word lists or templates, or raise "
            f"--variants."
        )
    typer.echo(f"{made.rows} requests: {out / PROMPTS}")


def _weight(given: str) -> tuple[str, float]:
    name, equals, number = given.partition("=")
    try:
        weight = float(number)
    except ValueError:
        weight = -1.0
    if not equals or not 0.0 <= weight <= 1000.0:
        raise SettingsError(
            f"--category {one_line(given)[:60]!r} is not NAME=WEIGHT with a weight from 0 to 1000."
        )
    return name, weight
