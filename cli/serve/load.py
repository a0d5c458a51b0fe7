"""`serve load`: how many images a running service gives, and how long each takes."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from ...service.client_tools.load_settings import LoadSettings
from ..options.models import with_model_options
from ..progress import Lines


@with_model_options
def command(
    *,
    url: Annotated[str, typer.Argument(help="The service, such as http://127.0.0.1:8011.")],
    settings: LoadSettings,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Put a load on a running service and print images a second, answers by kind, and percentiles.

    A key is read from INTERLEAVE_GENERATOR_KEY. Exit code 1 if no request brought an image.
    """
    from ...backend.remote.addresses import service_url
    from ...backend.remote.api_keys import GENERATOR_KEY, read_key
    from ...service.client_tools.load import Load
    from ...service.client_tools.load_report import lines, summary

    view = Lines()
    if not as_json:
        view.wait(f"Asking for {settings.seconds:g} s")
    found = summary(Load(service_url(url), settings, read_key(GENERATOR_KEY)).run())
    view.wait("")
    if as_json:
        print(json.dumps({"url": url} | found))
    else:
        for line in lines(found):
            view.say(line)
    raise typer.Exit(int(not found["images"]))
