"""`data prompts`: the requests that everything else is made from."""

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
    out: Annotated[Path, typer.Option(help=f"Folder for {PROMPTS} and {REPORT}.")],
    category: Annotated[
        list[str] | None,
        typer.Option(help="NAME=WEIGHT of a category or sub-category, such as cooking=3; 0 leaves it out."),
    ] = None,
    polish: Annotated[
        str | None,
        typer.Option(help="Chat model that rewords every request, such as openai:MODEL@URL; both are kept."),
    ] = None,
    polish_language: Annotated[
        str, typer.Option(help="Language that the chat model is to reword in, such as Japanese.")
    ] = "",
    guard: Annotated[
        Path | None, typer.Option(help="Leave out what `data guard` knows from a benchmark.")
    ] = None,
    settings: PromptsData,
) -> None:
    """Make requests from a taxonomy, banks of words and templates: the same from the same seed, none
    twice."""
    from ...training.data.decontamination.index import optional_guard
    from ...training.data.prompts.generate import write_prompts
    from ...training.data.prompts.polish import Polisher

    weights = dict(_weight(given) for given in category or ())
    reword = None
    if polish:
        from ...backend.chat import open_chat

        reword = Polisher(open_chat(polish), polish, out, polish_language)
    with optional_guard(guard) as opened:
        made = write_prompts(settings, weights, out, opened, reword)
    for name, count in made.by_category.items():
        typer.echo(one_line(f"{name}: {count}"))
    if reword:
        typer.echo(f"reworded: {reword.reworded}, kept as they were: {reword.refused}")
    if made.exhausted:
        typer.echo(one_line(f"no more requests in: {', '.join(made.exhausted)}"))
    if made.guarded:
        typer.echo(one_line(f"taken from a benchmark, left out: {dict(made.guarded)}"))
    if made.rows < settings.count:
        typer.echo(
            f"only {made.rows} of {settings.count}: more banks or templates, or more --variants, make more"
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
            f"--category {one_line(given)[:60]!r} is not NAME=WEIGHT with a weight of 0 to 1000."
        )
    return name, weight
