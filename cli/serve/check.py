"""`serve check`: whether a running service draws as it should."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from ...backend.errors import SettingsError
from ..progress import Lines

WORD = {True: ("ok", "green"), False: ("fault", "red"), None: ("none", "")}


def command(
    url: Annotated[str, typer.Argument(help="The service, such as http://127.0.0.1:8011.")],
    prompt: Annotated[str, typer.Option(help="What is drawn.")] = "a red boat on a calm sea",
    size: Annotated[
        str, typer.Option(help="WIDTHxHEIGHT of the image that is edited and drawn.")
    ] = "512x512",
    seed: Annotated[int, typer.Option(min=0, help="Seed of every draw.")] = 7,
    model: Annotated[str | None, typer.Option(help="Which of the service's models.")] = None,
    timeout: Annotated[float, typer.Option(min=0.1, max=3600, help="Seconds for an image.")] = 300.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Ask a running service for its health, an image from text, an edit, and the same once more.

    Exit code 1 if something is not as it should be. A key is read from INTERLEAVE_GENERATOR_KEY.
    """
    from ...backend.remote.addresses import service_url
    from ...backend.remote.api_keys import GENERATOR_KEY, read_key
    from ...service.client_tools.check import CheckSettings, ServiceCheck
    from ...service.client_tools.requests import pixels

    try:
        asked = CheckSettings(prompt, pixels(size), seed, model, timeout)
    except ValueError as error:
        raise SettingsError(f"--size: {error}.") from error
    view = Lines()
    found = []
    for finding in ServiceCheck(service_url(url), read_key(GENERATOR_KEY), asked).findings():
        found.append(finding)
        if not as_json:
            word, style = WORD[finding.right]
            view.say(f"{finding.name:<7}{word:<6}{finding.seconds:8.2f} s  {finding.said}", style)
    right = all(finding.right is not False for finding in found)
    if as_json:
        print(json.dumps({"url": url, "right": right, "findings": [asdict(one) for one in found]}))
    raise typer.Exit(int(not right))
